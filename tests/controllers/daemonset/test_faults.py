"""Stale caches, lost responses, dying managers: still one pod per node."""

import msgspec
import pytest
from tests.controllers.api_world import PODS, REVISIONS, Doc
from tests.controllers.daemonset.world import AGENT, World, controlled, uncontrolled
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.client.interceptor import Rule, delay, delay_answer, fail, gone, lose_answer, time_out
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.controllers.workloads.daemonset.pod_template import target_node
from pilothouse.env import Env


def one_pod_per_node(pods: list[Doc]) -> None:
    """No two active pods on one node."""
    live = [msgspec.convert(pod, Pod) for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    nodes = [target_node(pod) for pod in live]
    assert len(nodes) == len(set(nodes)), nodes


@cases(
    "wait_for_own_writes, created",
    {
        "the consistency store detects the stale cache, without a time limit": (True, 3),
        "expectations expire after five minutes": (False, 6),
    },
)
async def test_stale_cache_creates_no_second_pod(env: Env, wait_for_own_writes: bool, created: int) -> None:
    """kubernetes#134937."""
    async with controlled(env, DaemonSetOptions(wait_for_own_writes=wait_for_own_writes)) as world:
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.wait_for_sync(301)
            await world.merge(AGENT, {"metadata": {"labels": {"wake": "up"}}})
            await world.wait_for_sync()
            assert len(world.sent("create", "pods")) == created
        await world.wait_for_sync(1100)
        assert await world.nodes() == ["n0", "n1", "n2"]
        skips = world.metrics.value("daemonset_controller_stale_sync_skips_total", "", "pods")
        assert (skips > 0) == wait_for_own_writes


async def test_no_duplicate_pods_when_the_manager_dies_after_creates(env: Env) -> None:
    """kubernetes#54096: the next manager lists before it acts, and not from a stale cache."""
    async with uncontrolled(env) as world:
        await world.add_nodes(5)
        world.checks.append(one_pod_per_node)
        first = await world.start()
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.wait_for_sync(0.01)
            first.cancel()
            await world.wait_for_sync()
        assert len(await world.pods()) == 5
        await world.start()
        await world.wait_for_sync(10)
        assert len(world.sent("create", "pods")) == 5
        assert await world.nodes() == ["n0", "n1", "n2", "n3", "n4"]


async def test_no_sync_before_the_node_cache_is_synced(env: Env) -> None:
    """kubernetes#14528: a failed list of nodes was treated as an empty or short one."""
    async with uncontrolled(env) as world:
        await world.add_nodes(4)
        await world.create_set()
        rule = world.faults.add(Rule(fail(500), resource="nodes"))
        starting = world._group.start(world.start(), name="starting")
        await world.wait_for_sync(120)
        assert rule.hits > 2
        assert not starting.done()
        assert [request for request in world.requests if request.call.verb in ("create", "delete", "update")] == []
        world.faults.clear()
        await world.wait_for_sync(120)
        assert await world.nodes() == ["n0", "n1", "n2", "n3"]


async def test_failed_relist_of_nodes_deletes_no_pods(world: World) -> None:
    """kubernetes#14528, second half: known nodes are kept."""
    await world.create_set()
    await world.wait_for_sync()
    world.faults.add(Rule(fail(500), resource="nodes"))
    world.faults.end_watches(resource="nodes")
    await world.wait_for_sync(60)
    await world.merge(AGENT, {"metadata": {"labels": {"wake": "up"}}})
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"]
    assert world.sent("delete", "pods") == []


@pytest.mark.parametrize("happened", [False, True], ids=["the pod was not created", "the pod was created"])
async def test_lost_create_response_creates_no_second_pod(world: World, happened: bool) -> None:
    world.checks.append(one_pod_per_node)
    world.faults.add(Rule(time_out(sent=happened), verb="create", resource="pods", nth=1))
    await world.create_set()
    await world.wait_for_sync(60)
    assert await world.nodes() == ["n0", "n1", "n2"]


async def test_lost_create_response_with_a_slow_watch_creates_no_second_pod(world: World) -> None:
    """The result of the first request is looked up before another one is sent, since the cache is stale."""
    world.faults.add(Rule(lose_answer(), verb="create", resource="pods", nth=1))
    with world.faults.hold(resource="pods"):
        await world.create_set()
        await world.wait_for_sync(20)
        assert len(world.sent("create", "pods")) == 1
    await world.wait_for_sync(60)
    assert len(world.sent("create", "pods")) == 3
    assert world.sent("delete", "pods") == []
    assert await world.nodes() == ["n0", "n1", "n2"]


async def test_every_second_response_is_lost(env: Env, seed: int) -> None:
    async with controlled(env, nodes=10) as world:
        world.checks.append(one_pod_per_node)
        rule = world.faults.add(Rule(lose_answer(), verb="create", resource="pods", probability=0.5))
        world.faults.add(Rule(lose_answer(), verb="delete", resource="pods", probability=0.5))
        await world.create_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}})
        await world.wait_for_sync(60)
        await world.set_image("pause:2")
        await world.wait_for_sync(300)
        assert rule.hits > 0
        world.faults.clear()
        await world.wait_for_sync(60)
        assert await world.images() == ["pause:2"] * 10
        assert (await world.status())["updatedNumberScheduled"] == 10


async def test_status_conflict_is_retried_on_the_live_object(world: World) -> None:
    world.faults.add(Rule(fail(409), verb="update", resource="daemonsets.apps", subresource="status", nth=1))
    await world.create_set()
    await world.wait_for_sync()
    assert (await world.status())["numberReady"] == 3
    assert len(world.sent("get", "daemonsets")) == 1


async def test_pod_deleted_during_an_adoption_is_not_counted(world: World) -> None:
    """It was adopted, and its deletion observed before the sync continued: it must not be counted."""
    await world.create_set(updateStrategy={"type": "OnDelete"})
    await world.wait_for_sync()
    spec = {"containers": [{"name": "main", "image": "pause:1"}]}
    world.faults.add(Rule(delay(2.0), verb="patch", resource="pods", nth=2))
    with world.faults.hold(resource="pods"):
        for number in (0, 1):
            meta = {"name": f"mine-{number}", "labels": {"app": "agent"}}
            await world.request("POST", PODS, {"metadata": meta, "spec": {**spec, "nodeName": f"n{number}"}})
    await world.wait_for_sync(1)
    pod = await world.get(f"{PODS}/mine-0")
    assert pod is not None
    assert pod["metadata"]["ownerReferences"], "the first one is adopted, the second one not yet"
    await world.remove("mine-0")
    await world.wait_for_sync(30)
    assert await world.nodes() == ["n0", "n1", "n2"]
    assert len(world.sent("delete", "pods")) == 1, "of the second one, which is one too many"


async def test_surge_pods_rejected_by_a_node_are_recreated_with_backoff(env: Env) -> None:
    """Upstream recreates a failed pod immediately."""
    async with controlled(env, nodes=1) as world:
        world.kubelets = False
        await world.create_set(
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        )
        for _ in range(600):
            await world.wait_for_sync(0.1)
            for pod in await world.pods():
                if pod["status"].get("phase") != "Failed":
                    await world.report(pod["metadata"]["name"], phase="Failed", ready=False)
        # After 1, 2, 4, 8, 16 and 32 s.
        assert len(world.sent("create", "pods")) <= 9


async def test_sync_during_delivery_of_a_relist_creates_no_duplicates(env: Env) -> None:
    """The cache has a new list at once, handlers receive its pods in batches of a hundred, with syncs in between."""
    async with controlled(env, nodes=450) as world:
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.wait_for_sync(5)
            world.faults.end_watches(resource="pods", with_=gone())
            await world.wait_for_sync(5)
        await world.wait_for_sync(60)
        assert len(world.sent("create", "pods")) == 450


async def test_stale_process_does_not_lower_the_observed_generation(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    with world.faults.hold(resource="daemonsets"):
        await world.set_image("pause:2")
        # Another manager has reported on it.
        await world.merge(f"{AGENT}/status", {"status": {"observedGeneration": 2}})
        pod = (await world.pods())[0]["metadata"]["name"]
        await world.report(pod, ready=False)
        await world.wait_for_sync()
        assert (await world.status())["observedGeneration"] == 2
    await world.wait_for_sync(20)
    assert await world.images() == ["pause:2"] * 3


async def test_nothing_is_written_after_the_owner_was_found_recreated(world: World) -> None:
    """The live read before an adoption returns another uid. Pods created for the old owner would be garbage collected,
    and each deletion would cause the next sync."""
    await world.create_set()
    await world.wait_for_sync()
    with world.faults.hold(resource="daemonsets"):
        await world.request("DELETE", AGENT, {"propagationPolicy": "Background"})
        await world.create_set()
        orphan = {"name": "mine", "labels": {"app": "agent"}}
        spec = {"containers": [{"name": "main", "image": "pause:1"}], "nodeName": "n0"}
        await world.request("POST", PODS, {"metadata": orphan, "spec": spec})
        await world.wait_for_sync(1)
        creates = len(world.sent("create", "controllerrevisions"))
        for _ in range(5):
            await world.request("DELETE", REVISIONS)
            await world.wait_for_sync(1)
        assert len(world.sent("create", "controllerrevisions")) == creates
    await world.wait_for_sync(30)
    assert await world.revisions(), "the new one has its own"


@pytest.mark.parametrize("wait_for_own_writes", [True, False], ids=["consistency store", "expectations alone"])
async def test_owner_recreated_during_a_sync_gets_no_more_pods(env: Env, wait_for_own_writes: bool) -> None:
    """They would be expected for its successor, which would then wait five minutes for them."""
    async with controlled(env, DaemonSetOptions(wait_for_own_writes=wait_for_own_writes)) as world:
        world.faults.add(Rule(delay_answer(2.0), verb="create", resource="controllerrevisions", times=1))
        await world.create_set()
        await world.wait_for_sync(1)
        await world.request("DELETE", AGENT, {"propagationPolicy": "Background"})
        await world.request("DELETE", REVISIONS)
        await world.create_set()
        await world.wait_for_sync(30)
        assert await world.nodes() == ["n0", "n1", "n2"]
        assert len(world.sent("create", "pods")) == 3
