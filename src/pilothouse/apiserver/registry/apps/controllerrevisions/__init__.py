"""ControllerRevisions."""

from pilothouse.apiserver.field_errors import ErrorList, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import (
    set_default_fields,
    validate_immutable_fields,
    validate_nonnegative_fields,
)
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


class ControllerRevisionStrategy(Strategy):
    """ControllerRevisions. ``data`` is immutable."""

    update_steps = ("object meta update", "object meta", "update")

    def set_defaults(self, obj: Object) -> None:
        set_default_fields(obj, {"revision": 0})

    def validate(self, obj: Object) -> ErrorList:
        errors = validate_nonnegative_fields(obj, "", ("revision",))
        data = obj.get("data")
        if data is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_nonnegative_fields(obj, "", ("revision",)) + validate_immutable_fields(
            obj, old, "", {"data": "raw"}
        )


def print_controller_revision(value: Doc, now: Now) -> Row:
    controller = NONE
    for owner in nested_field(value, "metadata", "ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            controller = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [controller, value.get("revision", 0)]


REGISTRATION = Registration(
    ControllerRevisionStrategy(),
    printer=lambda: Printer((NAME, *columns("Controller", "Revision"), AGE), print_controller_revision),
)
