"""Upstream's metrics (v1.36 ``staging/src/k8s.io/endpointslice/metrics``)."""

from pilothouse.controllers.network.endpointslice.hints import DISTRIBUTIONS
from pilothouse.controllers.shared.slice_gauges import SliceGauges
from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.runtime import Registry

_PREFIX = "endpoint_slice_controller_"


class Metrics:
    """Counters of each sync, and gauges over all services."""

    def __init__(self, metrics: Registry, max_endpoints: int) -> None:
        self._max_endpoints = max_endpoints
        buckets = exponential_buckets(2, 2, 15)

        self.added = metrics.histogram(
            f"{_PREFIX}endpoints_added_per_sync", "[ALPHA] Number of endpoints added on each Service sync", (), buckets
        ).labels()
        self.removed = metrics.histogram(
            f"{_PREFIX}endpoints_removed_per_sync", "[ALPHA] Number of endpoints removed on each Service sync", (),
            buckets,
        ).labels()  # fmt: skip
        self._gauges = SliceGauges(metrics, _PREFIX)
        self.changes = metrics.counter(f"{_PREFIX}changes", "[ALPHA] Number of EndpointSlice changes", ("operation",))
        self.changed_per_sync = metrics.histogram(
            f"{_PREFIX}endpointslices_changed_per_sync",
            "[ALPHA] Number of EndpointSlices changed on each Service sync",
            ("topology", "traffic_distribution"),
        )
        self.syncs = metrics.counter(f"{_PREFIX}syncs", "[ALPHA] Number of EndpointSlice syncs", ("result",))
        self._distributed = metrics.gauge(
            f"{_PREFIX}services_count_by_traffic_distribution",
            "[ALPHA] Number of Services using some specific trafficDistribution",
            ("traffic_distribution",),
        )
        self._distributions: dict[str, str] = {}

    def has_slices(self, key: str, address_type: str, groups: list[int], slices: int) -> None:
        """A service has ``slices`` in this family, and so many endpoints in each group of equal ports."""
        desired_slices = sum(-(-count // self._max_endpoints) for count in groups) or 1
        self._gauges.set(key, address_type, endpoints=sum(groups), slices=slices, ideal=desired_slices)

    def is_distributed(self, key: str, distribution: str) -> None:
        """The Service's traffic distribution; empty if there is none."""
        old = self._distributions.pop(key, "")
        if old:
            self._distributed.labels(old).inc(-1)
        if distribution in DISTRIBUTIONS:
            self._distributions[key] = distribution
            self._distributed.labels(distribution).inc()

    def delete_service(self, key: str) -> None:
        self.is_distributed(key, "")
        self._gauges.forget(key)
