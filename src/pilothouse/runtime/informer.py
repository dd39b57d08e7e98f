"""Shared informers: one watch, one cache, many handlers.

What a ``SharedInformer`` guarantees, as client-go's does:

* The cache follows the API server: every state it shows was the server's at some time, and it catches up in the end.
  It need not show every state in between.
* Handlers are called in the order in which they were added, each notification completely before the next. Per object
  they see ``on_add``, any number of ``on_update``, ``on_delete``, then perhaps ``on_add`` again.
* When a handler runs, the cache shows the state that the notification is about, or a newer one.
* An object that was deleted and created again while no watch was open is one ``on_update`` with two uids. One that
  vanished then is an ``on_delete`` with ``final_state_unknown``: the object is the last state known.
* Objects that a new list shows unchanged are not delivered. At each resync of a handler all of them are, as
  ``on_update(obj, obj)``.
* An exception in a handler is logged and counted; the other handlers and the next events are served.

Handlers are plain functions that add keys to a queue. They run on the loop, one after the other; there are no
buffers, so a slow handler slows everything.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.client import Client, WatchEvent
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.causes import SYNC
from pilothouse.machinery.metrics import Histogram, Registry
from pilothouse.machinery.names import object_key
from pilothouse.machinery.splice import without_managed_fields
from pilothouse.runtime.cache import Cache, Cached
from pilothouse.runtime.crash_handler import CrashHandler
from pilothouse.runtime.dispatch import DISPATCH
from pilothouse.runtime.reflector import EVENTS_PER_TURN, Item, Reflector

T = TypeVar("T", bound=Cached)
_set = msgspec.structs.force_setattr

MIN_RESYNC_SECONDS = 12 * 3600.0
"""``--min-resync-period``; a factory stretches it once by a random factor in [1, 2)."""


def _nothing(*_args: object) -> None:
    return None


class Registration(Generic[T]):
    """One handler of an informer. ``remove`` stops its notifications; ``has_synced`` is true after it has received the
    initial list."""

    __slots__ = ("_informer", "next_resync", "on_add", "on_delete", "on_update", "resync_seconds")

    def __init__(
        self,
        informer: "SharedInformer[T]",
        on_add: Callable[[T, bool], object],
        on_update: Callable[[T, T], object],
        on_delete: Callable[[T, bool], object],
        resync_seconds: float,
    ) -> None:
        self._informer = informer
        self.on_add = on_add
        self.on_update = on_update
        self.on_delete = on_delete
        self.resync_seconds = resync_seconds
        self.next_resync = 0.0

    @property
    def has_synced(self) -> bool:
        """Whether the handler has received everything in the first list."""
        return self._informer.has_synced

    def remove(self) -> None:
        """No further calls, not even for a list that is being delivered."""
        self.on_add = self.on_update = self.on_delete = _nothing
        self.resync_seconds = 0.0
        self._informer._remove(self)


class SharedInformer(Generic[T]):
    """See the module. Get one from ``InformerFactory.informer``. Indexes and handlers can be added at any time."""

    def __init__(
        self,
        client: Client,
        env: Env,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        keep_raw: bool = False,
        resync_seconds: float = 0.0,
        stream_first: bool = True,
        not_served_hint: str = "",
        name: str = "",
        metrics: Registry | None = None,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.label_selector = label_selector
        self.field_selector = field_selector
        self.resync_seconds = max(resync_seconds, 0.0)
        self._env = env
        self._resource = kind.group_resource
        self._log = Log("informer")
        self._crash_handler = CrashHandler(self._log, kind.group_resource, metrics)
        self.cache: Cache[T] = Cache(kind.group_resource, keep_raw=keep_raw, crash_handler=self._crash_handler)
        self._handlers: tuple[Registration[T], ...] = ()
        self._synced = False
        self._waiters: list[asyncio.Future[None]] = []
        self._resync_changed: asyncio.Event = asyncio.Event()
        self._replacing = False
        self._version_before_replace = ""
        self._reflector = Reflector(
            client,
            env,
            kind,
            self,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            keep_raw=keep_raw,
            stream_first=stream_first,
            not_served_hint=not_served_hint,
        )
        self._task: asyncio.Task[None] | None = None
        self._started = False
        self._stopped = False
        self._latency: Histogram | None = None
        self._unregister: Callable[[], None] = _nothing
        if metrics is not None:
            self._register_metrics(metrics, name)

    # For controllers

    @property
    def selects_all(self) -> bool:
        """Whether every object of its kind is in the cache."""
        return not (self.namespace or self.label_selector or self.field_selector)

    @property
    def has_synced(self) -> bool:
        """Whether the cache is filled and all handlers have received the first list."""
        return self._synced

    @property
    def stopped(self) -> bool:
        """Whether it ran and no longer does. It cannot run again."""
        return self._stopped

    @property
    def replacing(self) -> bool:
        """Whether the cache has a new list that handlers have not received completely, so that their own state is
        older."""
        return self._replacing

    @property
    def read_version(self) -> str:
        """The version that handlers have received in full: behind the cache's while a new list is delivered."""
        return self._version_before_replace if self._replacing else self.cache.resource_version

    @property
    def last_version(self) -> str:
        """The version up to which the reflector has read (``LastSyncResourceVersion``)."""
        return self._reflector.last_version

    async def wait_synced(self) -> None:
        """Return once ``has_synced``. Raises ``RuntimeError`` if the informer is stopped before."""
        if self._synced:
            return
        if self._stopped:
            raise RuntimeError(f"the informer of {self.kind.group_resource} was stopped before it had synced")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def add_handler(
        self,
        on_add: Callable[[T, bool], object] | None = None,
        on_update: Callable[[T, T], object] | None = None,
        on_delete: Callable[[T, bool], object] | None = None,
        *,
        predicate: Callable[[T], bool] | None = None,
        resync_seconds: float | None = None,
    ) -> Registration[T]:
        """Call these from now on. ``on_add(obj, initial)``, ``on_update(old, new)``, ``on_delete(obj,
        final_state_unknown)``.

        Before this returns, ``on_add(obj, True)`` is called for all cached objects, sorted by key. With ``predicate``
        the handler gets only matching objects: an update after which an object starts or stops matching is an add or a
        delete. ``resync_seconds`` overrides the informer's; 0: no resync, less than 0: the informer's.
        """
        if self._stopped:
            raise RuntimeError(f"the informer of {self.kind.group_resource} is stopped, no handler can be added")
        add, update, delete = on_add or _nothing, on_update or _nothing, on_delete or _nothing
        if predicate is not None:
            add, update, delete = _filtered(predicate, add, update, delete)
        # client-go: determineResyncPeriod
        period = self.resync_seconds if resync_seconds is None or resync_seconds < 0 else resync_seconds
        if 0 < period < 1.0:
            period = 1.0  # client-go: minimumResyncPeriod
        handler = Registration(self, add, update, delete, period)
        if period and self._started:
            handler.next_resync = self._env.monotonic() + period
        if len(self.cache):
            for obj in self.cache.list():
                self._deliver_existing(handler, obj)
        self._handlers = (*self._handlers, handler)
        self._resync_changed.set()
        return handler

    def _deliver_existing(self, handler: Registration[T], obj: T) -> None:
        outer = DISPATCH.type, DISPATCH.resource, DISPATCH.metadata  # this may be called by a handler
        DISPATCH.begin(SYNC, self._resource, obj.metadata)
        self._crash_handler.call(handler.on_add, obj, True)
        DISPATCH.type, DISPATCH.resource, DISPATCH.metadata = outer

    def _remove(self, handler: Registration[T]) -> None:
        self._handlers = tuple(registration for registration in self._handlers if registration is not handler)
        self._resync_changed.set()

    # Running

    async def run(self) -> None:
        """List, watch and deliver until cancelled. Can run once."""
        if self._started:
            raise RuntimeError(f"the informer of {self.kind.group_resource} can run only once")
        self._started = True
        now = self._env.monotonic()
        for handler in self._handlers:
            handler.next_resync = now + handler.resync_seconds
        try:
            async with TaskGroup(f"informer {self.kind.group_resource}") as group:
                group.start(self._resync_loop(), name=f"resync-{self.kind.group_resource}")
                await self._reflector.run()
        finally:
            self._on_stopped()

    def start(self, group: TaskGroup) -> None:
        """Run as a task of ``group``."""
        assert self._task is None, f"the informer of {self.kind.group_resource} is started once"
        self._task = group.start(self.run(), name=f"informer-{self.kind.group_resource}")

    def stop(self) -> None:
        """Stop ``run`` if it was started by ``start``. The cache keeps its objects; handlers are not called."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
        if not self._started:
            self._on_stopped()  # a task that is cancelled before its first step does not run its finally

    def _on_stopped(self) -> None:
        self._stopped = True
        self._unregister()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(
                    RuntimeError(f"the informer of {self.kind.group_resource} was stopped before it had synced")
                )
                waiter.exception()  # do not report a waiter that is cancelled at the same time as never awaited
        self._waiters.clear()

    # The reflector's side

    async def replace(self, items: dict[str, Item[T]], unreadable: frozenset[str], resource_version: str) -> None:
        """Replace the cache, then notify: deletions first, then new and changed objects in the order of the list."""
        cache, handlers, call = self.cache, self._handlers, self._crash_handler.call
        objects: dict[str, T] = {key: item.object for key, item in items.items()}
        raw: dict[str, bytes] = {}
        if cache.keep_raw:
            raw = {key: without_managed_fields(item.raw) for key, item in items.items()}
        for key in sorted(unreadable):
            # The object exists but cannot be decoded. Keep the old version: reporting a deletion would be worse.
            cached = cache.get(key)
            if cached is not None:
                objects[key] = cached
                old_raw = cache.raw(key)
                if old_raw is not None:
                    raw[key] = old_raw
        old_objects = cache.snapshot()
        for key, old in old_objects.items():
            # Handlers are not called for unchanged objects and keep the old ones, so the cache keeps them too.
            new = objects.get(key)
            if new is not None and _version_of(old) == _version_of(new):
                objects[key] = old
        initial = not self._synced
        self._version_before_replace = cache.resource_version
        self._replacing = True
        cache.replace(objects, raw, resource_version)
        started = self._env.perf_counter()
        count = 0
        # A handler that is added in the meantime has received the new state, and is not in ``handlers``.
        for key, old in old_objects.items():
            if key not in objects:
                DISPATCH.begin("DELETED", self._resource, old.metadata)
                for handler in handlers:
                    call(handler.on_delete, old, True)
                DISPATCH.end()
                count += 1
                if count % EVENTS_PER_TURN == 0:
                    await asyncio.sleep(0)
        for key, obj in objects.items():
            previous = old_objects.get(key)
            if previous is None:
                DISPATCH.begin(SYNC if initial else "ADDED", self._resource, obj.metadata)
                for handler in handlers:
                    call(handler.on_add, obj, initial)
            elif previous.metadata.resource_version != obj.metadata.resource_version:
                DISPATCH.begin("MODIFIED", self._resource, obj.metadata)
                for handler in handlers:
                    call(handler.on_update, previous, obj)
            else:
                continue
            DISPATCH.end()
            count += 1
            if count % EVENTS_PER_TURN == 0:
                await asyncio.sleep(0)
        self._replacing = False
        self._resync_changed.set()
        if self._latency is not None:
            self._latency.observe(self._env.perf_counter() - started)
        if not self._synced:
            self._synced = True
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def apply(self, events: list[WatchEvent[T]], *, record_version: bool) -> None:
        """Apply each change to the cache and notify. The cache, not the event, determines whether it is an add or an
        update."""
        cache, report = self.cache, self._crash_handler.report
        put, keep_raw = cache.put, cache.keep_raw
        dispatch = DISPATCH
        dispatch.resource = self._resource
        latency, clock = self._latency, self._env.loop_time or self._env.perf_counter
        started = clock() if latency is not None else 0.0
        for event in events:
            handlers = self._handlers  # a handler may add another handler, which receives the cached objects
            obj = event.object
            meta = obj.metadata
            key = event.key or object_key(meta)
            if record_version:
                cache.resource_version = meta.resource_version
            old = None
            if event.type == "DELETED":
                cache.drop(key)
            else:
                old = put(key, obj, without_managed_fields(event.raw) if keep_raw else None)
                if old is not None:
                    old_meta = old.metadata
                    if old_meta.resource_version == meta.resource_version:
                        continue
                    if old_meta.uid is not meta.uid and old_meta.uid == meta.uid:
                        # Other state keeps the strings of the first version: all versions share them.
                        _set(meta, "uid", old_meta.uid)
                        _set(meta, "name", old_meta.name)
            dispatch.type, dispatch.metadata = event.type, meta
            for handler in handlers:
                try:
                    if old is not None:
                        handler.on_update(old, obj)
                    elif event.type == "DELETED":
                        handler.on_delete(obj, False)
                    else:
                        handler.on_add(obj, False)
                except Exception as error:  # noqa: BLE001  # ``CrashHandler.call``, without a call of its own for each handler
                    is_deleted = event.type == "DELETED"
                    report(
                        handler.on_update if old is not None else handler.on_delete if is_deleted else handler.on_add,
                        error,
                    )
        dispatch.end()
        if latency is not None:
            latency.observe(clock() - started)

    def bookmark(self, resource_version: str) -> None:
        """Nothing else happened up to this version: the consistency store may rely on it."""
        self.cache.resource_version = resource_version

    # Resync

    async def _resync_loop(self) -> None:
        loop = asyncio.get_running_loop()
        await self.wait_synced()
        while True:
            self._resync_changed.clear()
            # While a list is being delivered, handlers have not received all objects that a resync would deliver.
            waiting = () if self._replacing else self._handlers
            due_at = min((h.next_resync for h in waiting if h.resync_seconds), default=None)
            timer = None if due_at is None else loop.call_at(due_at, self._resync_changed.set)
            try:
                await self._resync_changed.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            now = loop.time()
            due = [h for h in self._handlers if h.resync_seconds and h.next_resync <= now]
            if due and not self._replacing:
                for handler in due:
                    handler.next_resync = now + handler.resync_seconds
                await self._resync(due)

    async def _resync(self, handlers: list[Registration[T]]) -> None:
        self._log.info("Forcing resync", v=4, type=self.kind.group_resource)
        for count, obj in enumerate(self.cache.list(), 1):
            # Objects that changed since the list was delivered are delivered as updates.
            if self.cache.get(object_key(obj.metadata)) is obj:
                DISPATCH.begin(SYNC, self._resource, obj.metadata)
                for handler in handlers:
                    self._crash_handler.call(handler.on_update, obj, obj)
                DISPATCH.end()
            if count % EVENTS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _register_metrics(self, metrics: Registry, name: str) -> None:
        labels = ("name", "group", "version", "resource")
        kind = self.kind
        values = (name, kind.group, kind.version, kind.resource)
        # There is no queue between watch and cache here: upstream's metric is always 0.
        metrics.gauge("informer_queued_items", "[ALPHA] Number of items currently queued in the FIFO.", labels).labels(
            *values
        )
        self._latency = metrics.histogram(
            "informer_processing_latency_seconds",
            "[ALPHA] Time taken to process events after popping from the queue.",
            labels,
            (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
        ).labels(*values)
        version = metrics.gauge(
            "informer_store_resource_version",
            "[ALPHA] The 15 least significant digits of the resource version of the store.",
            labels,
        ).labels(*values)

        def refresh() -> None:
            digits = self.cache.resource_version[-15:]
            version.set(float(digits) if digits.isdigit() else 0.0)

        self._unregister = metrics.on_collect(refresh)


def _filtered(
    predicate: Callable[[T], bool],
    add: Callable[[T, bool], object],
    update: Callable[[T, T], object],
    delete: Callable[[T, bool], object],
) -> tuple[Callable[[T, bool], object], Callable[[T, T], object], Callable[[T, bool], object]]:
    def on_add(obj: T, initial: bool) -> None:
        if predicate(obj):
            add(obj, initial)

    def on_update(old: T, new: T) -> None:
        was, is_ = predicate(old), predicate(new)
        if was and is_:
            update(old, new)
        elif is_:
            add(new, False)
        elif was:
            delete(old, False)

    def on_delete(obj: T, final_state_unknown: bool) -> None:
        if predicate(obj):
            delete(obj, final_state_unknown)

    return on_add, on_update, on_delete


def _version_of(obj: Cached) -> tuple[str, str]:
    return obj.metadata.uid, obj.metadata.resource_version


def _key(kind: Kind[Any], *selection: str) -> tuple[Any, ...]:
    return (kind.group, kind.resource, kind.metadata_only, kind.view, *selection)


class InformerFactory:
    """Returns the same informer to all controllers of a program that use the same selection.

    Informers that exist before ``start`` are started by it, later ones immediately; handlers that are added without an
    await in between miss nothing. ``resync_seconds`` None: a random resync period as upstream's, 12 h × [1, 2), once
    per factory. ``not_served_hints`` are logged for resources (``websites.example.com``) that the API server does not
    serve.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        name: str = "",
        metrics: Registry | None = None,
        resync_seconds: float | None = None,
        min_resync_seconds: float = MIN_RESYNC_SECONDS,
        stream_first: bool = True,
        not_served_hints: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._env = env
        self._name = name
        self._metrics = metrics
        if resync_seconds is None:
            resync_seconds = min_resync_seconds * (1.0 + env.stream("resync").random())
        self.resync_seconds = resync_seconds
        """The period that handlers of its informers get."""
        self._stream_first = stream_first
        self._not_served_hints = not_served_hints or {}
        self._informers: dict[tuple[Any, ...], SharedInformer[Any]] = {}
        self._not_offered: set[tuple[Any, ...]] = set()  # never iterated
        self._raw: set[tuple[Any, ...]] = set()  # never iterated
        self._group: TaskGroup | None = None

    def keep_raw(
        self, kind: Kind[Any], *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> None:
        """Keep the JSON of objects in this informer, even if its first user does not need it."""
        self._raw.add(_key(kind, namespace, label_selector, field_selector))

    def informer(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        keep_raw: bool = False,
        offer: bool = True,
    ) -> SharedInformer[T]:
        """The informer of that kind and selection; the same one for all readers with the same view.

        ``keep_raw`` also keeps each object's JSON, for controllers that write whole objects. It must be set before the
        informer starts. ``offer=False`` hides it from callers that accept any view (``existing``), because this view
        lacks fields that they need.
        """
        key = _key(kind, namespace, label_selector, field_selector)
        existing = self._informers.get(key)
        if existing is not None:
            if keep_raw and not existing.cache.keep_raw:
                if existing._started:
                    raise RuntimeError(
                        f"the informer of {kind.group_resource} runs without raw objects; ask for keep_raw earlier"
                    )
                existing.cache.keep_raw = True
                existing._reflector._keep_raw = True
            return cast("SharedInformer[T]", existing)
        informer = SharedInformer(
            self._client,
            self._env,
            kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            keep_raw=keep_raw or key in self._raw,
            resync_seconds=self.resync_seconds,
            stream_first=self._stream_first,
            not_served_hint=self._not_served_hints.get(kind.group_resource, ""),
            name=self._name,
            metrics=self._metrics,
        )
        self._informers[key] = informer
        if not offer:
            self._not_offered.add(key)
        if self._group is not None:
            informer.start(self._group)
        return informer

    def existing(self, group: str, version: str, resource: str) -> SharedInformer[Any] | None:
        """An informer of all objects of that resource, of any view, if there is one already."""
        for key, informer in self._informers.items():
            kind = informer.kind
            is_same = (kind.group, kind.version, kind.resource) == (group, version, resource)
            if is_same and informer.selects_all and key not in self._not_offered:
                return informer
        return None

    @property
    def informers(self) -> list[SharedInformer[Any]]:
        """All informers, in the order of creation."""
        return list(self._informers.values())

    def start(self, group: TaskGroup) -> None:
        """Start all informers, and from now on every new one, as tasks of ``group``."""
        self._group = group
        for informer in self._informers.values():
            if informer._task is None:
                informer.start(group)

    async def wait_synced(self) -> None:
        """Wait until all existing informers have synced. Informers that are stopped in the meantime are ignored."""
        for informer in self.informers:
            try:
                await informer.wait_synced()
            except RuntimeError:
                if not informer.stopped:
                    raise

    def stop(self, kind: Kind[Any]) -> None:
        """Stop and remove all informers of that resource in that version; a later request creates a new one.

        Of two controllers that replace a version, the second one must not stop what the first one has started."""
        for key, informer in list(self._informers.items()):
            same_version = informer.kind.version == kind.version
            if same_version and (kind.group, kind.resource, kind.metadata_only) == key[:3]:
                informer.stop()
                del self._informers[key]
