"""Webhooks of a program under test: its running processes handle the calls of the API servers, without a network.

The processes share one address, like the replicas of an operator behind a Service. A call without a running process is
refused, and a call whose process is killed loses its connection. The effect on the request depends on the API server:
its timeouts and the ``failurePolicy``.

Calls for requests of the scenario's administrator do not fail if the failure would fail the request. With
``failurePolicy: Ignore`` they fail like all others.
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
from pilothouse.sim.run_log import CURRENT, Origin, RunLog

if TYPE_CHECKING:
    from pilothouse.apiserver.admission.dynamic.webhook_calls import Target

with lazy_imports():
    from pilothouse.apiserver.admission.dynamic import webhook_calls

Respond = Callable[[str, bytes], Coroutine[Any, Any, tuple[int, bytes]]]
"""Handles a POST to a path; returns status and body of the response."""
USER = "user"


class ProgramWebhooks(msgspec.Struct, frozen=True):
    """The webhooks of a ``Program``."""

    host: str
    """The host of the program's webhooks."""
    handler: Callable[[Client], Respond]
    """Creates the handler of a process, which uses the process's client."""
    configurations: tuple[dict[str, Any], ...] = ()
    """Webhook configurations, created after the definitions."""
    ignorable: frozenset[str] = frozenset()
    """Paths of webhooks with ``failurePolicy: Ignore``."""


class SimulatedWebhooks:
    """Delivers the calls of API servers to the processes of a program."""

    def __init__(self, env: Env, log: RunLog, webhooks: ProgramWebhooks, user: Client) -> None:
        self._env = env
        self._log = log
        self._webhooks = webhooks
        self._user = user
        self._spared = webhooks.handler(user)
        self._handlers: dict[str, Respond] = {}
        """By the name of a running process."""
        self._calls: dict[asyncio.Task[tuple[int, bytes]], str] = {}
        """Calls in progress, with the name of the process."""
        self._failures: list[tuple[faults.WebhookFailure, int]] = []
        """Pending failures, each with the number of calls until it happens."""
        self._slow: list[float] = []
        """The maximum delays of the active faults."""

    async def configure(self, *servers: ApiServer) -> None:
        """Deliver webhook calls of these API servers, and create the webhook configurations at the first one."""
        for server in servers:
            server.core.send_webhook = self._send
            server.core.webhook_caller = _caller
        mapper = RestMapper(self._user)
        for body in self._webhooks.configurations:
            kind = await mapper.kind_for(body["apiVersion"], body["kind"])
            assert kind is not None, "webhook configurations are built in"
            await self._user.create(kind.raw, body)

    def started(self, process: str, client: Client) -> None:
        """Add a process that handles calls."""
        self._handlers[process] = self._webhooks.handler(client)

    def died(self, process: str) -> None:
        """Remove a process and cancel its calls."""
        self._handlers.pop(process, None)
        for call in [call for call, answering in self._calls.items() if answering == process]:
            call.cancel()

    # Faults

    def fail(self, failure: faults.WebhookFailure, nth: int) -> None:
        """The ``nth`` call from now on fails."""
        self._failures.append((failure, nth))

    async def slow(self, longest: float, seconds: float) -> None:
        """For some time each call is delayed by up to ``longest`` seconds."""
        self._slow.append(longest)
        await asyncio.sleep(seconds)
        if longest in self._slow:
            self._slow.remove(longest)

    def end_faults(self) -> None:
        """End all faults."""
        self._failures.clear()
        self._slow.clear()

    def _next_failure(self) -> "faults.WebhookFailure | None":
        """The failure of this call, the first planned one if there are several."""
        due = [failure for failure, nth in self._failures if nth == 1]
        self._failures = [(failure, nth - 1) for failure, nth in self._failures if nth > 1]
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
            self._log.record(f"webhook {path} for {origin or 'a watch'}: {error}")
            raise

    async def _call(self, target: "Target", path: str, body: bytes) -> tuple[int, bytes]:
        if self._slow:
            await asyncio.sleep(self._env.stream("webhooks").uniform(0.0, max(self._slow)))
        failure = self._next_failure()
        if failure is not None:
            self._log.record(f"webhook {path} fails: {failure}")
        if failure == "refused" or not self._handlers:
            address = f"{target.host}:{target.port}"
            raise webhook_calls.CallError(f'Post "{target.url}": dial tcp {address}: connect: connection refused')
        if failure == "timed out":
            await asyncio.get_running_loop().create_future()  # until the API server gives up
        if failure == "internal error":
            return 500, b"an internal error\n"
        response = await self._deliver(target, path, body)
        if failure == "answer lost":
            raise _lost(target)
        return response

    async def _deliver(self, target: "Target", path: str, body: bytes) -> tuple[int, bytes]:
        """Call one of the running processes; the call fails if the process is killed."""
        process = self._env.stream("webhooks").choice(list(self._handlers))
        call = asyncio.get_running_loop().create_task(self._handlers[process](path, body), name=f"webhook {path}")
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
    """The administrator, or empty: calls for requests of the administrator must not be shared with others, which may
    fail."""
    origin = CURRENT.get()
    return USER if origin is not None and origin.program == USER else ""


def _lost(target: "Target") -> Exception:
    return webhook_calls.CallError(f'Post "{target.url}": EOF')


class Spared:
    """The transport of the administrator, whose webhook calls do not fail."""

    def __init__(self, transport: wire.Transport, log: RunLog) -> None:
        self._transport = transport
        self._log = log

    async def request(self, request: wire.Request) -> wire.Response:
        """Send as the administrator."""
        origin = _of_user(request)
        self._log.requested(origin)
        token = CURRENT.set(origin)
        try:
            return await self._transport.request(request)
        finally:
            CURRENT.reset(token)

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open a watch. The conversion of its objects counts as the administrator's, too."""
        origin = _of_user(request)
        self._log.requested(origin)
        token = CURRENT.set(origin)
        try:
            return _MarkedStream(origin, await self._transport.open(request))
        finally:
            CURRENT.reset(token)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()


class _MarkedStream:
    """A watch whose events have an origin (``wire.Stream``)."""

    def __init__(self, origin: Origin, inner: wire.Stream) -> None:
        self._origin = origin
        self._inner = inner
        self.status = inner.status
        self.headers = inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._inner)
        while True:
            token = CURRENT.set(self._origin)
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
            finally:
                CURRENT.reset(token)
            yield piece

    async def close(self) -> None:
        await self._inner.close()


def _of_user(request: wire.Request) -> Origin:
    return Origin(USER, "", describe(request))
