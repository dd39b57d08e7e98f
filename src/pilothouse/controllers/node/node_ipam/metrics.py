"""Upstream's metrics (v1.36 ``pkg/controller/nodeipam/ipam/cidrset/metrics.go``)."""

from pilothouse.machinery.metrics import Registry, exponential_buckets

_PREFIX = "node_ipam_controller_"
_LABELS = ("clusterCIDR",)


class SetMetrics:
    """The metrics of one range."""

    def __init__(self, metrics: Registry, cluster: str, size: int) -> None:
        self._size = size
        self._allocations = metrics.counter(
            f"{_PREFIX}cidrset_cidrs_allocations_total", "[ALPHA] Counter measuring total number of CIDR allocations.",
            _LABELS,
        ).labels(cluster)  # fmt: skip
        self._releases = metrics.counter(
            f"{_PREFIX}cidrset_cidrs_releases_total", "[ALPHA] Counter measuring total number of CIDR releases.",
            _LABELS,
        ).labels(cluster)  # fmt: skip
        # The spelling is upstream's.
        metrics.gauge(
            f"{_PREFIX}cirdset_max_cidrs", "[ALPHA] Maximum number of CIDRs that can be allocated.", _LABELS
        ).labels(cluster).set(size)
        self._usage = metrics.gauge(
            f"{_PREFIX}cidrset_usage_cidrs", "[ALPHA] Gauge measuring percentage of allocated CIDRs.", _LABELS
        ).labels(cluster)
        # The text is upstream's, and another metric's.
        self._tries = metrics.histogram(
            f"{_PREFIX}cidrset_allocation_tries_per_request", "[ALPHA] Number of endpoints added on each Service sync",
            _LABELS, exponential_buckets(1, 5, 5),
        ).labels(cluster)  # fmt: skip

    def allocated(self, blocks: int, used: int, *, tries: int | None = None) -> None:
        """Report the number of used blocks, and ``tries`` if one was allocated."""
        self._allocations.inc(blocks)
        self._usage.set(used / self._size)
        if tries is not None:
            self._tries.observe(tries)

    def released(self, blocks: int, used: int) -> None:
        self._releases.inc(blocks)
        self._usage.set(used / self._size)
