"""The kinds of ``resource.k8s.io``: claims for devices, their templates and classes, and devices.

After kubernetes' ``pkg/apis/resource/v1/defaults.go`` and ``pkg/registry/resource`` (v1.36). What is judged is
in modules that are loaded with the first object: ``device_claims``, ``device_allocations`` and ``device_slices``.
"""

from typing import TYPE_CHECKING

from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child, fill, fixed
from pilothouse.env.later import later

if TYPE_CHECKING:
    from pilothouse.apiserver.strategies import device_allocations, device_claims, device_slices
else:
    device_allocations = later("pilothouse.apiserver.strategies.device_allocations")
    device_claims = later("pilothouse.apiserver.strategies.device_claims")
    device_slices = later("pilothouse.apiserver.strategies.device_slices")

_LISTS = ("bools", "ints", "strings", "versions")


def _default_devices(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly")
        for wanted in [*([exactly] if exactly is not None else []), *(request.get("firstAvailable") or ())]:
            fill(wanted, {"allocationMode": "ExactCount"})
            if wanted["allocationMode"] == "ExactCount":
                fill(wanted, {"count": 1})
            for toleration in wanted.get("tolerations") or ():
                fill(toleration, {"operator": "Equal"})


class ClaimOfDevicesStrategy(Strategy):
    """ResourceClaims: the wish never changes."""

    def default(self, obj: Object) -> None:
        _default_devices(child(obj, "spec"))

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        device_allocations.keep_allocated(child(obj, "status"), old.get("status") or {})

    def validate(self, obj: Object) -> list[FieldError]:
        return device_claims.claim_problems(obj["spec"].get("devices") or {}, "spec.devices")

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return fixed(obj, old, "", ("spec",))

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return device_allocations.status_problems(obj, old)


class ClaimTemplateStrategy(Strategy):
    """ResourceClaimTemplates never change."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        child(spec, "metadata")
        _default_devices(child(spec, "spec"))

    def validate(self, obj: Object) -> list[FieldError]:
        return device_claims.template_problems(obj["spec"])

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return fixed(obj, old, "", ("spec",))


class DeviceClassStrategy(Strategy):
    """DeviceClasses. What is not changed is not looked at again."""

    def validate(self, obj: Object) -> list[FieldError]:
        return device_claims.class_problems(obj.get("spec") or {}, None)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return device_claims.class_problems(obj.get("spec") or {}, old.get("spec") or {})


class DeviceSliceStrategy(Strategy):
    """ResourceSlices: the driver, its pool and the node stay."""

    selectable = {"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")}  # read only
    selectable_namespace = False

    def stamp(self, obj: Object, now: str) -> None:
        for device in (obj.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                fill(taint, {"timeAdded": now})

    def prepare_create(self, obj: Object, now: str) -> None:
        _drop_disabled(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        _drop_disabled(obj)

    def validate(self, obj: Object) -> list[FieldError]:
        return device_slices.slice_problems(obj.get("spec") or {}, None)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if spec == before:
            return []
        return device_slices.slice_problems(spec, before)

    def refuses_field(self, path: str) -> str:
        return f"field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {path}"


def _drop_disabled(obj: Object) -> None:
    """Drop what is behind gates that are off: lists as attributes, and amounts that are taken from a node's."""
    for device in (obj.get("spec") or {}).get("devices") or ():
        device.pop("nodeAllocatableResourceMappings", None)
        for attribute in (device.get("attributes") or {}).values():
            for field in _LISTS:
                attribute.pop(field, None)
