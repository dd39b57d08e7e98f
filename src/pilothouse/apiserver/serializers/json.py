"""Responses in plain JSON, the default ``Presenter``.

A list is spliced from the stored bytes, and an event is encoded once for all watchers.
"""

import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

import msgspec

from pilothouse.api.wire import Request, Response, SharedEvent, Stream
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.serializers.results import (
    ListResult,
    ObjectResult,
    Result,
    StatusResult,
    WatchEvent,
    Watching,
)

JSON = "application/json"
JSON_HEADERS: Mapping[str, str] = {"content-type": JSON, "cache-control": "no-cache, private"}
WATCH_HEADERS: Mapping[str, str] = JSON_HEADERS
LONG_LIST = 1024 * 1024
"""Longer lists are sent as a ``ChunkedResponse``."""
LARGE_EVENT = 64 * 1024
"""Objects of at least this length are sent to watchers from the stored bytes, without being copied into a line."""
_encode_text = msgspec.json.Encoder().encode


def headers_with(warnings: Sequence[str], content_type: str = JSON) -> Mapping[str, str]:
    """Response headers. Several warnings share one header, separated by commas (RFC 7234)."""
    if not warnings and content_type == JSON:
        return JSON_HEADERS
    headers = {"content-type": content_type, "cache-control": "no-cache, private"}
    if valid_warnings := _valid_warnings(warnings):
        headers["warning"] = ", ".join(map(_warning, valid_warnings))
    return headers


def with_warnings(response: Response, warnings: Sequence[str]) -> Response:
    """A failure with the warnings from before the error."""
    headers = headers_with(warnings)
    if "warning" not in headers:
        return response
    return Response(response.status, {**response.headers, "warning": headers["warning"]}, response.body)


_WARNING_RUNES, _ALL_WARNING_RUNES = 256, 4 * 1024
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]").search


def _valid_warnings(warnings: Sequence[str]) -> list[str]:
    """Without duplicates and texts that are not valid header values, and truncated if there are many (apiserver
    ``pkg/endpoints/filters/warning.go``, v0.36)."""
    valid = [text for text in dict.fromkeys(warnings) if text and not _CONTROL(text)]
    if sum(map(len, valid)) <= _ALL_WARNING_RUNES:
        return valid
    truncated, written = [], 0
    for text in valid:
        if written >= _ALL_WARNING_RUNES:
            break
        truncated.append(text[:_WARNING_RUNES])
        written += len(truncated[-1])
    return truncated


def _warning(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


class ChunkedResponse:
    """A long response in chunks: its values may be shared with other responses. A ``Stream``."""

    __slots__ = ("_between", "_end", "_head", "_skip", "_values", "headers", "length", "status")

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        values: Sequence[bytes],
        *,
        head: bytes = b"",
        between: bytes = b"",
        end: bytes = b"",
        skip: int = 0,
    ) -> None:
        """``head`` is followed by the ``values``, each without its first ``skip`` bytes and separated by ``between``,
        then by ``end``."""
        self.status = status
        self.headers = headers
        self._values = values
        self._head = head
        self._between = between
        self._end = end
        self._skip = skip
        inner = sum(map(len, values)) + (len(between) - skip) * len(values) - (len(between) if values else 0)
        self.length = len(head) + inner + len(end)

    @staticmethod
    def from_response(response: Response) -> "ChunkedResponse":
        """The chunks of a complete response."""
        return ChunkedResponse(response.status, response.headers, (response.body,))

    def body(self) -> bytes:
        """The whole body."""
        skip = self._skip
        values = [value[skip:] for value in self._values] if skip else self._values
        return b"".join((self._head, self._between.join(values), self._end))

    def chunks(self, size: int) -> Iterator[bytes]:
        """The body in chunks of about that size, each created when it is needed."""
        values, skip, prefix = self._values, self._skip, self._head
        start = 0
        while start < len(values):
            stop, length = start, 0
            while stop < len(values) and length < size:
                length += len(values[stop])
                stop += 1
            if stop - start > 1 and len(values[stop - 1]) > size:
                stop -= 1  # sent separately, without copying it
            if stop - start > 1:
                yield prefix + self._between.join([value[skip:] for value in values[start:stop]])
            else:
                yield prefix + values[start][skip : skip + size]
                yield from cut(values[start], size, skip + size)
            start, prefix = stop, self._between
        yield self._end if values else prefix + self._end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.body()

    async def close(self) -> None:
        """Nothing to do."""


def cut(value: bytes, size: int, start: int = 0) -> Iterator[bytes]:
    """The value from ``start`` in slices."""
    for position in range(start, len(value), size):
        yield value[position : position + size]


def list_response(result: ListResult) -> ChunkedResponse:
    """The list as one JSON object. Items of built-in lists have no kind and apiVersion, those of custom ones do."""
    info = result.info
    head = [
        b'{"kind":"%s","apiVersion":"%s","metadata":{' % (info.list_kind.encode(), info.api_version.encode()),
    ]
    if result.continue_ or info.custom is not None:
        head.append(b'"continue":%s,' % _encode_text(result.continue_))
    if result.remaining is not None:
        head.append(b'"remainingItemCount":%d,' % result.remaining)
    head.append(b'"resourceVersion":"%d"},"items":[' % result.revision)
    without_type_meta = bool(result.values) and info.custom is None
    if without_type_meta:
        head.append(b"{")
    return ChunkedResponse(
        200,
        headers_with(result.warnings),
        result.values,
        head=b"".join(head),
        between=b",{" if without_type_meta else b",",
        end=b"]}",
        skip=len(info.head) if without_type_meta else 0,
    )


def list_body(result: ListResult) -> bytes:
    """The list as one bytes object."""
    return list_response(result).body()


_EVENT_END = b"}\n"
_LINE_OVERHEAD = len(b'{"type":"","object":}\n')


def event_line(event: WatchEvent) -> bytes:
    """The event as a line of JSON; the same bytes object for all watches."""
    memo = event.memo
    if memo is not None:
        line: bytes | None = memo.get(event.type)
        if line is not None:
            return line
    line = b'{"type":"%s","object":%s}\n' % (event.type.encode(), event.value)
    if memo is not None:
        memo[event.type] = line
    return line


def new_bookmark_handler(
    watching: Watching, receive: Callable[[int], bool], encode: Callable[[WatchEvent], bytes]
) -> Callable[[int], bool]:
    """The ``Watching.bookmark_handler`` that passes revisions to ``receive``; ``encode`` encodes a bookmark, to
    observe its size."""
    sizes = watching.event_sizes
    if sizes is None:
        return receive
    digits = size = 0

    def handle_bookmark(revision: int) -> bool:
        nonlocal digits, size
        if not receive(revision):
            return False
        if len(str(revision)) != digits:  # nothing else in a bookmark differs
            digits, size = len(str(revision)), len(encode(watching.bookmark(revision)))
        sizes.observe(size)
        return True

    return handle_bookmark


def deliver_shared_events_to(watching: Watching, receive: Callable[[Sequence[SharedEvent]], bool]) -> None:
    """Pass events to ``receive`` (``Watching.deliver_events_to``). None is encoded as a line, but the size of its line
    is observed."""
    sizes = watching.event_sizes
    if sizes is None:
        watching.deliver_events_to(receive)
        return

    def handle_events(events: list[WatchEvent]) -> bool:
        if not receive(events):
            return False
        sizes.observe_each([_LINE_OVERHEAD + len(event.type) + len(event.value) for event in events])
        return True

    watching.deliver_events_to(handle_events)


class LineStream:
    """A watch as lines of JSON. Each chunk is a line, and the same bytes object for all watchers of a change."""

    def __init__(self, watching: Watching) -> None:
        self.status = 200
        self.headers = headers_with(watching.warnings) if watching.warnings else WATCH_HEADERS
        self._watching = watching
        self._events = watching.__aiter__()
        self._lines: deque[bytes] = deque()

    def __aiter__(self) -> "LineStream":
        return self

    async def __anext__(self) -> bytes:
        lines = self._lines
        while not lines:
            lines.extend([event_line(event) for event in await self._events.__anext__()])
            if self._watching.event_sizes is not None:
                self._watching.event_sizes.observe_each(map(len, lines))
        return lines.popleft()

    def deliver_bookmarks_to(self, handler: Callable[[int], bool]) -> None:
        """Deliver bookmarks to ``handler`` instead of the stream, as long as it returns true: a reader in the same
        process need not be woken for them."""
        self._watching.bookmark_handler = new_bookmark_handler(self._watching, handler, event_line)

    def deliver_events_to(self, handler: Callable[[Sequence[SharedEvent]], bool]) -> None:
        """Deliver events to ``handler`` instead of the stream, as long as it returns true."""
        deliver_shared_events_to(self._watching, handler)

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """All lines that arrived together, instead of single lines.

        Large objects among the initial events, which are not shared, are separate chunks, so that they are not copied
        for each reader.
        """
        async for batch in self._events:
            yield self._lines_of(batch)

    async def shared_batches(self) -> AsyncIterator[Sequence[SharedEvent] | list[bytes]]:
        """``batches``, but changes are not encoded as lines, of which only the size is observed.

        Readers keep what they decode with the event, so large objects are still lines: decoded they need ten times
        their size. Bookmarks and initial events have one reader.
        """
        sizes = self._watching.event_sizes
        async for batch in self._events:
            if batch[0].memo is None or any(len(event.value) > LARGE_EVENT for event in batch):
                yield self._lines_of(batch)
                continue
            if sizes is not None:
                sizes.observe_each([_LINE_OVERHEAD + len(event.type) + len(event.value) for event in batch])
            yield batch

    def _lines_of(self, batch: list[WatchEvent]) -> list[bytes]:
        sizes = self._watching.event_sizes
        if batch[0].memo is not None:
            shared = [event_line(event) for event in batch]
            if sizes is not None:
                sizes.observe_each(map(len, shared))
            return shared
        lines: list[bytes] = []
        for event in batch:
            if len(event.value) > LARGE_EVENT:
                chunks: tuple[bytes, ...] = (
                    b'{"type":"%s","object":' % event.type.encode(),
                    event.value,
                    _EVENT_END,
                )
            else:
                chunks = (event_line(event),)
            lines += chunks
            if sizes is not None:
                sizes.observe(sum(map(len, chunks)))
        return lines

    async def close(self) -> None:
        """End the watch."""
        await self._watching.close()


class PlainPresenter:
    """JSON requests and JSON responses."""

    def is_plain(self, request: Request, info: RequestInfo) -> bool:
        return True

    def read(self, request: Request, info: RequestInfo) -> Request:
        return request

    def show(self, request: Request, info: RequestInfo, result: Result) -> Response | Stream:
        if isinstance(result, ObjectResult | StatusResult):
            return Response(result.code, headers_with(result.warnings), result.value)
        if isinstance(result, ListResult):
            chunked = list_response(result)
            return chunked if chunked.length > LONG_LIST else Response(200, chunked.headers, chunked.body())
        return LineStream(result)

    def as_json(self, request: Request, info: RequestInfo, result: ObjectResult | ListResult | StatusResult) -> bytes:
        return list_body(result) if isinstance(result, ListResult) else result.value

    def fail(self, request: Request, info: RequestInfo | None, error: StatusError) -> Response:
        return failure(error)


PLAIN = PlainPresenter()


def failure(error: StatusError) -> Response:
    """A failure as a plain JSON Status."""
    headers = JSON_HEADERS
    if error.code == 403:
        headers = {**headers, "x-content-type-options": "nosniff"}
    if error.retry_after:
        headers = {**headers, "retry-after": str(error.retry_after)}
    return Response(error.code, headers, error.body)
