"""Injected faults: matching, what the server sees, and what the caller gets."""

import asyncio
from typing import Any

import pytest
from tests.client.test_client import Pieces, line, ok
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import Conflict, ConnectionLost, ConnectionRefused, Expired, InternalError
from pilothouse.client.interceptor import (
    Answered,
    Delivered,
    Failed,
    Interceptor,
    Observation,
    Opened,
    Replace,
    Rule,
    Sent,
    conflict,
    delay,
    delay_answer,
    fail,
    gone,
    hang,
    lose_answer,
    lose_request,
    refuse,
    time_out,
)
from pilothouse.client.request_info import describe
from pilothouse.env import Env, RandomStreams


class Server:
    """Responds to everything with an empty object, and records requests. ``send_added`` sends events to watches."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.watches: list[tuple[str, asyncio.Queue[bytes]]] = []

    async def request(self, request: wire.Request) -> wire.Response:
        self.seen.append(str(describe(request)))
        await asyncio.sleep(0)
        return ok({"items": []})

    async def open(self, request: wire.Request) -> wire.Stream:
        self.seen.append(str(describe(request)))
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.watches.append((describe(request).resource, queue))
        return QueuedStream(queue)

    def send_added(self, resource: str, *names: str) -> None:
        for watched, queue in self.watches:
            if watched == resource:
                queue.put_nowait(b"".join(line("ADDED", {"metadata": {"name": name}}) for name in names))

    async def close(self) -> None:
        pass


class QueuedStream(Pieces):
    def __init__(self, queue: asyncio.Queue[bytes]) -> None:
        super().__init__([])
        self.queue = queue

    async def __aiter__(self) -> Any:
        while True:
            yield await self.queue.get()


class Scenario:
    """A client behind an interceptor, and the observations."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.server = Server()
        self.observed: list[Observation] = []
        self.faults = Interceptor(self.server, env, observer=self.observed.append)
        self.client = Client(self.faults, env)
        self.heard: list[tuple[float, str, str]] = []
        self.endings: dict[str, BaseException | None] = {}

    async def listen(self, kind: Any) -> None:
        """Record the events of a kind with their times, until the watch ends."""
        try:
            async with self.client.watch(kind) as batches:
                async for batch in batches:
                    now = round(self.env.monotonic(), 3)
                    self.heard += [(now, kind.resource, event.object.metadata.name) for event in batch]
            self.endings[kind.resource] = None
        except Exception as error:  # noqa: BLE001  # looked at by the test
            self.endings[kind.resource] = error


@pytest.fixture
async def scenario(env: Env) -> Scenario:
    return Scenario(env)


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/namespaces/ns/pods/a", "get pods ns/a"),
        ("GET", "/api/v1/pods?limit=1", "list pods"),
        ("GET", "/api/v1/pods?watch=true&x=y", "watch pods"),
        ("GET", "/apis/apps/v1/namespaces/ns/replicasets?watch=1", "watch replicasets.apps ns/"),
        ("POST", "/api/v1/namespaces/ns/pods", "create pods ns/"),
        ("POST", "/api/v1/namespaces/ns/pods/a/binding", "create pods/binding ns/a"),
        ("PUT", "/apis/apps/v1/namespaces/ns/replicasets/a/status", "update replicasets.apps/status ns/a"),
        ("PATCH", "/api/v1/nodes/a%3Ab", "patch nodes a:b"),
        ("DELETE", "/api/v1/namespaces/ns/pods", "deletecollection pods ns/"),
        ("DELETE", "/api/v1/namespaces/ns", "delete namespaces ns/ns"),
        ("PUT", "/api/v1/namespaces/ns/finalize", "update namespaces/finalize ns/ns"),
        ("GET", "/api/v1/namespaces", "list namespaces"),
        ("GET", "/healthz", "get /healthz"),
        ("GET", "/api/v1", "get /api/v1"),
        ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
    ],
)
def test_request_info_is_the_servers(method: str, target: str, expected: str) -> None:
    assert str(describe(wire.Request(method, target))) == expected


async def test_without_rules_nothing_changes(scenario: Scenario) -> None:
    await scenario.client.get(PODS, "a", "ns")
    await scenario.client.create(PODS, {}, "ns")
    assert scenario.server.seen == ["get pods ns/a", "create pods ns/"]
    assert [type(item) for item in scenario.observed] == [Sent, Answered, Sent, Answered]


@cases(
    "action, error, server_did_it",
    {
        "an error instead": (fail(500, "InternalError"), InternalError, False),
        "conflict": (conflict(), Conflict, False),
        "refused": (refuse(), ConnectionRefused, False),
        "request lost: not created": (lose_request(), ConnectionLost, False),
        "response lost: created": (lose_answer(), ConnectionLost, True),
        "timed out: it did create": (time_out(sent=True), TimeoutError, True),
        "timed out before": (time_out(sent=False), TimeoutError, False),
    },
)
async def test_faults(scenario: Scenario, action: Any, error: type[Exception], server_did_it: bool) -> None:
    scenario.faults.add(Rule(action, verb="create"))
    with pytest.raises(error):
        await scenario.client.create(PODS, {}, "ns")
    assert scenario.server.seen == (["create pods ns/"] if server_did_it else [])
    assert isinstance(scenario.observed[-1], Answered | Failed)
    assert scenario.observed[-1].injected


async def test_delayed_response_arrives_after_events(scenario: Scenario) -> None:
    scenario.faults.add(Rule(delay_answer(2.0), verb="create"))
    listening = asyncio.ensure_future(scenario.listen(PODS))
    await asyncio.sleep(1)
    creating = asyncio.ensure_future(scenario.client.create(PODS, {}, "ns"))
    await asyncio.sleep(1)
    assert scenario.server.seen[-1] == "create pods ns/", "the server did it at once"
    scenario.server.send_added("pods", "a")
    await asyncio.sleep(0.5)
    assert scenario.heard == [(2.0, "pods", "a")]
    assert not creating.done()
    await creating
    assert scenario.env.monotonic() == 3.0
    listening.cancel()


async def test_missing_response_needs_a_caller_timeout(scenario: Scenario) -> None:
    scenario.faults.add(Rule(hang(sent=True)))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await scenario.client.create(PODS, {}, "ns")
    assert scenario.env.monotonic() == 5.0
    assert scenario.server.seen == ["create pods ns/"]


@pytest.mark.parametrize(
    ("criteria", "hit"),
    [
        ({"verb": "create"}, ["create pods ns/", "create replicasets.apps ns/"]),
        ({"verb": "write", "resource": "pods"}, ["create pods ns/", "patch pods/status ns/a", "delete pods ns/a"]),
        ({"resource": "replicasets.apps"}, ["create replicasets.apps ns/"]),
        ({"resource": "replicasets"}, ["create replicasets.apps ns/"]),
        ({"subresource": "status"}, ["patch pods/status ns/a"]),
        ({"name": "a", "subresource": ""}, ["get pods ns/a", "delete pods ns/a"]),
        ({"namespace": "other"}, []),
        ({"nth": 2}, ["get pods ns/a"]),
        ({"times": 1}, ["create pods ns/"]),
        ({"when": lambda call, request: request.body == b"{}" and call.verb == "create"}, ["create pods ns/"]),
        ({"probability": 0.0}, []),
    ],
)
async def test_rule_matching(scenario: Scenario, criteria: dict[str, Any], hit: list[str]) -> None:
    rule = scenario.faults.add(Rule(fail(400), **criteria))
    calls = [
        scenario.client.create(PODS, {}, "ns"),
        scenario.client.get(PODS, "a", "ns"),
        scenario.client.patch(PODS, "a", merge_patch({}), "ns", subresource="status"),
        scenario.client.create(REPLICA_SETS, {"x": 1}, "ns"),
        scenario.client.delete(PODS, "a", "ns"),
    ]
    for call in calls:
        await asyncio.gather(call, return_exceptions=True)
    assert rule.hits == len(hit)
    scenario.faults.remove(rule)
    await scenario.client.list(PODS)
    hurt = [str(item.call) for item in scenario.observed if isinstance(item, Answered) and item.injected]
    assert hurt == hit


async def test_probability_depends_on_the_seed(env: Env) -> None:
    async def hits(seed: int) -> list[bool]:
        scenario = Scenario(Env(clock=env.clock, random_streams=RandomStreams(seed)))
        scenario.faults.add(Rule(fail(400), probability=0.5))
        for _ in range(20):
            await asyncio.gather(scenario.client.get(PODS, "a", "ns"), return_exceptions=True)
        return [item.injected for item in scenario.observed if isinstance(item, Answered)]

    one = await hits(1)
    assert await hits(1) == one
    assert await hits(2) != one
    assert 0 < sum(one) < 20


async def test_delays_add_up_before_the_request_is_sent(scenario: Scenario) -> None:
    scenario.faults.add(Rule(delay(1.0), verb="create"))
    scenario.faults.add(Rule(delay(2.0, 3.0)))
    await scenario.client.create(PODS, {}, "ns")
    assert 3.0 <= scenario.env.monotonic() <= 4.0


async def test_request_can_be_modified(scenario: Scenario) -> None:
    """A stale list, for one: the same list, from the server's cache."""
    change = Replace(lambda request: wire.Request(request.method, request.target + "/b"))
    scenario.faults.add(Rule(change, verb="get"))
    await scenario.client.get(PODS, "a", "ns")
    assert scenario.server.seen == ["get pods/b ns/a"]


async def test_rejected_and_successful_watch(scenario: Scenario) -> None:
    scenario.faults.add(Rule(gone(), verb="watch", times=1))
    await scenario.listen(PODS)
    assert isinstance(scenario.endings["pods"], Expired)
    listener = asyncio.ensure_future(scenario.listen(PODS))
    await asyncio.sleep(1)
    scenario.server.send_added("pods", "a", "b")
    await asyncio.sleep(1)
    listener.cancel()
    assert scenario.heard == [(1.0, "pods", "a"), (1.0, "pods", "b")]
    assert [item.status for item in scenario.observed if isinstance(item, Opened)] == [410, 200]
    assert len([item for item in scenario.observed if isinstance(item, Delivered)]) == 2


@pytest.mark.usefixtures("seed")
async def test_delayed_events_keep_their_order_per_watch(scenario: Scenario) -> None:
    scenario.faults.add(Rule(delay(1.0, 9.0), verb="watch", resource="pods"))
    listeners = [asyncio.ensure_future(scenario.listen(kind)) for kind in (PODS, NODES)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scenario.server.send_added("pods", *"abcde")
    scenario.server.send_added("nodes", "n")
    await asyncio.sleep(20)
    for listener in listeners:
        listener.cancel()
    assert scenario.heard[0] == (0.0, "nodes", "n")
    assert [name for _, _, name in scenario.heard[1:]] == list("abcde")
    assert scenario.heard[-1][0] <= 9.0, "delays count from arrival; they do not add up along the watch"


async def test_held_events_wait_until_they_are_released(scenario: Scenario) -> None:
    listeners = [asyncio.ensure_future(scenario.listen(kind)) for kind in (PODS, NODES)]
    await asyncio.sleep(1)
    with scenario.faults.hold(resource="pods") as hold:
        scenario.server.send_added("pods", "a", "b", "c")
        scenario.server.send_added("nodes", "n")
        await asyncio.sleep(1)
        hold.release(1)
        await asyncio.sleep(1)
    await asyncio.sleep(1)
    for listener in listeners:
        listener.cancel()
    assert scenario.heard == [(1.0, "nodes", "n"), (2.0, "pods", "a"), (3.0, "pods", "b"), (3.0, "pods", "c")]


@pytest.mark.parametrize(("with_", "ending"), [(None, type(None)), (gone(), Expired), (lose_request(), ConnectionLost)])
async def test_open_watches_can_be_ended(scenario: Scenario, with_: Any, ending: type) -> None:
    listeners = [asyncio.ensure_future(scenario.listen(kind)) for kind in (PODS, NODES)]
    await asyncio.sleep(1)
    scenario.faults.add(Rule(delay(100), verb="watch"))
    scenario.server.send_added("pods", "lost")
    await asyncio.sleep(1)
    assert scenario.faults.end_watches(resource="pods", with_=with_) == 1
    await asyncio.sleep(1)
    assert scenario.faults.end_watches(resource="pods") == 0
    assert type(scenario.endings["pods"]) is ending
    assert "nodes" not in scenario.endings
    listeners[1].cancel()
    assert scenario.heard == []


async def test_watch_without_response_headers_is_reopened_after_a_minute(env: Env) -> None:
    server = Server()
    interceptor = Interceptor(server, env)
    interceptor.add(Rule(hang(sent=False), verb="watch", times=1))
    async with Client(interceptor, env).watch(PODS) as batches:
        assert env.monotonic() == 61.0  # a minute for the first try, and the pause of a second after it
        server.send_added("pods", "a")
        assert [event.object.metadata.name for event in await anext(batches)] == ["a"]


@cases(
    "criteria, expected",
    {
        "misspelled": ({"verb": "ptach"}, r"no verb of a request is 'ptach' \(did you mean patch\?\)"),
        "method": ({"verb": "PUT"}, r"no verb of a request is 'PUT'; there are get, list, watch, create, update, "),
        "kind": ({"resource": "Deployment"}, r"resource= is the plural, such as deployments.apps, got 'Deployment'"),
        "subresource": ({"resource": "pods/status"}, r"got 'pods/status': name a subresource in subresource="),
    },
)
def test_a_rule_that_never_matches_is_an_error(criteria: dict[str, Any], expected: str) -> None:
    """A test whose faults do not happen would pass."""
    with pytest.raises(ValueError, match=expected):
        Rule(conflict(), **criteria)
