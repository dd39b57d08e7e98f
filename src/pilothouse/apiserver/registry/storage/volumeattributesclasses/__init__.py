"""VolumeAttributesClasses."""

from pilothouse.apiserver.field_errors import ErrorList, forbidden, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, fields_of
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.registry.storage.storageclasses import validate_provisioner_and_parameters


class VolumeAttributesClassStrategy(Strategy):
    """``storage.k8s.io`` VolumeAttributesClasses. Driver and parameters are immutable."""

    return_deleted_object = True
    update_steps = ("object meta update", "update", "object meta", "object")

    def validate(self, obj: Object) -> ErrorList:
        errors = validate_provisioner_and_parameters(obj, "driverName")
        if not obj.get("parameters"):
            errors.append(required("parameters", "must contain at least one key/value pair"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return [
            forbidden(field, f"updates to {field} are forbidden.")
            for field in ("driverName", "parameters")
            if obj.get(field) != old.get(field)
        ]


REGISTRATION = Registration(
    VolumeAttributesClassStrategy(),
    printer=lambda: Printer((NAME, *columns("DriverName"), AGE), fields_of("driverName")),
)
