"""PodDisruptionBudgets."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, not_supported
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_conditions, validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, validate_nonnegative_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.apps import validation as apps_validation


_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(Strategy):
    """``policy`` PodDisruptionBudgets. Upstream's validation of the kind does not validate the metadata."""

    allow_unconditional_update = False
    generation_fields = ("spec",)
    empty_status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    create_steps = ("object",)
    update_steps = ("object",)
    status_steps = ("update",)

    def set_defaults(self, obj: Object) -> None:
        ensure_object(obj, "spec")

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors: ErrorList = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            bad_value = internal_value("policy.PodDisruptionBudgetSpec", spec)
            errors.append(invalid("spec", bad_value, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            errors += apps_validation.validate_count_or_percent(spec.get(field), f"spec.{field}")
        if spec.get("selector") is not None:
            errors += validate_label_selector(spec["selector"], "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION_POLICIES:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
        return errors

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        status: Object = obj.get("status") or {}
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        return validate_conditions(status.get("conditions") or (), "status.conditions") + validate_nonnegative_fields(
            status, "status", counts
        )


def print_pod_disruption_budget(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    limits = ["N/A" if spec.get(f) is None else str(spec[f]) for f in ("minAvailable", "maxUnavailable")]
    return [*limits, nested_field(value, "status", "disruptionsAllowed") or 0]


REGISTRATION = Registration(
    PodDisruptionBudgetStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Min Available", "Max Unavailable"), *columns("Allowed Disruptions", type_="integer"), AGE),
        print_pod_disruption_budget,
    ),
)
