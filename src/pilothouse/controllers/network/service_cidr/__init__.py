"""Manages ServiceCIDRs, the ranges from which cluster IPs of Services are allocated: sets their condition
``Ready``, and delays their deletion while Services use them.

Behaviour: every ServiceCIDR has a finalizer and the condition Ready. One that is being deleted is kept, with a reason
in the condition, while a Service has an address in it that no other ServiceCIDR contains, not counting those that are
being deleted. It is kept for at least ten seconds after the deletion, so that every API server has observed it.

Not guaranteed: how API servers use the ranges; they allocate the addresses, with an IPAddress for each.

docs/controllers/service_cidr.md has the triggers and the differences from upstream.
"""

from pilothouse.api.networking import IP_ADDRESSES, SERVICE_CIDRS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

DESCRIPTOR = Descriptor(
    name="service-cidr-controller",
    client_name="service-cidrs-controller",
    gates=("MultiCIDRServiceAllocator",),
    watches=(Watch(kind=SERVICE_CIDRS), Watch(kind=IP_ADDRESSES)),
    package=__name__,
)
