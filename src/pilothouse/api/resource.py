"""``resource.k8s.io``: claims for devices, available devices, and their taints: the fields that are read."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class DeviceRequest(View, frozen=True):
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool = False


class DeviceSubRequest(View, frozen=True):
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0


class DeviceRequests(View, frozen=True):
    exactly: DeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceClaim(View, frozen=True):
    requests: tuple[DeviceRequests, ...] = ()


class ResourceClaimSpec(View, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceToleration(View, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class AllocatedDevice(View, frozen=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()


class DeviceAllocation(View, frozen=True):
    results: tuple[AllocatedDevice, ...] = ()


class AllocationResult(View, frozen=True):
    devices: DeviceAllocation = DeviceAllocation()


class ConsumerReference(View, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(View, frozen=True):
    """The allocation and its consumers. ``allocation`` None: not allocated."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()


class ResourceClaim(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class ResourceClaimTemplate(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceTaint(View, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime.datetime | None = None


class Device(View, frozen=True):
    name: str = ""
    taints: tuple[DeviceTaint, ...] = ()


class ResourcePool(View, frozen=True):
    """The pool of a slice. Only slices of the highest generation count, and the pool is complete if there are
    ``resource_slice_count`` of them."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(View, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class ResourceSlice(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(View, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(View, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()


class ResourcePoolStatusRequestSpec(View, frozen=True):
    driver: str = ""
    pool_name: str | None = None
    limit: int | None = None


class ResourcePoolStatusRequestStatus(View, frozen=True):
    """Only the conditions, which have the time of the response."""

    conditions: tuple[Condition, ...] = ()


class ResourcePoolStatusRequest(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourcePoolStatusRequestSpec = ResourcePoolStatusRequestSpec()
    status: ResourcePoolStatusRequestStatus | None = None


class OpaqueDeviceConfiguration(View, frozen=True):
    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(View, frozen=True):
    opaque: OpaqueDeviceConfiguration | None = None


class CELDeviceSelector(View, frozen=True):
    expression: str = ""


class DeviceSelector(View, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceClassSpec(View, frozen=True):
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


RESOURCE_CLAIMS = Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = Kind(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, ResourceClaimTemplate
)
RESOURCE_SLICES = Kind("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, ResourceSlice)
DEVICE_TAINT_RULES = Kind("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", False, DeviceTaintRule)
RESOURCE_POOL_STATUS_REQUESTS = Kind(
    "resource.k8s.io",
    "v1alpha3",
    "resourcepoolstatusrequests",
    "ResourcePoolStatusRequest",
    False,
    ResourcePoolStatusRequest,
)
DEVICE_CLASSES = Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, DeviceClass)
