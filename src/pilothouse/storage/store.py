"""``Store``: the state in memory, its revisions, history and watchers; subclasses make commits durable.

The API server decides what to write; ``MemoryStore``, ``SqliteStore`` and ``EtcdStore`` decide when a staged write is
committed.

Keys are ``<group>/<resource>/<name>`` or ``<group>/<resource>/<namespace>/<name>``; the group is empty for core. A
*prefix* is empty or ends in ``/`` and selects all keys that start with it.

Invariants: reads and watches see exactly the commits so far, each commit atomically; revisions increase and never occur
twice with different content; ``staged`` returns the state against which the next ``stage`` is checked. Each write has
the next revision, except on etcd: there all writes of a transaction have one, and others may have been assigned to keys
outside of the store.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from pilothouse.env import Env
from pilothouse.storage import marks
from pilothouse.storage.cold_values import ColdValues
from pilothouse.storage.errors import CommitFailed, Compacted, FutureRevision, Mismatch, StoreClosed
from pilothouse.storage.history import KEPT, Collection, Retention, Superseded
from pilothouse.storage.ordered_keys import OrderedKeys
from pilothouse.storage.quota import DEFAULT_QUOTA_BYTES, Quota
from pilothouse.storage.records import Change, Page, Record, Staged
from pilothouse.storage.watchers import CAPACITY, Watcher, WatcherIndex, resource_end

FIRST_REVISION = 1
"""The revision of an empty store, as etcd's: the first write gets 2, and "watch from 1" is the whole history."""

Changes = list[Change]
"""The changes of one commit. (A name here, because ``Store.list`` shadows ``list`` in the signatures below it.)"""
Hooks = list[Callable[[Changes], None]]
Marks = list[tuple[float, int]]


class OnRequest(Protocol):
    """Called for each request of a store to its backend: ``get``, ``list``, …; the prefix of the resource, empty for
    all of them; seconds, and whether it failed."""

    def __call__(self, operation: str, kind: str, seconds: float, failed: bool) -> None: ...


_EXPIRY_SECONDS = 10.0
"""While there are writes, history is checked for expired changes at this interval; readers check it again."""
_MARKS = 3600
"""The maximum number of marks that are returned."""


class Store(ABC):
    """A revisioned store of bytes, for one event loop. Its guarantees are in the module docstring."""

    supports_commit_nowait = False
    """Whether ``commit`` never waits."""
    expires = False
    """Whether the store itself removes keys with a limited lifetime (Events)."""
    is_reachable = True
    """Whether the backend can be read and written, as far as is known."""
    is_shared = False
    """Whether other processes write to the same storage. Then ``commit`` may raise ``Mismatch``, and a read sees their
    writes after ``catch_up`` has returned."""
    failed_writes = 0
    """How many staged writes have failed that later calls of ``stage`` could already see."""
    changes_by_others = 0
    """How many changes by other processes have become visible."""

    def __init__(
        self,
        env: Env,
        *,
        retention: Retention = KEPT,
        records: Iterable[Record] = (),
        revision: int = FIRST_REVISION,
        superseded: Superseded | None = None,
        quota: int | None = DEFAULT_QUOTA_BYTES,
    ) -> None:
        """``superseded`` is called with the versions that history drops. ``quota`` limits the bytes of keys and values;
        None if the backend has a quota of its own."""
        self.revision = revision
        """The latest committed revision."""
        self.compacted = revision if revision > FIRST_REVISION else 0
        """History at or below this is compacted. That of a single resource may be shorter, by its own limits."""
        self.retention = retention
        self.on_commit: Hooks = []
        """Called with each commit's changes when they are visible, before tasks that wait for them run. An exception is
        reported to the loop's exception handler, which on the virtual loop ends the run."""
        self.on_commit_of: dict[str, Hooks] = {}
        """The same by the prefix of a whole resource (``/pods/``), called only with its changes: most writes are of
        resources without such a hook."""
        self.on_stage: list[Callable[[Staged], None]] = []
        """Called with each write when it is staged, before ``stage`` returns. May stage related writes: they become
        visible in the same commit."""
        self.on_stage_of: dict[str, list[Callable[[Staged], None]]] = {}
        """``on_stage`` by the prefix of a resource."""
        self._env = env
        self._records: dict[str, Record] = {}
        # Stores of several processes compare records by identity while they wait.
        self._cold_values = None if self.is_shared else ColdValues(self._records)
        self._collections: dict[str, Collection] = {}
        self._watchers = WatcherIndex()
        self._next = revision + 1
        self._newest_staged: dict[str, Staged] = {}
        self._queue: list[Staged] = []
        """Staged, but not committed or being committed; in revision order."""
        self._history_size = 0
        """The total size of all histories."""
        self._superseded = superseded
        self._marks = marks.Marks()
        """(loop time, revision) about once per second: the revision committed at that time."""
        self._expired: tuple[float, int] | None = None
        """The latest mark that was removed from ``_marks``."""
        self._checked_at = -math.inf
        """When expired history was last removed."""
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []
        self._closed = False
        self._load(records)
        self._quota = None if quota is None else Quota(quota, self._records.values())

    def _load(self, records: Iterable[Record]) -> None:
        keys: dict[str, list[str]] = {}
        for record in records:
            self._records[record.key] = record
            prefix = resource_prefix(record.key)
            keys.setdefault(prefix, []).append(record.key)
            if self._cold_values is not None:
                self._cold_values.add(prefix, record)
        for prefix, resource_keys in keys.items():
            self._collections[prefix] = Collection(
                prefix, self.compacted, OrderedKeys(resource_keys), self._superseded, self._cold_values
            )

    # Reading

    @property
    def has_unreadable(self) -> bool:
        """Whether there may be values that can't be read (``storage.unreadable``)."""
        return False

    def get(self, key: str) -> Record | None:
        """The latest committed record."""
        return self._records.get(key)

    def store_for(self, _prefix: str) -> "Store":
        """The store of a resource, by its prefix or a key: this one, except in a ``RoutedStore``."""
        return self

    def stores(self) -> Sequence["Store"]:
        """The stores of all resources: this one, except in a ``RoutedStore``."""
        return (self,)

    def follow(self, prefix: str, hook: Callable[[Changes], None]) -> None:
        """Call ``hook`` with each commit's changes under the prefix of a whole resource (``/pods/``)."""
        if resource_end(prefix) != len(prefix):
            raise ValueError(f"{prefix!r} is not the prefix of a whole resource")
        self.on_commit_of.setdefault(prefix, []).append(hook)

    def follow_staged(self, prefix: str, hook: Callable[[Staged], None]) -> None:
        """Call ``hook`` with each staged write under the prefix of a whole resource, after those of ``on_stage``."""
        if resource_end(prefix) != len(prefix):
            raise ValueError(f"{prefix!r} is not the prefix of a whole resource")
        self.on_stage_of.setdefault(prefix, []).append(hook)

    def staged(self, key: str) -> Record | None:
        """The latest staged record, committed or not, against which the next ``stage`` of this key is checked."""
        newest = self._newest_staged.get(key)
        return self._records.get(key) if newest is None else newest.record

    def list(self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        """The records under ``prefix`` with keys after ``after``, in key order, at most ``limit`` unless it is 0.

        With ``revision``, the state at that revision; raises ``Compacted`` if it is no longer available and
        ``FutureRevision`` if it is not committed yet. Pages of one revision neither overlap nor omit anything.
        """
        after = max(prefix, after)
        end = _range_end(prefix)
        if revision and revision != self.revision:
            return self._list_at(prefix, after, end, limit, revision)
        records = self._records
        collections = self._under(prefix)
        if len(collections) == 1:
            ordered = collections[0].keys
            keys = ordered.range(after, end, limit)
            remaining = ordered.count(after, end) - len(keys) if limit else 0
        else:
            keys = [key for collection in collections for key in collection.keys.range(after, end)]
            remaining = 0
            if limit and limit < len(keys):
                remaining = len(keys) - limit
                del keys[limit:]
        return Page([records[key] for key in keys], self.revision, remaining > 0, remaining)

    def _list_at(self, prefix: str, after: str, end: str | None, limit: int, revision: int) -> Page:
        """A list at an earlier revision: the current state with all later changes undone."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        self._check_not_compacted(prefix, revision)
        current = self._records
        result: list[Record] = []
        total = 0
        for collection in self._under(prefix):
            undone_changes = {
                key: record
                for key, record in collection.undo(revision).items()
                if key > after and (end is None or key < end)
            }
            # Enough for the page, whichever of them did not exist: a page must not cost as much as the whole list.
            keys = collection.keys.range(after, end, limit and limit + len(undone_changes))
            total += collection.keys.count(after, end)
            if undone_changes:
                existing = [key for key, record in undone_changes.items() if record is not None]
                total += len(existing) - sum(key in current for key in undone_changes)
                keys = sorted([*(key for key in keys if key not in undone_changes), *existing])
            if limit:
                del keys[max(limit - len(result), 0) :]
            result += [undone_changes.get(key) or current[key] for key in keys]
        remaining = total - len(result)
        return Page(result, revision, remaining > 0, remaining)

    def count(self, prefix: str) -> int:
        """The number of records under ``prefix``."""
        end = _range_end(prefix)
        return sum(collection.keys.count(prefix, end) for collection in self._under(prefix))

    def counts(self) -> dict[str, tuple[int, int]]:
        """The number of records, and of changes in this process, by the prefix of each resource."""
        return {prefix: (len(collection.keys), collection.written) for prefix, collection in self._collections.items()}

    def size(self) -> int | None:
        """The bytes on disk; None for a store in memory."""
        return None

    def has_any(self, resource: str) -> bool:
        """Whether there is anything under the prefix of a whole resource (``/pods/``); the cheapest check."""
        collection = self._collections.get(resource)
        return collection is not None and len(collection.keys) > 0

    def _under(self, prefix: str) -> Sequence[Collection]:
        """The resources under a prefix, in key order."""
        end = resource_end(prefix)
        if end:
            collection = self._collections.get(prefix[:end])
            return [] if collection is None else [collection]
        return [self._collections[name] for name in sorted(self._collections) if name.startswith(prefix)]

    # Writing

    def next_revision(self) -> int:
        """The revision of the next ``stage``."""
        return self._next

    def stage(
        self,
        key: str,
        make: Callable[[int], bytes] | None,
        *,
        expected: int | None = None,
        last: Callable[[int], bytes] | None = None,
    ) -> Staged:
        """Check a write against the latest staged state and assign the next revision.

        ``make(revision)`` returns the new value. ``make=None`` deletes; ``last(revision)`` then returns the last state
        for watchers (by default the stored value). ``expected`` is None for any state, 0 for absent, or the mod
        revision that the record must have; a deletion always requires a record. Otherwise raises ``Mismatch`` with the
        latest staged record, and ``RequestTooLarge`` or ``DatabaseSpaceExceeded``. If ``make`` raises, nothing is
        staged.

        Call ``commit`` afterwards: until then the write is only visible to later calls of ``stage`` and ``staged``. A
        write without ``commit`` is committed with the next one.
        """
        if self._closed:
            raise StoreClosed("the store is closed")
        newest = self._newest_staged.get(key)
        current = self._records.get(key) if newest is None else newest.record
        if expected is not None and expected != (0 if current is None else current.revision):
            raise Mismatch(key, expected, current)
        revision, resource = self._next, key[: key.find("/", key.find("/") + 1) + 1]  # ``resource_end``
        if make is None:
            if current is None:
                raise Mismatch(key, expected, None)
            value = current.value if last is None else last(revision)
            if self._quota is not None:
                self._quota.delete(current)
            staged = Staged(Change(revision, current.key, "DELETED", value, current), None, resource)
        elif current is None:
            if not resource or resource == key:
                raise _no_key(key)
            value = make(revision)
            if self._quota is not None:
                self._quota.write(key, value, None)
            record = Record(key, value, revision, revision)
            staged = Staged(Change(revision, key, "ADDED", value, None), record, resource)
        else:
            value = make(revision)
            if self._quota is not None:
                self._quota.write(key, value, current)
            key = current.key
            record = Record(key, value, revision, current.created)
            staged = Staged(Change(revision, key, "MODIFIED", value, current), record, resource)
        assert self._next == revision, "``make`` must not stage another write"
        self._next = revision + 1
        self._newest_staged[key] = staged
        self._queue.append(staged)
        for hook in self.on_stage:
            hook(staged)
        if resource in self.on_stage_of:
            for hook in self.on_stage_of[resource]:
                hook(staged)
        return staged

    def commit_nowait(self, staged: Staged) -> None:
        """``commit``, for a store with ``supports_commit_nowait``. Waiting readers in the same process that can take
        the change directly do so before this returns, without being woken."""
        raise NotImplementedError(f"{type(self).__name__} commits asynchronously")

    @abstractmethod
    async def commit(self, staged: Staged) -> None:
        """Return once the write is durable and visible.

        Raises ``CommitFailed`` if it could not be made durable; then every write staged after the last commit has
        failed, and ``staged`` returns the last committed state again. If the wait is cancelled, the result of the write
        is unknown.
        """

    def _apply(self, group: Sequence[Staged], *, direct: bool = False) -> None:
        """Make a group of writes visible: state, history, watchers, in that order, atomically. ``direct`` as in
        ``commit_nowait``."""
        records, collections, retention = self._records, self._collections, self.retention
        newest, hooked = self._newest_staged, self.on_commit_of
        changes: Changes = []
        names: list[str] = []
        followed: dict[str, Changes] | None = None
        for staged in group:
            change = staged.change
            key = change.key
            name = staged.resource
            if name in hooked:
                if followed is None:
                    followed = {}
                followed.setdefault(name, []).append(change)
            collection = collections.get(name)
            if collection is None:
                collection = self._new_collection(name)
            record = staged.record
            if record is None:
                del records[key]
                collection.keys.remove(key)
            else:
                records[key] = record
                if change.old is None:
                    collection.keys.add(key)
            if newest.get(key) is staged:
                del newest[key]
            size = collection.size
            collection.remember(change, retention)
            self._history_size += collection.size - size
            staged.committed = True
            changes.append(change)
            names.append(name)
        self.revision = changes[-1].revision
        if self._history_size > retention.total_bytes:
            self._shrink(retention.total_bytes)
        now = self._env.monotonic()
        self._marks.add(now, self.revision)
        if now - self._checked_at >= _EXPIRY_SECONDS:
            self._expire()
        if self._cold_values is not None and self._cold_values.pending:
            self._cold_values.compress_some()
        if self.on_commit:
            self._call_hooks(self.on_commit, changes)
        if followed is not None:
            for name, resource_changes in followed.items():
                self._call_hooks(self.on_commit_of[name], resource_changes)
        self._watchers.publish(changes, names, direct=direct)
        if self._awaited:
            self._notify_awaited()

    def _new_collection(self, name: str) -> Collection:
        collection = Collection(name, self.compacted, superseded=self._superseded, cold_values=self._cold_values)
        self._collections[name] = collection
        return collection

    def _call_hooks(self, hooks: Hooks, changes: Changes) -> None:
        for hook in tuple(hooks):
            try:
                hook(changes)
            except Exception as error:  # noqa: BLE001  # the writer did nothing wrong: reported to the loop, not raised
                asyncio.get_running_loop().call_exception_handler(
                    {"message": f"a commit hook failed at revision {self.revision}", "exception": error}
                )

    def _discard_staged(self, failed: Sequence[Staged], reason: str) -> None:
        """Drop everything that was staged after the last commit: it was checked against writes that failed."""
        for staged in failed:
            staged.failure = reason
            if staged.waiter is not None and not staged.waiter.done():
                staged.waiter.set_exception(CommitFailed(reason))
        self._newest_staged.clear()
        self._next = self.revision + 1
        if self._quota is not None:
            self._quota.measure(self._records.values())

    def start(self) -> None:  # noqa: B027  # most stores are not shared
        """Start to follow the writes of other processes, in the running loop."""

    async def catch_up(self) -> None:  # noqa: B027  # what is stored is visible
        """Return once everything that was stored at the time of the call is visible."""

    async def responds(self, check: Literal["health", "readiness"]) -> bool:
        """Whether the backend responds within the timeout of a health check."""
        return self.is_reachable

    def observe(self, on_request: OnRequest) -> None:  # noqa: B027  # most stores have no backend
        """Call ``on_request`` for each request to the backend."""

    async def wait_until_decided(self, key: str) -> None:  # noqa: B027  # see ``flush``
        """Return when the staged writes of the key are decided."""

    def has_failed_since(self, key: str, since: int) -> bool:
        """Whether a staged write of the key has failed since ``failed_writes`` had that value."""
        return False

    async def is_stale(self, record: Record) -> bool:
        """Whether a record has to be written again even without changes, because its stored form is outdated."""
        return False

    async def read_at_revision(self, prefix: str, revision: int, *, after: str = "", limit: int = 0) -> "Store":
        """A store with the state under the prefix, after a key, at a revision that only the backend of a shared store
        may still have; with a limit it may have no more than a page. Raises ``Compacted``."""
        raise Compacted(revision, self.compacted)

    async def flush(self) -> None:  # noqa: B027  # see there
        """Return when all staged writes are decided. If all staged writes are committed together this is immediately
        after ``commit``."""

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until ``revision`` is committed."""
        if revision > self.revision:
            waiter = asyncio.get_running_loop().create_future()
            awaited = (revision, waiter)
            self._awaited.append(awaited)
            try:
                await waiter
            except asyncio.CancelledError:
                # Otherwise it would be kept until the next write, and requests for a future revision time out before.
                if awaited in self._awaited:
                    self._awaited.remove(awaited)
                raise

    def _notify_awaited(self) -> None:
        waiting = []
        for revision, waiter in self._awaited:
            if waiter.done():
                continue
            if self._closed:
                waiter.set_exception(StoreClosed("the store is closed"))
            elif revision <= self.revision:
                waiter.set_result(None)
            else:
                waiting.append((revision, waiter))
        self._awaited = waiting

    # Watches and history

    def watch(self, prefix: str, after: int, *, capacity: int = CAPACITY) -> Watcher:
        """Every change after revision ``after`` under ``prefix``; a prefix that does not end in ``/`` is a single key.

        Starts with changes that are already committed. ``after`` may be a future revision. Raises ``Compacted`` if
        history after it is not available. Close the watcher when done.
        """
        if self._closed:
            raise StoreClosed("the store is closed")
        one_key = bool(prefix) and not prefix.endswith("/")
        if one_key:
            resource_prefix(prefix)
        backlog: list[Change] = []
        if after < self.revision:
            self._check_not_compacted(prefix, after)
            collections = self._under(prefix)
            for collection in collections:
                backlog += collection.since(after)
            if len(collections) > 1:
                backlog.sort(key=lambda change: change.revision)
            if one_key:
                backlog = [change for change in backlog if change.key == prefix]
            elif resource_end(prefix) != len(prefix):
                backlog = [change for change in backlog if change.key.startswith(prefix)]
        watcher = Watcher(self._watchers, prefix, after, backlog, capacity)
        self._watchers.add(watcher)
        return watcher

    def _check_not_compacted(self, prefix: str, revision: int) -> None:
        self._expire()
        oldest = max((collection.floor for collection in self._under(prefix)), default=0)
        oldest = max(oldest, self.compacted)
        if revision < oldest:
            raise Compacted(revision, oldest)

    def compact(self, revision: int) -> None:
        """Drop all history at or below ``revision``. The current state is not changed."""
        revision = min(revision, self.revision)
        if revision > self.compacted:
            self.compacted = revision
            for collection in self._collections.values():
                # The floors of other resources do not matter: ``compacted`` is above them.
                changes = collection.changes
                if changes and changes[0].revision <= revision:
                    self._history_size -= collection.size
                    collection.forget(revision)
                    self._history_size += collection.size

    def _shrink(self, size: int) -> None:
        """Drop the oldest changes of the resources with the most history. Slightly more than necessary, so that this is
        not done with each write."""
        size -= size // 128
        while self._history_size > size:
            largest = max(self._collections.values(), key=lambda collection: collection.size)
            old_size, target = largest.size, largest.size - (self._history_size - size)
            while largest.changes and largest.size > target:
                largest.drop_oldest()
            self._history_size -= old_size - largest.size

    def changes(self, prefix: str) -> Changes:
        """The available changes of a whole resource (``/pods/``), oldest first. May be called after the loop has
        ended."""
        if _is_in_a_loop():
            self._expire()
        collection = self._collections.get(prefix)
        return [] if collection is None else [*collection.changes]

    def history_floor(self, prefix: str) -> int:
        """The revision at or below which changes of a whole resource were dropped."""
        collection = self._collections.get(prefix)
        return max(self.compacted, 0 if collection is None else collection.floor)

    def revision_at(self, seconds_ago: float) -> int:
        """The latest revision this many seconds ago, with a resolution of about a second.

        Raises ``Compacted`` if the history is too short.
        """
        self._expire()
        revision = self._marks.revision_at(self._env.monotonic() - seconds_ago)
        if revision is not None:
            return revision
        if self._expired is not None and seconds_ago <= self.retention.seconds:
            return self._expired[1]  # The last write before the retention period, and none since.
        raise Compacted(0, self.compacted)

    def seconds_since(self, revision: int) -> float | None:
        """How long ago a revision was committed, accurate to about a second; None if unknown."""
        self._expire()
        committed_at = self._marks.time_at(revision)
        return None if committed_at is None else self._env.monotonic() - committed_at

    def history_marks(self, limit: int = _MARKS) -> Marks:
        """(seconds ago, revision), oldest first, at most two per second, and at most ``limit``.

        A commit after a mark happened between the times of this mark and the next one.
        """
        self._expire()
        now = self._env.monotonic()
        return [(now - committed_at, revision) for committed_at, revision in self._marks.sample(limit)]

    def _expire(self) -> None:
        """Drop history that is older than the retention period; checked at most once per second."""
        now = self._env.monotonic()
        if now - self._checked_at < marks.SECONDS:
            return
        self._checked_at = now
        history_marks = self._marks
        history_marks.settle(now)
        if not history_marks:
            history_marks.add(now, self.revision)
        for prefix, seconds in self.retention.brief:
            collection = self._collections.get(prefix)
            floor = history_marks.revision_at(now - seconds) if collection is not None else None
            if collection is not None and floor is not None and floor > collection.floor:
                size = collection.size
                collection.forget(floor)
                self._history_size += collection.size - size
        expired = history_marks.expire(now - self.retention.seconds)
        if expired is not None:
            self._expired = expired
            self.compact(expired[1])

    # Closing

    async def close(self) -> None:
        """Commit the staged writes, end every watcher, and accept no more writes. Reads still work.

        Idempotent.
        """
        self._closed = True
        for watcher in self._watchers:
            watcher.close()
        self._notify_awaited()


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def newest_revision(records: Iterable[Record]) -> int:
    """The revision of a store that starts with these records."""
    return max((record.revision for record in records), default=FIRST_REVISION)


def resource_prefix(key: str) -> str:
    """``<group>/<resource>/``, the prefix of the keys of all objects of that resource. Raises ``ValueError`` for an
    invalid key."""
    end = resource_end(key)
    if not end or end == len(key):
        raise _no_key(key)
    return key[:end]


def _no_key(key: str) -> ValueError:
    return ValueError(f"{key!r} is no key: <group>/<resource>/[<namespace>/]<name> is")


def _range_end(prefix: str) -> str | None:
    """The first string after everything under the prefix."""
    if not prefix:
        return None
    if not prefix.endswith("/"):
        raise ValueError(f"{prefix!r} is no prefix: one is empty or ends in a slash")
    return prefix[:-1] + "0"  # "0" follows "/"
