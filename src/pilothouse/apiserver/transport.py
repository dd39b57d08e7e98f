"""The transport of clients on the same event loop: bytes in, bytes out, no sockets.

A call yields to the loop before it starts, and a write yields again before its response: after a cancellation it is
unknown whether the write happened, as with a broken connection.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from pilothouse.api.wire import Request, Response, SharedEvent, Stream
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.metrics.requests import LOCAL_HOST, ClientMetrics, RequestMetrics
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.serializers.json import ChunkedResponse
from pilothouse.machinery.metrics import Gauge

Handle = Callable[[Request, Identity], Awaitable[Response | Stream]]
Renew = Callable[[str], Response | None]
"""Renews a Lease with this ``renewTime``; None if that needs a request."""
_READS = ("GET", "HEAD")


@runtime_checkable
class Batches(Protocol):
    """A stream that can return batches."""

    def batches(self) -> AsyncIterator[list[bytes]]:
        """The chunks, in batches as they arrived."""
        ...

    def deliver_bookmarks_to(self, handler: Callable[[int], bool]) -> None:
        """Deliver the revisions of bookmarks to ``handler`` instead of the stream, as long as it returns true."""
        ...

    def deliver_events_to(self, handler: Callable[[Sequence[SharedEvent]], bool]) -> None:
        """Deliver events to ``handler`` instead of the stream, as long as it returns true."""
        ...


class LocalTransport:
    """The transport of one user to an API server in the same process."""

    def __init__(
        self,
        handle: Handle,
        identity: Identity,
        user_agent: str,
        core: Core,
        client: ClientMetrics | None = None,
        find_renewal: Callable[[Request, Identity], Renew | None] = lambda _request, _identity: None,
        find_document: Callable[[Request, Identity], Response | None] = lambda _request, _identity: None,
    ) -> None:
        """``client``: client metrics, updated if the server has metrics."""
        self._handle = handle
        self._client = client
        self._find_renewal = find_renewal
        self._find_document = find_document
        self._core = core
        self._identity = identity
        self._agent = {"user-agent": user_agent} if user_agent else {}

    async def request(self, request: Request) -> Response:
        """Send a request and wait for the whole response. A watch is collected until it ends."""
        response = await self._send(request)
        if isinstance(response, Response):
            return response
        body = (
            response.body() if isinstance(response, ChunkedResponse) else b"".join([chunk async for chunk in response])
        )
        return Response(response.status, response.headers, body)

    def renewal(self, request: Request) -> Callable[[str], bytes | None] | None:
        """``wire.RenewsAtOnce``."""
        if self._agent and "user-agent" not in request.headers:
            request = Request(request.method, request.target, {**request.headers, **self._agent}, request.body)
        core, find = self._core, self._find_renewal
        renew = find(request, self._identity)
        if renew is None:
            return None

        def counted(renewed: str) -> bytes | None:
            metrics = core.metrics
            if metrics is None:
                response = renew(renewed)
                return None if response is None else response.body
            requests = metrics.requests
            started_at = requests.clock()
            response = renew(renewed)
            if response is None:
                return None
            requests.writing.enter(started_at)
            requests.writing.leave()
            # The request would have had the size of the response.
            observed_request = Request(request.method, request.target, request.headers, response.body)
            info, seconds = core.requests.read(request.method, request.target), requests.clock() - started_at
            requests.observe(observed_request, info, response.status, seconds, len(response.body), self._client)
            return response.body

        return counted

    def request_nowait(self, request: Request) -> Response | None:
        """``wire.LocalDiscovery``."""
        if self._agent and "user-agent" not in request.headers:
            request = Request(request.method, request.target, {**request.headers, **self._agent}, request.body)
        metrics = self._core.metrics
        if metrics is None:
            return self._find_document(request, self._identity)
        requests = metrics.requests
        started_at = requests.clock()
        response = self._find_document(request, self._identity)
        if response is None:
            return None
        requests.reading.enter(started_at)
        requests.reading.leave()
        info, seconds = self._core.requests.read(request.method, request.target), requests.clock() - started_at
        requests.observe(request, info, response.status, seconds, len(response.body), self._client)
        return response

    async def open(self, request: Request) -> Stream:
        """Send a request, and return once the status is known."""
        response = await self._send(request)
        return CompleteStream(response) if isinstance(response, Response) else response

    async def _send(self, request: Request) -> Response | Stream:
        await asyncio.sleep(0)
        if self._agent and "user-agent" not in request.headers:
            request = Request(request.method, request.target, {**request.headers, **self._agent}, request.body)
        metrics, is_read = self._core.metrics, request.method in _READS
        if metrics is None:
            response = await self._handle(request, self._identity)
        else:
            requests = metrics.requests
            in_flight = requests.reading if is_read else requests.writing
            started_at = requests.clock()
            in_flight.enter(started_at)
            try:
                response = await self._handle(request, self._identity)
            finally:
                in_flight.leave()
            info, seconds = self._core.requests.read(request.method, request.target), requests.clock() - started_at
            if isinstance(response, Response):
                requests.observe(request, info, response.status, seconds, len(response.body), self._client)
            elif isinstance(response, ChunkedResponse):
                requests.observe(request, info, response.status, seconds, response.length, self._client)
            else:
                response = MeasuredStream(response, requests, request, info, started_at)
                if self._client is not None:  # for client metrics a request ends with its status
                    code = str(response.status)
                    self._client.request_done(
                        request.method, LOCAL_HOST, code, seconds=seconds, request_bytes=0, response_bytes=0
                    )
        if not is_read:
            await asyncio.sleep(0)
        return response

    async def close(self) -> None:
        """Nothing to do."""


@runtime_checkable
class SharesEvents(Protocol):
    """A stream that can return events that are not encoded."""

    def shared_batches(self) -> AsyncIterator[Sequence[SharedEvent] | list[bytes]]:
        """The events, in batches as they arrived; some batches are chunks."""
        ...


class MeasuredStream:
    """A watch that is counted as in progress, and as a request when it is closed."""

    def __init__(
        self, stream: Stream, metrics: RequestMetrics, request: Request, info: RequestInfo, started_at: float
    ) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream
        self._metrics = metrics
        self._request = request
        self._info = info
        self._started_at = started_at
        self._running: Gauge | None = metrics.long_running(request, info)
        self._running.inc()
        if isinstance(stream, Batches):
            self.batches = stream.batches
            self.deliver_bookmarks_to = stream.deliver_bookmarks_to
            self.deliver_events_to = stream.deliver_events_to
        if isinstance(stream, SharesEvents):
            self.shared_batches = stream.shared_batches

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def close(self) -> None:
        """End the stream."""
        if self._running is not None:
            self._running.dec()
            self._running = None
            seconds = self._metrics.clock() - self._started_at
            self._metrics.observe(self._request, self._info, self.status, seconds)
        await self._stream.close()


class CompleteStream:
    """A complete response as a stream of one chunk."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._body = response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            body, self._body = self._body, b""
            yield body

    async def close(self) -> None:
        """Nothing to do."""
