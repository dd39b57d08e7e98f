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


def _format_labels(labels: dict[str, str]) -> str:
    return internal_value("{}string", labels or None)


def validate_job(obj: Object) -> ErrorList:
    errors = _validate_generated_selector(obj, require_prefixed_labels=True) + _validate_job_object(obj["spec"])
    return errors + _validate_host_name(obj)


def validate_job_on_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj["spec"], old["spec"]
    if spec == old_spec and obj["metadata"].get("uid") == old["metadata"].get("uid"):
        return []
    old_template_labels = labels_of(old_spec.get("template") or {})
    require_prefixed_labels = all(PREFIX + name in old_template_labels for name in ("job-name", "controller-uid"))
    return (
        _validate_generated_selector(obj, require_prefixed_labels=require_prefixed_labels)
        + _validate_job_object(spec)
        + _validate_host_name(obj)
    )


def validate_job_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj["spec"], old["spec"]
    if spec == old_spec:
        return []
    errors = _validate_job_object(spec) + _validate_completions(spec, old_spec)
    errors += validate_immutable_fields(spec, old_spec, "spec", {"selector": "*meta.LabelSelector"})
    return (
        errors
        + _validate_template_update(spec["template"], old)
        + validate_immutable_fields(spec, old_spec, "spec", _IMMUTABLE_FIELDS)
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
        errors.append(invalid("spec.template.metadata.labels", _format_labels(labels), detail))
    return errors


def _validate_generated_selector(obj: Object, *, require_prefixed_labels: bool) -> ErrorList:
    """``validateGeneratedSelector``. ``require_prefixed_labels``: old Jobs do not have the prefixed labels."""
    spec = obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    labels = labels_of(spec.get("template") or {})
    errors: ErrorList = []
    path = "spec.template.metadata.labels"
    legacy_labels = {"controller-uid": obj["metadata"].get("uid"), "job-name": obj["metadata"].get("name") or ""}
    expected_labels = (
        legacy_labels | {PREFIX + key: value for key, value in legacy_labels.items()}
        if require_prefixed_labels
        else legacy_labels
    )
    for key, value in expected_labels.items():
        if key not in labels:
            errors.append(required(f"{path}[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(f"{path}[{key}]", _format_labels(labels), f"must be '{value}'"))
    if not selector_matches(spec["selector"], expected_labels):
        bad_value = internal_value("*meta.LabelSelector", spec["selector"])
        errors.append(invalid("spec.selector", bad_value, "`selector` not auto-generated"))
    return errors


def _validate_host_name(obj: Object) -> ErrorList:
    """The host names of the pods of an indexed Job, ``<name>-<index>``, must be valid."""
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    if spec.get("completionMode") != "Indexed" or (spec.get("completions") or 0) <= 0:
        return []
    host_name = f"{name}-{spec['completions'] - 1}"
    if not dns_label_errors(host_name):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host_name}")]


def _validate_completions(spec: Object, old_spec: Object) -> ErrorList:
    completions = spec.get("completions")
    if completions == old_spec.get("completions"):
        return []
    if spec.get("completionMode") != "Indexed":
        return [invalid("spec.completions", completions, IMMUTABLE)]
    if completions is None or completions == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def _validate_template_update(template: Object, old: Object) -> ErrorList:
    """The pod template is immutable, except for scheduling directives and container resources of a suspended Job."""
    old_template: Object = old["spec"]["template"]
    if template == old_template:
        return []
    if not _is_suspended(old):
        return [invalid("spec.template", internal_value("core.PodTemplateSpec", template), IMMUTABLE)]
    pod_spec, old_pod_spec = template.get("spec") or {}, old_template.get("spec") or {}
    if _immutable_pod_spec(pod_spec, old_pod_spec) != _immutable_pod_spec(old_pod_spec, pod_spec):
        return [invalid("spec.template.spec", internal_value("core.PodSpec", pod_spec), IMMUTABLE)]
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


def _immutable_pod_spec(pod_spec: Object, other_pod_spec: Object) -> Object:
    """The spec without the mutable fields: scheduling directives, and resources of containers that ``other_pod_spec``
    has at the same position."""
    immutable_spec = {k: v for k, v in pod_spec.items() if k not in _SCHEDULING_DIRECTIVES}
    affinity = {k: v for k, v in (immutable_spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    for field in ("containers", "initContainers"):
        containers, other_containers = immutable_spec.get(field) or (), other_pod_spec.get(field) or ()
        if len(containers) == len(other_containers):
            immutable_spec[field] = [
                {**container, "resources": None}
                if container.get("name") == other_containers[position].get("name")
                else container
                for position, container in enumerate(containers)
            ]
    return {**immutable_spec, "affinity": affinity}
