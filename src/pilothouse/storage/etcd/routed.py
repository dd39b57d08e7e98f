"""Resources on etcds of their own (``--etcd-servers-overrides``): one store that leads to several.

Each etcd has revisions of its own, so that resourceVersions of a resource on another etcd are of another sequence, as
with kube-apiserver. ``of`` gives the store of a resource; what is asked without a resource (``revision``, ``size``,
marks of history) is about the default one, that of ``--etcd-servers``.

A write is one transaction of its own etcd. What hooks stage with it elsewhere, such as the ResourceQuota that a pod is
charged to, is stored after it, in a transaction of the other one.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.etcd.store import EtcdStore
from pilothouse.storage.records import Page, Record, Staged
from pilothouse.storage.store import Changes, Hooks, Marks, OnRequest, Store
from pilothouse.storage.watchers import CAPACITY, Watcher, resource_end

LocationOf = Callable[[str], int]
"""Which of the stores has a resource, by its prefix (``apps/deployments/``); 0 is the default one."""


class KeysOfLocation:
    """The keys of one etcd. What it has of resources that are kept elsewhere is not looked at."""

    def __init__(self, keys: Keys, location_of: LocationOf, location: int) -> None:
        self.root = keys.root
        self.etcd_key = keys.etcd_key
        self._keys = keys
        self._location_of = location_of
        self._location = location

    def key(self, etcd_key: str) -> str | None:
        """As the store has it; None for what belongs elsewhere."""
        key = self._keys.key(etcd_key)
        return None if key is None or self._location_of(key[: resource_end(key)]) != self._location else key


class RoutedStore(Store):
    """Leads to the store of each resource. It has no state of its own."""

    expires = True
    is_shared = True

    def __init__(self, stores: Sequence[EtcdStore], location_of: LocationOf) -> None:
        """The first of them is the default one. Hooks are called for the changes of all."""
        # Without that of ``Store``: what it sets up is in the stores, and hooks are shared with them.
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

    def of(self, prefix: str) -> EtcdStore:
        """The store of a resource, or of a key of it."""
        return self._stores[self._location_of(prefix[: resource_end(prefix)])]

    def parts(self) -> Sequence[EtcdStore]:
        """All of them, the default one first."""
        return self._stores

    @property
    def revision(self) -> int:  # type: ignore[override]  # it is that of another store
        """Of the default one."""
        return self._default.revision

    @property
    def compacted(self) -> int:  # type: ignore[override]  # it is that of another store
        """Of the default one."""
        return self._default.compacted

    @property
    def is_reachable(self) -> bool:  # type: ignore[override]  # as above
        """Whether all are."""
        return all(store.is_reachable for store in self._stores)

    @property
    def has_unreadable(self) -> bool:
        """Whether any has values that can't be read."""
        return any(store.has_unreadable for store in self._stores)

    # Reading

    def get(self, key: str) -> Record | None:
        """As every store."""
        return self.of(key).get(key)

    def staged(self, key: str) -> Record | None:
        """As every store."""
        return self.of(key).staged(key)

    def list(self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        """As every store; of several resources, what all have now."""
        if resource_end(prefix):
            return self.of(prefix).list(prefix, after=after, limit=limit, revision=revision)
        records = [record for store in self._stores for record in store.list(prefix, after=after).records]
        records.sort(key=lambda record: record.key)
        remaining = len(records) - limit if limit and limit < len(records) else 0
        return Page(records[:limit] if remaining else records, self.revision, remaining > 0, remaining)

    def count(self, prefix: str) -> int:
        """As every store."""
        stores = [self.of(prefix)] if resource_end(prefix) else self._stores
        return sum(store.count(prefix) for store in stores)

    def counts(self) -> dict[str, tuple[int, int]]:
        """As every store."""
        return {prefix: counts for store in self._stores for prefix, counts in store.counts().items()}

    def has_any(self, resource: str) -> bool:
        """As every store."""
        return self.of(resource).has_any(resource)

    def size(self) -> int | None:
        """Of the default one."""
        return self._default.size()

    async def catch_up(self) -> None:
        """Of the default one. Of a resource elsewhere, ask its own (``of``)."""
        await self._default.catch_up()

    async def past(self, prefix: str, revision: int, *, after: str = "", limit: int = 0) -> Store:
        """As every store."""
        return await self.of(prefix).past(prefix, revision, after=after, limit=limit)

    async def reached(self, revision: int) -> None:
        """Of the default one."""
        await self._default.reached(revision)

    def watch(self, prefix: str, after: int, *, capacity: int = CAPACITY) -> Watcher:
        """As every store; of several resources, what the default one has."""
        store = self.of(prefix) if resource_end(prefix) else self._default
        return store.watch(prefix, after, capacity=capacity)

    # Writing

    def next_revision(self) -> int:
        """Of the default one."""
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
        return self.of(key).stage(key, make, expected=expected, last=last)

    async def commit(self, staged: Staged) -> None:
        """As every store. What was staged elsewhere with it is decided as well when this returns."""
        store = self.of(staged.resource)
        await store.commit(staged)
        for other in self._stores:
            if other is not store and other.has_staged:
                await other.flush()

    async def flush(self) -> None:
        """As every store."""
        for store in self._stores:
            await store.flush()

    async def settled(self, key: str) -> None:
        """As every store."""
        await self.of(key).settled(key)

    def was_given_up(self, key: str, since: int) -> bool:
        """As every store; ``since`` is of the store of the key (``of``)."""
        return self.of(key).was_given_up(key, since)

    async def is_stale(self, record: Record) -> bool:
        """As every store."""
        return await self.of(record.key).is_stale(record)

    # History

    def changes(self, prefix: str) -> Changes:
        """As every store."""
        return self.of(prefix).changes(prefix)

    def history_floor(self, prefix: str) -> int:
        """As every store."""
        return self.of(prefix).history_floor(prefix)

    def revision_at(self, seconds_ago: float) -> int:
        """Of the default one."""
        return self._default.revision_at(seconds_ago)

    def seconds_since(self, revision: int) -> float | None:
        """Of the default one."""
        return self._default.seconds_since(revision)

    def history_marks(self, most: int = 3600) -> Marks:
        """Of the default one."""
        return self._default.history_marks(most)

    def compact(self, _revision: int) -> None:
        """Let go of all history, everywhere: a revision of one says nothing of the others."""
        for store in self._stores:
            store.compact(store.revision)

    # Life

    def start(self) -> None:
        """Follow all of them."""
        for store in self._stores:
            store.start()

    async def answers(self, check: Literal["health", "readiness"]) -> bool:
        """Of the default one; the others have checks of their own."""
        return await self._default.answers(check)

    def observe(self, on_request: OnRequest) -> None:
        """Of all."""
        for store in self._stores:
            store.observe(on_request)

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(store.close() for store in self._stores))
