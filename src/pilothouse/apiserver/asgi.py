"""HTTP: the API server as an ASGI 3 application.

``serving`` runs it. Requests are authenticated and authorized before their bodies are read (``request_bodies``). This
module limits the time for a response, until the client has received it; compresses large responses for clients that
accept it, and sends them in chunks, so that a client that reads slowly takes little memory; and streams watches:
headers immediately, events in batches as they arrive, uncompressed, over WebSocket on request (``websockets``). The
verified certificate of the client is in the scope (``serving.peer_of``).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver import errors, websockets
from pilothouse.apiserver.authentication.authenticator import unauthorized
from pilothouse.apiserver.endpoints.impersonation import PREFIX, SEPARATOR
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.request_bodies import BodyReader, has_body
from pilothouse.apiserver.request_info import split_target
from pilothouse.apiserver.request_timeouts import RequestTimeouts
from pilothouse.apiserver.serializers.json import ChunkedResponse, cut, failure
from pilothouse.apiserver.transport import Batches
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.durations import parse_duration
from pilothouse.serving import mark_authenticated, peer_of, presented_by
from pilothouse.serving.budget import Budget

with lazy_imports():
    import zlib


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

REQUEST_SECONDS = 60.0
"""The timeout of requests other than watches."""
LONG_BYTES = 128 * 1024
"""Longer responses are compressed if the client accepts it (apiserver ``responsewriters.defaultGzipThresholdBytes``),
and sent in chunks of about this length, each after the client has read most of the previous one."""
UNSENT_BYTES = 64 * 1024 * 1024
"""The limit of bytes in long responses and events that are being sent. Plain lists do not count: they are encoded from
the store while they are sent."""
_NORMAL = (1000).to_bytes(2)
"""Close status of a WebSocket whose stream has ended: normal closure."""
_BUDGET_SECONDS = _MIN_SEND_SECONDS = 5.0

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Application:
    """The application of one server. ``stop`` ends the watches; the rest of a shutdown is done by ``serving``."""

    def __init__(self, env: Env, handler_chain: HandlerChain) -> None:
        self._env = env
        self._handler_chain = handler_chain
        self._bodies = BodyReader()
        self._timeouts = RequestTimeouts(REQUEST_SECONDS)
        self._unsent = Budget(UNSENT_BYTES, _BUDGET_SECONDS)
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
        """End all watches, for a shutdown."""
        for stream in list(self._streams.values()):
            await stream.close()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, measured_from = self._env.monotonic(), self._env.perf_counter()
        method: str = scope["method"]
        headers = _headers(scope["headers"])
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target = target + b"?" + scope["query_string"]
        request = Request(method, target.decode("latin-1"), headers)
        response: Response | Stream
        if self._handler_chain.needs_audit_id:
            headers.setdefault("audit-id", self._env.uid())
        in_flight = self._handler_chain.metrics.requests.in_flight(request)
        in_flight.enter(measured_from)
        is_stream = False
        try:
            try:
                _reject_bad_certificate(scope, headers)
                response = await self._handle(request, scope, receive)
            except StatusError as error:
                response = await self._handler_chain.reject(request, error, _remote(scope))
            if isinstance(response, Response):
                await self._send(request, response, send, started)
            elif isinstance(response, ChunkedResponse):
                await self._send_chunks(request, response, send, started)
            else:
                is_stream = True
                in_flight.leave()
                await self._stream(request, response, receive, send)
        except (asyncio.CancelledError, ConnectionError):
            if not is_stream:
                self._handler_chain.aborted(request)
            raise
        finally:
            if not is_stream:
                in_flight.leave()
        size = (
            response.length
            if isinstance(response, ChunkedResponse)
            else len(response.body)
            if isinstance(response, Response)
            else None
        )
        self._handler_chain.observe(request, response.status, self._env.perf_counter() - measured_from, size)

    async def _handle(self, request: Request, scope: Scope, receive: Receive) -> Response | Stream:
        if request.method not in _METHODS:
            raise errors.method_not_allowed()
        body = (
            partial(self._bodies.read, request.headers, receive) if has_body(request.method, request.headers) else None
        )
        seconds = _allowed_seconds(request)
        response = self._handler_chain.handle(
            request, _certificate(scope), body, partial(mark_authenticated, scope), _remote(scope)
        )
        try:
            if seconds == REQUEST_SECONDS:
                return await self._timeouts.limit(response)
            async with asyncio.timeout(seconds):
                return await response
        except TimeoutError:
            # The audit has recorded it as cancelled.
            self._handler_chain.terminated(request, 504)
            return failure(errors.timeout("request did not complete within the allotted timeout"))

    async def _send(self, request: Request, response: Response, send: Send, started: float) -> None:
        body = b"" if request.method == "HEAD" else response.body
        if len(body) > LONG_BYTES:
            async with self._count_unsent(len(body)):
                await self._send_chunks(request, ChunkedResponse.from_response(response), send, started)
            return
        headers = dict(response.headers)
        if response.status not in (204, 304):
            headers["content-length"] = str(len(body))
        await send(self._start(request, response.status, headers))
        await send({"type": "http.response.body", "body": body})

    async def _send_chunks(self, request: Request, response: ChunkedResponse, send: Send, started: float) -> None:
        """Send a long response. The client has as long to read it as the request may take; then the connection is
        closed."""
        headers = dict(response.headers)
        chunks: Iterable[bytes] = response.chunks(LONG_BYTES)
        if "gzip" in request.headers.get("accept-encoding", ""):
            chunks = _gzip_chunks(chunks)
            headers.update(_GZIP)
        else:
            headers["content-length"] = str(response.length)
        async with _read_timeout(max(_MIN_SEND_SECONDS, started + REQUEST_SECONDS - self._env.monotonic())):
            await send(self._start(request, response.status, headers))
            for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await asyncio.sleep(0)  # let other requests run between chunks
            await send({"type": "http.response.body", "body": b""})

    @asynccontextmanager
    async def _count_unsent(self, size: int) -> AsyncIterator[None]:
        """Count this many bytes towards ``UNSENT_BYTES``."""
        async with _read_timeout(None) as limit:
            with self._unsent.hold(limit) as reservation:
                self._unsent.grow(reservation, size)
                yield

    async def _stream(self, request: Request, stream: Stream, receive: Receive, send: Send) -> None:
        self._stream_count += 1
        stream_id = self._stream_count
        self._streams[stream_id] = stream
        long_running = self._handler_chain.long_running(request)
        long_running.inc()
        try:
            if websockets.is_websocket_request(request.headers) and _is_json(stream):
                await self._stream_messages(request, stream, receive, send)
                return
            async with TaskGroup("watch") as group:
                listener = group.start(_close_on_disconnect(stream, receive), name="watch-listener")
                await send(self._start(request, stream.status, dict(stream.headers)))
                # Send the headers now: clients wait for them before the first event.
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                async for chunk in _chunks(stream):
                    if len(chunk) > LONG_BYTES:
                        await self._send_event(chunk, send)
                    else:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                listener.cancel()
        finally:
            long_running.inc(-1.0)
            del self._streams[stream_id]
            await stream.close()

    async def _stream_messages(self, request: Request, stream: Stream, receive: Receive, send: Send) -> None:
        """Each event is a text message."""
        accepted = websockets.handshake(request.headers)
        if isinstance(accepted, websockets.Rejected):
            headers = {"content-type": "text/plain; charset=utf-8"}
            rejection = Response(accepted.status, headers, accepted.message.encode())
            await self._send(request, rejection, send, self._env.monotonic())
            return
        async with TaskGroup("watch") as group:
            await send(self._start(request, 101, accepted))
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            listener = group.start(_handle_frames(stream, receive, send), name="watch-listener")
            incomplete_event = b""
            async for chunk in _chunks(stream):
                *events, incomplete_event = (incomplete_event + chunk).split(b"\n")
                for event in events:
                    for frame in websockets.text_frames(event + b"\n", LONG_BYTES):
                        await send({"type": "http.response.body", "body": frame, "more_body": True})
            listener.cancel()
            await send({"type": "http.response.body", "body": websockets.control_frame(websockets.CLOSE, _NORMAL)})

    async def _send_event(self, event: bytes, send: Send) -> None:
        async with self._count_unsent(len(event)):
            for slice_ in cut(event, LONG_BYTES):
                await send({"type": "http.response.body", "body": slice_, "more_body": True})

    def _start(self, request: Request, status: int, headers: dict[str, str]) -> Message:
        headers["audit-id"] = request.headers.get("audit-id") or self._env.uid()
        encoded = [
            # Warnings may contain user input, which Go sends as UTF-8.
            (name.encode(), value.encode("utf-8" if name == "warning" else "latin-1", "replace"))
            for name, value in headers.items()
        ]
        return {"type": "http.response.start", "status": status, "headers": encoded}


async def _chunks(stream: Stream) -> Any:
    """Batches of events that arrived together."""
    if isinstance(stream, Batches):
        async for batch in stream.batches():
            if len(batch) == 1:
                yield batch[0]
            elif sum(map(len, batch)) <= LONG_BYTES:
                yield b"".join(batch)
            else:
                for chunk in _join_small(batch):
                    yield chunk
    else:
        async for chunk in stream:
            yield chunk


def _is_json(stream: Stream) -> bool:
    return stream.headers.get("content-type", "").partition(";")[0] == "application/json"


async def _handle_frames(stream: Stream, receive: Receive, send: Send) -> None:
    """Respond to pings, and end the stream when the client closes it or disconnects."""
    frames = websockets.ClientFrames()
    while (message := await receive())["type"] != "http.disconnect":
        try:
            control_frames = frames.feed(message["body"])
        except websockets.FrameError:
            break
        for opcode, payload in control_frames:
            if opcode == websockets.PING:
                pong = websockets.control_frame(websockets.PONG, payload)
                await send({"type": "http.response.body", "body": pong, "more_body": True})
        if any(opcode == websockets.CLOSE for opcode, _payload in control_frames):
            break
    await stream.close()


async def _close_on_disconnect(stream: Stream, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    await stream.close()


def _headers(raw: Any) -> dict[str, str]:
    """Headers by lower-case name; repeated ones joined by commas, except those whose values may contain commas."""
    headers: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if key in headers:
            text = f"{headers[key]}{SEPARATOR if key.startswith(PREFIX) else ','}{text}"
        headers[key] = text
    return headers


def _join_small(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """Join small chunks; large ones are sent separately."""
    start = size = 0
    for index, chunk in enumerate(chunks):
        size += len(chunk)
        if size > LONG_BYTES:
            if start < index:
                yield b"".join(chunks[start:index])
            if len(chunk) > LONG_BYTES:
                yield chunk
                start, size = index + 1, 0
            else:
                start, size = index, len(chunk)
    if size:
        yield chunks[start] if start + 1 == len(chunks) else b"".join(chunks[start:])


@asynccontextmanager
async def _read_timeout(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Limit the time in which the client has to read the response. Raises ``ConnectionAbortedError``."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield limit
    except TimeoutError:
        raise ConnectionAbortedError("the client did not read its response in time") from None


_GZIP = {"content-encoding": "gzip", "vary": "Accept-Encoding"}


def _gzip_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(level=1, wbits=31)  # gzip's header and trailer, without a timestamp
    for chunk in chunks:
        if data := compressor.compress(chunk):
            yield data
    yield compressor.flush()


def _allowed_seconds(request: Request) -> float | None:
    """The ``timeout`` parameter, limited to the maximum; None for a watch, which has its own timeout."""
    if "timeout=" not in request.target:
        # The response of a watch is a stream; only the time until the stream starts is limited.
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


def _remote(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _reject_bad_certificate(scope: Scope, headers: dict[str, str]) -> None:
    # As upstream's union of authenticators: a valid token in the same request is accepted, anonymous access is not.
    _peer, certificate_error = presented_by(scope)
    if certificate_error and not headers.get("authorization", "").lower().startswith("bearer "):
        raise unauthorized()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
