"""Detects nodes that no longer report, sets their conditions and taints and the readiness of their pods, and
limits the rate of evictions.

Behaviour: a node that renews neither its Lease nor its status within the grace period gets ``Unknown`` conditions, and
its pods are no longer Ready. Conditions are converted to taints: NoSchedule immediately, NoExecute (which evicts pods)
at ``--node-eviction-rate`` nodes a second per zone. If most nodes of a zone are down the rate drops; if all nodes of
all zones are down no pods are evicted, because then the control plane is probably disconnected. Only the local clock is
used, never a comparison of a timestamp with the current time; a new leader gives every node a whole grace period.

Not guaranteed: to delete anything. That is taint eviction's, and pod garbage collection's.

Files: ``health`` when a node is unresponsive, ``zones`` the rate of evictions, ``taints`` from conditions to taints,
``taint_queue`` the rate limited queue, ``node_writes`` and ``pod_writes`` the requests, ``monitor`` the pass over all
nodes, ``calm`` nodes that a pass can skip, ``controller`` the event handlers. docs/controllers/node_lifecycle.md has
the differences from upstream.
"""

import msgspec

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.shared.node_flags import NODE_MONITOR_PERIOD
from pilothouse.machinery.flags import DURATION, FLOAT, INT32
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch

LEASE_NAMESPACE = "kube-node-lease"


class NodeLifecycleOptions(msgspec.Struct, frozen=True, kw_only=True):
    monitor_period: float = 5.0
    monitor_grace_period: float = 50.0
    startup_grace_period: float = 60.0
    eviction_rate: float = 0.1
    secondary_eviction_rate: float = 0.01
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold: float = 0.55


DESCRIPTOR = Descriptor(
    name="node-lifecycle-controller",
    aliases=("nodelifecycle",),
    client_name="node-controller",
    options=NodeLifecycleOptions,
    flags=(
        FlagSpec(field="monitor_period", group="generic", flag=NODE_MONITOR_PERIOD),
        flag_spec(
            "monitor_grace_period",
            "node-monitor-grace-period",
            DURATION,
            50.0,
            "Amount of time which we allow running Node to be unresponsive before marking it unhealthy. Must be N "
            "times more than kubelet's nodeStatusUpdateFrequency, where N means number of retries allowed for "
            "kubelet to post node status. This value should also be greater than the sum of "
            "HTTP2_PING_TIMEOUT_SECONDS and HTTP2_READ_IDLE_TIMEOUT_SECONDS",
        ),
        flag_spec(
            "startup_grace_period",
            "node-startup-grace-period",
            DURATION,
            60.0,
            "Amount of time which we allow starting Node to be unresponsive before marking it unhealthy.",
        ),
        flag_spec(
            "eviction_rate",
            "node-eviction-rate",
            FLOAT,
            0.1,
            "Number of nodes per second on which pods are deleted in case of node failure when a zone is healthy "
            "(see --unhealthy-zone-threshold for definition of healthy/unhealthy). Zone refers to entire cluster "
            "in non-multizone clusters.",
        ),
        flag_spec(
            "secondary_eviction_rate",
            "secondary-node-eviction-rate",
            FLOAT,
            0.01,
            "Number of nodes per second on which pods are deleted in case of node failure when a zone is unhealthy "
            "(see --unhealthy-zone-threshold for definition of healthy/unhealthy). Zone refers to entire cluster "
            "in non-multizone clusters. This value is implicitly overridden to 0 if the cluster size is smaller "
            "than --large-cluster-size-threshold.",
        ),
        flag_spec(
            "large_cluster_size_threshold",
            "large-cluster-size-threshold",
            INT32,
            50,
            "Number of nodes from which node-lifecycle-controller treats the cluster as large for the eviction "
            "logic purposes. --secondary-node-eviction-rate is implicitly overridden to 0 for clusters this size "
            "or smaller. Notice: If nodes reside in multiple zones, this threshold will be considered as zone node "
            "size threshold for each zone to determine node eviction rate independently.",
        ),
        flag_spec(
            "unhealthy_zone_threshold",
            "unhealthy-zone-threshold",
            FLOAT,
            0.55,
            "Fraction of Nodes in a zone which needs to be not Ready (minimum 3) for zone to be treated as unhealthy. ",
        ),
    ),
    watches=(
        Watch(kind=LEASES),
        Watch(kind=NODES),
        Watch(kind=PODS),
    ),
    package=__name__,
)
