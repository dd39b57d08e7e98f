"""The event recorder: aggregation, spam filter, retries (client-go ``tools/record/events_cache_test.go``)."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.runtime.cluster import Cluster

from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import EVENTS, NODES, ObjectReference
from pilothouse.api.meta import ObjectMeta
from pilothouse.env import Env
from pilothouse.runtime import EventRecorder, object_reference

WEB = object_reference(REPLICA_SETS, ObjectMeta(name="web", namespace="default", uid="u1", resource_version="7"))


@contextlib.asynccontextmanager
async def recording(env: Env, *, concurrency: int = 1) -> AsyncIterator[tuple[Cluster, EventRecorder]]:
    """A server and a recorder, whose events are all sent at the end."""
    server = Cluster(env)
    recorder = EventRecorder(server.client(), env, "replicaset-controller", concurrency=concurrency)
    sending = asyncio.create_task(recorder.run())
    yield server, recorder
    await recorder.flush(10_000)
    sending.cancel()


def events(server: Cluster) -> list[dict[str, Any]]:
    return server.objects("/events/")


async def test_event_is_a_complete_core_v1_event(env: Env) -> None:
    async with recording(env) as (server, recorder):
        await asyncio.sleep(1.5)
        recorder.event(WEB, "Normal", "SuccessfulCreate", "Created pod: web-1")
    (_at, method, _name, body) = server.log[0]
    assert method == "POST"
    name = body["metadata"].pop("name")
    prefix, _dot, suffix = name.rpartition(".")
    assert prefix == "web"
    assert int(suffix, 16) // 1_000_000 == 1_767_225_601_500, "the time in nanoseconds, in hexadecimal"
    assert body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "involvedObject": {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "default", "name": "web", "uid": "u1",
            "resourceVersion": "7",
        },
        "reason": "SuccessfulCreate",
        "message": "Created pod: web-1",
        "source": {"component": "replicaset-controller"},
        "firstTimestamp": "2026-01-01T00:00:01Z",
        "lastTimestamp": "2026-01-01T00:00:01Z",
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": "replicaset-controller",
        "reportingInstance": "",
    }  # fmt: skip


async def test_cluster_scoped_events_use_namespace_default_and_invalid_names_are_replaced(env: Env) -> None:
    async with recording(env) as (server, recorder):
        recorder.event(object_reference(NODES, ObjectMeta(name="node-0", uid="u")), "Normal", "R", "m")
        recorder.event(ObjectReference(kind="ClusterRole", name="system:x"), "Warning", "R", "m")
    odd, node = (event["metadata"] for event in sorted(events(server), key=lambda event: event["type"], reverse=True))
    assert node["namespace"] == odd["namespace"] == "default"
    assert node["name"].startswith("node-0.")
    assert odd["name"].count("-") == 4


async def test_repeated_event_increments_the_count_by_patch(env: Env) -> None:
    async with recording(env) as (server, recorder):
        for _ in range(3):
            recorder.event(WEB, "Normal", "R", "same")
            await asyncio.sleep(1)
    assert server.methods() == ["POST", "PATCH", "PATCH"]
    assert len({name for _at, method, name, _body in server.log if method == "PATCH"}) == 1
    assert server.log[-1][3] == {"count": 3, "lastTimestamp": "2026-01-01T00:00:02Z", "message": "same"}
    (event,) = events(server)
    assert event["count"] == 3
    assert event["firstTimestamp"] == "2026-01-01T00:00:00Z"


async def test_expired_event_is_recreated_with_its_count(env: Env) -> None:
    async with recording(env) as (server, recorder):
        recorder.event(WEB, "Normal", "R", "same")
        await asyncio.sleep(1)
        await server.admin().delete_collection(EVENTS, "default")
        recorder.event(WEB, "Normal", "R", "same")
    assert server.methods() == ["POST", "PATCH", "POST"]
    assert events(server)[0]["count"] == 2


async def test_similar_events_are_aggregated_from_the_tenth(env: Env) -> None:
    """Twelve different messages in ten minutes: nine events, then one whose count rises to three."""
    async with recording(env) as (server, recorder):
        for number in range(12):
            recorder.event(WEB, "Normal", "R", f"message {number}")
            await asyncio.sleep(50)
    messages = [(event["message"], event["count"]) for event in events(server)]
    assert messages[:9] == [(f"message {number}", 1) for number in range(9)]
    assert messages[9:] == [("(combined from similar events): message 11", 3)]
    assert events(server)[9]["reportingComponent"] == "", "combined events report for nobody"
    assert server.methods() == ["POST"] * 10 + ["PATCH"] * 2


async def test_aggregation_resets_after_ten_minutes(env: Env) -> None:
    async with recording(env) as (server, recorder):
        for number in range(10):
            recorder.event(WEB, "Normal", "R", f"message {number}")
        await asyncio.sleep(601)
        recorder.event(WEB, "Normal", "R", "alone")
    assert events(server)[-1]["message"] == "alone"


async def test_spam_filter_allows_25_events_and_one_per_five_minutes(
    env: Env,
) -> None:
    async with recording(env) as (server, recorder):
        for _ in range(30):
            recorder.event(WEB, "Normal", "R", "same")
        recorder.event(WEB, "Warning", "R", "another type has its own allowance")
        await asyncio.sleep(1)
        assert server.log[24][3]["count"] == 25
        assert len(server.log) == 26
        await asyncio.sleep(300)
        recorder.event(WEB, "Normal", "R", "same")
        recorder.event(WEB, "Normal", "R", "same")
    assert len(server.log) == 27
    assert server.log[-1][3]["count"] == 31, "dropped events were counted"


async def test_unanswered_event_is_retried_twelve_times(env: Env) -> None:
    async with recording(env) as (server, recorder):
        server.down = True
        recorder.event(WEB, "Normal", "R", "lost")
        await asyncio.sleep(200)
        server.down = False
        recorder.event(WEB, "Normal", "R", "kept")
    times = [at for at, _method, _name, _body in server.log[:12]]
    assert times[1] < 10.0, "the first pause is random"
    assert [round(b - a, 2) for a, b in itertools.pairwise(times[1:])] == [10.0] * 10
    assert [event["message"] for event in events(server)] == ["kept"]
    assert len(server.log) == 13


@pytest.mark.parametrize(
    ("code", "reason"), [(409, "AlreadyExists"), (403, "Forbidden"), (500, "InternalError"), (422, "Invalid")]
)
async def test_rejected_event_is_not_retried(env: Env, code: int, reason: str) -> None:
    async with recording(env) as (server, recorder):
        server.before = lambda _request: server.answer(code, reason)
        recorder.event(WEB, "Normal", "R", "refused")
    assert len(server.log) == 1


async def test_terminating_namespace_gets_one_event_per_second(env: Env) -> None:
    """The events of others do not wait for hundreds that would all be refused."""
    async with recording(env) as (server, recorder):
        cause = "NamespaceTerminating"
        server.before = lambda request: (
            server.answer(403, "Forbidden", cause=cause) if "/default/" in request.target else None
        )
        for number in range(30):
            for namespace in ("default", "kube-system"):
                about = ObjectReference(kind="Pod", namespace=namespace, name=f"pod-{number}", uid=str(number))
                recorder.event(about, "Normal", "R", "m")
            await asyncio.sleep(0.125)
    times = [at for at, _method, _name, body in server.log if body["metadata"]["namespace"] == "default"]
    assert times == [0.0, 1.0, 2.0, 3.0]
    assert len(events(server)) == 30


def pods(count: int) -> list[ObjectReference]:
    return [
        ObjectReference(kind="Pod", namespace="default", name=f"pod-{number}", uid=str(number))
        for number in range(count)
    ]


async def test_concurrent_sending_if_configured(env: Env) -> None:
    async with recording(env, concurrency=4) as (server, recorder):
        server.delay = 1.0
        for about in pods(20):
            recorder.event(about, "Normal", "R", "m")
        assert await recorder.flush(100)
        assert env.monotonic() == 5.0, "four at a time"
    assert len(events(server)) == 20


async def test_repetitions_of_one_event_keep_their_order(env: Env) -> None:
    async with recording(env, concurrency=4) as (server, recorder):
        server.delay = 1.0
        for _ in range(3):
            recorder.event(WEB, "Normal", "R", "m")
        assert await recorder.flush(100)
    (event,) = events(server)
    assert event["count"] == 3


async def test_recorders_of_one_process_never_use_the_same_name(env: Env) -> None:
    """In virtual time their events of one object have the same time: one would exist already, and would be dropped."""
    server = Cluster(env)
    recorders = [EventRecorder(server.client(), env, f"component-{number}") for number in range(100)]
    sending = [asyncio.create_task(recorder.run()) for recorder in recorders]
    for recorder in recorders:
        recorder.event(WEB, "Normal", "R", "m")
    for recorder in recorders:
        assert await recorder.flush(100)
    for task in sending:
        task.cancel()
    assert len(events(server)) == 100


async def test_waiting_for_queue_capacity_loses_no_event(env: Env) -> None:
    async with recording(env) as (server, recorder):
        server.delay = 0.001
        for about in pods(3000):
            await recorder.room()
            recorder.event(about, "Normal", "R", "m")
    assert len(events(server)) == 3000


async def test_waiting_for_queue_capacity_is_limited_to_one_second(env: Env) -> None:
    async with recording(env) as (server, recorder):
        server.down = True
        for about in pods(1000):
            recorder.event(about, "Normal", "R", "m")
        await recorder.room()
        assert env.monotonic() == 1.0
        server.down = False


async def test_queue_is_limited_to_1000_events_and_unknown_types_are_rejected(env: Env) -> None:
    async with recording(env) as (server, recorder):
        recorder.event(WEB, "Odd", "R", "no such type")
        for number in range(1200):
            about = ObjectReference(kind="Pod", namespace="default", name=f"pod-{number}", uid=str(number))
            recorder.event(about, "Normal", "R", "m")
    assert len(server.log) == 1000
    assert events(server)[-1]["involvedObject"]["name"] == "pod-999"
