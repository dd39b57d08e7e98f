"""Watches: lines in, batches of decoded events out.

Created by ``Client.watch``, read by the reflector in ``runtime``. A batch is what arrived in one piece, so a reader
that lags catches up in fewer, larger steps.
"""

import asyncio
import contextvars
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, cast, get_args

import msgspec

from pilothouse.api import wire
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta, Status
from pilothouse.client.decode import UNREADABLE, Decoders, OnUndecodable, name_of
from pilothouse.client.errors import ConnectionLost, UndecodableObject, error_for
from pilothouse.client.memo import DecodeMemo
from pilothouse.machinery.names import object_key

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
"""The types that readers get; ERROR is raised instead."""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change, or a bookmark.

    The object of a BOOKMARK has only metadata. ``raw`` is a copy of the object's JSON if the watch was opened with
    ``keep_raw``, else empty. ``key`` is the object's ``object_key``, one string for all programs of a process; empty
    for a bookmark and if nothing is decoded.
    """

    type: EventType
    object: T
    raw: bytes = b""
    key: str = ""


class _Envelope(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"")


class _OnlyMetadata(msgspec.Struct, frozen=True, gc=False):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_envelope = msgspec.json.Decoder(_Envelope)
_status = msgspec.json.Decoder(Status)
_bookmark = msgspec.json.Decoder(Object)
_only_metadata = msgspec.json.Decoder(_OnlyMetadata)
_types: tuple[EventType, ...] = get_args(EventType)
_Piece = bytes | list[bytes] | Sequence[wire.SharedEvent]
"""What a stream yields: a chunk of lines, or from a server in this process chunks that arrived together, or events."""
# The start of a line of all known servers. Other lines are parsed generically.
_prefixes: dict[bytes, tuple[EventType, int]] = {}
for _type in _types[:3]:
    _prefix = b'{"type":"%s","object":' % _type.encode()
    # The first eleven bytes distinguish the types: {"type":"AD, "MO, "DE.
    _prefixes[_prefix[:11]] = (_type, len(_prefix))


# Every watch gets one per minute, and only its version is used.
MAX_SHARED_BYTES = 64 * 1024
_BOOKMARK = b'{"type":"BOOKMARK"'
_plain_bookmark = re.compile(
    rb'\{"type":"BOOKMARK","object":(\{"kind":"[A-Za-z]*","apiVersion":"[A-Za-z0-9./-]*","metadata":'
    rb'\{"resourceVersion":"([0-9]+)"\}\})\}\n'
).fullmatch


@lru_cache(maxsize=64)
def _bookmark_at(version: bytes) -> Any:
    return Object(metadata=ObjectMeta(resource_version=version.decode()))


class Watch(Generic[T]):
    """An open watch: an async context manager, and the iterator of its batches.

    Batches have the server's order; none is empty. Iteration ends when the server ends the watch, raises the
    ``ApiError`` of an ERROR event (after the events before it were delivered), and ``ConnectionLost`` if the connection
    breaks or the server sends nothing for ``grace_seconds`` after the requested timeout. An event that does not fit the
    view is omitted if ``on_undecodable`` accepts it. A deletion raises ``UndecodableObject``, because a reader that
    misses it would keep the object forever.
    """

    grace_seconds = 30.0

    def __init__(
        self,
        kind: Kind[T],
        decoders: Decoders[T],
        connect: Callable[[], Awaitable[wire.Stream | None]],
        *,
        keep_raw: bool = False,
        timeout_seconds: int | None = None,
        on_undecodable: OnUndecodable | None = None,
        memo: DecodeMemo | None = None,
    ) -> None:
        self._kind = kind
        self._connect = connect
        self._keep_raw = keep_raw
        self._timeout_seconds = timeout_seconds
        self._on_undecodable = on_undecodable
        self._memo = memo
        self._decoders = decoders
        self._memo_key = decoders.view, keep_raw
        """Of what is decoded, in the memo of an event."""
        self._stream: wire.Stream | None = None
        self._pieces: AsyncIterator[_Piece] | None = None
        self._partial: list[bytes] = []
        self._failure: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """On which it was opened."""
        self._overdue = False

    async def __aenter__(self) -> Self:
        self._stream = await self._connect()
        if self._stream is not None:
            # The local transport's streams also deliver batches.
            batches: Callable[[], AsyncIterator[_Piece]] | None = getattr(
                self._stream, "shared_batches", getattr(self._stream, "batches", None)
            )
            self._pieces = batches() if batches is not None else self._stream.__aiter__()
            self._loop = asyncio.get_running_loop()
            if self._timeout_seconds:
                self._timer = self._loop.call_later(self._timeout_seconds + self.grace_seconds, self._on_deadline)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop watching. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pieces, self._pieces = self._pieces, None
        if self._stream is not None:
            await self._stream.close()
        if isinstance(pieces, AsyncGenerator) and self._waiting is None:
            await pieces.aclose()  # the garbage collector would close it at an arbitrary moment

    def deliver_bookmarks_to(self, handler: Callable[[str], object]) -> None:
        """Call ``handler`` with the versions of bookmarks that arrive while this waits, if the server is in the same
        process; they are not delivered as events then."""
        deliver_to: Callable[[Callable[[int], bool]], None] | None = getattr(self._stream, "deliver_bookmarks_to", None)

        def handle_while_waiting(revision: int) -> bool:
            if self._waiting is None or self._overdue:
                return False
            handler(str(revision))
            return True

        if deliver_to is not None:
            deliver_to(handle_while_waiting)

    def deliver_events_to(self, handler: Callable[[list[WatchEvent[T]]], object]) -> None:
        """Call ``handler``, in the context of the caller, with events that arrive while this waits and that need no
        wakeup, if the server is in the same process; they are in no batch then."""
        deliver_to: Callable[[Callable[[Sequence[wire.SharedEvent]], bool]], None] | None = getattr(
            self._stream, "deliver_events_to", None
        )
        run, of_shared = contextvars.copy_context().run, self._of_shared

        def handle_while_waiting(shared: Sequence[wire.SharedEvent]) -> bool:
            if self._waiting is None or self._overdue:
                return False
            try:
                events = [of_shared(shared[0])] if len(shared) == 1 else [of_shared(event) for event in shared]
            except UndecodableObject:
                return False  # delivered with a batch
            run(handler, events)
            return True

        if deliver_to is not None:
            deliver_to(handle_while_waiting)

    def _of_shared(self, shared: wire.SharedEvent) -> WatchEvent[T]:
        """``_event`` for an event without its line. Raises ``UndecodableObject``."""
        memo, memo_key, decoders = shared.memo, self._memo_key, self._decoders
        event: WatchEvent[T] | None = None if memo is None else memo.get(memo_key)
        if event is None:
            value: Any = shared.value
            type_: Any = shared.type
            raw = value if self._keep_raw else b""
            if decoders.is_raw:
                event = WatchEvent(type_, msgspec.Raw(value), raw)  # type: ignore[arg-type]
            else:
                decoded = decoders.one(value, str)
                if type_ != "DELETED" and len(value) <= MAX_SHARED_BYTES:
                    decoders.share(decoded)
                event = WatchEvent(type_, decoded, raw, object_key(decoded.metadata))  # type: ignore[attr-defined]  # as in ``_event``
            if memo is not None:
                memo[memo_key] = event
        return event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[WatchEvent[T]]:
        while True:
            if self._failure is not None:
                raise self._failure
            if self._pieces is None:
                raise StopAsyncIteration
            try:
                piece = await self._next_piece(self._pieces)
            except StopAsyncIteration:
                self._pieces = None
                if self._partial:
                    lost = f"the watch of {self._kind.group_resource} ended in the middle of an event"
                    raise ConnectionLost(lost) from None
                raise
            batch = self._events(piece)
            if batch:
                return batch  # an error after it is raised by the next call

    async def _next_piece(self, pieces: AsyncIterator[_Piece]) -> _Piece:
        self._waiting = task = asyncio.current_task(self._loop)
        try:
            if self._overdue:
                raise self._deadline_error()
            return await pieces.__anext__()
        except asyncio.CancelledError:
            # Our own cancellation, or another one? As in asyncio.timeout, uncancel() returns whether there were others.
            if self._overdue and task is not None and task.uncancel() == 0:
                raise self._deadline_error() from None
            raise
        finally:
            self._waiting = None

    def _on_deadline(self) -> None:
        # One timer for the whole watch, not one per event. It detects a server (or a proxy) that stopped responding at
        # the latest; the keep-alive probes of the remote transport detect most of them earlier.
        self._overdue = True
        if self._waiting is not None:
            self._waiting.cancel()

    def _deadline_error(self) -> ConnectionLost:
        return ConnectionLost(
            f"the watch of {self._kind.group_resource} did not end when its {self._timeout_seconds} s were over"
        )

    def _events(self, piece: _Piece) -> list[WatchEvent[T]]:
        read: Callable[[Any], WatchEvent[T] | None] = self._event
        items: Sequence[bytes | wire.SharedEvent]
        if isinstance(piece, bytes):
            items = self._lines(piece)
        elif isinstance(piece[0], bytes):
            items = _whole_lines(cast("list[bytes]", piece))
        else:
            read, items = self._shared_event, piece
        events: list[WatchEvent[T]] = []
        for item in items:
            try:
                event = read(item)
            except UndecodableObject as error:
                if self._on_undecodable is None:
                    self._failure = error
                    break
                self._on_undecodable(error)
                continue
            if event is None:
                break
            events.append(event)
        return events

    def _shared_event(self, shared: wire.SharedEvent) -> WatchEvent[T] | None:
        try:
            return self._of_shared(shared)
        except UndecodableObject:
            return self._event(b'{"type":"%s","object":%s}\n' % (shared.type.encode(), shared.value))

    def _lines(self, piece: bytes) -> list[bytes]:
        end = piece.find(b"\n") + 1
        if end == len(piece) and end and not self._partial:
            lines = [piece]  # one whole line: this object is the key of the memo
        else:
            lines = self._split(piece, end)
        return [line for line in lines if line and not line.isspace()]

    def _split(self, piece: bytes, end: int) -> list[bytes]:
        partial = self._partial
        if end == 0:
            # Joined when the line is complete: otherwise a large object would cost quadratic time.
            partial.append(piece)
            return []
        lines = piece.split(b"\n")
        if partial:
            partial.append(lines[0])
            lines[0] = b"".join(partial)
            partial.clear()
        rest = lines.pop()
        if rest:
            partial.append(rest)
        return lines

    def _event(self, line: bytes) -> WatchEvent[T] | None:
        if line.startswith(_BOOKMARK) and not self._decoders.is_raw:
            plain = _plain_bookmark(line)
            if plain is not None:
                return WatchEvent("BOOKMARK", _bookmark_at(plain[2]), plain[1] if self._keep_raw else b"")
        memo = self._memo
        if memo is not None:
            shared: WatchEvent[T] | None = memo.get(self._decoders.view, self._keep_raw, line)
            if shared is not None:
                return shared
        event = self._decode(line)
        if event is not None:
            if event.type != "BOOKMARK" and not self._decoders.is_raw:
                # No cache keeps what was deleted. Thousands of objects are kept to be compared, so not large ones.
                if event.type != "DELETED" and len(line) <= MAX_SHARED_BYTES:
                    self._decoders.share(event.object)
                meta = cast("Object", event.object).metadata  # every view has it
                msgspec.structs.force_setattr(event, "key", object_key(meta))
            if memo is not None:
                memo.put(self._decoders.view, self._keep_raw, line, event)
        return event

    def _decode(self, line: bytes) -> WatchEvent[T] | None:
        decoders = self._decoders
        prefix = _prefixes.get(line[:11])
        if prefix is None or decoders.is_raw or not line.startswith(b',"object":', prefix[1] - 10):
            return self._decode_slowly(line)
        type_, start = prefix
        end = line.rfind(b"}")
        try:
            if self._keep_raw:
                raw = line[start:end]
                return WatchEvent(type_, decoders.one(raw, lambda: ""), raw)
            return WatchEvent(type_, decoders.one(memoryview(line)[start:end], lambda: ""))
        except UndecodableObject:
            # Either the object does not fit, or there is more after ``"object":`` than the object.
            return self._decode_slowly(line)

    def _decode_slowly(self, line: bytes) -> WatchEvent[T] | None:
        """Bookmarks, errors, and lines in an unusual format. None: the watch has failed."""
        description = f"an event of {self._kind.group_resource}"
        try:
            envelope = _envelope.decode(line)
        except UNREADABLE as error:
            raise UndecodableObject(description, str(error), line) from error
        raw = bytes(envelope.object)
        if envelope.type == "ERROR":
            try:
                self._failure = error_for(_status.decode(raw))
            except UNREADABLE as error:
                raise UndecodableObject(description, str(error), line) from error
            return None
        if envelope.type not in _types:
            raise UndecodableObject(description, f"unknown event type {envelope.type!r}", line)
        kept_raw = raw if self._keep_raw else b""
        if self._decoders.is_raw:
            return WatchEvent(envelope.type, msgspec.Raw(raw), kept_raw)  # type: ignore[arg-type]
        if envelope.type == "BOOKMARK":
            # Typed bookmarks of a Go server have zero values such as ``"spec":{"containers":null}``: only their
            # metadata is valid, and a view may have required fields.
            body = b'{"metadata":' + bytes(_only_metadata.decode(raw).metadata) + b"}"
            return WatchEvent(envelope.type, _bookmark.decode(body), kept_raw)  # type: ignore[arg-type]
        try:
            return WatchEvent(envelope.type, self._decoders.one(raw, lambda: name_of(self._kind, raw)), kept_raw)
        except UndecodableObject as error:
            if envelope.type != "DELETED":
                raise
            self._failure = error
            return None


def _whole_lines(chunks: list[bytes]) -> list[bytes]:
    """The chunks of a local batch, in which a large event may be in several (``serializers.json.LineStream``)."""
    lines: list[bytes] = []
    parts: list[bytes] = []
    for chunk in chunks:
        if parts or not chunk.endswith(b"\n"):
            parts.append(chunk)
            if chunk.endswith(b"\n"):
                lines.append(b"".join(parts))
                parts = []
        else:
            lines.append(chunk)
    return lines
