"""Upstream's metrics (v1.36 ``pkg/controller/volume/attachdetach/metrics/metrics.go`` and
``pkg/volume/util/metrics.go``)."""

from collections import Counter
from collections.abc import Callable, Iterable

from pilothouse.controllers.shared.volume_plugins import CSI
from pilothouse.runtime import Registry
from pilothouse.semantics.attachments import driver_and_handle

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
Key = tuple[str, ...]


def plugin_of(volume: str) -> str:
    """The plugin in a volume's unique name."""
    parts = driver_and_handle(volume)
    return f"{CSI}:{parts[0]}" if parts is not None else "N/A"


class Metrics:
    """``desired`` and ``actual`` return the volumes of all pairs, ``in_use`` node and volume for each volume of a
    pod."""

    def __init__(
        self,
        metrics: Registry,
        desired: Callable[[], Iterable[str]],
        actual: Callable[[], Iterable[str]],
        in_use: Callable[[], Iterable[tuple[str, str]]],
    ) -> None:
        self._desired = desired
        self._actual = actual
        self._used = in_use
        self._forced = metrics.counter(
            "attach_detach_controller_attachdetach_controller_forced_detaches",
            "[ALPHA] Number of times the A/D Controller performed a forced detach",
            ("reason",),
        )
        self._total = metrics.gauge(
            "attachdetach_controller_total_volumes",
            "[ALPHA] Number of volumes in A/D Controller",
            ("plugin_name", "state"),
        )
        self._in_use = metrics.gauge(
            "storage_count_attachable_volumes_in_use",
            "[ALPHA] Measure number of volumes in use",
            ("node", "volume_plugin"),
        )
        self._operations = metrics.histogram(
            "storage_operation_duration_seconds",
            "[ALPHA] Storage operation duration",
            ("volume_plugin", "operation_name", "status", "migrated"),
            _SECONDS,
        )
        self.stop = metrics.on_collect(self._count)

    def force(self, reason: str) -> None:
        """A volume is detached without checking its node."""
        self._forced.labels(reason).inc()

    def end(self, volume: str, operation: str, seconds: float, *, failed: bool) -> None:
        status = "fail-unknown" if failed else "success"
        self._operations.labels(plugin_of(volume), operation, status, "false").observe(seconds)

    def _count(self) -> None:
        total: Counter[Key] = Counter()
        for state, volumes in (("desired_state_of_world", self._desired()), ("actual_state_of_world", self._actual())):
            total.update((plugin_of(volume), state) for volume in volumes)
        self._total.show(total)
        self._in_use.show(Counter((node, plugin_of(volume)) for node, volume in self._used()))
