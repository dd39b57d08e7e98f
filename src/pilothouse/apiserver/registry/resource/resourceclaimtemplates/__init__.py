"""ResourceClaimTemplates."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, validate_immutable_fields
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.registry.resource.resourceclaims import set_defaults_devices
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.resource.resourceclaims import validation as claim_validation


class ResourceClaimTemplateStrategy(Strategy):
    """``resource.k8s.io`` ResourceClaimTemplates. The spec is immutable."""

    return_deleted_object = True
    update_steps = ("object meta", "object", "object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        spec = ensure_object(obj, "spec")
        ensure_object(spec, "metadata")
        set_defaults_devices(ensure_object(spec, "spec"))

    def validate(self, obj: Object) -> ErrorList:
        return claim_validation.validate_resource_claim_template(obj["spec"])

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", {"spec": "resource.ResourceClaimTemplateSpec"})


REGISTRATION = Registration(
    ResourceClaimTemplateStrategy(),
)
