"""Do not act on a cache that is older than your own writes (KEP-5647, on by default since v1.36).

A controller records in the store which resource version each of its writes got; before it acts on an owner it asks
whether the caches it reads have come that far. Mirrors ``pkg/controller/util/consistency`` of v1.36. Versions are
ordered by ``machinery.resource_versions``; where they can't be compared nothing is blocked.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.resource_versions import compare
from pilothouse.runtime.errors import RetryLater
from pilothouse.runtime.informer import SharedInformer


class StaleCache(RetryLater):
    """A cache has not yet read what this controller wrote. The key comes back with backoff."""

    def __init__(self, read: str, wrote: str, group_resource: str) -> None:
        super().__init__(
            f"read version: {read} is not as new as written version: {wrote} for group resource {group_resource}"
        )
        self.read = read
        self.wrote = wrote
        self.group_resource = group_resource


class _Written:
    __slots__ = ("owner_uid", "versions")

    def __init__(self, owner_uid: str) -> None:
        self.owner_uid = owner_uid
        self.versions: dict[str, str] = {}


def read_versions(*informers: SharedInformer[Any]) -> dict[str, Callable[[], str]]:
    """For a ``ConsistencyStore``: how far each informer has been read (``SharedInformer.read_version``)."""

    def version_of(informer: SharedInformer[Any]) -> Callable[[], str]:
        return lambda: informer.read_version

    return {informer.kind.group_resource: version_of(informer) for informer in informers}


class ConsistencyStore:
    """Remembers, per owner and group-resource, the newest version this controller has written.

    ``read_versions`` gives for each group-resource (``"pods"``, ``"replicasets.apps"``) the version its cache has read,
    usually from ``read_versions``. ``prefix`` names the metric
    ``<prefix>_controller_stale_sync_skips_total{group,resource}``.
    """

    def __init__(
        self, read_versions: Mapping[str, Callable[[], str]], *, prefix: str = "", metrics: Registry | None = None
    ) -> None:
        self._read_versions = dict(read_versions)
        self._written: dict[str, _Written] = {}
        self._skips = (
            metrics.counter(
                f"{prefix}_controller_stale_sync_skips_total",
                "[ALPHA] Number of syncs skipped because the controller's cache was older than its own writes",
                ("group", "resource"),
            )
            if metrics is not None and prefix
            else None
        )

    def wrote_at(self, owner_key: str, owner_uid: str, group_resource: str, resource_version: str) -> None:
        """A write for this owner was answered with ``resource_version``. Only newer versions replace older ones."""
        record = self._written.get(owner_key)
        if record is None or record.owner_uid != owner_uid:
            record = self._written[owner_key] = _Written(owner_uid)
        known = record.versions.get(group_resource)
        if known is not None and compare(resource_version, known) != 1:
            return
        if compare(resource_version, resource_version) is not None:
            record.versions[group_resource] = resource_version

    def ensure_ready(self, owner_key: str) -> None:
        """Raise ``StaleCache`` if a cache is behind a write for this owner. What has been read is forgotten."""
        record = self._written.get(owner_key)
        if record is None:
            return
        for group_resource, wrote in list(record.versions.items()):
            read_version = self._read_versions.get(group_resource)
            read = read_version() if read_version is not None else ""
            if compare(read, wrote) == -1:
                if self._skips is not None:
                    resource, _dot, group = group_resource.partition(".")
                    self._skips.labels(group, resource).inc()
                raise StaleCache(read, wrote, group_resource)
        del self._written[owner_key]

    def clear(self, owner_key: str, owner_uid: str | None = None) -> None:
        """The owner is gone. With a uid, only if it is that one."""
        record = self._written.get(owner_key)
        if record is not None and (owner_uid is None or record.owner_uid == owner_uid):
            del self._written[owner_key]
