"""The one watch that feeds a store: every change under the root, in the order of etcd.

If a stream breaks it is resumed at its last revision, on the next member. If that was compacted in the meantime,
``Stale`` is raised.

A server's own writes do not wait for the watch: etcd's response has their revision. If everything before it was read,
the events of a write are delivered immediately, and skipped when the watch reports them.

etcd reports each change separately. With many watchers, waking all of them for each change would be the largest cost,
so changes that arrive within some milliseconds are delivered together. The same holds for requests that wait for their
own writes: answered one by one, each costs a turn of the event loop.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio

from pilothouse.env import Log
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import (
    CLOSED,
    REQUEST_TIMEOUT,
    EtcdClient,
    EtcdError,
    is_being_cancelled,
    to_etcd_error,
)

_PROGRESS_REQUEST_TIMEOUT = 0.05
"""Seconds after which a progress request without a response is repeated."""
_WATCHER_SECONDS = 50e-6
"""How long to wait for further events, per notified watcher: about twice the time that it takes to wake it and to send
the changes, whether one event or several."""
_MIN_PAUSE = 0.001
"""Seconds; a shorter pause is omitted: fewer than twenty watchers were notified."""
_MAX_PAUSE = 0.01
"""Seconds; the delay of a watch event is limited, whatever the number of watchers."""
_MIN_WRITES = 4
"""If fewer own writes are in flight, events are delivered immediately: there is too little to save."""
_SHARE_OF_WRITES = 0.4
"""Otherwise they are delivered when there are that many, as a share of the writes in flight. Chosen by measurement:
with 0.7, 32 clients need more CPU per create, and without batches 128 clients do."""
_MAX_DELAY = 0.006
"""Or when the oldest event has waited for that many seconds: the other writes may be waiting for each other."""
_MAX_WAITING = 10_000
"""Maximum number of events that are read before they can be delivered. Then the stream is not read, and etcd waits."""

_log = Log("etcd")


class Stale(Exception):
    """The next changes were compacted."""


class Follower:
    """Delivers the events of etcd: ``receive`` is called with the events of whole revisions, and returns how many
    watchers it has notified; ``advance`` with a revision up to which everything was delivered, or with 0 when etcd has
    accepted the watch. ``pending_writes`` returns how many keys this server is writing."""

    def __init__(
        self,
        client: EtcdClient,
        root: bytes,
        receive: Callable[[list[Any]], Awaitable[int]],
        advance: Callable[[int], None],
        pending_writes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._client = client
        self._root = root
        self._receive = receive
        self._advance = advance
        self._pending_writes = pending_writes
        self._stream: Any = None
        """None until etcd has accepted the watch."""
        self.last_event = -1.0
        """The loop's time when the last event was read."""
        self._progress_requested_at = -1.0
        """The loop's time; negative if no request is without a response."""
        self._waiting: list[Any] = []
        """Events that were read, and are to be delivered next."""
        self._progress = 0
        """With ``_waiting``, everything up to this revision will be delivered; 0 if etcd has reported no progress since
        the last event."""
        self._read_revision = math.inf
        """The revision up to which everything was read; infinite (a float) without a stream, so that no own event is
        delivered then."""
        self._own_events: dict[float, list[Any]] = {}
        """The events of this server's transactions, by revision, until everything before them was read. At most as many
        transactions as are in flight."""
        self._changed = asyncio.Event()
        """Set if there is something to deliver, or the stream has ended."""
        self._delay: asyncio.TimerHandle | None = None
        """Sets ``_changed``, if not enough events arrive in the meantime."""
        self._received = asyncio.Event()
        """Set when ``_waiting`` is empty and delivered, for a reader that is too far ahead."""

    async def follow(self, revision: int) -> None:
        """Deliver the changes after a revision, until the stream breaks (``EtcdError``) or cannot be resumed
        (``Stale``)."""
        stream = self._client.watch()
        self._waiting, self._progress = [], 0
        self._read_revision, self._own_events = revision, {}
        reading = asyncio.ensure_future(self._read(stream, revision))
        reading.add_done_callback(self._read_ended)
        try:
            await self._deliver(reading)
        except grpc.aio.AioRpcError as error:
            raise to_etcd_error(error) from None
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            raise EtcdError("Unavailable", CLOSED) from None
        finally:
            self._stream, self._read_revision = None, math.inf
            self._end_delay()
            reading.cancel()
            stream.cancel()

    def _read_ended(self, reading: "asyncio.Task[None]") -> None:
        if not reading.cancelled():
            reading.exception()  # raised by ``_deliver``, unless that has ended before
        self._changed.set()

    def _end_delay(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
            self._delay = None

    def _deliver_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver the events that wait, or more of them within a moment."""
        pending = self._pending_writes()
        if pending < _MIN_WRITES or len(self._waiting) >= pending * _SHARE_OF_WRITES:
            self._changed.set()
        elif self._delay is None:
            self._delay = loop.call_later(_MAX_DELAY, self._changed.set)

    def add_own_events(self, revision: int, events: list[Any]) -> None:
        """Deliver the events of a transaction of this server, to which etcd has given that revision, without waiting
        for the watch to report them: possible as soon as everything before that revision was read."""
        if revision > self._read_revision:
            self._own_events[revision] = events
            self._take_own_events(asyncio.get_running_loop())

    def _take_own_events(self, loop: asyncio.AbstractEventLoop) -> None:
        before = self._read_revision
        while (events := self._own_events.pop(self._read_revision + 1, None)) is not None:
            self._read_revision += 1
            self._waiting += events
        if self._read_revision > before:
            self.last_event = loop.time()
            self._progress = 0
            self._deliver_soon(loop)

    def _has_read(self, revision: float) -> None:
        self._read_revision = max(self._read_revision, revision)
        if self._own_events:
            for read in [own for own in self._own_events if own <= self._read_revision]:
                del self._own_events[read]

    async def _deliver(self, reading: "asyncio.Task[None]") -> None:
        """Deliver what was read, until reading fails; raises that error."""
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._end_delay()
            if self._waiting:
                events, self._waiting = self._waiting, []
                notified = await self._receive(events)
                pause = notified * _WATCHER_SECONDS
                if pause >= _MIN_PAUSE:
                    await asyncio.sleep(min(pause, _MAX_PAUSE))
            if self._waiting:
                self._deliver_soon(loop)
                continue
            self._received.set()
            if self._progress:
                progress, self._progress = self._progress, 0
                self._advance(progress)
            if reading.done():
                return await reading

    async def _read(self, stream: Any, revision: int) -> None:
        create = messages.WatchCreateRequest(
            key=self._root,
            range_end=messages.range_end(self._root),
            start_revision=revision + 1,
            progress_notify=True,
            fragment=True,
        )
        await _write_first(stream, messages.WatchRequest(create_request=create))
        fragments: list[Any] = []
        loop = asyncio.get_running_loop()
        while True:
            response = await stream.read()
            if response is grpc.aio.EOF:
                raise EtcdError("Unavailable", "the watch has ended")
            if response.canceled:
                if response.compact_revision:
                    raise Stale(f"etcd was compacted to {response.compact_revision}")
                raise EtcdError("Canceled", response.cancel_reason or "the watch was cancelled")
            if response.created:
                self._stream = stream
                self._advance(0)
                continue
            if response.events:
                self.last_event = loop.time()
                fragments += response.events
                if not response.fragment:
                    # Some may be those of ``add_own_events``.
                    new = [event for event in fragments if event.kv.mod_revision > self._read_revision]
                    self._has_read(fragments[-1].kv.mod_revision)
                    fragments = []
                    if new:
                        self._waiting += new
                        self._progress = 0
                        self._deliver_soon(loop)
                    self._take_own_events(loop)
                    while len(self._waiting) > _MAX_WAITING:
                        self._received.clear()
                        await self._received.wait()
            elif not fragments:
                self._progress_requested_at = -1.0
                self._has_read(response.header.revision)
                self._progress = max(self._progress, response.header.revision)
                self._changed.set()
                self._take_own_events(loop)

    async def request_progress(self) -> None:
        """Request a progress notification of etcd (``RequestWatchProgress``); the response is ``advance``."""
        stream, now = self._stream, asyncio.get_running_loop().time()
        if stream is None or now < self._progress_requested_at + _PROGRESS_REQUEST_TIMEOUT:
            return
        # Callers share one request; and etcd does not respond while the watch is behind.
        self._progress_requested_at = now
        try:
            await stream.write(messages.WatchRequest(progress_request=messages.WatchProgressRequest()))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            _log.info("The watch has ended before its progress was requested", error=error)
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            _log.info("The watch has ended before its progress was requested", error=CLOSED)


async def _write_first(stream: Any, request: Any) -> None:
    """``write`` for a stream that may end before it is connected: then gRPC's never returns. Raises ``EtcdError``,
    ``AioRpcError``."""
    ended = asyncio.Event()
    stream.add_done_callback(lambda _stream: ended.set())
    ending = asyncio.ensure_future(ended.wait())
    writing = asyncio.ensure_future(stream.write(request))
    try:
        await asyncio.wait([writing, ending], timeout=REQUEST_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if not writing.done():
            raise EtcdError("Unavailable", CLOSED if ended.is_set() else "the watch could not be opened in time")
        try:
            writing.result()
        except asyncio.InvalidStateError as error:  # it has ended before, independent of this caller
            raise EtcdError("Unavailable", str(error)) from None
    finally:
        writing.cancel()
        ending.cancel()
