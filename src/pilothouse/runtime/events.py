"""The event recorder: reports what happened to an object, without flooding the API server.

Controllers call ``EventRecorder.event``, which never blocks or raises; ``run`` sends the events. The correlator between
them aggregates similar events, counts repeated ones, and drops events beyond a rate. Mirrors client-go v0.36
``tools/record`` (event.go, events_cache.go): each component has its own recorder and limits.
"""

import asyncio
import datetime
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.core import EVENT_TYPE_NORMAL, EVENT_TYPE_WARNING, EVENTS, ObjectReference
from pilothouse.client import Client, NewObject, strategic_merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound, has_cause
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.causes import Moment, begin_sync, current_moment, record_decision, return_to
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.machinery.times import format_time
from pilothouse.runtime.errors import LostLease

NORMAL, WARNING = EVENT_TYPE_NORMAL, EVENT_TYPE_WARNING
QUEUE_LIMIT = 1000
ROOM_LIMIT = 500
ROOM_SECONDS = 1.0
"""``room`` waits while this many events are queued, and at most this long."""
CACHE_ENTRIES = 4096
AGGREGATE_AT = 10
AGGREGATE_SECONDS = 600.0
SPAM_BURST = 25
SPAM_REFILL_SECONDS = 300.0
MAX_TRIES = 12
RETRY_SECONDS = 10.0
SKIP_SECONDS = 1.0
"""How long no events are sent to a namespace that rejected one because it is terminating."""
COMBINED = "(combined from similar events): "

V = TypeVar("V")


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """One event as it is sent."""

    name: str = ""
    """Empty until it is sent for the first time: most events of a rollout are never sent."""
    about: ObjectReference
    type: str
    reason: str
    message: str
    first_at: datetime.datetime
    last_at: datetime.datetime
    count: int = 1
    component: str
    host: str = ""
    moment: Moment = Moment(None, "")
    """What the component was reconciling."""
    reports: bool = True
    """Whether the reporting fields are filled in; a combined event lacks them."""

    @property
    def namespace(self) -> str:
        """Where the event is kept: with its object; for cluster-scoped ones in ``default``."""
        return self.about.namespace or "default"


class _LRUCache(Generic[V]):
    """The newest entries of a map."""

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._entries: dict[tuple[str, ...], V] = {}
        self._limit = limit

    def get(self, key: tuple[str, ...]) -> V | None:
        value = self._entries.pop(key, None)
        if value is not None:
            self._entries[key] = value
        return value

    def put(self, key: tuple[str, ...], value: V) -> None:
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            del self._entries[next(iter(self._entries))]


class _AggregateRecord:
    """The distinct messages of events that are otherwise alike."""

    __slots__ = ("at", "messages")

    def __init__(self) -> None:
        self.at = 0.0
        self.messages: dict[str, None] = {}


class _Recorded(msgspec.Struct, frozen=True, gc=False):
    """What is kept of an event. Its texts are part of the key; a whole event would double the memory of 4,096 entries
    per component."""

    name: str
    first_at: datetime.datetime
    count: int


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, at: float) -> None:
        self.at = at
        self.tokens = float(SPAM_BURST)


class Correlator:
    """Decides whether an event is sent. ``correlate`` returns the event to create or patch, or None if it is dropped.

    1. Aggregate: from the tenth distinct message on within ten minutes of each other, events that differ only in their
       message become one event, ``(combined from similar events): <message>``.
    2. Deduplicate: the same event again keeps its name and first time, and its count rises.
    3. Spam filter: 25 events per object, component and type, then one per five minutes. A dropped event has been
    counted.
    """

    def __init__(self, new_name: "EventNames") -> None:
        self._new_name = new_name
        self._groups: _LRUCache[_AggregateRecord] = _LRUCache(CACHE_ENTRIES)
        self._seen: _LRUCache[_Recorded] = _LRUCache(CACHE_ENTRIES)
        self._spam: _LRUCache[_Bucket] = _LRUCache(CACHE_ENTRIES)

    def correlate(self, event: Occurrence, now: float, at: datetime.datetime) -> Occurrence | None:
        """``now`` is loop time, ``at`` the wall clock."""
        about = event.about
        source = (event.component, event.host, about.kind, about.namespace, about.name, about.uid, about.api_version)
        event, identity = self._aggregate(event, (*source, event.type, event.reason), now, at)
        previous = self._seen.get(identity)
        if previous is not None:
            event = msgspec.structs.replace(
                event, name=previous.name, first_at=previous.first_at, count=previous.count + 1
            )
        passes = self._try_accept((*source, event.type), now)
        if passes and not event.name:
            event = msgspec.structs.replace(event, name=self._new_name.next(about.name, event.last_at))
        self._seen.put(identity, _Recorded(event.name, event.first_at, event.count))
        return event if passes else None

    def _aggregate(
        self, event: Occurrence, key: tuple[str, ...], now: float, at: datetime.datetime
    ) -> tuple[Occurrence, tuple[str, ...]]:
        group = self._groups.get(key)
        if group is None or now - group.at > AGGREGATE_SECONDS:
            group = _AggregateRecord()
        group.messages[event.message] = None
        group.at = now
        self._groups.put(key, group)
        if len(group.messages) < AGGREGATE_AT:
            return event, (*key, event.about.field_path, event.message)
        # Upstream evicts any message; evicting the oldest makes runs reproducible.
        del group.messages[next(iter(group.messages))]
        combined = msgspec.structs.replace(
            event,
            message=COMBINED + event.message,
            first_at=at,
            last_at=at,
            count=1,
            reports=False,
        )
        return combined, key

    def _try_accept(self, key: tuple[str, ...], now: float) -> bool:
        bucket = self._spam.get(key)
        if bucket is None:
            bucket = _Bucket(now)
            self._spam.put(key, bucket)
        bucket.tokens = min(float(SPAM_BURST), bucket.tokens + (now - bucket.at) / SPAM_REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True


class EventNames:
    """``<object name>.<nanoseconds in hexadecimal>``, never the same twice in one process."""

    __slots__ = ("_env", "_last")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._last = 0

    def next(self, object_name: str, at: datetime.datetime) -> str:
        """A new name. If the object's own name does not allow one, it is a uid."""
        # Python's clocks have microseconds, and virtual time stands still: a random number and a counter replace the
        # missing digits. Another recorder may have drawn the same number for this object: its event would exist
        # already, and this one would be dropped.
        nanoseconds = (
            int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000 + self._env.stream("event-name").randrange(1000)
        )
        self._last = max(nanoseconds, self._last + 1)
        while not self._env.random_streams.claim(name := f"{object_name}.{self._last:x}", at):
            self._last += 1
        return name if not dns_subdomain_errors(name) else self._env.uid()


class EventRecorder:
    """Records events of one ``component`` (``replicaset-controller``).

    ``event`` returns immediately and never raises. Events are sent in order, one at a time; with ``concurrency`` in
    parallel, except for repetitions. An event is lost if a thousand are waiting, if the server rejects it, or after two
    minutes without a response. Callers that record many events wait for ``room`` first.
    """

    def __init__(self, client: Client, env: Env, component: str, *, host: str = "", concurrency: int = 1) -> None:
        self._client = client
        self._env = env
        self._component = component
        self._host = host
        self._log = Log("events")
        self._correlator = Correlator(EventNames(env))
        self._queue: deque[Occurrence] = deque()
        self._notify: asyncio.Event = asyncio.Event()
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self._concurrency = concurrency
        self._sending: dict[str, asyncio.Task[None]] = {}
        """By the name of the event, where several are sent at once."""
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self._dropped = 0
        self._report_at = float("-inf")
        self._ending: dict[str, float] = {}  # namespaces that reject events, and until when none are sent to them

    def event(self, about: ObjectReference, type_: str, reason: str, message: str) -> None:
        """Something happened to ``about``. ``type_`` is ``Normal`` or ``Warning``, ``reason`` one CamelCase word."""
        if type_ not in {NORMAL, WARNING}:
            self._log.error("Unsupported event type", type=type_, reason=reason, message=message)
            return
        if len(self._queue) >= QUEUE_LIMIT:
            self._drop(about, reason)
            return
        at = self._env.now()
        self._queue.append(
            Occurrence(
                about=about,
                type=type_,
                reason=reason,
                message=message,
                first_at=at,
                last_at=at,
                component=self._component,
                host=self._host,
                moment=current_moment(),
            )
        )
        self._idle.clear()
        self._notify.set()
        if len(self._queue) == ROOM_LIMIT:
            self._room.clear()
        if self._log.enabled(4):
            self._log.info(
                "Event occurred", v=4, object=f"{about.namespace}/{about.name}", kind=about.kind, type=type_,
                reason=reason, message=message,
            )  # fmt: skip

    def _drop(self, about: ObjectReference, reason: str) -> None:
        """One that is dropped is mostly one of thousands: logged once a second. Upstream logs each."""
        self._dropped += 1
        if self._env.monotonic() < self._report_at:
            return
        self._log.error(
            "Unable to record event: too many queued events, dropped event",
            object=f"{about.namespace}/{about.name}", reason=reason, dropped=self._dropped,
        )  # fmt: skip
        self._dropped = 0
        self._report_at = self._env.monotonic() + 1.0

    async def room(self) -> None:
        """Wait until there is room for many events, at most a second: if the server does not respond, events must not
        block other work."""
        if self._room.is_set():
            return
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                await self._room.wait()
        except TimeoutError:
            return

    async def run(self) -> None:
        """Send until cancelled. Events that are waiting then are lost; see ``flush``."""
        if self._concurrency == 1:
            await self._follow_queue(self._deliver)
            return
        paths = asyncio.Semaphore(self._concurrency)
        async with TaskGroup("events") as group:

            async def start(event: Occurrence) -> None:
                await paths.acquire()
                task = group.start(self._deliver_after(self._sending.get(event.name), event, paths), name="event")
                self._sending[event.name] = task

            await self._follow_queue(start)

    async def _follow_queue(self, send: Callable[[Occurrence], Awaitable[None]]) -> None:
        queue = self._queue
        while True:
            while queue:
                recorded, now = queue.popleft(), self._env.monotonic()
                if len(queue) == ROOM_LIMIT - 1:
                    self._room.set()
                if self._ending.get(recorded.namespace, now) > now:
                    continue
                event = self._correlator.correlate(recorded, now, self._env.now())
                if event is not None:
                    await send(event)
            if not self._sending:
                self._idle.set()
            self._notify.clear()
            await self._notify.wait()

    async def _deliver_after(
        self, former: asyncio.Task[None] | None, event: Occurrence, paths: asyncio.Semaphore
    ) -> None:
        """Deliver it concurrently, but after the last one of its name: that is the same event with a lower count."""
        try:
            if former is not None:
                await asyncio.wait([former])
            await self._deliver(event)
        finally:
            paths.release()
            if self._sending.get(event.name) is asyncio.current_task():
                del self._sending[event.name]
            if not self._sending and not self._queue:
                self._idle.set()

    async def flush(self, seconds: float) -> bool:
        """Wait until everything recorded so far was dealt with, at most ``seconds``. Whether it was."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _deliver(self, event: Occurrence) -> None:
        """Send one event; returns when it is sent or rejected, or after twelve attempts without a response. Later
        events wait."""
        about = f"{event.namespace}/{event.name}"
        return_to(event.moment)
        if event.moment.sync is None:
            begin_sync(event.component, f"{event.about.namespace}/{event.about.name}")
        if not event.moment.decision:
            record_decision(f"{event.reason}: {event.message}")
        for tries in range(1, MAX_TRIES + 1):
            try:
                await self._send(event)
            except ApiError as error:
                ending = has_cause(error, "NamespaceTerminating")
                if ending:
                    self._skip(event.namespace)
                if isinstance(error, AlreadyExists) or ending:
                    self._log.info("Server rejected event (will not retry!)", v=5, event=about, err=error)
                else:
                    self._log.error("Server rejected event (will not retry!)", error=error, event=about)
                return
            except LostLease as error:
                self._log.info("Event is not sent by a process that no longer leads", v=2, event=about, reason=error)
                return
            except ValueError as error:
                self._log.error("Unable to construct event (will not retry!)", error=error, event=about)
                return
            except OSError as error:
                self._log.error("Unable to write event (may retry after sleeping)", error=error, event=about)
            else:
                return
            if tries == MAX_TRIES:
                break
            # The first pause is random, so that not all clients retry at the same time.
            share = self._env.stream("event-retry").random() if tries == 1 else 1.0
            await asyncio.sleep(RETRY_SECONDS * share)
        self._log.error("Unable to write event (retry limit exceeded!)", event=about)

    def _skip(self, namespace: str) -> None:
        """Hundreds of events may wait that a terminating namespace would reject, and those of others behind them.
        Upstream sends them all."""
        now = self._env.monotonic()
        self._ending = {name: until for name, until in self._ending.items() if until > now}
        self._ending[namespace] = now + SKIP_SECONDS

    async def _send(self, event: Occurrence) -> None:
        if event.count > 1:
            patch = strategic_merge_patch(
                {"count": event.count, "lastTimestamp": format_time(event.last_at), "message": event.message}
            )
            try:
                await self._client.patch(EVENTS.raw, event.name, patch, event.namespace)
            except NotFound:
                pass  # the event has expired: create it again, with its count
            else:
                return
        await self._client.create(EVENTS.raw, _NewEvent.of(event), event.namespace)


class _NewMeta(NewObject, frozen=True):
    name: str
    namespace: str


class _NewSource(NewObject, frozen=True):
    component: str = ""
    host: str = ""


class _NewEvent(NewObject, frozen=True):
    api_version: str
    kind: str
    metadata: _NewMeta
    involved_object: ObjectReference
    reason: str
    message: str
    source: _NewSource
    first_timestamp: str
    last_timestamp: str
    count: int
    type: str
    event_time: None
    reporting_component: str
    reporting_instance: str

    @classmethod
    def of(cls, event: Occurrence) -> "_NewEvent":
        return cls(
            api_version="v1",
            kind="Event",
            metadata=_NewMeta(name=event.name, namespace=event.namespace),
            involved_object=event.about,
            reason=event.reason,
            message=event.message,
            source=_NewSource(component=event.component, host=event.host),
            first_timestamp=format_time(event.first_at),
            last_timestamp=format_time(event.last_at),
            count=event.count,
            type=event.type,
            event_time=None,
            reporting_component=event.component if event.reports else "",
            reporting_instance=event.host if event.reports else "",
        )
