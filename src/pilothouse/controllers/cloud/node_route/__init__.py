"""Configures a route in the cloud for each pod CIDR of each node.

Behaviour: every ``--route-reconciliation-period`` the cloud provider's routes are compared with the pod CIDRs of the
nodes: missing routes are created, routes within ``--cluster-cidr`` without a node are deleted, including blackhole
routes. The condition ``NetworkUnavailable`` of a node reports whether all its routes exist.

Not guaranteed: routes outside of ``--cluster-cidr``, which are never changed.

The interface of cloud providers is in ``controllers/shared/cloud``. docs/controllers/node_route.md has the differences
from upstream.
"""

import msgspec

from pilothouse.api.core import NODES
from pilothouse.controllers.shared.cloud_flags import CLOUD_LOOPS, CLUSTER_NAME
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.shared.node_flags import ALLOCATE_NODE_CIDRS, CLUSTER_CIDR
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch

with lazy_imports():
    from pilothouse.controllers.cloud.node_route import decide as routes
    from pilothouse.controllers.shared import cloud, cloud_providers


class NodeRouteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Without a cloud provider the controller does not run, nor if ``--allocate-node-cidrs`` or
    ``--configure-cloud-routes`` is off."""

    provider: "str | cloud.CloudProvider" = ""
    cluster_name: str = "kubernetes"
    cluster_cidr: str = ""
    allocate: bool = False
    configured: bool = True
    period: float = 10.0

    def validate(self) -> list[str]:
        errors = cloud_providers.validate_provider(self.provider)
        if self.provider and self.allocate and self.configured:
            # Imported only here: descriptors must be cheap.
            try:
                routes.cluster_ranges(self.cluster_cidr)
            except ValueError as error:
                errors.append(str(error))
        return errors


DESCRIPTOR = Descriptor(
    name="node-route-controller",
    aliases=("route",),
    client_name="route-controller",
    options=NodeRouteOptions,
    switch="provider",
    flags=(
        FlagSpec(field="provider", group="generic", flag=CLOUD_LOOPS),
        FlagSpec(field="cluster_name", group="generic", flag=CLUSTER_NAME),
        FlagSpec(field="cluster_cidr", group="generic", flag=CLUSTER_CIDR),
        FlagSpec(field="allocate", group="generic", flag=ALLOCATE_NODE_CIDRS),
        flag_spec(
            "configured",
            "configure-cloud-routes",
            BOOL,
            True,
            "Should CIDRs allocated by allocate-node-cidrs be configured on the cloud provider.",
            note="for --cloud-loops",
            group="generic",
        ),
        flag_spec(
            "period",
            "route-reconciliation-period",
            DURATION,
            10.0,
            "The period for reconciling routes created for Nodes by cloud provider.",
            note="for --cloud-loops",
            group="generic",
        ),
    ),
    watches=(Watch(kind=NODES),),
    package=__name__,
)
