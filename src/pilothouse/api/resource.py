"""``resource.k8s.io``: claims for devices, available devices, and their taints: the fields that are read."""

import datetime
from typing import Any

import msgspec

from pilothouse.api.core import NodeSelector
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class CELDeviceSelector(View, frozen=True):
    expression: str = ""


class DeviceSelector(View, frozen=True):
    cel: CELDeviceSelector | None = None


class DeviceToleration(View, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(View, frozen=True):
    requests: dict[str, str] = {}


class RequestedDevices(View, frozen=True):
    """What an exact request and an alternative have in common."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(RequestedDevices, frozen=True):
    admin_access: bool = False


class DeviceSubRequest(RequestedDevices, frozen=True):
    name: str = ""


class DeviceRequest(View, frozen=True):
    """Exact, or the first available of some alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(View, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(View, frozen=True):
    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(View, frozen=True):
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(View, frozen=True):
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(View, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(View, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(View, frozen=True):
    """``DeviceRequestAllocationResult``."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] = {}


class DeviceAllocationConfiguration(View, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocation(View, frozen=True):
    results: tuple[AllocatedDevice, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(View, frozen=True):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: datetime.datetime | None = None


class ConsumerReference(View, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(View, frozen=True):
    """What the driver reports about an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(View, frozen=True):
    """The allocation and its consumers. ``allocation`` None: not allocated."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


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


class DeviceAttribute(View, frozen=True):
    """Exactly one of the values is set."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRequestPolicyRange(View, frozen=True):
    min: str | None = None
    max: str | None = None
    step: str | None = None


class CapacityRequestPolicy(View, frozen=True):
    default: str | None = None
    valid_values: tuple[str, ...] = ()
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(View, frozen=True):
    value: str = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(View, frozen=True):
    value: str = "0"


class CounterSet(View, frozen=True):
    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(View, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] = {}


class Device(View, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


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
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


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
