"""``networking.k8s.io/v1``: ranges of service addresses, and the addresses taken of them."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class ServiceCIDRSpec(View, frozen=True):
    cidrs: tuple[str, ...] = ()


class ServiceCIDRStatus(View, frozen=True):
    """``Ready`` says whether addresses are taken of it."""

    conditions: tuple[Condition, ...] = ()


class ServiceCIDR(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceCIDRSpec = ServiceCIDRSpec()
    status: ServiceCIDRStatus = ServiceCIDRStatus()


class IPAddress(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


SERVICE_CIDRS = Kind("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", False, ServiceCIDR)
IP_ADDRESSES = Kind("networking.k8s.io", "v1", "ipaddresses", "IPAddress", False, IPAddress)
