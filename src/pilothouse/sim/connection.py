"""The connection of a manager process to the API servers: with faults, possibly to a stale server, until it is killed.

Every client of a process has one ``Connection`` (a ``wire.Transport``)::

    client → Connection (process alive? name of the client) → Interceptor (faults) → Route (which server? crash here?)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal
from urllib.parse import parse_qs

import msgspec

from pilothouse.api import wire
from pilothouse.client.interceptor import Interceptor, Observer, Rule
from pilothouse.client.request_info import RequestInfo, describe
from pilothouse.env import Env
from pilothouse.sim.replica import Replica
from pilothouse.sim.run_log import CURRENT, Origin, RunLog
from pilothouse.storage import Store

CONSISTENT_SECONDS = 3.0
"""How long a stale server waits for the latest state before it returns an error (v1.36)."""

_TOO_LARGE = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Timeout: Too large resource version",
    "reason": "Timeout",
    "details": {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    },
    "code": 504,
}
_NO_STREAMS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
    "reason": "Invalid",
    "code": 422,
}


_SELF_EXPLANATORY = (404, 409, 410)
"""Status codes whose message adds nothing to the request."""
_MAX_MESSAGE = 300


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class Death(msgspec.Struct):
    """A scheduled crash: at the process's ``nth`` write from now on, before or after the server has processed it."""

    nth: int
    when: Literal["before", "after"]


class Wire:
    """The state that all connections of one process share."""

    def __init__(self, env: Env, name: str, log: RunLog, primary: Store, *, observer: Observer) -> None:
        self.env = env
        self.name = name
        self.log = log
        self.primary = primary
        self.replica: Replica | None = None
        """The server for lists and watches; None for the primary one."""
        self.streams = True
        """If False, the server does not support WatchList, so informers start with a list from that server's state."""
        self.alive = True
        self.death: Death | None = None
        self.on_death: Callable[[], None] = lambda: None
        self.observer = observer
        self.interceptors: list[Interceptor] = []
        self.rules: list[Rule] = []
        """Rules for future connections of this process."""

    def die(self) -> None:
        """Kill the process: it sends no more requests."""
        if self.alive:
            self.alive = False
            self.log.record_event(f"{self.name} dies")
            self.on_death()

    def check(self) -> None:
        """Cancels the calling task if the process was killed."""
        if not self.alive:
            raise asyncio.CancelledError(f"{self.name} is dead")


class Connection:
    """The transport of one client."""

    def __init__(self, wiring: Wire, transport: wire.Transport, replica_transport: Callable[[Replica], wire.Transport]):
        self._wire = wiring
        route = Route(wiring, transport, replica_transport)
        self.interceptor = Interceptor(route, wiring.env, observer=wiring.observer)
        wiring.interceptors.append(self.interceptor)

    async def request(self, request: wire.Request) -> wire.Response:
        """Send a request. Cancels the calling task if the process was killed."""
        self._wire.check()
        try:
            response = await self.interceptor.request(request)
        except (ConnectionError, TimeoutError) as error:
            self._record(request, str(error))
            raise
        self._wire.check()
        if response.status >= 300 or request.method != "GET":
            self._record(request, _shown(response))
        return response

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open a watch. Cancels the calling task if the process was killed."""
        self._wire.check()
        stream = await self.interceptor.open(request)
        self._wire.check()
        if stream.status != 200:
            self._record(request, str(stream.status))
        return stream

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self.interceptor.close()

    def _record(self, request: wire.Request, outcome: str) -> None:
        self._wire.log.record_request(self._wire.name, _controller(request), request, outcome)


class Route:
    """Routes requests to one of the servers, and executes scheduled crashes."""

    def __init__(
        self, wiring: Wire, transport: wire.Transport, replica_transport: Callable[[Replica], wire.Transport]
    ) -> None:
        self._wire = wiring
        self._transport = transport
        self._replica_transport = replica_transport

    async def request(self, request: wire.Request) -> wire.Response:
        """Send to the primary server; lists that accept an older state go to the stale one."""
        call = describe(request)
        self._wire.check()
        if call.verb == "list" and _query(request, "resourceVersion") and self._wire.replica is not None:
            self._wire.log.requested(Origin(self._wire.name, _controller(request), call))
            return await self._replica_transport(self._wire.replica).request(request)
        death = self._wire.death if call.is_write and call.resource not in {"events", "leases"} else None
        if death is not None:
            death.nth -= 1
            if death.nth > 0:
                death = None
        if death is not None and death.when == "before":
            self._wire.log.record_event(f"{self._wire.name} dies before: {call}")
            self._wire.die()
        self._wire.check()
        origin = Origin(self._wire.name, _controller(request), call, request.body)
        self._wire.log.requested(origin)
        token = CURRENT.set(origin)
        try:
            response = await self._transport.request(request)
        finally:
            CURRENT.reset(token)
        if death is not None:
            self._wire.log.record_event(f"{self._wire.name} dies after: {call} -> {_shown(response)}")
            self._wire.die()
        return response

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open at the server that this process watches."""
        self._wire.check()
        if self._wire.log.on_request:
            self._wire.log.requested(Origin(self._wire.name, _controller(request), describe(request)))
        initial = _query(request, "sendInitialEvents") == "true"
        if initial and not self._wire.streams:
            return ErrorStream(422, _NO_STREAMS)
        replica = self._wire.replica
        if replica is None:
            return await self._transport.open(request)
        if initial and not _query(request, "resourceVersion"):
            # The latest state is requested explicitly (KEP-2340): the server waits until it has it.
            try:
                async with asyncio.timeout(CONSISTENT_SECONDS):
                    await replica.wait_for_revision(self._wire.primary.revision)
            except TimeoutError:
                return ErrorStream(504, _TOO_LARGE)
        return await self._replica_transport(replica).open(request)

    async def close(self) -> None:
        """A no-op."""


class ErrorStream:
    """A response to a watch that is an error (``wire.Stream``)."""

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = msgspec.json.encode(body)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def close(self) -> None:
        """A no-op."""


class Marked:
    """The transport of a program without faults; its writes are recorded with its name."""

    def __init__(self, name: str, transport: wire.Transport, log: RunLog | None = None) -> None:
        self._name = name
        self._transport = transport
        self._log = log

    async def request(self, request: wire.Request) -> wire.Response:
        """Send as this program."""
        origin = Origin(self._name, "", describe(request))
        if self._log is not None:
            self._log.requested(origin)
        token = CURRENT.set(origin)
        try:
            return await self._transport.request(request)
        finally:
            CURRENT.reset(token)

    def renewal(self, request: wire.Request) -> Callable[[str], bytes | None] | None:
        """``wire.RenewsAtOnce``, as this program."""
        transport, log = self._transport, self._log
        renew = transport.renewal(request) if isinstance(transport, wire.RenewsAtOnce) else None
        if renew is None:
            return None
        origin = Origin(self._name, "", describe(request))

        def renew_as_marked(renewed: str) -> bytes | None:
            token = CURRENT.set(origin)
            try:
                lease = renew(renewed)
            finally:
                CURRENT.reset(token)
            if lease is not None and log is not None:
                log.requested(origin)
            return lease

        return renew_as_marked

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open a watch."""
        if self._log is not None and self._log.on_request:
            self._log.requested(Origin(self._name, "", describe(request)))
        return await self._transport.open(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()


def _query(request: wire.Request, name: str) -> str:
    return parse_qs(request.target.partition("?")[2]).get(name, [""])[0]


def _controller(request: wire.Request) -> str:
    """The last part of the User-Agent: the service account or component."""
    return request.headers.get("user-agent", "").rpartition("/")[2].rpartition(":")[2]


__all__ = ["Connection", "Death", "Marked", "RequestInfo", "Wire"]


def _shown(response: wire.Response) -> str:
    """The status code, with the message of an error."""
    if response.status < 400 or response.status in _SELF_EXPLANATORY:
        return str(response.status)
    try:
        message = msgspec.json.decode(response.body, type=_Status).message
    except msgspec.MsgspecError:  # not a Status: plain text from the server or a fault
        return str(response.status)
    line = " ".join(message.split())
    return f"{response.status}: {line[:_MAX_MESSAGE]}" if line else str(response.status)
