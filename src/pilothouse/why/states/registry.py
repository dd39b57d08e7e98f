"""The remarks by resource; those under the empty name are for all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from pilothouse.why.states.autoscaling import autoscaler
from pilothouse.why.states.claims import claim
from pilothouse.why.states.jobs import cron_job, job
from pilothouse.why.states.namespaces import namespace
from pilothouse.why.states.services import service
from pilothouse.why.states.terminating import terminating
from pilothouse.why.view import Finding, View

Remark = Callable[[View], Awaitable[Finding | None]]

REMARKS: Mapping[str, Sequence[Remark]] = {
    "": (terminating,),
    "cronjobs.batch": (cron_job,),
    "horizontalpodautoscalers.autoscaling": (autoscaler,),
    "jobs.batch": (job,),
    "namespaces": (namespace,),
    "persistentvolumeclaims": (claim,),
    "services": (service,),
}
