"""PodGroups."""

from pilothouse.apiserver.field_errors import ErrorList, invalid
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_conditions
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.registry.scheduling import validation as scheduling_validation


_DISABLED_FIELDS = ("resourceClaims", "disruptionMode", "priorityClassName", "priority")
"""The fields of the gates ``DRAWorkloadResourceClaims`` and ``WorkloadAwarePreemption``."""


class PodGroupStrategy(Strategy):
    """``scheduling.k8s.io`` PodGroups. Template reference and policy are immutable."""

    kept_on_status_update = "user metadata"
    has_status = True
    update_steps = ("object meta update", "update")
    reset_fields = {"": ()}
    """Upstream's storage of the main resource has no reset fields."""

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        drop_disabled_template_fields(obj["spec"])
        obj["spec"].pop("schedulingConstraints", None)  # TopologyAwareWorkloadScheduling

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        (obj.get("status") or {}).pop("resourceClaimStatuses", None)

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors: ErrorList = []
        if spec.get("podGroupTemplateRef") is not None:
            errors += _validate_reference(spec["podGroupTemplateRef"], "spec.podGroupTemplateRef")
        return errors + scheduling_validation.validate_scheduling_policy(
            spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy"
        )

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return scheduling_validation.validate_immutable_spec_field(
            obj, old, "podGroupTemplateRef"
        ) + scheduling_validation.validate_immutable_spec_field(obj, old, "schedulingPolicy")

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_conditions((obj.get("status") or {}).get("conditions") or (), "status.conditions")


def drop_disabled_template_fields(spec: Object) -> None:
    for name in _DISABLED_FIELDS:
        spec.pop(name, None)


def _validate_reference(reference: Object, path: str) -> ErrorList:
    workload = reference.get("workload")
    if workload is None:
        return [invalid(path, "", "must specify one of: `workload`")]
    name, template_name = workload.get("workloadName") or "", workload.get("podGroupTemplateName") or ""
    return [
        *scheduling_validation.validate_names(name, f"{path}.workload.workloadName", dns_subdomain_errors(name)),
        *scheduling_validation.validate_names(
            template_name, f"{path}.workload.podGroupTemplateName", dns_label_errors(template_name)
        ),
    ]


def print_pod_group(value: Doc, now: Now) -> Row:
    conditions = {condition.get("type"): condition for condition in nested_field(value, "status", "conditions") or ()}
    scheduled, disrupted = conditions.get("PodGroupScheduled"), conditions.get("DisruptionTarget")
    status = "Pending"
    if scheduled is not None:
        status = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if disrupted is not None:
        status = disrupted.get("reason") or ""
    return [
        "Basic" if nested_field(value, "spec", "schedulingPolicy", "gang") is None else "Gang",
        nested_field(value, "spec", "podGroupTemplateRef", "workload", "workloadName") or "<none>",
        status,
    ]


REGISTRATION = Registration(
    PodGroupStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Policy", "Workload", "Status"), AGE),
        print_pod_group,
    ),
)
