"""ResourceClaims."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import (
    ensure_object,
    set_default_fields,
    validate_immutable_fields,
)
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.resource.resourceclaims import status_validation as claim_status_validation
    from pilothouse.apiserver.registry.resource.resourceclaims import validation as claim_validation


LIST_ATTRIBUTES = ("bools", "ints", "strings", "versions")


def set_defaults_devices(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        for subrequest in [*([exactly] if exactly is not None else []), *(request.get("firstAvailable") or ())]:
            set_default_fields(subrequest, {"allocationMode": "ExactCount"})
            if subrequest["allocationMode"] == "ExactCount":
                set_default_fields(subrequest, {"count": 1})
            for toleration in subrequest.get("tolerations") or ():
                set_default_fields(toleration, {"operator": "Equal"})


class ResourceClaimStrategy(Strategy):
    """``resource.k8s.io`` ResourceClaims. The spec is immutable."""

    return_deleted_object = True
    kept_on_status_update = "user metadata"
    update_steps = ("object meta", "object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        set_defaults_devices(ensure_object(obj, "spec"))
        allocation = (obj.get("status") or {}).get("allocation")
        if allocation is not None:
            ensure_object(allocation, "devices")

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        claim_status_validation.drop_deallocated_devices(ensure_object(obj, "status"), old.get("status") or {})

    def validate(self, obj: Object) -> ErrorList:
        return claim_validation.validate_resource_claim_spec(obj["spec"].get("devices") or {}, "spec.devices")

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", {"spec": "resource.ResourceClaimSpec"})

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return claim_status_validation.validate_resource_claim_status(obj, old)


def print_resource_claim(value: Doc, now: Now) -> Row:
    states = ["deleted"] if nested_field(value, "metadata", "deletionTimestamp") else []
    if nested_field(value, "status", "allocation") is None:
        states += [] if states else ["pending"]
    else:
        states += ["allocated"]
        if nested_field(value, "status", "reservedFor"):
            states += ["reserved"]
    return [",".join(states)]


REGISTRATION = Registration(
    ResourceClaimStrategy(),
    printer=lambda: Printer((NAME, *columns("State"), AGE), print_resource_claim),
)
