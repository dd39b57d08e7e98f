"""One call: throttled, fenced, sent, repeated where that is safe, counted.

Between ``Client`` (verbs) and a transport (bytes).
"""

import asyncio
from collections.abc import Callable
from copy import copy

from pilothouse.api import wire
from pilothouse.client.errors import ApiError, error_of, is_connection_lost
from pilothouse.client.metrics import ClientMetrics
from pilothouse.client.rate_limit import RateLimiter
from pilothouse.client.requests import FencedRequest, FixedHeaders
from pilothouse.client.retry import MAX_RETRIES, retry_after, retry_error_after
from pilothouse.env import Env, Log
from pilothouse.machinery.durations import format_duration

_log = Log("client")


OPEN_SECONDS = 60.0
"""How long a server may take to accept a watch."""


class Calls:
    """Sends requests for one client."""

    def __init__(
        self,
        transport: wire.Transport,
        env: Env,
        *,
        qps: float,
        burst: int,
        fence: Callable[[], None] | None,
        metrics: ClientMetrics | None,
        host: str,
    ) -> None:
        self._transport = transport
        self._renewing = transport if isinstance(transport, wire.RenewsAtOnce) else None
        self._local_discovery = transport if isinstance(transport, wire.LocalDiscovery) else None
        self._env = env
        # client-go rest.RESTClientForConfigAndClient: a qps without a burst means the default burst, 10.
        self._limiter = RateLimiter(env, qps, burst or 10) if qps > 0 else None
        self._fence = fence
        self._metrics = metrics
        self._host = host
        self._limit = ""

    def limited(self, seconds: float) -> "Calls":
        """The same calls, with the query parameter ``timeout`` for the server."""
        limited = copy(self)
        limited._limit = f"timeout={format_duration(seconds)}"
        return limited

    def fenced(self, fence: Callable[[], None]) -> "Calls":
        """The same calls, with ``fence`` called before every attempt of a write."""
        fenced = copy(self)
        fenced._fence = fence
        return fenced

    def over(self, transport: wire.Transport) -> "Calls":
        """The same calls, over another transport."""
        other = copy(self)
        other._transport = transport
        other._renewing = transport if isinstance(transport, wire.RenewsAtOnce) else None
        other._local_discovery = transport if isinstance(transport, wire.LocalDiscovery) else None
        return other

    async def send(self, method: str, target: str, headers: FixedHeaders, body: bytes = b"") -> bytes:
        """The body of the response. Raises its error."""
        return (await self.exchange(method, target, headers, body)).body

    def renewal(self, target: str, headers: FixedHeaders) -> Callable[[str], bytes | None] | None:
        """``Client.renewal``."""
        transport = self._renewing
        if transport is None or self._limiter is not None or self._fence is not None or self._metrics is not None:
            return None
        if self._limit:
            target = f"{target}{'&' if '?' in target else '?'}{self._limit}"
        return transport.renewal(wire.Request("PUT", target, headers))

    def get_nowait(self, target: str, headers: FixedHeaders) -> wire.Response | None:
        """The response to a GET of a document of a server in this process, without waiting; None if that needs a
        request."""
        transport = self._local_discovery
        if transport is None or self._limiter is not None or self._metrics is not None:
            return None
        if self._limit:
            target = f"{target}{'&' if '?' in target else '?'}{self._limit}"
        response = transport.request_nowait(wire.Request("GET", target, headers))
        return response if response is not None and 200 <= response.status < 300 else None

    async def exchange(self, method: str, target: str, headers: FixedHeaders, body: bytes) -> wire.Response:
        """The whole response if its status is 2xx. Raises its error otherwise."""
        if self._limit:
            target = f"{target}{'&' if '?' in target else '?'}{self._limit}"
        if self._limiter is not None:
            await self._take_token(self._limiter, method, target)
        error: Exception | None = None
        previous: Exception | None = None
        try:
            for attempt in range(MAX_RETRIES + 1):
                if attempt and self._limiter is not None:
                    await self._take_token(self._limiter, method, target)
                wait: float | None
                try:
                    response = await self._attempt(method, target, headers, body, attempt)
                except (ConnectionError, TimeoutError) as failed:
                    error, wait = failed, retry_error_after(failed, method=method, watch=False)
                else:
                    if 200 <= response.status < 300:
                        return response
                    error, wait = error_of(response.status, response.body, response), retry_after(response)
                if wait is None or attempt == MAX_RETRIES:
                    raise _with_previous(error, previous)
                previous = error
                await self._pause(wait, attempt, method, target, error)
            raise AssertionError("the last attempt returns or raises")
        finally:
            # The traceback of an error holds this frame, and with it the body: no cycle, so that it is freed
            # immediately.
            del error, previous

    async def open(self, target: str, headers: FixedHeaders) -> wire.Stream | None:
        """Open a watch. None if every connection broke, including retries: the watch has ended without events."""
        error: Exception | None = None
        previous: Exception | None = None
        try:
            for attempt in range(MAX_RETRIES + 1):
                if attempt and self._limiter is not None:
                    await self._take_token(self._limiter, "GET", target)
                wait: float | None
                try:
                    # The server sends headers immediately, long before the first event.
                    async with asyncio.timeout(OPEN_SECONDS):
                        stream = await self._attempt_open(target, headers, attempt)
                except (ConnectionError, TimeoutError) as failed:
                    error, wait = failed, retry_error_after(failed, method="GET", watch=True)
                else:
                    if stream.status == 200:
                        return stream
                    wait = retry_after(stream)
                    error = await _read_error(stream)
                if attempt == MAX_RETRIES and (is_connection_lost(error) or isinstance(error, TimeoutError)):
                    return None
                if wait is None or attempt == MAX_RETRIES:
                    raise _with_previous(error, previous)
                previous = error
                await self._pause(wait, attempt, "GET", target, error)
            raise AssertionError("the last attempt returns or raises")
        finally:
            del error, previous  # as in ``exchange``

    async def _attempt(
        self, method: str, target: str, headers: FixedHeaders, body: bytes, attempt: int
    ) -> wire.Response:
        fence = self._fence
        if fence is None or method == "GET":
            request = wire.Request(method, target, headers, body)
        else:
            fence()
            request = FencedRequest(method, target, headers, body, fence)
        metrics = self._metrics
        if metrics is None:
            return await self._transport.request(request)
        started = self._env.perf_counter()
        code, size = "<error>", 0
        try:
            response = await self._transport.request(request)
            code, size = str(response.status), len(response.body)
            return response
        finally:
            seconds = self._env.perf_counter() - started
            metrics.request_done(
                method, self._host, code, seconds=seconds, request_bytes=len(body), response_bytes=size
            )
            if attempt:
                metrics.retried(method, self._host, code)

    async def _attempt_open(self, target: str, headers: FixedHeaders, attempt: int) -> wire.Stream:
        request = wire.Request("GET", target, headers)
        metrics = self._metrics
        if metrics is None:
            return await self._transport.open(request)
        started = self._env.perf_counter()
        code = "<error>"
        try:
            stream = await self._transport.open(request)
            code = str(stream.status)
            return stream
        finally:
            seconds = self._env.perf_counter() - started
            metrics.request_done("GET", self._host, code, seconds=seconds, request_bytes=0, response_bytes=0)
            if attempt:
                metrics.retried("GET", self._host, code)

    async def _take_token(self, limiter: RateLimiter, method: str, target: str) -> None:
        waited = await limiter.acquire(f"{method}:{target}")
        if self._metrics is not None:
            self._metrics.throttled(method, self._host, waited)

    async def _pause(self, wait: float, attempt: int, method: str, target: str, error: Exception) -> None:
        _log.info(
            "Got a Retry-After response",
            v=4,
            delay=f"{wait}s",
            attempt=attempt + 1,
            request=f"{method}:{target}",
            err=error,
        )
        await asyncio.sleep(wait)


async def _read_error(stream: wire.Stream) -> ApiError:
    try:
        body = b"".join([piece async for piece in stream])
    except ConnectionError:
        body = b""  # the status is sufficient to see that it was rejected
    finally:
        await stream.close()
    return error_of(stream.status, body, wire.Response(stream.status, stream.headers))


def _with_previous(error: Exception, previous: Exception | None) -> Exception:
    if previous is not None and str(previous) != str(error):
        error.args = (f"{error} - error from a previous attempt: {previous}",)
    return error
