"""Resources on etcds of their own (``--etcd-servers-overrides``): a store that routes each resource to one of several.

Each etcd has its own sequence of revisions, and so of resourceVersions, as with kube-apiserver. ``store_for`` returns
the store of a resource; members without a resource (``revision``, ``size``, history marks) are those of the default
store, that of ``--etcd-servers``.

A write is one transaction of its etcd. Writes that hooks stage with it for another etcd, such as that of the
ResourceQuota that a pod is charged to, follow in a transaction of that etcd.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from pilothouse.env import Log
from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.etcd.store import EtcdStore
from pilothouse.storage.records import Page, Record, Staged
from pilothouse.storage.store import Changes, Hooks, Marks, OnRequest, Store
from pilothouse.storage.watchers import CAPACITY, Watcher, resource_end

_log = Log("etcd")

LocationOf = Callable[[str], int]
"""The index of the store of a resource, by its prefix (``apps/deployments/``); 0 is the default store."""


class KeysOfLocation:
    """The keys of one etcd. Its keys of resources that are stored in another etcd are ignored."""

    def __init__(self, keys: Keys, location_of: LocationOf, location: int) -> None:
        self.root = keys.root
        self.etcd_key = keys.etcd_key
        self._keys = keys
        self._location_of = location_of
        self._location = location

    def key(self, etcd_key: str) -> str | None:
        """The store's key; None for keys of another location."""
        key = self._keys.key(etcd_key)
        return None if key is None or self._location_of(key[: resource_end(key)]) != self._location else key


class RoutedStore(Store):
    """Delegates to the store of each resource. It has no state of its own."""

    expires = True
    is_shared = True

    def __init__(self, stores: Sequence[EtcdStore], location_of: LocationOf) -> None:
        """The first store is the default one. Hooks are called for the changes of all."""
        # ``Store.__init__`` is not called: the state is in the stores, which share the hooks.
        self._stores = tuple(stores)
        self._default = stores[0]
        self._location_of = location_of
        self.retention = self._default.retention
        self.on_commit: Hooks = []
        self.on_commit_of: dict[str, Hooks] = {}
        self.on_stage: list[Callable[[Staged], None]] = []
        self.on_stage_of: dict[str, list[Callable[[Staged], None]]] = {}
        for store in stores:
            store.on_commit, store.on_commit_of, store.on_stage_of = self.on_commit, self.on_commit_of, self.on_stage_of
            store.on_stage.append(self._staged)

    def _staged(self, staged: Staged) -> None:
        for hook in self.on_stage:
            hook(staged)

    # The stores

    def store_for(self, prefix: str) -> EtcdStore:
        """The store of a resource, or of a key of it."""
        return self._stores[self._location_of(prefix[: resource_end(prefix)])]

    def stores(self) -> Sequence[EtcdStore]:
        """All stores, the default one first."""
        return self._stores

    @property
    def revision(self) -> int:  # type: ignore[override]  # delegated, read-only
        """Of the default store."""
        return self._default.revision

    @property
    def compacted(self) -> int:  # type: ignore[override]  # delegated, read-only
        """Of the default store."""
        return self._default.compacted

    @property
    def is_reachable(self) -> bool:  # type: ignore[override]  # as above
        """Whether all stores are reachable."""
        return all(store.is_reachable for store in self._stores)

    @property
    def has_unreadable(self) -> bool:
        """Whether any store has unreadable values."""
        return any(store.has_unreadable for store in self._stores)

    @property
    def changes_by_others(self) -> int:  # type: ignore[override]  # as above
        """Of all stores."""
        return sum(store.changes_by_others for store in self._stores)

    # Reading

    def get(self, key: str) -> Record | None:
        """As every store."""
        return self.store_for(key).get(key)

    def staged(self, key: str) -> Record | None:
        """As every store."""
        return self.store_for(key).staged(key)

    def list(self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        """As every store; for several resources, the current state of all stores."""
        if resource_end(prefix):
            return self.store_for(prefix).list(prefix, after=after, limit=limit, revision=revision)
        records = [record for store in self._stores for record in store.list(prefix, after=after).records]
        records.sort(key=lambda record: record.key)
        remaining = len(records) - limit if limit and limit < len(records) else 0
        return Page(records[:limit] if remaining else records, self.revision, remaining > 0, remaining)

    def count(self, prefix: str) -> int:
        """As every store."""
        stores = [self.store_for(prefix)] if resource_end(prefix) else self._stores
        return sum(store.count(prefix) for store in stores)

    def counts(self) -> dict[str, tuple[int, int]]:
        """As every store."""
        return {prefix: counts for store in self._stores for prefix, counts in store.counts().items()}

    def has_any(self, resource: str) -> bool:
        """As every store."""
        return self.store_for(resource).has_any(resource)

    def size(self) -> int | None:
        """Of the default store."""
        return self._default.size()

    async def catch_up(self) -> None:
        """Of the default store only; for a resource in another one use ``store_for``."""
        await self._default.catch_up()

    async def read_at_revision(self, prefix: str, revision: int, *, after: str = "", limit: int = 0) -> Store:
        """As every store."""
        return await self.store_for(prefix).read_at_revision(prefix, revision, after=after, limit=limit)

    async def wait_for_revision(self, revision: int) -> None:
        """Of the default store."""
        await self._default.wait_for_revision(revision)

    def watch(self, prefix: str, after: int, *, capacity: int = CAPACITY) -> Watcher:
        """As every store; for several resources, those of the default store."""
        store = self.store_for(prefix) if resource_end(prefix) else self._default
        return store.watch(prefix, after, capacity=capacity)

    # Writing

    def next_revision(self) -> int:
        """Of the default store."""
        return self._default.next_revision()

    def stage(
        self,
        key: str,
        make: Callable[[int], bytes] | None,
        *,
        expected: int | None = None,
        last: Callable[[int], bytes] | None = None,
    ) -> Staged:
        """As every store."""
        return self.store_for(key).stage(key, make, expected=expected, last=last)

    async def commit(self, staged: Staged) -> None:
        """As every store. Then the writes that were staged with it in other stores are committed. Their errors are only
        logged: this one is stored."""
        store = self.store_for(staged.resource)
        await store.commit(staged)
        for other in self._stores:
            if other is not store:
                for error in await other.commit_staged():
                    _log.error("A write to another etcd has failed", after=staged.change.key, error=error)

    async def flush(self) -> None:
        """As every store."""
        for store in self._stores:
            await store.flush()

    async def wait_until_decided(self, key: str) -> None:
        """As every store."""
        await self.store_for(key).wait_until_decided(key)

    def has_failed_since(self, key: str, since: int) -> bool:
        """As every store; ``since`` is a count of the key's store (``store_for``)."""
        return self.store_for(key).has_failed_since(key, since)

    async def is_stale(self, record: Record) -> bool:
        """As every store."""
        return await self.store_for(record.key).is_stale(record)

    # History

    def changes(self, prefix: str) -> Changes:
        """As every store."""
        return self.store_for(prefix).changes(prefix)

    def history_floor(self, prefix: str) -> int:
        """As every store."""
        return self.store_for(prefix).history_floor(prefix)

    def revision_at(self, seconds_ago: float) -> int:
        """Of the default store."""
        return self._default.revision_at(seconds_ago)

    def seconds_since(self, revision: int) -> float | None:
        """Of the default store."""
        return self._default.seconds_since(revision)

    def history_marks(self, limit: int = 3600) -> Marks:
        """Of the default store."""
        return self._default.history_marks(limit)

    def compact(self, _revision: int) -> None:
        """Drop the whole history of all stores: a revision of one has no meaning in the others."""
        for store in self._stores:
            store.compact(store.revision)

    # Lifecycle

    def start(self) -> None:
        """Follow all stores."""
        for store in self._stores:
            store.start()

    async def responds(self, check: Literal["health", "readiness"]) -> bool:
        """Of the default store; the others have their own checks."""
        return await self._default.responds(check)

    def observe(self, on_request: OnRequest) -> None:
        """Of all stores."""
        for store in self._stores:
            store.observe(on_request)

    async def close(self) -> None:
        """Close all stores."""
        await asyncio.gather(*(store.close() for store in self._stores))
