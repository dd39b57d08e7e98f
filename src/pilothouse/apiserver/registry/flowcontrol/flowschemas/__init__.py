"""FlowSchemas."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.flowcontrol import validation as flowcontrol_validation
    from pilothouse.apiserver.registry.flowcontrol.flowschemas import printers as flow_schema_printers
    from pilothouse.apiserver.registry.flowcontrol.flowschemas import validation as flow_schema_validation


class FlowSchemaStrategy(Strategy):
    """Which requests belong to which level."""

    tracked = ("spec",)
    status_keeps = "user metadata"
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


REGISTRATION = Registration(
    FlowSchemaStrategy(),
    printer=lambda: flow_schema_printers.PRINTER,
)
