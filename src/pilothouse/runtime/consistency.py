"""Do not act on a cache that is older than your own writes (KEP-5647, on by default since v1.36).

A controller records the resourceVersion of each of its writes, and checks before a sync whether the caches that it
reads have reached them. Mirrors ``pkg/controller/util/consistency`` of v1.36. Versions are compared by
``machinery.resource_versions``; if they cannot be compared nothing is blocked.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.resource_versions import compare
from pilothouse.runtime.errors import RetryLater
from pilothouse.runtime.informer import SharedInformer


class StaleCache(RetryLater):
    """A cache is older than a write of this controller. The key is retried with backoff."""

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
    """For a ``ConsistencyStore``: the version up to which each informer has read (``SharedInformer.read_version``)."""

    def version_of(informer: SharedInformer[Any]) -> Callable[[], str]:
        return lambda: informer.read_version

    return {informer.kind.group_resource: version_of(informer) for informer in informers}


class ConsistencyStore:
    """Keeps, per owner and group-resource, the latest version that this controller has written.

    ``read_versions`` returns for a group-resource (``"pods"``, ``"replicasets.apps"``) the version that its cache has
    reached, usually the result of the function ``read_versions``. ``prefix`` is that of the metric
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
        """Record that a write for this owner returned ``resource_version``. Older versions are ignored."""
        record = self._written.get(owner_key)
        if record is None or record.owner_uid != owner_uid:
            record = self._written[owner_key] = _Written(owner_uid)
        written = record.versions.get(group_resource)
        if written is not None and compare(resource_version, written) != 1:
            return
        if compare(resource_version, resource_version) is not None:
            record.versions[group_resource] = resource_version

    def ensure_ready(self, owner_key: str) -> None:
        """Raise ``StaleCache`` if a cache is older than a write for this owner. Writes that the cache has reached are
        dropped."""
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
        """Drop the writes of a deleted owner. With a uid, only if they are of that owner."""
        record = self._written.get(owner_key)
        if record is not None and (owner_uid is None or record.owner_uid == owner_uid):
            del self._written[owner_key]
