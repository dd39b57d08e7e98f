"""Metrics of the store, which is also the counterpart of upstream's watch cache.

After apiserver ``pkg/storage/etcd3/metrics/metrics.go`` and ``pkg/storage/cacher/metrics/metrics.go`` (v0.36), as far
as they apply. ``etcd_*`` are writes until they are durable and visible, and with etcd the reads of the store:
consistent reads are a ``get`` of no resource. Requests only read memory: their lists count as served from the cache.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.metrics import Counter, Histogram, Registry
from pilothouse.storage import Staged

_LATENCIES = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0),
    *(30.0, 45.0, 60.0),
)
_OPERATIONS = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}
_RESOURCE_LABELS = ("group", "resource")
_BATCH_SIZE = 256
_REVISION_MODULUS = 10**15


class MonitoredStore(Protocol):
    """What is read from a store."""

    revision: int

    def store_for(self, prefix: str) -> "MonitoredStore":
        """The store of a resource."""
        ...

    def stores(self) -> "Sequence[MonitoredStore]":
        """The stores of all resources."""
        ...

    def size(self) -> int | None:
        """The size on disk in bytes; None for a store in memory."""
        ...

    def counts(self) -> dict[str, tuple[int, int]]:
        """The numbers of objects and of changes, by the prefix of the resource."""
        ...


class StorageMetrics:
    """Counts writes and lists, and the stored objects. ``resources`` returns the served ones."""

    def __init__(
        self,
        registry: Registry,
        clock: Callable[[], float],
        store: MonitoredStore,
        resources: Callable[[], Iterable[ResourceInfo]],
    ) -> None:
        self.clock = clock
        """The clock of the durations, in seconds."""
        self._store = store
        self._resources = resources
        self._seconds = registry.histogram(
            "etcd_request_duration_seconds",
            "[ALPHA] Etcd request latency in seconds for each operation and object type.",
            ("operation", *_RESOURCE_LABELS),
            _LATENCIES,
        )
        self._requests = registry.counter(
            "etcd_requests_total",
            "[ALPHA] Etcd request counts for each operation and object type.",
            ("operation", *_RESOURCE_LABELS),
        )
        self._errors = registry.counter(
            "etcd_request_errors_total",
            "[ALPHA] Etcd failed request counts for each operation and object type.",
            ("operation", *_RESOURCE_LABELS),
        )
        self._old_objects = registry.gauge(
            "apiserver_storage_objects",
            "[STABLE] [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects at the "
            "time of last check split by kind. In case of a fetching error, the value will be -1.",
            ("resource",),
        )
        self._objects = registry.gauge(
            "apiserver_resource_objects",
            "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, "
            "the value will be -1.",
            _RESOURCE_LABELS,
        )
        self._size = registry.gauge(
            "apiserver_storage_size_bytes",
            "[STABLE] Size of the storage database file physically allocated in bytes.",
            ("storage_cluster_id",),
        )
        self._received = registry.counter(
            "apiserver_storage_events_received_total",
            "[BETA] Number of etcd events received split by kind.",
            _RESOURCE_LABELS,
        )
        self._cache_received = registry.counter(
            "apiserver_watch_cache_events_received_total",
            "[ALPHA] Counter of events received in watch cache broken by resource type.",
            _RESOURCE_LABELS,
        )
        self._cache_dispatched = registry.counter(
            "apiserver_watch_cache_events_dispatched_total",
            "[ALPHA] Counter of events dispatched in watch cache broken by resource type.",
            _RESOURCE_LABELS,
        )
        self._cache_revision = registry.gauge(
            "apiserver_watch_cache_resource_version",
            "[ALPHA] Current resource version of watch cache broken by resource type. This is truncated to the 15 "
            "least significant digits.",
            _RESOURCE_LABELS,
        )
        self._init_events = registry.counter(
            "apiserver_init_events_total",
            "[ALPHA] Counter of init events processed in watch cache broken by resource type.",
            _RESOURCE_LABELS,
        )
        self._terminated = registry.counter(
            "apiserver_terminated_watchers_total",
            "[ALPHA] Counter of watchers closed due to unresponsiveness broken by resource type.",
            _RESOURCE_LABELS,
        )
        self._lists = registry.counter(
            "apiserver_cache_list_total",
            "[ALPHA] Number of LIST requests served from watch cache",
            (*_RESOURCE_LABELS, "index"),
        )
        self._fetched = registry.counter(
            "apiserver_cache_list_fetched_objects_total",
            "[ALPHA] Number of objects read from watch cache in the course of serving a LIST request",
            (*_RESOURCE_LABELS, "index"),
        )
        self._returned = registry.counter(
            "apiserver_cache_list_returned_objects_total",
            "[ALPHA] Number of objects returned for a LIST request from watch cache",
            _RESOURCE_LABELS,
        )
        self._written: list[tuple[str, str, float]] = []
        """Writes that are not counted yet: type of the change, prefix of the resource, seconds."""
        self._writes: dict[str, dict[str, Histogram]] = {kind: {} for kind in _OPERATIONS}
        """By type of the change, and prefix of the resource."""
        registry.on_collect(self._derive)

    def wrote(self, staged: Staged, seconds: float) -> None:
        """A write is durable and visible."""
        self._written.append((staged.change.type, staged.resource, seconds))
        if len(self._written) >= _BATCH_SIZE:
            self._count()

    def _count(self) -> None:
        """Count the writes. Batches take half the time of single ones."""
        written, self._written = self._written, []
        for kind, resource, seconds in written:
            histograms = self._writes[kind]
            histogram = histograms.get(resource)
            if histogram is None:
                histogram = histograms[resource] = self._seconds.labels(_OPERATIONS[kind], *_names(resource))
            histogram.counts[0 if seconds <= _LATENCIES[0] else bisect_left(_LATENCIES, seconds)] += 1
            histogram.sum += seconds

    def failed(self, staged: Staged, seconds: float) -> None:
        """A write has failed."""
        self.wrote(staged, seconds)
        self._errors.labels(_OPERATIONS[staged.change.type], *_names(staged.resource)).inc()

    def observe_backend(self, operation: str, kind: str, seconds: float, failed: bool) -> None:
        """A request to etcd. Writes are counted by ``wrote``, once they are visible."""
        if operation not in ("get", "list"):
            return
        labels = (operation, *(_names(kind) if kind else ("", "")))
        self._seconds.labels(*labels).observe(seconds)
        if failed:
            self._errors.labels(*labels).inc()

    def listed(self, info: ResourceInfo, fetched: int, returned: int) -> None:
        """A list has read and returned this many objects."""
        labels = (info.group, info.resource)
        self._lists.labels(*labels, "").inc()
        self._fetched.labels(*labels, "").inc(fetched)
        self._returned.labels(*labels).inc(returned)

    def watch_began(self, info: ResourceInfo, events: int) -> None:
        """A watch sends this many initial events."""
        self._init_events.labels(info.group, info.resource).inc(events)

    def watch_overrun(self, info: ResourceInfo) -> None:
        """A watch was ended because its client was too slow."""
        self._terminated.labels(info.group, info.resource).inc()

    def _derive(self) -> None:
        self._count()
        for labels, seconds in self._seconds.children.items():
            self._requests.labels(*labels).value = float(seconds.count)
        counts = self._store.counts()
        object_counts: dict[tuple[str, ...], float] = {}
        for info in self._resources():
            if "list" in info.verbs and "create" in info.verbs:
                # Events of both groups are stored once; upstream counts them in the core group.
                object_counts[_names(info.prefix)] = counts.get(info.prefix, (0, 0))[0]
        self._objects.show(object_counts)
        by_name: dict[tuple[str, ...], float] = {
            (f"{name}.{group}" if group else name,): count for (group, name), count in object_counts.items()
        }
        self._old_objects.show(by_name)
        revisions = {store_: float(store_.revision % _REVISION_MODULUS) for store_ in self._store.stores()}
        self._cache_revision.show(
            {names: revisions[self._store.store_for("/".join(names) + "/")] for names in object_counts}
        )
        for prefix, (_objects, changes) in counts.items():
            if changes:
                names = _names(prefix)
                for family in (self._received, self._cache_received, self._cache_dispatched):
                    child: Counter = family.labels(*names)
                    child.value = float(changes)
        for index, store in enumerate(self._store.stores()):
            if (size := store.size()) is not None:
                self._size.labels(f"etcd-{index}").set(size)


def _names(prefix: str) -> tuple[str, str]:
    """Group and resource of a prefix: ``<group>/<resource>/``."""
    group, resource, _rest = prefix.split("/", 2)
    return group, resource
