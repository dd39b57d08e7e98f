"""Validation of Jobs. After kubernetes' ``pkg/apis/batch/validation/validation.go`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.validation import selector_matches
from pilothouse.apiserver.registry.batch.jobs.labels import PREFIX, labels_of
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE, validate_immutable_fields
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors

with lazy_imports():
    from pilothouse.apiserver.registry.batch.jobs import spec_validation, status_validation

_IMMUTABLE_FIELDS = {
    "completionMode": "*string",
    "podFailurePolicy": "*batch.PodFailurePolicy",
    "backoffLimitPerIndex": "*int",
    "managedBy": "*string",
    "successPolicy": "*batch.SuccessPolicy",
}
_SCHEDULING_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def _shown(labels: dict[str, str]) -> str:
    return internal_value("{}string", labels or None)


def validate_job(obj: Object) -> ErrorList:
    errors = _validate_generated_selector(obj, prefixed=True) + _validate_job_object(obj["spec"])
    return errors + _validate_host_name(obj)


def validate_job_on_update(obj: Object, old: Object) -> ErrorList:
    spec, before = obj["spec"], old["spec"]
    if spec == before and obj["metadata"].get("uid") == old["metadata"].get("uid"):
        return []
    known = labels_of(before.get("template") or {})
    prefixed = all(PREFIX + name in known for name in ("job-name", "controller-uid"))
    return _validate_generated_selector(obj, prefixed=prefixed) + _validate_job_object(spec) + _validate_host_name(obj)


def validate_job_update(obj: Object, old: Object) -> ErrorList:
    spec, before = obj["spec"], old["spec"]
    if spec == before:
        return []
    errors = _validate_job_object(spec) + _validate_completions(spec, before)
    errors += validate_immutable_fields(spec, before, "spec", {"selector": "*meta.LabelSelector"})
    return (
        errors
        + _validate_template_update(spec["template"], old)
        + validate_immutable_fields(spec, before, "spec", _IMMUTABLE_FIELDS)
    )


def validate_job_status_update(obj: Object, old: Object) -> ErrorList:
    return status_validation.validate_job_status(obj["spec"], obj.get("status") or {}, old.get("status") or {})


def _validate_job_object(spec: Object) -> ErrorList:
    errors = spec_validation.validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    labels = labels_of(spec.get("template") or {})
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += validate_label_selector(selector, "spec.selector")
    if selector is None or not selector_matches(selector, labels):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", _shown(labels), detail))
    return errors


def _validate_generated_selector(obj: Object, *, prefixed: bool) -> ErrorList:
    """``validateGeneratedSelector``. ``prefixed``: also require the prefixed labels, which old Jobs do not have."""
    spec = obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = labels_of(spec.get("template") or {})
    errors: ErrorList = []
    path = "spec.template.metadata.labels"
    legacy = {"controller-uid": obj["metadata"].get("uid"), "job-name": obj["metadata"].get("name") or ""}
    expected = legacy | {PREFIX + key: value for key, value in legacy.items()} if prefixed else legacy
    for key, value in expected.items():
        if key not in labels:
            errors.append(required(f"{path}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(f"{path}[{key}]", _shown(labels), f"must be '{value}'"))
    if not selector_matches(spec["selector"], expected):
        bad_value = internal_value("*meta.LabelSelector", spec["selector"])
        errors.append(invalid("spec.selector", bad_value, "`selector` not auto-generated"))
    return errors


def _validate_host_name(obj: Object) -> ErrorList:
    """The host names of the pods of an indexed Job, ``<name>-<index>``, must be valid."""
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) <= 0:
        return []
    last = f"{name}-{spec['completions'] - 1}"
    if not dns_label_errors(last):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")]


def _validate_completions(spec: Object, before: Object) -> ErrorList:
    desired = spec.get("completions")
    if desired == before.get("completions"):
        return []
    if spec.get("completionMode") != "Indexed":
        return [invalid("spec.completions", desired, IMMUTABLE)]
    if desired is None or desired == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", desired, "can only be modified in tandem with spec.parallelism")]


def _validate_template_update(template: Object, old: Object) -> ErrorList:
    """The pod template is immutable, except for scheduling directives and container resources of a suspended Job."""
    before: Object = old["spec"]["template"]
    if template == before:
        return []
    if not _is_suspended(old):
        return [invalid("spec.template", internal_value("core.PodTemplateSpec", template), IMMUTABLE)]
    pod, was = template.get("spec") or {}, before.get("spec") or {}
    if _immutable_pod_spec(pod, was) != _immutable_pod_spec(was, pod):
        return [invalid("spec.template.spec", internal_value("core.PodSpec", pod), IMMUTABLE)]
    return []


def _is_suspended(job: Object) -> bool:
    """Whether a Job is suspended without active pods, and has never started or has the condition ``Suspended``."""
    status: Object = job.get("status") or {}
    if not job["spec"].get("suspend") or status.get("active"):
        return False
    return status.get("startTime") is None or any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _immutable_pod_spec(pod: Object, other: Object) -> Object:
    """The spec without the mutable fields: scheduling directives, and resources of containers that ``other`` has at the
    same position."""
    spec = {k: v for k, v in pod.items() if k not in _SCHEDULING_DIRECTIVES}
    affinity = {k: v for k, v in (spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        containers, others = spec.get(field) or (), other.get(field) or ()
        if len(containers) == len(others):
            spec[field] = [
                {**container, "resources": None} if container.get("name") == others[position].get("name") else container
                for position, container in enumerate(containers)
            ]
    return {**spec, "affinity": affinity}
