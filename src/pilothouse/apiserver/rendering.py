"""Plain JSON: how answers look to callers that ask for nothing else. The default ``Presenter``.

A list of stored objects is spliced from their bytes, and an event is encoded once for all watchers.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.results import ListResult, ObjectResult, Result, StatusResult, WatchEvent, Watching
from pilothouse.apiserver.routing import RequestInfo

JSON = "application/json"
JSON_HEADERS: Mapping[str, str] = {"content-type": JSON, "cache-control": "no-cache, private"}
WATCH_HEADERS: Mapping[str, str] = JSON_HEADERS
_encode_text = msgspec.json.Encoder().encode


def headers_with(warnings: Sequence[str], content_type: str = JSON) -> Mapping[str, str]:
    """Response headers. Several warnings share one header, separated by commas, as RFC 7234 has it."""
    if not warnings and content_type == JSON:
        return JSON_HEADERS
    headers = {"content-type": content_type, "cache-control": "no-cache, private"}
    if warnings:
        headers["warning"] = ", ".join(_warning(text) for text in dict.fromkeys(warnings))
    return headers


def _warning(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'299 - "{escaped}"'


def list_body(result: ListResult) -> bytes:
    """The list as one JSON object. Items of built-in lists carry no kind and apiVersion, those of custom ones do."""
    info = result.info
    parts = [
        b'{"kind":"%s","apiVersion":"%s","metadata":{' % (info.list_kind.encode(), info.api_version.encode()),
    ]
    if result.continue_ or info.custom is not None:
        parts.append(b'"continue":%s,' % _encode_text(result.continue_))
    if result.remaining is not None:
        parts.append(b'"remainingItemCount":%d,' % result.remaining)
    parts.append(b'"resourceVersion":"%d"},"items":[' % result.revision)
    values = result.values
    if not values:
        parts.append(b"]}")
    elif info.custom is not None:
        parts.append(b",".join(values))
        parts.append(b"]}")
    else:
        skip = len(info.head)
        parts.append(b"{")
        parts.append(b",{".join([value[skip:] for value in values]))
        parts.append(b"]}")
    return b"".join(parts)


def event_line(event: WatchEvent) -> bytes:
    """The event as one line of JSON; the same bytes object for everybody who watches."""
    memo = event.memo
    if memo is not None:
        line: bytes | None = memo.get(event.type)
        if line is not None:
            return line
    line = b'{"type":"%s","object":%s}\n' % (event.type.encode(), event.value)
    if memo is not None:
        memo[event.type] = line
    return line


class LineStream:
    """A watch as lines of JSON. One piece is one line, and the same bytes object for every watcher of a change."""

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
        return lines.popleft()

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Instead of single lines: all lines that came together."""
        async for batch in self._events:
            yield [event_line(event) for event in batch]

    async def close(self) -> None:
        """End the watch."""
        await self._watching.close()


class PlainPresenter:
    """Bodies are JSON, and so are answers."""

    def read(self, request: Request, info: RequestInfo) -> Request:
        return request

    def show(self, request: Request, info: RequestInfo, result: Result) -> Response | Stream:
        if isinstance(result, ObjectResult | StatusResult):
            return Response(result.code, headers_with(result.warnings), result.value)
        if isinstance(result, ListResult):
            return Response(200, headers_with(result.warnings), list_body(result))
        return LineStream(result)

    def fail(self, request: Request, info: RequestInfo | None, error: StatusError) -> Response:
        return failure(error)


def failure(error: StatusError) -> Response:
    """A failure as a plain JSON Status."""
    headers = JSON_HEADERS
    if error.code == 403:
        headers = {**headers, "x-content-type-options": "nosniff"}
    if error.retry_after:
        headers = {**headers, "retry-after": str(error.retry_after)}
    return Response(error.code, headers, error.body)
