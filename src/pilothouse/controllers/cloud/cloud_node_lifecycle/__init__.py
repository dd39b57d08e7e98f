"""Deletes nodes whose machine no longer exists, and taints nodes whose machine is shut down.

Behaviour: a ready node only loses the taint ``node.cloudprovider.kubernetes.io/shutdown``. For every other node the
cloud provider is called every ``--node-monitor-period``: if the machine does not exist, and a live read shows that the
node is still not ready, the node is deleted, with its uid as precondition; if the machine is shut down, the node gets
the taint. If the call fails, nothing is done.

Not guaranteed: pods. Those are evicted by taint eviction and collected with their node.

The interface of cloud providers is in ``controllers/shared/cloud``. docs/controllers/cloud_node_lifecycle.md has the
differences from upstream.
"""

import msgspec

from pilothouse.api.core import NODES
from pilothouse.controllers.shared.cloud_flags import CLOUD_LOOPS
from pilothouse.controllers.shared.node_flags import NODE_MONITOR_PERIOD
from pilothouse.env.lazy import lazy_imports
from pilothouse.runtime.descriptor import Descriptor, FlagSpec

with lazy_imports():
    from pilothouse.controllers.shared import cloud, cloud_providers
from pilothouse.runtime.watches import Watch


class CloudNodeLifecycleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Without a provider, by name or as an object, the controller does not run."""

    provider: "str | cloud.CloudProvider" = ""
    monitor_period: float = 5.0

    def validate(self) -> list[str]:
        return cloud_providers.validate_provider(self.provider)


DESCRIPTOR = Descriptor(
    name="cloud-node-lifecycle-controller",
    aliases=("cloud-node-lifecycle",),
    client_name="node-controller",
    options=CloudNodeLifecycleOptions,
    switch="provider",
    flags=(
        FlagSpec(field="provider", group="generic", flag=CLOUD_LOOPS),
        FlagSpec(field="monitor_period", group="generic", flag=NODE_MONITOR_PERIOD),
    ),
    watches=(Watch(kind=NODES),),
    package=__name__,
)
