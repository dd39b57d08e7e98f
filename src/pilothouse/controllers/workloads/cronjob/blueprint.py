"""The Job for a moment. Pure. Upstream: v1.36 ``pkg/controller/cronjob/utils.go`` (``getJobFromTemplate2``)."""

import datetime

import msgspec

from pilothouse.api.batch import CRON_JOBS, JOBS, CronJob
from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.workloads.cronjob.decide import job_name
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.machinery.times import format_time
from pilothouse.machinery.zones import load_zone

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    creation_timestamp: str
    labels: dict[str, str] | msgspec.UnsetType
    annotations: dict[str, str]
    owner_references: tuple[OwnerReference, ...]


class _NewJob(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    metadata: _Meta
    spec: msgspec.Raw


def draw_job(cron_job: CronJob, moment: datetime.datetime) -> bytes:
    """The Job as JSON. Its ``creationTimestamp`` is the moment, which the server replaces, as upstream sends it."""
    template = cron_job.spec.job_template
    zone = load_zone(cron_job.spec.time_zone or "")
    annotations = {**template.metadata.annotations, SCHEDULED: _rfc3339(moment.astimezone(zone))}
    meta = _Meta(
        job_name(cron_job, moment),
        format_time(moment),
        template.metadata.labels or msgspec.UNSET,
        annotations,
        (new_controller_reference(cron_job.metadata, CRON_JOBS),),
    )
    return msgspec.json.encode(_NewJob(JOBS.api_version, JOBS.kind, meta, template.spec))


def _rfc3339(local: datetime.datetime) -> str:
    return local.isoformat().replace("+00:00", "Z")
