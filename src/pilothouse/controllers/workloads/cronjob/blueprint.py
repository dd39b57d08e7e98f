"""The Job for a scheduled time. Pure. Upstream: v1.36 ``pkg/controller/cronjob/utils.go`` (``getJobFromTemplate2``)."""

import datetime

import msgspec

from pilothouse.api.batch import CRON_JOBS, JOBS, CronJob
from pilothouse.controllers.workloads.cronjob.decide import job_name
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.machinery.times import format_time
from pilothouse.machinery.zones import load_zone

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def get_job_from_template(cron_job: CronJob, scheduled_time: datetime.datetime) -> bytes:
    """The Job as JSON. Its ``creationTimestamp`` is the scheduled time, as upstream; the server replaces it."""
    template = cron_job.spec.job_template
    zone = load_zone(cron_job.spec.time_zone or "")
    annotations = {**template.metadata.annotations, SCHEDULED: _rfc3339(scheduled_time.astimezone(zone))}
    meta = {
        "name": job_name(cron_job, scheduled_time),
        "creationTimestamp": format_time(scheduled_time),
        **({"labels": template.metadata.labels} if template.metadata.labels else {}),
        "annotations": annotations,
        "ownerReferences": [new_controller_reference(cron_job.metadata, CRON_JOBS)],
    }
    return msgspec.json.encode(
        {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": meta, "spec": template.spec}
    )


def _rfc3339(local: datetime.datetime) -> str:
    return local.isoformat().replace("+00:00", "Z")
