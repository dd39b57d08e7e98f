"""Gauges of endpoints and slices, for both controllers of slices.

Upstream: v1.36 ``staging/src/k8s.io/endpointslice/metrics/cache.go`` and
``pkg/controller/endpointslicemirroring/metrics/cache.go``.
"""

from pilothouse.runtime import Registry


class SliceGauges:
    """The three gauges of one controller, by the key of a service (or Endpoints), in parts."""

    def __init__(self, metrics: Registry, prefix: str) -> None:
        self._desired = metrics.gauge(f"{prefix}endpoints_desired", "[ALPHA] Number of endpoints desired").labels()
        self._slices = metrics.gauge(f"{prefix}num_endpoint_slices", "[ALPHA] Number of EndpointSlices").labels()
        self._ideal = metrics.gauge(
            f"{prefix}desired_endpoint_slices",
            "[ALPHA] Number of EndpointSlices that would exist with perfect endpoint allocation",
        ).labels()
        self._known: dict[str, dict[str, tuple[int, int, int]]] = {}

    def set(self, key: str, part: str, *, endpoints: int, slices: int, ideal: int) -> None:
        parts = self._known.setdefault(key, {})
        old = parts.get(part, (0, 0, 0))
        parts[part] = (endpoints, slices, ideal)
        self._add(parts[part], old)

    def forget(self, key: str) -> None:
        for old in self._known.pop(key, {}).values():
            self._add((0, 0, 0), old)

    def _add(self, new: tuple[int, int, int], old: tuple[int, int, int]) -> None:
        for gauge, new_value, old_value in zip((self._desired, self._slices, self._ideal), new, old, strict=True):
            gauge.inc(new_value - old_value)
