"""CronJobs."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.disabled_fields import GATES, drop_disabled_template_fields
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.semantics.pod_defaults import default_template

with lazy_imports():
    from pilothouse.apiserver.registry.batch.cronjobs import printers as cron_job_printers
    from pilothouse.apiserver.registry.batch.cronjobs import validation as cron_job_validation
    from pilothouse.apiserver.registry.batch.jobs import defaults as job_defaults
    from pilothouse.apiserver.registry.batch.jobs import warnings as job_warnings
    from pilothouse.apiserver.registry.core.pods import warnings as pod_warnings


class CronJobStrategy(Strategy):
    """Of ``jobTemplate`` only the pod template and the pod failure policy are defaulted; the other defaults are set
    when a Job is created."""

    generation_fields = ("spec",)
    disabled_gates = GATES
    status_steps = ()

    def set_defaults(self, obj: Object) -> None:
        set_defaults_cron_job(obj)

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        old_template = None if old is None else old["spec"]["jobTemplate"]["spec"]["template"]
        drop_disabled_template_fields(obj["spec"]["jobTemplate"]["spec"]["template"], old_template, self.disabled_gates)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        yield from pod_warnings.warnings_for_name(obj["metadata"]["name"])
        yield from job_warnings.warnings_for_job_spec(obj["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        if self.increments_generation(obj, old):
            yield from job_warnings.warnings_for_job_spec(obj["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec")
        if "TZ" in (obj["spec"].get("schedule") or ""):
            # The path is upstream's (pkg/registry/batch/cronjob/strategy.go, v1.36).
            yield (
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            )

    def validate(self, obj: Object) -> ErrorList:
        return cron_job_validation.validate_cron_job(obj)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return cron_job_validation.validate_cron_job_on_update(obj, old)


def set_defaults_cron_job(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    set_default_fields(
        spec,
        {
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
        },
    )
    job = ensure_object(spec, "jobTemplate")
    ensure_object(job, "metadata")
    job_spec = ensure_object(job, "spec")
    job_defaults.set_defaults_pod_failure_policy(job_spec)
    default_template(ensure_object(job_spec, "template"))


REGISTRATION = Registration(
    CronJobStrategy(),
    printer=lambda: cron_job_printers.PRINTER,
)
