"""FlowSchemas."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
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
    from pilothouse.apiserver.registry.flowcontrol.flowschemas import validation as flow_schema_validation


class FlowSchemaStrategy(Strategy):
    """``flowcontrol.apiserver.k8s.io`` FlowSchemas."""

    generation_fields = ("spec",)
    kept_on_status_update = "metadata"
    update_steps = ("object meta", "object")
    status_steps = ("update",)

    def set_defaults(self, obj: Object) -> None:
        set_defaults_flow_schema(obj)

    def validate(self, obj: Object) -> ErrorList:
        return flow_schema_validation.validate_flow_schema(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return flowcontrol_validation.validate_status_conditions(obj)


def set_defaults_flow_schema(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def print_flow_schema(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    dangling = "?"
    for condition in nested_field(value, "status", "conditions") or ():
        if condition.get("type") == "Dangling":
            dangling = condition.get("status", "?")
    return [
        nested_field(spec, "priorityLevelConfiguration", "name") or "",
        spec.get("matchingPrecedence", 0),
        nested_field(spec, "distinguisherMethod", "type") or NONE,
        dangling,
    ]


REGISTRATION = Registration(
    FlowSchemaStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("PriorityLevel", "MatchingPrecedence", "DistinguisherMethod"), AGE, *columns("MissingPL")),
        print_flow_schema,
    ),
)
