"""Manages ServiceCIDRs, the ranges from which cluster IPs of Services are allocated: sets their condition
``Ready``, and delays their deletion while Services use them.

Behaviour: every ServiceCIDR has a finalizer and the condition Ready. One that is being deleted stays, and says why,
while a service has an address that no other range gives; ranges that are being deleted themselves do not count. When
that is over it goes, but not before ten seconds after the deletion, so that every API server has heard of it.

Not guaranteed: what API servers do with ranges; they give the addresses, and keep an IPAddress of each.

docs/controllers/service_cidr.md has what enqueues it and where it differs from upstream.
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
