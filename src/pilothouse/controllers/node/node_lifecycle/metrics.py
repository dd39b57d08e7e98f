"""Upstream's metrics (v1.36 ``pkg/controller/nodelifecycle/metrics.go``)."""

from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.runtime import Registry


class Metrics:
    """Counters and gauges by zone, durations of node updates and of passes."""

    def __init__(self, metrics: Registry) -> None:
        labels = ("zone",)
        self._health = metrics.gauge(
            "node_collector_zone_health", "[ALPHA] Gauge measuring percentage of healthy nodes per zone.", labels
        )
        self._size = metrics.gauge(
            "node_collector_zone_size", "[ALPHA] Gauge measuring number of registered Nodes per zones.", labels
        )
        self._unhealthy = metrics.gauge(
            "node_collector_unhealthy_nodes_in_zone",
            "[ALPHA] Gauge measuring number of not Ready Nodes per zones.",
            labels,
        )
        self.evictions = metrics.counter(
            "node_collector_evictions_total",
            "[STABLE] Number of Node evictions that happened since current instance of NodeController started.",
            labels,
        )
        self.node_duration = metrics.histogram(
            "node_collector_update_node_health_duration_seconds",
            "[ALPHA] Duration in seconds for NodeController to update the health of a single node.",
            buckets=exponential_buckets(0.001, 4, 8),
        ).labels()
        self.pass_duration = metrics.histogram(
            "node_collector_update_all_nodes_health_duration_seconds",
            "[ALPHA] Duration in seconds for NodeController to update the health of all nodes.",
            buckets=exponential_buckets(0.01, 4, 8),
        ).labels()

    def zone(self, zone: str, *, size: int, unhealthy: int) -> None:
        """The result of a pass for a zone; 0 nodes are all healthy."""
        self._size.labels(zone).set(size)
        self._unhealthy.labels(zone).set(unhealthy)
        self._health.labels(zone).set(100.0 * (size - unhealthy) / size if size else 100.0)
