"""The API server as an ASGI 3 application: HTTP in, HTTP out, watches as long as somebody listens.

``serving`` runs it. It reads bodies (3 MiB at most), limits how long an answer may take, compresses large ones for
those who ask, and streams watches: headers at once, events in the batches in which they come, nothing compressed. The
peer's certificate, where it was verified, comes with the scope (``serving.peer_of``).
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, runtime_checkable

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication import unauthorized
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.gateway import Gateway
from pilothouse.apiserver.impersonation import PREFIX, SEPARATOR
from pilothouse.apiserver.options import MAX_BODY
from pilothouse.apiserver.rendering import failure
from pilothouse.apiserver.routing import split_target
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.durations import parse_duration
from pilothouse.serving import peer_of, presented_by

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

REQUEST_SECONDS = 60.0
"""How long a request that is no watch may take."""
COMPRESS_FROM = 128 * 1024
"""Answers shorter than this are sent as they are (apiserver ``responsewriters.defaultGzipThresholdBytes``)."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@runtime_checkable
class _Batches(Protocol):
    """A stream that can tell what came together."""

    def batches(self) -> Any: ...


class Application:
    """One server on sockets. ``stop`` ends the watches; the rest of a shutdown is serving's."""

    def __init__(self, env: Env, gateway: Gateway) -> None:
        self._env = env
        self._gateway = gateway
        self._streams: dict[int, Stream] = {}
        self._stream_count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})
        else:
            await _lifespan(receive, send)

    async def stop(self) -> None:
        """End every watch, as a server that goes away does."""
        for stream in list(self._streams.values()):
            await stream.close()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = self._env.monotonic()
        method: str = scope["method"]
        headers = _headers(scope["headers"])
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target = target + b"?" + scope["query_string"]
        request = Request(method, target.decode("latin-1"), headers)
        answer: Response | Stream
        try:
            body = await _read_body(headers, receive)
            if body is None:
                return
            request = Request(method, request.target, headers, body)
            _refuse_bad_certificate(scope, headers)
            answer = await self._answer(request, _certificate(scope))
        except StatusError as error:
            answer = failure(error)
        if isinstance(answer, Response):
            await self._send(request, answer, send)
        else:
            await self._stream(request, answer, receive, send)
        self._gateway.observe(request, answer.status, self._env.monotonic() - started)

    async def _answer(self, request: Request, certificate: bytes | None) -> Response | Stream:
        if request.method not in _METHODS:
            raise errors.method_not_allowed()
        try:
            async with asyncio.timeout(_allowed_seconds(request)):
                return await self._gateway.answer(request, certificate)
        except TimeoutError:
            raise errors.timeout("request did not complete within the allotted timeout") from None

    async def _send(self, request: Request, response: Response, send: Send) -> None:
        body = b"" if request.method == "HEAD" else response.body
        headers = dict(response.headers)
        if len(body) > COMPRESS_FROM and "gzip" in request.headers.get("accept-encoding", ""):
            import gzip  # for the few answers that are so large

            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers["content-encoding"] = "gzip"
            headers["vary"] = "Accept-Encoding"
        if response.status not in (204, 304):
            headers["content-length"] = str(len(body))
        await send(self._start(request, response.status, headers))
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, request: Request, stream: Stream, receive: Receive, send: Send) -> None:
        self._stream_count += 1
        number = self._stream_count
        self._streams[number] = stream
        self._gateway.metrics.stream_opened()
        try:
            async with TaskGroup("watch") as group:
                listener = group.start(_close_when_gone(stream, receive), name="watch-listener")
                await send(self._start(request, stream.status, dict(stream.headers)))
                # Headers go out now: clients wait for them before the first event.
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                async for piece in _pieces(stream):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                listener.cancel()
        finally:
            self._gateway.metrics.stream_closed()
            del self._streams[number]
            await stream.close()

    def _start(self, request: Request, status: int, headers: dict[str, str]) -> Message:
        headers["audit-id"] = request.headers.get("audit-id") or self._env.uid()
        encoded = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
        return {"type": "http.response.start", "status": status, "headers": encoded}


async def _pieces(stream: Stream) -> Any:
    """What to send at once: events that came together go out together."""
    if isinstance(stream, _Batches):
        async for batch in stream.batches():
            yield b"".join(batch)
    else:
        async for piece in stream:
            yield piece


async def _close_when_gone(stream: Stream, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    await stream.close()


def _headers(raw: Any) -> dict[str, str]:
    """Headers by lower-case name; repeated ones joined by commas, but for those whose values may contain one."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if key in headers:
            text = f"{headers[key]}{SEPARATOR if key.startswith(PREFIX) else ','}{text}"
        headers[key] = text
    return headers


async def _read_body(headers: dict[str, str], receive: Receive) -> bytes | None:
    """The whole body, or None when the client went away meanwhile. Raises 413 for a body that is too large."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY:
        raise _too_large()
    if length == "0" and "transfer-encoding" not in headers:
        return b""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY:
            raise _too_large()
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large() -> StatusError:
    return errors.too_large(f"Request entity too large: limit is {MAX_BODY}")


def _allowed_seconds(request: Request) -> float | None:
    """The ``timeout`` parameter within bounds; None for a watch, which ends by its own rules."""
    if "timeout=" not in request.target:
        # A watch's answer is a stream and is there at once; only what precedes it is timed.
        return REQUEST_SECONDS
    _path, query = split_target(request.target)
    text = query.first("timeout")
    if not text:
        return REQUEST_SECONDS
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return REQUEST_SECONDS if seconds <= 0 or seconds > REQUEST_SECONDS else seconds


def _certificate(scope: Scope) -> bytes | None:
    peer = peer_of(scope)
    return None if peer is None else peer.certificate


def _refuse_bad_certificate(scope: Scope, headers: dict[str, str]) -> None:
    # As upstream's union of authenticators: a good token beside it counts, being nobody in particular does not.
    _peer, refusal = presented_by(scope)
    if refusal and not headers.get("authorization", "").lower().startswith("bearer "):
        raise unauthorized()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
