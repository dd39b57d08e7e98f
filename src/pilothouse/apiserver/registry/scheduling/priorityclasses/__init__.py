"""PriorityClasses."""

from pilothouse.apiserver.field_errors import ErrorList, forbidden, not_supported
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import set_default_fields, validate_immutable_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy

_MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy):
    """``scheduling.k8s.io`` PriorityClasses. ``value`` is immutable; the prefix ``system-`` is reserved."""

    update_steps = ("object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        set_default_fields(obj, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"})
        obj["metadata"]["generation"] = 1
        if obj.get("globalDefault") is False:
            del obj["globalDefault"]

    def validate(self, obj: Object) -> ErrorList:
        name, value = obj["metadata"].get("name") or "", obj["value"]
        errors: ErrorList = []
        if name.startswith("system-"):
            reason = _reserved_name_error(name, value, obj.get("globalDefault") or False)
            if reason:
                reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
                errors.append(forbidden("metadata.name", reserved + reason))
        elif value > _MAX_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
            errors.append(forbidden("value", detail))
        policy = obj["preemptionPolicy"]
        if policy not in _PREEMPTION_POLICIES:
            errors.append(not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        errors: ErrorList = []
        if obj["value"] != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        return errors + validate_immutable_fields(obj, old, "", {"preemptionPolicy": "*string"})


def _reserved_name_error(name: str, value: int, is_default: bool) -> str:
    """The error if the class is not one of the system classes (``IsKnownSystemPriorityClass``)."""
    known_value = _SYSTEM_PRIORITIES.get(name)
    if known_value is None:
        return f"{name} is not a known system priority class"
    if value != known_value:
        return f"value of {name} PriorityClass must be {known_value}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def print_priority_class(value: Doc, now: Now) -> Row:
    policy = value.get("preemptionPolicy") or "PreemptLowerPriority"
    return [value.get("value", 0), bool(value.get("globalDefault")), policy]


REGISTRATION = Registration(
    PriorityClassStrategy(),
    printer=lambda: Printer(
        (
            NAME,
            *columns("Value", type_="integer"),
            *columns("Global-Default", type_="boolean"),
            AGE,
            *columns("PreemptionPolicy"),
        ),
        print_priority_class,
    ),
)
