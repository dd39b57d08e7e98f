"""DeviceClasses."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.resource.resourceclaims import validation as claim_validation


class DeviceClassStrategy(Strategy):
    """``resource.k8s.io`` DeviceClasses. Unchanged selectors are not compiled again."""

    return_deleted_object = True
    generation_fields = ("spec",)
    update_steps = ("object meta", "object meta update", "object")
    validates_generate_name = False

    def set_defaults(self, obj: Object) -> None:
        ensure_object(obj, "spec")

    def validate(self, obj: Object) -> ErrorList:
        return claim_validation.validate_device_class(obj["spec"], None)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return claim_validation.validate_device_class(obj["spec"], old.get("spec") or {})


REGISTRATION = Registration(
    DeviceClassStrategy(),
)
