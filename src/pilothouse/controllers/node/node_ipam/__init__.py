"""Allocates pod CIDRs to nodes: ``spec.podCIDR`` and ``spec.podCIDRs``, one range or one of each IP family.

Behaviour: with ``--allocate-node-cidrs`` a node without ``spec.podCIDRs`` gets a block of ``--node-cidr-mask-size``
from each of the ``--cluster-cidr``; it is written once and never changed. No two nodes get the same block, and none
gets one that overlaps with a service range, even with conflicts, lost responses, a lagging or broken watch, or
restarts. A block is released when its node is deleted, and not before. If no block is free, a node gets one as soon as
there is.

Not guaranteed: that nodes whose CIDRs somebody else wrote do not overlap, nor that a write of a former leader is taken
into account that the API server carries out after the new leader has listed the nodes.

docs/controllers/node_ipam.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import NODES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.shared.node_flags import ALLOCATE_NODE_CIDRS, CLUSTER_CIDR
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import INT32, STRING
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch

with lazy_imports():
    from pilothouse.controllers.node.node_ipam import settings as checked


class NodeIpamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """CIDRs are comma-separated, mask sizes are 0 for the default."""

    allocate: bool = False
    allocator_type: str = "RangeAllocator"
    cluster_cidr: str = ""
    service_ranges: str = ""
    mask_size: int = 0
    mask_size_ipv4: int = 0
    mask_size_ipv6: int = 0

    def validate(self) -> list[str]:
        # Imported only here: descriptors must be cheap.
        return checked.validate_options(self)


DESCRIPTOR = Descriptor(
    name="node-ipam-controller",
    aliases=("nodeipam",),
    client_name="node-controller",
    options=NodeIpamOptions,
    switch="allocate",
    flags=(
        FlagSpec(field="allocate", group="generic", flag=ALLOCATE_NODE_CIDRS),
        flag_spec(
            "allocator_type",
            "cidr-allocator-type",
            STRING,
            "RangeAllocator",
            "Type of CIDR allocator to use",
            group="generic",
        ),
        FlagSpec(field="cluster_cidr", group="generic", flag=CLUSTER_CIDR),
        flag_spec(
            "service_ranges",
            "service-cluster-ip-range",
            STRING,
            "",
            "CIDR Range for Services in cluster. Only used when --allocate-node-cidrs=true; if false, this option "
            "will be ignored.",
        ),
        flag_spec(
            "mask_size",
            "node-cidr-mask-size",
            INT32,
            0,
            "Mask size for node cidr in cluster. Default is 24 for IPv4 and 64 for IPv6.",
        ),
        flag_spec(
            "mask_size_ipv4",
            "node-cidr-mask-size-ipv4",
            INT32,
            0,
            "Mask size for IPv4 node cidr in dual-stack cluster. Default is 24.",
        ),
        flag_spec(
            "mask_size_ipv6",
            "node-cidr-mask-size-ipv6",
            INT32,
            0,
            "Mask size for IPv6 node cidr in dual-stack cluster. Default is 64.",
        ),
    ),
    watches=(Watch(kind=NODES),),
    package=__name__,
)
