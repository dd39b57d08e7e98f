"""Scaling up and down, with slow start and without duplicates. Against the embedded API server, in virtual time."""

from collections.abc import Callable

import pytest
from tests.controllers.api_world import PODS
from tests.controllers.replicaset.world import SETS, WEB, World, controlled

from pilothouse.client.interceptor import Rule, fail, namespace_ends
from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.env import Env


async def test_missing_pods_are_created_with_slow_start(world: World) -> None:
    under_way, batches = 0, []
    inner = world.faults.transport

    class Counting:
        async def request(self, request):  # type: ignore[no-untyped-def]
            nonlocal under_way
            if request.method != "POST" or not request.target.endswith("/pods"):
                return await inner.request(request)
            if under_way == 0:
                batches.append(0)
            under_way += 1
            batches[-1] += 1
            try:
                return await inner.request(request)
            finally:
                under_way -= 1

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

    world.faults.transport = Counting()  # type: ignore[assignment]
    await world.create_set(12)
    await world.wait_for_sync()
    assert batches == [1, 2, 4, 5]
    assert len(await world.owned()) == 12
    assert await world.status() == {
        "replicas": 12,
        "fullyLabeledReplicas": 12,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


async def test_pod_has_the_stored_template(world: World) -> None:
    template = {
        "metadata": {
            "labels": {"app": "web"},
            "annotations": {"note": "1"},
            "finalizers": ["example.com/hold"],
            "name": "not-copied",
        },
        "spec": {"containers": [{"name": "main", "image": "pause", "env": [{"name": "A", "value": "ü"}]}]},
    }
    owner = await world.create_set(1, spec={"template": template})
    await world.wait_for_sync()
    [body] = world.bodies("create", "pods")
    stored = (await world.request("GET", WEB))["spec"]["template"]
    assert body == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-",
            "labels": {"app": "web"},
            "annotations": {"note": "1"},
            "finalizers": ["example.com/hold"],
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": stored["spec"],
    }


async def test_surplus_pods_are_deleted_in_one_sync_and_counted_until_removed(world: World) -> None:
    await world.create_set(5)
    await world.wait_for_sync()
    for name in (await world.owned())[:3]:
        await world.report(name)
    await world.wait_for_sync()
    unready = set((await world.owned())[3:])
    await world.scale(2)
    await world.wait_for_sync()
    leaving = [item["metadata"]["name"] for item in await world.pods(terminating=True)]
    assert len(leaving) == 3
    assert unready <= set(leaving), "what is not ready goes first"
    assert world.bodies("delete", "pods") == [{"kind": "DeleteOptions", "apiVersion": "v1"}] * 3, (
        "no preconditions, and every pod's own grace period"
    )
    assert await world.status() == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 3,
        "observedGeneration": 2,
    }
    for name in leaving:
        await world.remove(name)
    await world.wait_for_sync()
    assert (await world.status())["terminatingReplicas"] == 0


async def test_scaling_first_reports_the_observed_generation_with_old_counts(world: World) -> None:
    """As in upstream's trace 01: the status of the sync that acted, then that of the sync that observed the result."""
    await world.create_set(0)
    await world.wait_for_sync()
    await world.scale(3)
    await world.wait_for_sync()
    written = [
        (body["status"]["replicas"], body["status"]["observedGeneration"])
        for body in world.bodies("update", "replicasets/status")
    ]
    assert written == [(0, 1), (0, 2), (3, 2)]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_terminated_pod_is_replaced_and_not_deleted(world: World, phase: str) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    await world.report(name, phase=phase, ready=False)
    await world.wait_for_sync()
    assert len(await world.owned()) == 2
    assert not world.sent("delete", "pods")
    status = await world.status()
    assert (status["replicas"], status["terminatingReplicas"]) == (1, 0)


async def test_terminating_pod_is_replaced_immediately(world: World) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    await world.request("DELETE", f"{PODS}/{name}")
    await world.wait_for_sync()
    assert len(await world.owned()) == 1
    assert name not in await world.owned()
    status = await world.status()
    assert (status["replicas"], status["terminatingReplicas"]) == (1, 1)


async def test_burst_replicas(env: Env) -> None:
    """Upstream, TestControllerBurstReplicas: the next burst waits until the previous one was observed."""
    async with controlled(env, ReplicaSetOptions(burst=5)) as world:
        with world.faults.hold(resource="pods"):
            await world.create_set(12)
            await world.wait_for_sync()
            assert len(world.sent("create", "pods")) == 5
        await world.wait_for_sync()
        assert len(await world.owned()) == 12
        with world.faults.hold(resource="pods"):
            await world.scale(1)
            await world.wait_for_sync()
            assert len(world.sent("delete", "pods")) == 5
        await world.wait_for_sync()
        assert len(await world.owned()) == 1


async def test_first_error_stops_the_slow_start_and_sets_replica_failure(world: World) -> None:
    """Upstream's trace 03, with an injected fault instead of a quota."""
    await world.create_set(0)
    await world.wait_for_sync()
    refusal = world.faults.add(
        Rule(fail(403, "Forbidden", "exceeded quota"), verb="create", resource="pods", when=all_but_the_first())
    )
    await world.scale(20)
    await world.wait_for_sync(0.003)
    assert len(world.sent("create", "pods")) == 1, "the two of the second batch never reach the server"
    await world.wait_for_sync()
    assert refusal.hits > 2
    status = await world.status()
    assert status["replicas"] == 1
    [condition] = status["conditions"]
    assert condition["type"] == "ReplicaFailure"
    assert condition["status"] == "True"
    assert condition["reason"] == "FailedCreate"
    assert condition["message"] == "exceeded quota"
    refusal.action = fail(403, "Forbidden", "another refusal")
    await world.wait_for_sync(30)
    assert (await world.status())["conditions"] == [condition], "message and time of the first failure"
    world.faults.clear()
    await world.wait_for_sync(120)
    assert len(await world.owned()) == 20
    assert "conditions" not in await world.status()
    failures = [event for event in await world.events() if event[1] == "FailedCreate"]
    assert failures[0] == ("Warning", "FailedCreate", "Error creating: exceeded quota")


def all_but_the_first() -> Callable[..., bool]:
    """Fails all creates but the first."""
    observed_pods = 0

    def when(*_args: object) -> bool:
        nonlocal observed_pods
        observed_pods += 1
        return observed_pods > 1

    return when


async def test_failed_deletion_emits_an_event_and_is_retried(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync()
    world.faults.add(Rule(fail(500, "InternalError", "no"), verb="delete", resource="pods"))
    await world.scale(1)
    await world.wait_for_sync(0.1)
    [condition] = (await world.status())["conditions"]
    assert (condition["reason"], condition["message"]) == ("FailedDelete", "unable to delete pods: no")
    assert ("Warning", "FailedDelete", "Error deleting: no") in await world.events()
    world.faults.clear()
    await world.wait_for_sync(60)
    assert len(await world.owned()) == 1
    assert "conditions" not in await world.status()


async def test_deletion_of_an_already_deleted_pod_is_no_error(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync()
    with world.faults.hold(resource="pods"):
        for name in await world.owned():
            await world.remove(name)
        await world.scale(1)
        await world.wait_for_sync()
        assert len(world.sent("delete", "pods")) >= 1
        assert "conditions" not in await world.status()
    await world.wait_for_sync()
    assert len(await world.owned()) == 1
    assert not [event for event in await world.events() if event[1] == "FailedDelete"]


async def test_pod_events_are_upstreams(world: World) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    await world.scale(0)
    await world.wait_for_sync()
    assert await world.events() == [
        ("Normal", "SuccessfulCreate", f"Created pod: {name}"),
        ("Normal", "SuccessfulDelete", f"Deleted pod: {name}"),
    ]
    [event, _] = (await world.request("GET", "/api/v1/namespaces/default/events"))["items"]
    assert event["source"] == {"component": "replicaset-controller"}
    assert event["involvedObject"]["kind"] == "ReplicaSet"


async def test_no_creates_in_a_terminating_namespace(world: World) -> None:
    """One attempt, no event, no condition; the expectation remains and delays the owner."""
    rule = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
    await world.create_set(3)
    await world.wait_for_sync(60)
    assert rule.hits == 1, "the other two would be refused as well"
    assert not await world.events()
    assert "conditions" not in await world.status()
    await world.wait_for_sync(300)
    await world.merge(WEB, {"metadata": {"labels": {"wake": "up"}}})
    await world.wait_for_sync()
    assert rule.hits == 2, "after five minutes it is tried again"


async def test_status_is_synced_once_a_second_in_a_terminating_namespace(world: World) -> None:
    await world.create_set(40)
    await world.wait_for_sync()
    refused = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
    world.requests.clear()
    for name in await world.owned():
        await world.request("DELETE", f"{PODS}/{name}")
        await world.wait_for_sync(0.05)
    await world.wait_for_sync()
    assert (await world.status())["replicas"] == 0
    assert (await world.status())["terminatingReplicas"] == 40
    assert refused.hits == 1
    assert len(world.sent("update", "replicasets/status")) == 3, "at once, and after either second"


async def test_replica_set_in_a_recreated_namespace_is_synced_immediately(world: World) -> None:
    refused = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
    await world.create_set(3)
    await world.wait_for_sync()
    await world.request("DELETE", WEB)
    world.faults.remove(refused)
    await world.create_set(3)
    await world.wait_for_sync(0.1)
    assert len(await world.owned()) == 3


async def test_idle_replica_set_sends_no_requests(world: World) -> None:
    await world.create_set(3)
    await world.wait_for_sync()
    for name in await world.owned():
        await world.report(name)
    await world.wait_for_sync()
    world.requests.clear()
    await world.wait_for_sync(3 * 24 * 3600)
    assert world.requests == []


async def test_replica_sets_are_independent(world: World) -> None:
    await world.create_set(3)
    await world.create_set(2, "db", labels={"app": "db"})
    await world.wait_for_sync()
    await world.scale(1)
    await world.wait_for_sync()
    assert len(await world.owned()) == 1
    assert len(await world.owned("db")) == 2
    assert (await world.must_get(f"{SETS}/db"))["status"]["replicas"] == 2


async def test_fully_labeled_replicas_follow_the_template_labels(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync()
    template = {"metadata": {"labels": {"app": "web", "version": "2"}}}
    await world.merge(WEB, {"spec": {"template": template}})
    await world.wait_for_sync()
    status = await world.status()
    assert (status["replicas"], status.get("fullyLabeledReplicas", 0), status["observedGeneration"]) == (2, 0, 2)
    await world.scale(3)
    await world.wait_for_sync()
    assert (await world.status())["fullyLabeledReplicas"] == 1
