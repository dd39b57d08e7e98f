"""Flags that several of the cloud controllers read."""

from pilothouse.machinery.flags import STRING, Flag

CLOUD_LOOPS = Flag(
    "cloud-loops",
    STRING,
    "",
    "Installed cloud provider for which the cloud controllers run (service-lb, node-route, cloud-node-lifecycle), as "
    "far as it supports them; empty: they do not run",
    extra=True,
)
CLUSTER_NAME = Flag(
    "cluster-name",
    STRING,
    "kubernetes",
    "The instance prefix for the cluster.",
    note="passed to the provider of --cloud-loops",
)
