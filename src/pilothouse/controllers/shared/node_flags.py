"""Flags about nodes that several controllers read."""

from pilothouse.machinery.flags import BOOL, DURATION, STRING, Flag

NODE_MONITOR_PERIOD = Flag("node-monitor-period", DURATION, 5.0, "The period for syncing NodeStatus in NodeController.")
CLUSTER_CIDR = Flag(
    "cluster-cidr",
    STRING,
    "",
    "CIDR Range for Pods in cluster. Only used when --allocate-node-cidrs=true; if false, this option will be ignored.",
)
ALLOCATE_NODE_CIDRS = Flag(
    "allocate-node-cidrs",
    BOOL,
    False,
    "Should CIDRs for Pods be allocated and set on the cloud provider. Requires --cluster-cidr.",
)
