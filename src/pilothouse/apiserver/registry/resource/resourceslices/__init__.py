"""ResourceSlices."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import set_default_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.registry.resource.resourceclaims import LIST_ATTRIBUTES
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.go_text import quote

with lazy_imports():
    from pilothouse.apiserver.registry.resource.resourceslices import validation as slice_validation


class ResourceSliceStrategy(Strategy):
    """``resource.k8s.io`` ResourceSlices. Driver, pool name and node name are immutable."""

    return_deleted_object = True
    generation_fields = ("spec",)
    selectable = {"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")}  # read only
    selectable_namespace = False
    update_steps = ("object meta update", "object")

    def set_timestamps(self, obj: Object, now: str) -> None:
        for device in (obj.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                set_default_fields(taint, {"timeAdded": now})

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        # DRANodeAllocatableResources, DRAListTypeAttributes
        for device in (obj.get("spec") or {}).get("devices") or ():
            device.pop("nodeAllocatableResourceMappings", None)
            for attribute in (device.get("attributes") or {}).values():
                for field in LIST_ATTRIBUTES:
                    attribute.pop(field, None)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        driver = (obj.get("spec") or {}).get("driver") or ""
        if driver != driver.lower():
            message = f"driver names should be lowercase; {quote(driver)} contains uppercase characters"
            yield f"spec.driver: {message}"

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        return slice_validation.validate_resource_slice(obj.get("spec") or {}, None)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        if spec == old_spec:
            return []
        return slice_validation.validate_resource_slice(spec, old_spec)

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {path}"


def print_resource_slice(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    pool = nested_field(spec, "pool", "name") or ""
    return [spec.get("nodeName", ""), spec.get("driver", ""), pool]


REGISTRATION = Registration(
    ResourceSliceStrategy(),
    printer=lambda: Printer((NAME, *columns("Node", "Driver", "Pool"), AGE), print_resource_slice),
)
