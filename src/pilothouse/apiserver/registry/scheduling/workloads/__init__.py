"""Workloads."""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, duplicate, repeated, required, struct_value, too_many
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.registry.scheduling.podgroups import drop_disabled_template_fields
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, path_segment_errors

with lazy_imports():
    from pilothouse.apiserver.registry.scheduling import validation as scheduling_validation


_MAX_TEMPLATES = 8


class WorkloadStrategy(Strategy):
    """``scheduling.k8s.io`` Workloads. Templates and controller reference are immutable."""

    update_steps = ("object meta update", "update")

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        for template in obj["spec"].get("podGroupTemplates") or ():
            drop_disabled_template_fields(template)
            template["schedulingConstraints"] = None  # serialized even if it is empty

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors: ErrorList = []
        if spec.get("controllerRef") is not None:
            errors += _validate_controller(spec["controllerRef"], "spec.controllerRef")
        return errors + _validate_templates(spec.get("podGroupTemplates") or (), "spec.podGroupTemplates")

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        template_errors = scheduling_validation.validate_immutable_spec_field(obj, old, "podGroupTemplates")
        if template_errors:
            template_errors += _validate_template_count(
                obj["spec"].get("podGroupTemplates") or (), "spec.podGroupTemplates"
            )
        return scheduling_validation.validate_immutable_spec_field(obj, old, "controllerRef") + template_errors


def _validate_controller(reference: Object, path: str) -> ErrorList:
    group, kind, name = (reference.get(field) or "" for field in ("apiGroup", "kind", "name"))
    errors = (
        scheduling_validation.validate_names(group, f"{path}.apiGroup", dns_subdomain_errors(group)) if group else []
    )
    errors += scheduling_validation.validate_names(kind, f"{path}.kind", path_segment_errors(kind))
    return errors + scheduling_validation.validate_names(name, f"{path}.name", path_segment_errors(name))


def _validate_template_count(templates: Sequence[Object], path: str) -> ErrorList:
    if len(templates) > _MAX_TEMPLATES:
        return [too_many(path, len(templates), _MAX_TEMPLATES)]
    return [] if templates else [required(path)]


def _validate_templates(templates: Sequence[Object], path: str) -> ErrorList:
    errors = _validate_template_count(templates, path)
    if errors:
        return errors
    names = [template.get("name") or "" for template in templates]
    repeated_names = repeated(names)
    for position, template in enumerate(templates):
        if position in repeated_names:
            template_fields = {
                name: template.get(name) for name in ("name", "schedulingPolicy", "schedulingConstraints")
            }
            errors.append(duplicate(f"{path}[{position}]", struct_value(template_fields.items())))
    for position, template in enumerate(templates):
        child_path, name = f"{path}[{position}]", names[position]
        errors += scheduling_validation.validate_names(name, f"{child_path}.name", dns_label_errors(name))
        errors += scheduling_validation.validate_scheduling_policy(
            template.get("schedulingPolicy") or {}, f"{child_path}.schedulingPolicy"
        )
    return errors


REGISTRATION = Registration(
    WorkloadStrategy(),
)
