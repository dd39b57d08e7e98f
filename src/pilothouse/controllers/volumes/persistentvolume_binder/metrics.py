"""Upstream's metrics (v1.36 ``pkg/controller/volume/persistentvolume/metrics/metrics.go`` and
``pkg/volume/util/metrics.go``)."""

from collections import Counter

from pilothouse.controllers.shared.volume_plugins import plugin_of
from pilothouse.controllers.volumes.persistentvolume_binder.stores import ClaimStore, VolumeStore
from pilothouse.env import Env
from pilothouse.runtime import Registry
from pilothouse.semantics.volumes import claim_class, volume_class

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
_LABELS = ("plugin_name", "operation_name")
Key = tuple[str, ...]


class Metrics:
    """Counts objects with each scrape, and measures provisioning and deletion from the first attempt to the end."""

    def __init__(self, metrics: Registry, env: Env, claims: ClaimStore, volumes: VolumeStore) -> None:
        self._env = env
        self._claims = claims
        self._volumes = volumes
        self._begun: dict[Key, tuple[str, float]] = {}
        self._seconds = metrics.histogram(
            "volume_operation_total_seconds",
            "[ALPHA] Storage operation end to end duration in seconds",
            _LABELS,
            _SECONDS,
        )
        self._errors = [
            metrics.counter("volume_operation_errors_total", "[ALPHA] Total volume operation errors", _LABELS),
            metrics.counter(
                "volume_operation_total_errors",
                "[ALPHA] (Deprecated since 1.36.0) Total volume operation errors",
                _LABELS,
            ),
        ]
        self.retroactive_storage_class = metrics.counter(
            "retroactive_storageclass_total",
            "[ALPHA] Total number of retroactive StorageClass assignments to persistent volume claim",
        ).labels()
        self.retroactive_storage_class_errors = metrics.counter(
            "retroactive_storageclass_errors_total",
            "[ALPHA] Total number of failed retroactive StorageClass assignments to persistent volume claim",
        ).labels()
        prefix, by_class = "pv_collector", ("storage_class",)
        by_claim = ("namespace", "storage_class", "volume_attributes_class")
        self._total = metrics.gauge(
            f"{prefix}_total_pv_count",
            "[ALPHA] Gauge measuring total number of persistent volumes",
            ("plugin_name", "volume_mode"),
        )
        self._bound_volumes = metrics.gauge(
            f"{prefix}_bound_pv_count", "[ALPHA] Gauge measuring number of persistent volume currently bound", by_class
        )
        self._unbound_volumes = metrics.gauge(
            f"{prefix}_unbound_pv_count",
            "[ALPHA] Gauge measuring number of persistent volume currently unbound",
            by_class,
        )
        self._bound_claims = metrics.gauge(
            f"{prefix}_bound_pvc_count",
            "[ALPHA] Gauge measuring number of persistent volume claim currently bound",
            by_claim,
        )
        self._unbound_claims = metrics.gauge(
            f"{prefix}_unbound_pvc_count",
            "[ALPHA] Gauge measuring number of persistent volume claim currently unbound",
            by_claim,
        )
        self.stop = metrics.on_collect(self._count)

    # Durations

    def begin(self, operation: str, key: str, plugin: str) -> None:
        """Provisioning or deletion was requested. A repeated request keeps the first start."""
        self._begun.setdefault((operation, key), (plugin, self._env.perf_counter()))

    def end(self, operation: str, key: str) -> None:
        begun = self._begun.pop((operation, key), None)
        if begun is not None:
            plugin, at = begun
            self._seconds.labels(plugin or "N/A", operation).observe(self._env.perf_counter() - at)

    def fail(self, operation: str, key: str) -> None:
        """The operation failed and may be retried; its duration continues."""
        begun = self._begun.get((operation, key))
        if begun is not None:
            for counter in self._errors:
                counter.labels(begun[0] or "N/A", operation).inc()

    def forget(self, operation: str, key: str) -> None:
        """The operation was abandoned."""
        self._begun.pop((operation, key), None)

    # Gauges

    def _count(self) -> None:
        total: Counter[Key] = Counter()
        volumes: dict[bool, Counter[Key]] = {True: Counter(), False: Counter()}
        claims: dict[bool, Counter[Key]] = {True: Counter(), False: Counter()}
        for volume in self._volumes:
            total[plugin_of(volume) or "N/A", volume.spec.volume_mode or "N/A"] += 1
            volumes[volume.status.phase == "Bound"][(volume_class(volume),)] += 1
        for claim in self._claims:
            attributes = claim.spec.volume_attributes_class_name or ""
            key = (claim.metadata.namespace, claim_class(claim), attributes)
            claims[claim.status.phase == "Bound"][key] += 1
        self._total.show(total)
        self._bound_volumes.show(volumes[True])
        self._unbound_volumes.show(volumes[False])
        self._bound_claims.show(claims[True])
        self._unbound_claims.show(claims[False])
