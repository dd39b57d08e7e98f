"""Faults between a client and its server, on either transport.

``Cluster.running(program, faults=[Rule(…), …])`` of ``pilothouse.testing`` takes rules for the requests of a program.
Other tests, and simulations, wrap a transport in an ``Interceptor`` and add rules::

    faults = Interceptor(transport, env)
    faults.add(Rule(fail(500), verb="create", resource="pods", nth=3))  # the third create of a pod fails
    faults.add(Rule(lose_answer(), verb="create", probability=0.1))  # created, but the caller hears nothing
    faults.add(Rule(delay(0.1, 2.0), verb="watch", resource="nodes"))  # node events come late, in order
    faults.add(Rule(delay_answer(2.0), verb="write"))  # events overtake the answers to writes
    with faults.hold(resource="pods") as held:  # no pod event reaches anybody
        ...
        held.release(1)  # but this one
    faults.end_watches(resource="pods", with_=gone())  # 410

The order of the events of one watch never changes, as with a real server; delays differ between watches, so that one
watch may be ahead of another. Random numbers come from the stream "interceptor" of the ``Env``.
"""

import asyncio
import random  # noqa: TID251  # the type of a stream
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import msgspec

from pilothouse.api import wire
from pilothouse.client.errors import ConnectionLost, ConnectionRefused, TransportError
from pilothouse.client.intercepted_stream import InterceptedStream
from pilothouse.client.request_info import RequestInfo, describe
from pilothouse.env import Env
from pilothouse.machinery.flags import closest

__all__ = [
    "VERBS",
    "Action",
    "Hold",
    "Interceptor",
    "Replace",
    "Rule",
    "conflict",
    "delay",
    "delay_answer",
    "fail",
    "gone",
    "hang",
    "lose_answer",
    "lose_request",
    "namespace_ends",
    "refuse",
    "time_out",
]

# Actions


class Delay(msgspec.Struct, frozen=True):
    """Wait before sending; for a watch, before each event is delivered."""

    shortest: float
    longest: float


class DrawnDelay(msgspec.Struct, frozen=True):
    """A delay from a custom distribution; ``draw`` is called with the random stream."""

    draw: Callable[[random.Random], float]


class DelayAnswer(msgspec.Struct, frozen=True):
    """Send immediately, and delay the response."""

    shortest: float
    longest: float


class Answer(msgspec.Struct, frozen=True):
    """Respond instead of the server; the request is not sent."""

    response: wire.Response


class Break(msgspec.Struct, frozen=True):
    """No response. ``sent``: the server receives and carries out the request nevertheless."""

    how: Literal["refused", "lost", "hang", "timeout"]
    sent: bool


class Replace(msgspec.Struct, frozen=True):
    """Send a changed request: the result of the function."""

    change: Callable[[wire.Request], wire.Request]


Action = Delay | DrawnDelay | DelayAnswer | Answer | Break | Replace
"""What happens to a request; the functions of this module return them."""


def delay(shortest: float, longest: float | None = None) -> Delay:
    """Wait that many seconds, or a random time between two."""
    return Delay(shortest, shortest if longest is None else longest)


def delay_answer(shortest: float, longest: float | None = None) -> DelayAnswer:
    """The server carries it out immediately, and the response is delayed by these seconds: events arrive before it."""
    return DelayAnswer(shortest, shortest if longest is None else longest)


def fail(
    code: int,
    reason: str = "",
    message: str = "injected fault",
    *,
    retry_after: int | None = None,
    cause: str = "",
) -> Answer:
    """The server responds with an error and does nothing. ``retry_after`` sets the header that makes clients retry;
    ``cause`` is that of ``has_cause``."""
    details: dict[str, object] = {"retryAfterSeconds": retry_after} if retry_after else {}
    if cause:
        details["causes"] = [{"reason": cause, "message": message}]
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    encoded = msgspec.json.encode({**body, "reason": reason, "details": details, "code": code})
    headers = {"content-type": "application/json"}
    if retry_after is not None:
        headers["retry-after"] = str(retry_after)
    return Answer(wire.Response(code, headers, encoded))


def conflict() -> Answer:
    """409: another client has changed the object."""
    return fail(409, "Conflict", "Operation cannot be fulfilled: the object has been modified")


def namespace_ends() -> Answer:
    """403: nothing can be created in a terminating namespace."""
    return fail(403, "Forbidden", "because it is being terminated", cause="NamespaceTerminating")


def gone() -> Answer:
    """410: the resourceVersion is too old. With ``end_watches``, a watch ends with it as an ERROR event."""
    return fail(410, "Expired", "too old resource version: 1 (2)")


def refuse() -> Break:
    """The server is not up: connection refused."""
    return Break("refused", sent=False)


def lose_request() -> Break:
    """The connection breaks before the server has read the request."""
    return Break("lost", sent=False)


def lose_answer() -> Break:
    """The server carries out the request, and then the connection breaks."""
    return Break("lost", sent=True)


def time_out(*, sent: bool) -> Break:
    """``TimeoutError`` immediately; with ``sent`` after the server did it."""
    return Break("timeout", sent=sent)


def hang(*, sent: bool) -> Break:
    """There is never a response: the caller needs a timeout. With ``sent`` the server carries out the request
    nevertheless."""
    return Break("hang", sent=sent)


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "head", "options", "write")
"""The verbs of a ``Rule``: ``update`` is a PUT, and ``write`` every verb that may change something. ``head`` and
``options`` are requests of paths that are no resource."""


class Rule:
    """Which requests match, and what happens to them.

    Empty criteria match everything. ``resource`` is ``pods`` or ``replicasets.apps``, with or without subresource;
    ``verb`` is one of ``VERBS``. Of the requests that match, only the ``nth`` (from 1) is hit, or the first ``times``,
    or each with ``probability``. A request that an earlier rule took does not count as matched. Raises ``ValueError``
    for a verb or resource that no request has.
    """

    def __init__(
        self,
        action: Action,
        *,
        verb: str = "",
        resource: str = "",
        subresource: str | None = None,
        namespace: str = "",
        name: str = "",
        nth: int = 0,
        times: int = 0,
        probability: float = 1.0,
        when: Callable[[RequestInfo, wire.Request], bool] | None = None,
    ) -> None:
        _check_criteria(verb, resource)
        self.action = action
        self.criteria = Criteria(verb, resource, subresource, namespace, name)
        self.nth = nth
        self.times = times
        self.probability = probability
        self.when = when
        self.matched = 0
        """How many requests have matched so far."""
        self.hits = 0
        """How many were hit."""


def _check_criteria(verb: str, resource: str) -> None:
    """Raise ``ValueError`` for criteria that no request matches: a test whose faults do not happen would pass."""
    if verb and verb not in VERBS:
        similar = closest(verb.lower(), VERBS)
        hint = f" (did you mean {similar}?)" if similar else f"; there are {', '.join(VERBS)}"
        raise ValueError(f"no verb of a request is {verb!r}{hint}")
    if "/" in resource:
        raise ValueError(
            f"resource= is the plural alone, got {resource!r}: name a subresource in subresource=, and match paths "
            "that are no resource with when="
        )
    if resource != resource.lower():
        raise ValueError(f"resource= is the plural, such as deployments.apps, got {resource!r}")


class Criteria(msgspec.Struct, frozen=True):
    """The criteria of a rule."""

    verb: str = ""
    resource: str = ""
    subresource: str | None = None
    namespace: str = ""
    name: str = ""

    def match(self, call: RequestInfo) -> bool:
        """Whether the request is like that."""
        if self.verb and self.verb != call.verb and not (self.verb == "write" and call.is_write):
            return False
        if self.resource and self.resource not in {call.resource, call.group_resource}:
            return False
        if self.subresource is not None and self.subresource != call.subresource:
            return False
        return (not self.namespace or self.namespace == call.namespace) and (not self.name or self.name == call.name)


# Observation


class Sent(msgspec.Struct, frozen=True):
    """A request is being handed to the server, now."""

    call: RequestInfo
    request: wire.Request


class Answered(msgspec.Struct, frozen=True):
    """A request got a response. ``injected``: from a rule, not from the server."""

    call: RequestInfo
    request: wire.Request
    response: wire.Response
    injected: bool


class Failed(msgspec.Struct, frozen=True):
    """A request got no response. ``injected``: because of a rule."""

    call: RequestInfo
    request: wire.Request
    error: BaseException
    injected: bool


class Opened(msgspec.Struct, frozen=True):
    """A watch was opened, or refused with this status."""

    call: RequestInfo
    request: wire.Request
    status: int


class Delivered(msgspec.Struct, frozen=True):
    """Lines of a watch reach their reader, now."""

    call: RequestInfo
    lines: bytes


Observation = Sent | Answered | Failed | Opened | Delivered
Observer = Callable[[Observation], None]


# The interceptor


class Hold:
    """Keeps matching watch events back until ``release``."""

    def __init__(self, criteria: Criteria, notify: Callable[[], None]) -> None:
        self.criteria = criteria
        self._notify = notify
        self._allowed = 0
        self._open = False

    def release(self, events: int | None = None) -> None:
        """Release all events from now on, or only the next ``events``."""
        if events is None:
            self._open = True
        else:
            self._allowed += events
        self._notify()

    @property
    def may_pass(self) -> bool:
        """Whether one more event may be delivered."""
        return self._open or self._allowed > 0

    def take(self) -> None:
        """One event is being delivered."""
        if not self._open:
            self._allowed -= 1


class Interceptor:
    """A transport around a transport (``wire.Transport``). Without rules it changes nothing.

    The delays of all matching rules are added; of other actions the first one that was added applies. ``observer`` is
    called for everything that happens, in order.
    """

    def __init__(self, transport: wire.Transport, env: Env, *, observer: Observer | None = None) -> None:
        self.transport = transport
        self.observer = observer
        self._env = env
        self._rules: list[Rule] = []
        self._holds: list[Hold] = []
        self._streams: dict[InterceptedStream, RequestInfo] = {}

    def add(self, rule: Rule) -> Rule:
        """From now on this rule counts. Returns it, for its counters and for ``remove``."""
        self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """From now on this rule does not count."""
        self._rules.remove(rule)

    def clear(self) -> None:
        """Remove every rule and release every hold."""
        self._rules.clear()
        for hold in self._holds:
            hold.release()
        self._holds.clear()

    @contextmanager
    def hold(self, *, resource: str = "", namespace: str = "") -> Iterator[Hold]:
        """Hold back the events of matching watches until ``release``, or the end of the block."""
        held = Hold(Criteria(resource=resource, namespace=namespace), self._notify)
        self._holds.append(held)
        try:
            yield held
        finally:
            held.release()
            if held in self._holds:
                self._holds.remove(held)

    def end_watches(self, *, resource: str = "", namespace: str = "", with_: Answer | Break | None = None) -> int:
        """End the open watches that match, and return how many.

        Undelivered events are dropped. Without ``with_`` they end as at their timeout; ``gone()`` (or another ``fail``)
        becomes an ERROR event; ``lose_request()`` breaks the connection.
        """
        criteria = Criteria(resource=resource, namespace=namespace)
        ended = [stream for stream, call in self._streams.items() if criteria.match(call)]
        for stream in ended:
            if isinstance(with_, Answer):
                stream.stop(b'{"type":"ERROR","object":%b}\n' % with_.response.body)
            elif isinstance(with_, Break):
                stream.stop(error=ConnectionLost("injected fault: the watch's connection broke"))
            else:
                stream.stop()
        return len(ended)

    async def request(self, request: wire.Request) -> wire.Response:
        """Send the request, or apply the rules."""
        call = describe(request)
        wait, action = self._decide(call, request)
        if wait:
            await asyncio.sleep(wait)
        if isinstance(action, Answer):
            self._observe(Answered(call, request, action.response, injected=True))
            return action.response
        if isinstance(action, Replace):
            request = action.change(request)
        if isinstance(action, Break) and not action.sent:
            await self._break(call, request, action)
        self._observe(Sent(call, request))
        try:
            response = await self.transport.request(request)
        except BaseException as error:
            self._observe(Failed(call, request, error, injected=False))
            raise
        if isinstance(action, Break):
            await self._break(call, request, action)
        if isinstance(action, DelayAnswer):
            await asyncio.sleep(self._env.stream("interceptor").uniform(action.shortest, action.longest))
        self._observe(Answered(call, request, response, injected=False))
        return response

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open a watch, or apply the rules. Delays apply to its events, everything else to the request."""
        call = describe(request)
        _wait, action = self._decide(call, request)
        if isinstance(action, Answer):
            self._observe(Opened(call, request, action.response.status))
            return _RejectedWatch(action.response)
        if isinstance(action, Break):
            await self._break(call, request, action)
        if isinstance(action, Replace):
            request = action.change(request)
        self._observe(Sent(call, request))
        stream = await self.transport.open(request)
        self._observe(Opened(call, request, stream.status))
        if stream.status != 200:
            return stream
        intercepted = InterceptedStream(
            stream,
            delay=lambda: self._event_delay(call),
            may_pass=lambda: self._may_pass(call),
            delivered=lambda lines: self._observe(Delivered(call, lines)),
            closed=self._forget,
        )
        self._streams[intercepted] = call
        return intercepted

    async def close(self) -> None:
        """Close the transport below."""
        await self.transport.close()

    # Parts

    def _decide(self, call: RequestInfo, request: wire.Request) -> tuple[float, Action | None]:
        wait = 0.0
        chosen: Action | None = None
        for rule in self._rules:
            is_delay = isinstance(rule.action, Delay | DrawnDelay)
            if (chosen is not None and not is_delay) or (is_delay and call.verb == "watch"):
                continue
            if self._applies(rule, call, request):
                if isinstance(rule.action, DrawnDelay):
                    wait += rule.action.draw(self._env.stream("interceptor"))
                elif isinstance(rule.action, Delay):
                    wait += self._env.stream("interceptor").uniform(rule.action.shortest, rule.action.longest)
                else:
                    chosen = rule.action
        return wait, chosen

    def _applies(self, rule: Rule, call: RequestInfo, request: wire.Request) -> bool:
        if not rule.criteria.match(call) or (rule.when is not None and not rule.when(call, request)):
            return False
        rule.matched += 1
        if rule.nth and rule.matched != rule.nth:
            return False
        if rule.times and rule.hits >= rule.times:
            return False
        if rule.probability < 1.0 and self._env.stream("interceptor").random() >= rule.probability:
            return False
        rule.hits += 1
        return True

    def _event_delay(self, call: RequestInfo) -> float:
        wait = 0.0
        for rule in self._rules:
            if isinstance(rule.action, Delay) and call.verb == "watch" and self._applies(rule, call, _NO_REQUEST):
                wait += self._env.stream("interceptor").uniform(rule.action.shortest, rule.action.longest)
        return wait

    def _may_pass(self, call: RequestInfo) -> bool:
        holds = [hold for hold in self._holds if hold.criteria.match(call)]
        if not all(hold.may_pass for hold in holds):
            return False
        for hold in holds:
            hold.take()
        return True

    def _notify(self) -> None:
        for stream in list(self._streams):
            stream.notify()

    def _forget(self, stream: InterceptedStream) -> None:
        self._streams.pop(stream, None)

    async def _break(self, call: RequestInfo, request: wire.Request, action: Break) -> None:
        error: Exception
        if action.how == "refused":
            error = ConnectionRefused("injected fault: connection refused")
        elif action.how == "lost":
            error = ConnectionLost("injected fault: the connection was lost")
        elif action.how == "timeout":
            error = TimeoutError("injected fault: timed out")
        else:
            error = TransportError("injected fault: no answer came")
        self._observe(Failed(call, request, error, injected=True))
        if action.how == "hang":
            await asyncio.get_running_loop().create_future()  # until the caller times out
        raise error

    def _observe(self, observation: Observation) -> None:
        if self.observer is not None:
            self.observer(observation)


_NO_REQUEST = wire.Request("GET", "")


class _RejectedWatch:
    """A watch that was refused (``wire.Stream``)."""

    def __init__(self, response: wire.Response) -> None:
        self.status: int = response.status
        self.headers: Mapping[str, str] = response.headers
        self._body = response.body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._body

    async def close(self) -> None:
        """Nothing is open."""
