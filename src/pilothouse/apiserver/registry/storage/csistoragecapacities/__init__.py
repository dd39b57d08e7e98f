"""CSIStorageCapacities."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, invalid
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE, validate_immutable_fields
from pilothouse.apiserver.registry.generic.printers import NAME_AND_CREATION
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.machinery.quantities import canonical

with lazy_imports():
    from pilothouse.apiserver.registry.core.nodes import warnings as node_warnings
    from pilothouse.apiserver.registry.core.persistentvolumeclaims import validation as claim_validation


class CSIStorageCapacityStrategy(Strategy):
    """``storage.k8s.io`` CSIStorageCapacities. Topology and storage class are immutable."""

    allow_unconditional_update = False
    update_steps = ("object meta", "object", "object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        for field in ("capacity", "maximumVolumeSize"):
            if obj.get(field) is not None:
                obj[field] = canonical(str(obj[field]))

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return node_warnings.warnings_for_node_selector(obj.get("nodeTopology") or {}, "nodeTopology")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        name, capacity = obj.get("storageClassName") or "", obj.get("capacity")
        errors = validate_label_selector(obj.get("nodeTopology") or {}, "nodeTopology")
        errors += [invalid("storageClassName", name, msg) for msg in dns_subdomain_errors(name)]
        if capacity is not None and claim_validation.is_negative(capacity):
            errors.append(invalid("capacity", capacity, NON_NEGATIVE))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(
            obj, old, "", {"nodeTopology": "*meta.LabelSelector", "storageClassName": "string"}
        )


REGISTRATION = Registration(
    CSIStorageCapacityStrategy(),
    printer=lambda: NAME_AND_CREATION,
)
