"""``resource.k8s.io/v1``: claims for devices, as far as they are counted."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class DeviceRequest(View, frozen=True):
    """So many devices of a class."""

    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 0


class DeviceRequests(View, frozen=True):
    """One request, or several of which the first that can be had is taken."""

    exactly: DeviceRequest | None = None
    first_available: tuple[DeviceRequest, ...] = ()


class DeviceClaim(View, frozen=True):
    """All that is asked for at once."""

    requests: tuple[DeviceRequests, ...] = ()


class ResourceClaimSpec(View, frozen=True):
    """What is claimed."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaim(View, frozen=True):
    """A ResourceClaim."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


RESOURCE_CLAIMS = Kind("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, ResourceClaim)
