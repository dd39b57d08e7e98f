"""Webhooks of a program under faults: its living processes answer the API servers' calls, without a network.

The processes stand behind one address, as the replicas of an operator behind a Service. A call that meets no living
process is refused, and one whose process dies meanwhile loses its connection. What becomes of the write then is the API
server's affair: its timeouts and the ``failurePolicy``.

The administrator of the scenario is spared where a failed call would fail the request; where the webhook is configured
with ``failurePolicy: Ignore`` the API server goes on without it, and its calls fail as all others.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api import wire
from pilothouse.apiserver import ApiServer
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.request_info import describe
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.sim import faults
from pilothouse.sim.story import CURRENT, Origin, Story

if TYPE_CHECKING:
    from pilothouse.apiserver.admission.dynamic.webhook_calls import Target

with lazy_imports():
    from pilothouse.apiserver.admission.dynamic import webhook_calls

Respond = Callable[[str, bytes], Coroutine[Any, Any, tuple[int, bytes]]]
"""Status and body of the answer to what was posted to a path."""
USER = "user"


class ProgramWebhooks(msgspec.Struct, frozen=True):
    """The webhooks of a ``Program``."""

    host: str
    """Calls of ``https://HOST/…`` are its."""
    handler: Callable[[Client], Respond]
    """Makes what answers, with the client of a process."""
    configurations: tuple[dict[str, Any], ...] = ()
    """Webhook configurations, created after the definitions."""
    ignorable: frozenset[str] = frozenset()
    """Paths of webhooks whose failures the API server ignores."""


class SimulatedWebhooks:
    """Delivers the calls of API servers to the processes of a program."""

    def __init__(self, env: Env, story: Story, webhooks: ProgramWebhooks, user: Client) -> None:
        self._env = env
        self._story = story
        self._webhooks = webhooks
        self._user = user
        self._spared = webhooks.handler(user)
        self._answering: dict[str, Respond] = {}
        """By the name of a living process."""
        self._calls: dict[asyncio.Task[tuple[int, bytes]], str] = {}
        """Calls that are being answered, and by which process."""
        self._failures: list[tuple[faults.WebhookFailure, int]] = []
        """What is to fail, and how many calls from now that is."""
        self._slow: list[float] = []
        """The longest delays of the faults that last."""

    async def configure(self, *servers: ApiServer) -> None:
        """Have these API servers call the webhooks, and tell the first one which there are."""
        for server in servers:
            server.core.send_webhook = self._send
            server.core.webhook_caller = _caller
        mapper = RestMapper(self._user)
        for body in self._webhooks.configurations:
            kind = await mapper.kind_for(body["apiVersion"], body["kind"])
            assert kind is not None, "webhook configurations are built in"
            await self._user.create(kind.raw, body)

    def started(self, process: str, client: Client) -> None:
        """From now on this process answers."""
        self._answering[process] = self._webhooks.handler(client)

    def died(self, process: str) -> None:
        """It does not any more."""
        self._answering.pop(process, None)
        for call in [call for call, answering in self._calls.items() if answering == process]:
            call.cancel()

    # Faults

    def fail(self, how: faults.WebhookFailure, nth: int) -> None:
        """The ``nth`` call from now on fails."""
        self._failures.append((how, nth))

    async def slow(self, longest: float, seconds: float) -> None:
        """For a while each call takes up to ``longest`` seconds before it arrives."""
        self._slow.append(longest)
        await asyncio.sleep(seconds)
        if longest in self._slow:
            self._slow.remove(longest)

    def heal(self) -> None:
        """End all faults."""
        self._failures.clear()
        self._slow.clear()

    def _next_failure(self) -> "faults.WebhookFailure | None":
        """The failure of this call. Of several that it would meet, the one that was planned first."""
        due = [how for how, nth in self._failures if nth == 1]
        self._failures = [(how, nth - 1) for how, nth in self._failures if nth > 1]
        return due[0] if due else None

    # Calls

    async def _send(self, target: "Target", body: bytes) -> tuple[int, bytes]:
        if target.host != self._webhooks.host:
            return await webhook_calls.send(target, body)
        path, origin = target.path.partition("?")[0], CURRENT.get()
        if origin is not None and origin.program == USER and path not in self._webhooks.ignorable:
            return await self._spared(path, body)
        try:
            return await self._call(target, path, body)
        except webhook_calls.CallError as error:
            self._story.record(f"webhook {path} for {origin or 'a watch'}: {error}")
            raise

    async def _call(self, target: "Target", path: str, body: bytes) -> tuple[int, bytes]:
        if self._slow:
            await asyncio.sleep(self._env.stream("webhooks").uniform(0.0, max(self._slow)))
        failure = self._next_failure()
        if failure is not None:
            self._story.record(f"webhook {path} fails: {failure}")
        if failure == "refused" or not self._answering:
            address = f"{target.host}:{target.port}"
            raise webhook_calls.CallError(f'Post "{target.url}": dial tcp {address}: connect: connection refused')
        if failure == "timed out":
            await asyncio.get_running_loop().create_future()  # until the API server gives up
        if failure == "internal error":
            return 500, b"an internal error\n"
        answer = await self._answer(target, path, body)
        if failure == "answer lost":
            raise _lost(target)
        return answer

    async def _answer(self, target: "Target", path: str, body: bytes) -> tuple[int, bytes]:
        """Of one of the living processes, if it lives that long."""
        process = self._env.stream("webhooks").choice(list(self._answering))
        call = asyncio.get_running_loop().create_task(self._answering[process](path, body), name=f"webhook {path}")
        self._calls[call] = process
        try:
            await asyncio.wait((call,))
            if call.cancelled():
                raise _lost(target)
            return call.result()
        finally:
            del self._calls[call]
            call.cancel()


def _caller() -> str:
    """The administrator, or anybody else: a call that is to fail must not be one that the scenario waits for."""
    origin = CURRENT.get()
    return USER if origin is not None and origin.program == USER else ""


def _lost(target: "Target") -> Exception:
    return webhook_calls.CallError(f'Post "{target.url}": EOF')


class Spared:
    """The transport of the administrator: what webhooks are called for in its requests is spared."""

    def __init__(self, transport: wire.Transport, story: Story) -> None:
        self._transport = transport
        self._story = story

    async def request(self, request: wire.Request) -> wire.Response:
        """Send, as the administrator."""
        origin = _of_user(request)
        self._story.requested(origin)
        before = CURRENT.set(origin)
        try:
            return await self._transport.request(request)
        finally:
            CURRENT.reset(before)

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open a watch, whose objects are converted for the administrator, too."""
        origin = _of_user(request)
        self._story.requested(origin)
        before = CURRENT.set(origin)
        try:
            return _MarkedStream(origin, await self._transport.open(request))
        finally:
            CURRENT.reset(before)

    async def close(self) -> None:
        """Close what is below."""
        await self._transport.close()


class _MarkedStream:
    """A watch whose events are made for somebody (``wire.Stream``)."""

    def __init__(self, origin: Origin, inner: wire.Stream) -> None:
        self._origin = origin
        self._inner = inner
        self.status = inner.status
        self.headers = inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._inner)
        while True:
            before = CURRENT.set(self._origin)
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
            finally:
                CURRENT.reset(before)
            yield piece

    async def close(self) -> None:
        await self._inner.close()


def _of_user(request: wire.Request) -> Origin:
    return Origin(USER, "", describe(request))
