"""Watches as tables, partial metadata or protobuf frames.

Encodings of an event are cached in the memo of the change, so that each is created once for all watchers. Tables are
created for each watcher: their ages differ, and they are rare.
"""

import datetime
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from pilothouse.api.wire import SharedEvent
from pilothouse.apiserver.serializers.json import deliver_shared_events_to, headers_with, new_bookmark_handler
from pilothouse.apiserver.serializers.negotiation import PROTOBUF, Choice
from pilothouse.apiserver.serializers.partial_metadata import partial_object
from pilothouse.apiserver.serializers.results import WatchEvent, Watching
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.printers import tables
    from pilothouse.apiserver.serializers import protobuf

_decode = msgspec.json.Decoder().decode
PROTOBUF_STREAM = f"{PROTOBUF};stream=watch"


class EventStream:
    """A watch in the chosen format. Each chunk is an event; ``batches`` yields those that arrived together."""

    def __init__(self, watching: Watching, choice: Choice, include: str, now: Callable[[], datetime.datetime]) -> None:
        self.status = 200
        media = PROTOBUF_STREAM if choice.media == PROTOBUF else choice.media
        self.headers = headers_with(watching.warnings, media)
        self._watching = watching
        self._choice = choice
        self._include = include
        self._now = now
        self._converter = tables.TableConvertor(watching.info) if choice.transform == "Table" else None
        self._columns_sent = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        sizes = self._watching.event_sizes
        async for batch in self._watching:
            for event in batch:
                encoded = self._show(event)
                if sizes is not None:
                    sizes.observe(len(encoded))
                yield encoded

    def deliver_bookmarks_to(self, handler: Callable[[int], bool]) -> None:
        """As ``LineStream.deliver_bookmarks_to``."""
        self._watching.bookmark_handler = new_bookmark_handler(self._watching, handler, self._show)

    def deliver_events_to(self, handler: Callable[[Sequence[SharedEvent]], bool]) -> None:
        """As ``LineStream.deliver_events_to``, for partial objects in JSON: no program in the process of the server
        watches tables or protobuf."""
        if self._converter is None and self._choice.media != PROTOBUF:
            deliver_shared_events_to(self._watching, lambda events: handler([*map(self._shared, events)]))

    def _shared(self, event: SharedEvent) -> SharedEvent:
        """The event with the partial object, the same for all watches."""
        if not self._choice.transform:
            return event
        memo = event.memo
        key = ("shared", self._choice)
        shared: WatchEvent | None = None if memo is None else memo.get(key)
        if shared is None:
            shared = WatchEvent(event.type, partial_object(event.value, self._choice.version), {})
            if memo is not None:
                memo[key] = shared
        return shared

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """All events that arrived together, instead of single ones."""
        sizes = self._watching.event_sizes
        async for batch in self._watching:
            encoded_events = [self._show(event) for event in batch]
            if sizes is not None:
                sizes.observe_each(map(len, encoded_events))
            yield encoded_events

    async def close(self) -> None:
        """End the watch."""
        await self._watching.close()

    def _show(self, event: WatchEvent) -> bytes:
        if self._converter is not None and event.type != "ERROR":
            return _line(event.type, self._table(self._converter, event))
        memo = event.memo
        key = (event.type, self._choice)
        if memo is not None:
            encoded: bytes | None = memo.get(key)
            if encoded is not None:
                return encoded
        value = event.value
        if self._choice.transform and event.type != "ERROR":
            value = partial_object(value, self._choice.version)
        if self._choice.media == PROTOBUF:
            encoded = protobuf.encode_event(event.type, _decode(value))
        else:
            encoded = _line(event.type, value)
        if memo is not None:
            memo[key] = encoded
        return encoded

    def _table(self, converter: "tables.TableConvertor", event: WatchEvent) -> bytes:
        version = self._choice.version
        if event.type == "BOOKMARK":
            row = converter.bookmark_row(event.value, version)
        else:
            row = converter.row(event.value, self._include, self._now(), version)
        columns = None if self._columns_sent else converter.columns
        self._columns_sent = True
        return tables.table(tables.single_metadata(event.value), columns, [row], version)


def _line(kind: str, value: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), value)
