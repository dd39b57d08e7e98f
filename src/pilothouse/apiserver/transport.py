"""The transport of clients on the same event loop: bytes in, bytes out, no sockets.

A call yields to the loop before it does anything, and a write yields again before its answer, so that cancelling it
leaves open whether the write happened, as a broken connection does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.serializers.json import Pieces

Handle = Callable[[Request, Identity], Awaitable[Response | Stream]]
_READS = ("GET", "HEAD")


class LocalTransport:
    """One user's way into an API server in the same process."""

    def __init__(self, handle: Handle, identity: Identity, user_agent: str) -> None:
        self._handle = handle
        self._identity = identity
        self._agent = {"user-agent": user_agent} if user_agent else {}

    async def request(self, request: Request) -> Response:
        """Ask and wait for the whole answer. A watch asked for this way is collected until it ends."""
        answer = await self._ask(request)
        if isinstance(answer, Response):
            return answer
        body = answer.whole() if isinstance(answer, Pieces) else b"".join([piece async for piece in answer])
        return Response(answer.status, answer.headers, body)

    async def open(self, request: Request) -> Stream:
        """Ask and return once the status is known."""
        answer = await self._ask(request)
        return WholeBody(answer) if isinstance(answer, Response) else answer

    async def _ask(self, request: Request) -> Response | Stream:
        await asyncio.sleep(0)
        if self._agent and "user-agent" not in request.headers:
            request = Request(request.method, request.target, {**request.headers, **self._agent}, request.body)
        answer = await self._handle(request, self._identity)
        if request.method not in _READS:
            await asyncio.sleep(0)
        return answer

    async def close(self) -> None:
        """Nothing to give back."""


class WholeBody:
    """An answer that is already there, as a stream of one piece."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._body = response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._body:
            body, self._body = self._body, b""
            yield body

    async def close(self) -> None:
        """Nothing to end."""
