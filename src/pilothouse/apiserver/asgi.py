"""HTTP: the API server as an ASGI 3 application.

``serving`` runs it. Requests are authenticated and authorized by their heads; their bodies are read after that
(``request_bodies``). It limits how long an answer may take, until its client has it; compresses large ones for those
who ask, and sends them in pieces, so that a client that reads slowly has few of them waiting; and streams watches:
headers at once, events in the batches in which they come, nothing compressed, over WebSocket for those who ask
(``websockets``). The peer's certificate, where it was
verified, comes with the scope (``serving.peer_of``).
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
from pilothouse.apiserver.serializers.json import Pieces, cut, failure
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
"""How long a request that is no watch may take."""
LONG_BYTES = 128 * 1024
"""Longer answers are compressed if clients ask (apiserver ``responsewriters.defaultGzipThresholdBytes``), and sent
in pieces of about this length, each once its client has read most of the one before."""
UNSENT_BYTES = 64 * 1024 * 1024
"""What long answers and events hold together that are on their way. Plain lists are not among them: they are made as
they are sent, from what is stored."""
_NORMAL = (1000).to_bytes(2)
"""The status of a WebSocket that has served its purpose."""
_PATIENCE_SECONDS = _LEAST_SECONDS = 5.0

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


class Application:
    """One server on sockets. ``stop`` ends the watches; the rest of a shutdown is serving's."""

    def __init__(self, env: Env, handler_chain: HandlerChain) -> None:
        self._env = env
        self._handler_chain = handler_chain
        self._bodies = BodyReader()
        self._unsent = Budget(UNSENT_BYTES, _PATIENCE_SECONDS)
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
        started, measured = self._env.monotonic(), self._env.perf_counter()
        method: str = scope["method"]
        headers = _headers(scope["headers"])
        target = scope.get("raw_path") or scope["path"].encode()
        if scope["query_string"]:
            target = target + b"?" + scope["query_string"]
        request = Request(method, target.decode("latin-1"), headers)
        answer: Response | Stream
        if self._handler_chain.needs_audit_id:
            headers.setdefault("audit-id", self._env.uid())
        in_flight = self._handler_chain.metrics.requests.in_flight(request)
        in_flight.enter(measured)
        is_stream = False
        try:
            try:
                _reject_bad_certificate(scope, headers)
                answer = await self._answer(request, scope, receive)
            except StatusError as error:
                answer = await self._handler_chain.reject(request, error, _remote(scope))
            if isinstance(answer, Response):
                await self._send(request, answer, send, started)
            elif isinstance(answer, Pieces):
                await self._send_pieces(request, answer, send, started)
            else:
                is_stream = True
                in_flight.leave()
                await self._stream(request, answer, receive, send)
        except (asyncio.CancelledError, ConnectionError):
            if not is_stream:
                self._handler_chain.aborted(request)
            raise
        finally:
            if not is_stream:
                in_flight.leave()
        size = (
            answer.length if isinstance(answer, Pieces) else len(answer.body) if isinstance(answer, Response) else None
        )
        self._handler_chain.observe(request, answer.status, self._env.perf_counter() - measured, size)

    async def _answer(self, request: Request, scope: Scope, receive: Receive) -> Response | Stream:
        if request.method not in _METHODS:
            raise errors.method_not_allowed()
        body = (
            partial(self._bodies.read, request.headers, receive) if has_body(request.method, request.headers) else None
        )
        try:
            async with asyncio.timeout(_allowed_seconds(request)):
                return await self._handler_chain.answer(
                    request, _certificate(scope), body, partial(mark_authenticated, scope), _remote(scope)
                )
        except TimeoutError:
            # It is recorded already, as what was cancelled.
            self._handler_chain.terminated(request, 504)
            return failure(errors.timeout("request did not complete within the allotted timeout"))

    async def _send(self, request: Request, response: Response, send: Send, started: float) -> None:
        body = b"" if request.method == "HEAD" else response.body
        if len(body) > LONG_BYTES:
            async with self._holding(len(body)):
                await self._send_pieces(request, Pieces.of(response), send, started)
            return
        headers = dict(response.headers)
        if response.status not in (204, 304):
            headers["content-length"] = str(len(body))
        await send(self._start(request, response.status, headers))
        await send({"type": "http.response.body", "body": body})

    async def _send_pieces(self, request: Request, answer: Pieces, send: Send, started: float) -> None:
        """A long answer. Its client has as long to read it as the request might have taken, and is left then."""
        headers = dict(answer.headers)
        pieces: Iterable[bytes] = answer.pieces(LONG_BYTES)
        if "gzip" in request.headers.get("accept-encoding", ""):
            pieces = _compressed(pieces)
            headers.update(_GZIP)
        else:
            headers["content-length"] = str(answer.length)
        async with _read_within(max(_LEAST_SECONDS, started + REQUEST_SECONDS - self._env.monotonic())):
            await send(self._start(request, answer.status, headers))
            for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)  # others have waited for this piece
            await send({"type": "http.response.body", "body": b""})

    @asynccontextmanager
    async def _holding(self, size: int) -> AsyncIterator[None]:
        """So many bytes are on their way to one client, within what all may hold."""
        async with _read_within(None) as limit:
            with self._unsent.hold(limit) as held:
                self._unsent.grow(held, size)
                yield

    async def _stream(self, request: Request, stream: Stream, receive: Receive, send: Send) -> None:
        self._stream_count += 1
        number = self._stream_count
        self._streams[number] = stream
        long_running = self._handler_chain.long_running(request)
        long_running.inc()
        try:
            if websockets.is_websocket_request(request.headers) and _is_json(stream):
                await self._stream_messages(request, stream, receive, send)
                return
            async with TaskGroup("watch") as group:
                listener = group.start(_close_when_gone(stream, receive), name="watch-listener")
                await send(self._start(request, stream.status, dict(stream.headers)))
                # Headers go out now: clients wait for them before the first event.
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                async for piece in _pieces(stream):
                    if len(piece) > LONG_BYTES:
                        await self._send_event(piece, send)
                    else:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                listener.cancel()
        finally:
            long_running.inc(-1.0)
            del self._streams[number]
            await stream.close()

    async def _stream_messages(self, request: Request, stream: Stream, receive: Receive, send: Send) -> None:
        """Each event is a message of text."""
        accepted = websockets.handshake(request.headers)
        if isinstance(accepted, websockets.Rejected):
            plain = {"content-type": "text/plain; charset=utf-8"}
            rejection = Response(accepted.status, plain, accepted.message.encode())
            await self._send(request, rejection, send, self._env.monotonic())
            return
        async with TaskGroup("watch") as group:
            await send(self._start(request, 101, accepted))
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            listener = group.start(_answer_frames(stream, receive, send), name="watch-listener")
            rest = b""
            async for piece in _pieces(stream):
                *events, rest = (rest + piece).split(b"\n")
                for event in events:
                    for frame in websockets.text_frames(event + b"\n", LONG_BYTES):
                        await send({"type": "http.response.body", "body": frame, "more_body": True})
            listener.cancel()
            await send({"type": "http.response.body", "body": websockets.control_frame(websockets.CLOSE, _NORMAL)})

    async def _send_event(self, piece: bytes, send: Send) -> None:
        async with self._holding(len(piece)):
            for part in cut(piece, LONG_BYTES):
                await send({"type": "http.response.body", "body": part, "more_body": True})

    def _start(self, request: Request, status: int, headers: dict[str, str]) -> Message:
        headers["audit-id"] = request.headers.get("audit-id") or self._env.uid()
        encoded = [
            # Warnings quote what users have written, and Go sends that as UTF-8.
            (name.encode(), value.encode("utf-8" if name == "warning" else "latin-1", "replace"))
            for name, value in headers.items()
        ]
        return {"type": "http.response.start", "status": status, "headers": encoded}


async def _pieces(stream: Stream) -> Any:
    """What to send at once: events that came together go out together."""
    if isinstance(stream, Batches):
        async for batch in stream.batches():
            if len(batch) == 1:
                yield batch[0]
            elif sum(map(len, batch)) <= LONG_BYTES:
                yield b"".join(batch)
            else:
                for piece in _joined(batch):
                    yield piece
    else:
        async for piece in stream:
            yield piece


def _is_json(stream: Stream) -> bool:
    return stream.headers.get("content-type", "").partition(";")[0] == "application/json"


async def _answer_frames(stream: Stream, receive: Receive, send: Send) -> None:
    """Answer the client's pings, and end the stream when it wants to close, or is gone."""
    frames = websockets.ClientFrames()
    while (message := await receive())["type"] != "http.disconnect":
        try:
            found = frames.feed(message["body"])
        except websockets.FrameError:
            break
        for kind, payload in found:
            if kind == websockets.PING:
                pong = websockets.control_frame(websockets.PONG, payload)
                await send({"type": "http.response.body", "body": pong, "more_body": True})
        if any(kind == websockets.CLOSE for kind, _payload in found):
            break
    await stream.close()


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


def _joined(batch: Sequence[bytes]) -> Iterator[bytes]:
    """Small ones together, and large ones by themselves."""
    first = size = 0
    for index, piece in enumerate(batch):
        size += len(piece)
        if size > LONG_BYTES:
            if first < index:
                yield b"".join(batch[first:index])
            if len(piece) > LONG_BYTES:
                yield piece
                first, size = index + 1, 0
            else:
                first, size = index, len(piece)
    if size:
        yield batch[first] if first + 1 == len(batch) else b"".join(batch[first:])


@asynccontextmanager
async def _read_within(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """An answer is sent, and its client has to read it in that time, unless it is shortened."""
    try:
        async with asyncio.timeout(seconds) as limit:
            yield limit
    except TimeoutError:
        raise ConnectionAbortedError("the client did not read its answer in time") from None


_GZIP = {"content-encoding": "gzip", "vary": "Accept-Encoding"}


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(level=1, wbits=31)  # gzip's head and end, without a date
    for piece in pieces:
        if compressed := compressor.compress(piece):
            yield compressed
    yield compressor.flush()


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


def _remote(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _reject_bad_certificate(scope: Scope, headers: dict[str, str]) -> None:
    # As upstream's union of authenticators: a valid token in the same request counts, anonymous access does not.
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
