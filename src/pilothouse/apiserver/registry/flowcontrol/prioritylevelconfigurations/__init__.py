"""PriorityLevelConfigurations."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.flowcontrol import validation as flowcontrol_validation
    from pilothouse.apiserver.registry.flowcontrol.prioritylevelconfigurations import (
        validation as priority_level_configuration_validation,
    )


class PriorityLevelConfigurationStrategy(Strategy):
    """``flowcontrol.apiserver.k8s.io`` PriorityLevelConfigurations."""

    generation_fields = ("spec",)
    kept_on_status_update = "metadata"
    update_steps = ("object meta", "object")
    status_steps = ("update",)

    def set_defaults(self, obj: Object) -> None:
        set_defaults_priority_level_configuration(obj)

    def validate(self, obj: Object) -> ErrorList:
        return priority_level_configuration_validation.validate_priority_level_configuration(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return flowcontrol_validation.validate_status_conditions(obj)


def set_defaults_priority_level_configuration(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    limited = spec.get("limited")
    if limited is not None:
        set_default_fields(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
        queuing = ensure_object(limited, "limitResponse").get("queuing")
        if queuing is not None:
            for field, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                queuing[field] = queuing.get(field) or value
    exempt = spec.get("exempt")
    if exempt is not None:
        set_default_fields(exempt, {"nominalConcurrencyShares": 0, "lendablePercent": 0})


def print_priority_level_configuration(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    limited = spec.get("limited") or spec.get("exempt") or {}
    queuing = nested_field(limited, "limitResponse", "queuing") or {}
    shares = limited.get("nominalConcurrencyShares")
    return [
        spec.get("type", ""),
        NONE if shares is None else shares,
        *(queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit")),
    ]


REGISTRATION = Registration(
    PriorityLevelConfigurationStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit"), AGE),
        print_priority_level_configuration,
    ),
)
