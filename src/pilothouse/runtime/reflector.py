"""Keeps a store up to date with the API server, by list and watch.

The ``informer`` owns a reflector and receives the results as a ``Sink``. It is a state machine:

::

    Begin ──► Streaming ──────────────► Live ──► Reconnecting ──► Live …
                  │ no stream here        │            │
                  ▼                       ▼            ▼
              Listing ──► Reconnecting   Ended ◄───────┘
                  │                       │
                  └────────► Ended ───────┴──► Waiting ──► Begin

There is no fatal error: 403, 404 and connection errors are retried forever, with backoff. Rules and constants are those
of client-go v0.36 ``tools/cache/reflector.go``.
"""

import asyncio
from typing import Any, Generic, Protocol, TypeVar, assert_never

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client, Watch, WatchEvent
from pilothouse.client.errors import (
    ApiError,
    Gone,
    InternalError,
    NotFound,
    Timeout,
    TooManyRequests,
    UndecodableObject,
    has_cause,
    is_connection_refused,
)
from pilothouse.env import Env, Log
from pilothouse.machinery.names import object_key
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

BACKOFF_START = 0.8
BACKOFF_FACTOR = 2.0
BACKOFF_CAP = 30.0
BACKOFF_RESET = 120.0
PAGE_SIZE = 500
WATCH_TIMEOUT_SECONDS = (300, 600)
SHORT_WATCH_SECONDS = 1.0
BOOKMARK_WARNING_SECONDS = 10.0
SLOW_LIST_SECONDS = 10.0
GONE_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
EVENTS_PER_TURN = 200
"""After this many events the reflector yields to the event loop."""

_EXPECTED = (ApiError, OSError, ValueError)
"""The exceptions of list and watch: error responses, no response (``TimeoutError`` is an ``OSError``), undecodable
responses."""


class Item(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object as it is stored."""

    object: T
    raw: bytes


class Sink(Protocol[T]):
    """The consumer of a reflector. Its methods are never called concurrently."""

    async def replace(self, items: "dict[str, Item[T]]", unreadable: frozenset[str], resource_version: str) -> None:
        """This is everything there is, except ``unreadable``: those exist but could not be decoded."""
        ...

    def apply(self, events: list[WatchEvent[T]], *, record_version: bool) -> None:
        """These changes happened, in this order; there are no bookmarks. ``record_version``: they are ordered by
        version."""
        ...

    def bookmark(self, resource_version: str) -> None:
        """Nothing else happened up to this version."""
        ...


# States


class Begin(msgspec.Struct, frozen=True):
    """The initial state, or the state must be listed again."""


class Streaming(msgspec.Struct, frozen=True):
    """The state is being read as a stream (WatchList)."""


class Listing(msgspec.Struct, frozen=True):
    """The state is being listed, in pages."""


class Reconnecting(msgspec.Struct, frozen=True):
    """The state is known up to ``last_version``; a watch from there is to be opened."""


class Live(msgspec.Struct, frozen=True):
    """A watch is open. ``ordered``: its events have been in version order since the first one."""

    watch: "Watch[Any]"
    started_at: float
    ordered: bool


class Ended(msgspec.Struct, frozen=True):
    """A list or watch has ended and must be started from the beginning."""

    error: Exception | None
    doing: str


class Waiting(msgspec.Struct, frozen=True):
    """A pause before the given state."""

    then: "Begin | Streaming | Reconnecting"


State = Begin | Streaming | Listing | Reconnecting | Live | Ended | Waiting


class VeryShortWatch(ConnectionError):
    """A watch ended within a second without an event ("very short watch")."""


class Backoff:
    """0.8 s, doubling to 30 s, each stretched by a random factor in [1, 2). Two quiet minutes start it over."""

    __slots__ = ("_at", "_env", "_next", "_stream")

    def __init__(self, env: Env, stream: str) -> None:
        self._env = env
        self._stream = env.stream(stream)
        self._next = BACKOFF_START
        self._at = -BACKOFF_RESET

    def step(self) -> float:
        """The next pause."""
        now = self._env.monotonic()
        if now - self._at > BACKOFF_RESET:
            self._next = BACKOFF_START
        wait = self._next * (1.0 + self._stream.random())
        self._next = min(self._next * BACKOFF_FACTOR, BACKOFF_CAP)
        # The pause itself is no quiet time.
        self._at = now + wait
        return wait


class Reflector(Generic[T]):
    """One kind, one selection, one sink. ``run`` until cancelled.

    ``last_version`` is the latest version that was read. ``stream_first``: use WatchList, and fall back to a list once
    if the server does not support it. ``not_served_hint``: logged with the error that the server does not serve the
    kind.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        kind: Kind[T],
        sink: Sink[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        keep_raw: bool = False,
        stream_first: bool = True,
        page_size: int = 0,
        min_watch_timeout_seconds: int = 0,
        not_served_hint: str = "",
    ) -> None:
        self._client = client
        self._env = env
        self._kind = kind
        self._sink = sink
        self._where: dict[str, str] = {"label_selector": label_selector, "field_selector": field_selector}
        self._namespace = namespace
        self._keep_raw = keep_raw
        self._stream_first = stream_first
        self._page_size = page_size
        low, high = WATCH_TIMEOUT_SECONDS
        min_watch_timeout_seconds = min_watch_timeout_seconds or client.min_watch_seconds
        if min_watch_timeout_seconds > low:
            low, high = min_watch_timeout_seconds, 2 * min_watch_timeout_seconds
        self._timeouts = (low, high)
        self._rng = env.stream("reflector")
        self._backoff = Backoff(env, "reflector-backoff")
        self._log = Log("reflector")
        self._type = kind.group_resource
        self._not_served = f"{_NOT_SERVED}: {not_served_hint}" if not_served_hint else _NOT_SERVED
        self._server_pages = False
        self._unavailable = False
        self._open: Watch[T] | None = None
        self._since_yield = 0
        self._seen = 0
        """How many events the open watch has brought."""
        self._unreadable: set[str] = set()
        self._missing_since: float | None = None
        """Since when the API server has not known the kind, which it has served before."""
        self.last_version = ""
        self.state: State = Begin()

    async def run(self) -> None:
        """List and watch until cancelled."""
        self._log.info("Starting reflector", v=3, type=self._type)
        try:
            while True:
                self.state = await self._step(self.state)
        finally:
            await self._close()
            self._log.info("Stopping reflector", v=3, type=self._type)

    async def _step(self, state: State) -> State:
        match state:
            case Begin():
                self._log.info("Listing and watching", v=3, type=self._type)
                return Streaming() if self._stream_first else Listing()
            case Streaming():
                return await self._stream()
            case Listing():
                return await self._list()
            case Reconnecting():
                return await self._reconnect()
            case Live():
                return await self._follow(state)
            case Ended(error, doing):
                self._report(error, doing)
                return Waiting(Begin())
            case Waiting(then):
                await asyncio.sleep(self._backoff.step())
                return then
            case _:
                assert_never(state)

    # The state as a stream

    async def _stream(self) -> State:
        """Read the current state as ADDED events up to the bookmark that ends it, and keep the watch open."""
        started_at = self._env.monotonic()
        self._unreadable.clear()
        ticker = _BookmarkTicker(self._log, self._type)
        try:
            watch = await self._open_watch(
                resource_version="" if self._unavailable else self.last_version, send_initial_events=True
            )
            items: dict[str, Item[T]] = {}
            event_count = 0
            async for batch in watch:
                for number, event in enumerate(batch):
                    event_count += 1
                    meta = event.object.metadata
                    if event.type == "BOOKMARK":
                        if meta.annotations.get(INITIAL_EVENTS_END) == "true":
                            ticker.stop()
                            return await self._replace_sink(watch, items, meta.resource_version, batch[number + 1 :])
                    elif event.type == "DELETED":
                        items.pop(object_key(meta), None)
                    else:
                        items[object_key(meta)] = Item(event.object, event.raw)
                await self._yield_to_loop(len(batch))
            self._check_short(started_at, event_count)
        except _EXPECTED as error:
            await self._close()
            if _is_retriable(error):
                self._log.info("watch-list failed - backing off", v=2, type=self._type, err=error)
                return Waiting(Streaming())
            if _is_unavailable(error):
                self._unavailable = True
                return Streaming()
            self._log.info(
                "Data could not be fetched in watch-list mode, falling back to list", v=4, type=self._type, err=error
            )
            return Listing()
        finally:
            ticker.stop()
        await self._close()
        return Streaming()

    async def _replace_sink(
        self, watch: "Watch[T]", items: "dict[str, Item[T]]", version: str, rest: "list[WatchEvent[T]]"
    ) -> State:
        self._unavailable = False
        await self._sink.replace(items, frozenset(self._unreadable - items.keys()), version)
        self.last_version = version
        self._missing_since = None
        self._log.info("Caches populated", v=2, type=self._type, objects=len(items))
        live = Live(watch, self._env.monotonic(), ordered=True)
        if rest:
            # Events that arrived in one piece with the bookmark.
            await self._apply_events(rest, live, seen_other=False)
        return live

    # The state as a list

    async def _list(self) -> State:
        version = "" if self._unavailable else (self.last_version or "0")
        started_at = self._env.monotonic()
        try:
            try:
                page = await self._list_at(version)
            except _EXPECTED as error:
                if not _is_unavailable(error):
                    raise
                # That version was compacted, or is not available yet. The latest state is always available: request
                # that.
                self._unavailable = True
                page = await self._list_at("")
        except _EXPECTED as error:
            return Ended(error, "list")
        items, list_version, paged = page
        if version == "0" and paged:
            # Pages at version 0 mean that the server has no watch cache: use pages from now on.
            self._server_pages = True
        took = self._env.monotonic() - started_at
        if took > SLOW_LIST_SECONDS:
            self._log.info("Slow list", type=self._type, objects=len(items), seconds=round(took, 1))
        self._unavailable = False
        await self._sink.replace(items, frozenset(self._unreadable - items.keys()), list_version)
        self.last_version = list_version
        self._missing_since = None
        self._log.info("Caches populated", v=2, type=self._type, objects=len(items))
        return Reconnecting()

    async def _list_at(self, version: str) -> "tuple[dict[str, Item[T]], str, bool]":
        """List all objects at one version, in pages if that helps. Returns them, their version, and whether there were
        pages."""
        if self._page_size:
            limit = self._page_size
        elif version in {"", "0"} or self._server_pages:
            limit = PAGE_SIZE
        else:
            limit = 0  # a list "at least as new" is served from the watch cache only without a limit
        asked_version, token, first_version = version, "", ""
        items: dict[str, Item[T]] = {}
        paged = False
        self._unreadable.clear()
        while True:
            try:
                page = await self._client.list_page(
                    self._kind,
                    self._namespace,
                    limit=limit,
                    continue_=token,
                    resource_version="" if token else asked_version,
                    keep_raw=self._keep_raw,
                    on_undecodable=self._on_undecodable,
                    **self._where,
                )
            except Gone:
                if not token:
                    raise
                # client-go tools/pager: the continue token has expired; list everything in one request, at the original
                # version.
                items, token, first_version, limit = {}, "", "", 0
                self._unreadable.clear()
                continue
            first_version = first_version or page.metadata.resource_version
            for entry in page.items:
                items[object_key(entry.object.metadata)] = Item(entry.object, entry.raw)
            token = page.metadata.continue_
            if not token:
                return items, first_version, paged
            paged = True
            await asyncio.sleep(0)

    # The watch

    async def _reconnect(self) -> State:
        started_at = self._env.monotonic()
        try:
            watch = await self._open_watch(resource_version=self.last_version, send_initial_events=None)
        except _EXPECTED as error:
            await self._close()
            if _is_retriable(error):
                self._log.info("Watch failed - backing off", v=4, type=self._type, err=error)
                return Waiting(Reconnecting())
            return Ended(error, "watch")
        return Live(watch, started_at, ordered=self.last_version not in {"", "0"})

    async def _follow(self, live: Live) -> State:
        self._seen = 0
        seen_other = False
        error: Exception | None = None
        if live.ordered:
            live.watch.deliver_bookmarks_to(self._on_bookmark)
            live.watch.deliver_events_to(self._on_events)
        try:
            async for batch in live.watch:
                self._seen += len(batch)
                seen_other = await self._apply_events(batch, live, seen_other=seen_other)
                batch.clear()  # the next request may be much later, and some of these objects may be deleted by then
        except ConnectionError as lost:
            # client-go's StreamWatcher treats a broken connection as a normal end: the last version is still valid.
            self._log.info("Unexpected end of watch stream", v=1, type=self._type, err=lost)
        except _EXPECTED as failed:
            error = failed
        await self._close()
        if error is None:
            try:
                self._check_short(live.started_at, self._seen)
            except VeryShortWatch as short:
                return Ended(short, "watch")
            return Reconnecting()
        if isinstance(error, TooManyRequests):
            self._log.info("Watch returned 429 - backing off", v=2, type=self._type)
            return Waiting(Reconnecting())
        return Ended(error, "watch")

    def _on_bookmark(self, version: str) -> None:
        self.last_version = version
        self._sink.bookmark(version)

    def _on_events(self, events: "list[WatchEvent[T]]") -> None:
        """Pass on what comes, in the order of versions, without a batch."""
        self._seen += len(events)
        self.last_version = events[-1].object.metadata.resource_version
        self._sink.apply(events, record_version=True)

    async def _apply_events(self, batch: "list[WatchEvent[T]]", live: Live, *, seen_other: bool) -> bool:
        """Deliver one batch. Returns whether any event but ADDED was received so far, for watches without a version.

        Such a watch starts with all objects in no particular order: until it has ended no version may be recorded.
        """
        sink = self._sink
        if len(batch) == 1 and batch[0].type == "BOOKMARK":
            self._on_bookmark(batch[0].object.metadata.resource_version)
            self._since_yield += 1
            return True
        pending: list[WatchEvent[T]] = []
        recording = live.ordered or seen_other
        for event in batch:
            if event.type == "BOOKMARK":
                seen_other = recording = True
                if pending:
                    sink.apply(pending, record_version=recording)
                    pending = []
                self.last_version = event.object.metadata.resource_version
                sink.bookmark(self.last_version)
                continue
            if event.type != "ADDED" and not seen_other:
                if not recording and pending:
                    sink.apply(pending, record_version=False)
                    pending = []
                seen_other = recording = True
            pending.append(event)
            if recording:
                self.last_version = event.object.metadata.resource_version
            if len(pending) >= EVENTS_PER_TURN:
                sink.apply(pending, record_version=recording)
                pending = []
                await asyncio.sleep(0)
        if pending:
            sink.apply(pending, record_version=recording)
        await self._yield_to_loop(len(batch))
        return seen_other

    # Parts

    async def _open_watch(self, *, resource_version: str, send_initial_events: bool | None) -> "Watch[T]":
        low, high = self._timeouts
        watch = self._client.watch(
            self._kind,
            self._namespace,
            resource_version=resource_version,
            allow_bookmarks=True,
            send_initial_events=send_initial_events,
            timeout_seconds=int(low + self._rng.random() * (high - low)),
            keep_raw=self._keep_raw,
            on_undecodable=self._on_undecodable,
            **self._where,
        )
        self._open = watch
        return await watch.__aenter__()

    async def _close(self) -> None:
        watch, self._open = self._open, None
        if watch is not None:
            await watch.close()

    async def _yield_to_loop(self, events: int) -> None:
        # A stream that always has more events would never yield to the event loop.
        self._since_yield += events
        if self._since_yield >= EVENTS_PER_TURN:
            self._since_yield = 0
            await asyncio.sleep(0)

    def _check_short(self, started_at: float, events: int) -> None:
        if events == 0 and self._env.monotonic() - started_at < SHORT_WATCH_SECONDS:
            raise VeryShortWatch(
                f"very short watch: {self._type}: unexpected watch close: watch lasted less than a second and no items "
                "received"
            )

    def _on_undecodable(self, error: UndecodableObject) -> None:
        """An object that cannot be decoded affects only itself: its cached version remains."""
        self._log.error("Object cannot be read, keeping what is cached of it", error=error, type=self._type)
        try:
            meta = _metadata_only.decode(error.raw).metadata
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        if meta.name:
            self._unreadable.add(object_key(meta))

    def _report(self, error: Exception | None, doing: str) -> None:
        if error is None:
            return
        if isinstance(error, Gone):
            self._log.info("Watch closed" if doing == "watch" else "List failed", v=4, type=self._type, err=error)
        elif doing == "watch" and isinstance(error, InternalError | VeryShortWatch):
            self._log.info("Warning: watch ended with error", type=self._type, err=error)
        elif isinstance(error, NotFound) and self._was_recently_served():
            self._log.info("The kind is no longer served", type=self._type, err=error)
        elif isinstance(error, NotFound):
            version = self._kind.version
            self._log.error(f"Failed to {doing}", error=error, type=self._type, version=version, hint=self._not_served)
        else:
            self._log.error(f"Failed to {doing}", error=error, type=self._type)

    def _was_recently_served(self) -> bool:
        """Whether the kind was served a minute ago. Its definition was deleted, and the informer may be stopped (the
        garbage collector checks every 30 seconds)."""
        if not self.last_version:
            return False
        now = self._env.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        return now - self._missing_since < GONE_SECONDS


_NOT_SERVED = "the API server does not serve this version of the kind, or its definition is not established"
_metadata_only = msgspec.json.Decoder(Object)


class _BookmarkTicker:
    """Logs every ten seconds while the bookmark that ends the initial events has not arrived."""

    __slots__ = ("_log", "_loop", "_timer", "_type", "_waited")

    def __init__(self, log: Log, type_: str) -> None:
        self._log = log
        self._type = type_
        self._waited = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(BOOKMARK_WARNING_SECONDS, self._warn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _warn(self) -> None:
        self._waited += BOOKMARK_WARNING_SECONDS
        self._log.warning(
            "Waiting for the bookmark that ends the initial events", type=self._type, seconds=self._waited
        )
        self._timer = self._loop.call_later(BOOKMARK_WARNING_SECONDS, self._warn)


def _is_retriable(error: Exception) -> bool:
    """The server is down or overloaded; the last version is still valid (``isWatchErrorRetriable``)."""
    return is_connection_refused(error) or isinstance(error, TooManyRequests)


def _is_unavailable(error: Exception) -> bool:
    """The server does not have this version: it was compacted, or is not available yet."""
    if isinstance(error, Gone) or has_cause(error, "ResourceVersionTooLarge"):
        return True
    # Servers before 1.17 indicate this only in the message (client-go ``isTooLargeResourceVersionError``).
    return isinstance(error, Timeout) and any("Too large resource version" in cause.message for cause in error.causes)
