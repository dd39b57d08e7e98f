"""CSINodes."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, count_of
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.storage.csinodes import validation as csi_node_validation


class CSINodeStrategy(Strategy):
    """``storage.k8s.io`` CSINodes. Drivers can be added and removed; most of their fields are immutable."""

    allow_unconditional_update = False
    return_deleted_object = True
    update_steps = ("object meta", "object", "update")

    def canonicalize(self, obj: Object) -> None:
        for driver in ensure_object(obj, "spec").setdefault("drivers", None) or ():
            driver.setdefault("topologyKeys", None)

    def validate(self, obj: Object) -> ErrorList:
        return csi_node_validation.validate_csi_node(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return csi_node_validation.validate_csi_node_update(obj, old)


REGISTRATION = Registration(
    CSINodeStrategy(),
    printer=lambda: Printer((NAME, *columns("Drivers", type_="integer"), AGE), count_of("spec", "drivers")),
)
