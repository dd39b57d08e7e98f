"""Defaults of Jobs. After kubernetes' ``pkg/apis/batch/v1/defaults.go`` (v1.36)."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.batch.jobs.labels import default_labels
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.semantics.pod_defaults import default_template

_MAX_INT32 = 2**31 - 1


def set_defaults_job(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    backoff_limit = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
    replacement_policy = "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed"
    set_default_fields(
        spec,
        {
            "parallelism": 1,
            "backoffLimit": backoff_limit,
            "completionMode": "NonIndexed",
            "suspend": False,
            "manualSelector": False,
            "podReplacementPolicy": replacement_policy,
        },
    )
    set_defaults_pod_failure_policy(spec)
    default_template(ensure_object(spec, "template"))
    default_labels(obj)


def set_defaults_pod_failure_policy(spec: Object) -> None:
    """``SetDefaults_PodFailurePolicyOnPodConditionsPattern``, also of the Jobs of CronJobs."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition["status"] = condition.get("status") or "True"
