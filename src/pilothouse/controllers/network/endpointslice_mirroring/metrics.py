"""Upstream's metrics (v1.36 ``pkg/controller/endpointslicemirroring/metrics``)."""

from pilothouse.controllers.network.endpointslice_mirroring.decide import DesiredEndpoints, Plan
from pilothouse.controllers.shared.slice_gauges import SliceGauges
from pilothouse.machinery.metrics import Histogram, exponential_buckets
from pilothouse.runtime import Registry

_PREFIX = "endpoint_slice_mirroring_controller_"


class Metrics:
    """Counters of each sync, and gauges over all Endpoints."""

    def __init__(self, metrics: Registry, most: int) -> None:
        self._most = most

        def per_sync(name: str, text: str) -> Histogram:
            buckets = exponential_buckets(2, 2, 15)
            return metrics.histogram(f"{_PREFIX}{name}_per_sync", f"[ALPHA] {text}", (), buckets).labels()

        self._added = per_sync("endpoints_added", "Number of endpoints added on each Endpoints sync")
        self._updated = per_sync("endpoints_updated", "Number of endpoints updated on each Endpoints sync")
        self._removed = per_sync("endpoints_removed", "Number of endpoints removed on each Endpoints sync")
        self._skipped = per_sync(
            "addresses_skipped",
            "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding "
            "MaxEndpointsPerSubset",
        )
        self.duration = metrics.histogram(
            f"{_PREFIX}endpoints_sync_duration",
            "[ALPHA] Duration of syncEndpoints() in seconds",
            (),
            exponential_buckets(0.001, 2, 15),
        ).labels()
        self._gauges = SliceGauges(metrics, _PREFIX)
        self.changes = metrics.counter(f"{_PREFIX}changes", "[ALPHA] Number of EndpointSlice changes", ("operation",))

    def observe_sync(self, key: str, desired: DesiredEndpoints, plan: Plan) -> None:
        self._skipped.observe(desired.skipped)
        self._added.observe(plan.added)
        self._updated.observe(plan.updated)
        self._removed.observe(plan.removed)
        self._gauges.set(
            key,
            "",
            endpoints=sum(endpoints for endpoints, _slices in plan.counts),
            slices=sum(slices for _endpoints, slices in plan.counts),
            ideal=sum(-(-endpoints // self._most) for endpoints, _slices in plan.counts),
        )

    def forget(self, key: str) -> None:
        self._gauges.forget(key)
