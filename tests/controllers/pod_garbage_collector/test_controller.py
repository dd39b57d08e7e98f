"""Pod garbage collection against the embedded API server, in virtual time."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from tests.controllers import node_world
from tests.controllers.node_world import NODES, PODS, World, fixture_of

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR, PodGarbageCollectorOptions
from pilothouse.env import Env

OUT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
DOWN = {"Ready": "Unknown"}
FORCED = "pod_gc_collector_force_delete_pods_total"
FAILED = "pod_gc_collector_force_delete_pod_errors_total"


@contextlib.asynccontextmanager
async def collecting(env: Env, **options: int) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR, PodGarbageCollectorOptions(**options))
        await asyncio.sleep(1)
        yield world


world = fixture_of(collecting)


async def test_orphaned_pods_are_deleted_after_the_quarantine_and_a_live_get(world: World) -> None:
    await world.node("n1")
    await world.pod("bare", node="n1")
    await world.pod("done", node="n1", phase="Succeeded")
    await world.delete(f"{NODES}/n1")
    await asyncio.sleep(58)
    assert await world.pods() == ["bare", "done"]
    assert world.requests() == [], "nothing is asked before the node was missing for 40 s"
    await asyncio.sleep(3)
    assert await world.pods() == []
    assert world.requests() == [
        "get nodes n1",
        "patch pods/status bare",
        "delete pods bare",
        "delete pods done",
    ]
    [marked] = world.bodies("patch", "pods/status")
    assert marked["status"]["phase"] == "Failed"
    [condition] = marked["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "DeletionByPodGC")
    assert all(body["gracePeriodSeconds"] == 0 for body in world.bodies("delete", "pods"))
    assert all(body["preconditions"]["uid"] for body in world.bodies("delete", "pods"))
    assert world.metrics.value(FORCED, "default", "orphaned") == 2
    assert world.metrics.value(FAILED, "default", "orphaned") == 0


async def test_node_recreated_within_the_quarantine_keeps_its_pods(world: World) -> None:
    """TestGCOrphaned 'quarantined node that was seen again' and 'no nodes, one quarantined'."""
    await world.pod("a", node="n1")
    await asyncio.sleep(30)
    await world.node("n1")
    await asyncio.sleep(300)
    assert await world.pods() == ["a"]
    assert world.requests() == []


async def test_node_missing_only_in_the_cache_keeps_its_pods(world: World) -> None:
    """TestGCOrphaned 'node exists in the API but not in the cache' (kubernetes#82365)."""
    with world.faults.hold(resource="nodes"):
        await world.node("late")
        await world.pod("a", node="late")
        await asyncio.sleep(300)
        assert await world.pods() == ["a"]
        assert set(world.requests()) == {"get nodes late"}


async def test_failed_node_get_deletes_nothing_and_is_retried(world: World) -> None:
    """TestGCOrphaned 'API request for the node fails'."""
    rule = world.faults.add(Rule(fail(500), verb="get", resource="nodes"))
    await world.pod("a", node="gone")
    await asyncio.sleep(200)
    assert await world.pods() == ["a"]
    assert world.requests().count("get nodes gone") > 2
    world.faults.remove(rule)
    await asyncio.sleep(100)
    assert await world.pods() == []


async def test_not_found_without_node_details_is_not_trusted(world: World) -> None:
    world.faults.add(Rule(fail(404), verb="get", resource="nodes"))
    await world.pod("a", node="gone")
    await asyncio.sleep(300)
    assert await world.pods() == ["a"]


async def test_terminated_pods_above_the_threshold_are_deleted(env: Env) -> None:
    async with collecting(env, terminated_threshold=1) as world:
        await world.node("n1")
        await world.pod("a", node="n1", phase="Succeeded")
        await asyncio.sleep(2)
        await world.pod("b", node="n1", phase="Failed")
        await world.pod("c", node="n1", phase="Failed", reason="Evicted")
        await world.pod("d", node="n1")
        await asyncio.sleep(25)
        assert await world.pods() == ["b", "d"]
        assert world.requests() == ["delete pods c", "delete pods a"]
        assert world.metrics.value(FORCED, "default", "terminated") == 2


async def test_unscheduled_terminating_pod_is_deleted(world: World) -> None:
    """TestGCUnscheduledTerminating."""
    await world.node("n1")
    await world.pod("bound", node="n1", finalizers=["example.com/hold"])
    await world.pod("unbound", phase="Pending", finalizers=["example.com/hold"])
    await world.pod("wanted", phase="Pending")
    await world.delete(f"{PODS}/bound")
    await world.delete(f"{PODS}/unbound")
    await asyncio.sleep(25)
    assert world.requests()[:2] == ["patch pods/status unbound", "delete pods unbound"]
    assert {text.split()[-1] for text in world.requests()} == {"unbound"}
    [marked, *_] = world.bodies("patch", "pods/status")
    assert marked["status"]["phase"] == "Failed"
    assert "conditions" not in marked["status"]
    assert await world.pods() == ["wanted"]


async def test_kubernetes_141190_pod_waiting_for_finalizers_is_not_deleted_again(env: Env) -> None:
    async with collecting(env, terminated_threshold=2) as world:
        await world.node("n1")
        hold = ["example.com/hold"]
        await world.pod("unbound", phase="Pending", finalizers=hold)
        await world.pod("done", node="n1", phase="Succeeded", finalizers=hold)
        await world.pod("lost", node="gone", phase="Failed", finalizers=hold)
        await world.pod("newest", node="n1", phase="Succeeded")
        await world.delete(f"{PODS}/unbound")
        await asyncio.sleep(400)
        deletions = sorted(text for text in world.requests(reads=False) if text.startswith("delete"))
        assert deletions == ["delete pods done", "delete pods lost", "delete pods unbound"]


async def test_terminating_pods_of_an_out_of_service_node_are_deleted(world: World) -> None:
    """TestGCTerminating; the requests are those of traces 13, with one read of the node before them."""
    await world.node("n1", conditions=DOWN, taints=(OUT,))
    await world.node("n2", taints=(OUT,))
    await world.node("n3", conditions=DOWN)
    for name in ("n1", "n2", "n3"):
        await world.pod(f"leaves-{name}", node=name)
        await world.pod(f"stays-{name}", node=name)
        await world.delete(f"{PODS}/leaves-{name}")
    await asyncio.sleep(25)
    assert world.requests() == ["get nodes n1", "patch pods/status leaves-n1", "delete pods leaves-n1"]
    assert await world.get(f"{PODS}/leaves-n1") is None
    assert await world.get(f"{PODS}/leaves-n2") is not None, "its node is ready"
    assert await world.get(f"{PODS}/leaves-n3") is not None, "nobody vouched for its node"
    assert world.metrics.value(FORCED, "default", "out-of-service") == 1


async def test_kubernetes_141887_stale_out_of_service_taint_deletes_nothing(world: World) -> None:
    await world.node("n1", conditions=DOWN, taints=(OUT,))
    await world.pod("a", node="n1")
    await asyncio.sleep(21)
    with world.faults.hold(resource="nodes"):
        await world.taint("n1")
        await world.delete(f"{PODS}/a")
        await asyncio.sleep(100)
        assert await world.get(f"{PODS}/a") is not None
        assert set(world.requests()) == {"get nodes n1"}
        assert world.metrics.value(FORCED, "default", "out-of-service") == 0
    await world.report_node("n1", {"Ready": "True"})
    await asyncio.sleep(100)
    assert await world.get(f"{PODS}/a") is not None, "it is the kubelet's to remove"


async def test_kubernetes_141887_stale_not_ready_node_deletes_nothing(world: World) -> None:
    await world.node("n1", conditions=DOWN, taints=(OUT,))
    await world.pod("a", node="n1")
    await asyncio.sleep(21)
    with world.faults.hold(resource="nodes"):
        await world.report_node("n1", {"Ready": "True"})
        await world.delete(f"{PODS}/a")
        await asyncio.sleep(100)
        assert await world.get(f"{PODS}/a") is not None


async def test_recreated_pod_of_the_same_name_is_not_deleted(world: World) -> None:
    """The deletion and the patch carry the uid (kubernetes#141887)."""
    await world.node("n1")
    await world.pod("a", node="gone")
    await asyncio.sleep(30)
    with world.faults.hold(resource="pods"):
        await world.delete(f"{PODS}/a", grace=0)
        await world.pod("a", node="n1")
        await asyncio.sleep(60)
        assert "patch pods/status a" in world.requests()
        assert await world.pods() == ["a"]
        assert (await world.must_get(f"{PODS}/a"))["status"]["phase"] == "Running"
    await asyncio.sleep(100)
    assert await world.pods() == ["a"]


async def test_kubernetes_48213_recreated_mirror_pods_are_deleted_once_per_quarantine(
    world: World,
) -> None:
    mirror = {"kubernetes.io/config.mirror": "hash"}
    deletions = []
    for _ in range(600):
        if await world.get(f"{PODS}/static-gone") is None:
            deletions.append(world.env.monotonic())
            await world.pod("static-gone", node="gone", annotations=mirror)
        await asyncio.sleep(1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(deletions[1:])]
    assert gaps, "its node does not exist: it goes each time"
    assert min(gaps) >= 40, "not every 20 s"
    assert world.requests().count("delete pods static-gone") == len(gaps) + 1
    assert world.metrics.value(FAILED, "default", "orphaned") == 0


async def test_pod_is_not_deleted_if_the_condition_patch_fails(world: World) -> None:
    """TestGCInspectingPatchedPodBeforeDeletion, the other way round."""
    world.faults.add(Rule(fail(500), verb="patch", resource="pods", nth=1))
    await world.pod("a", phase="Pending", finalizers=["example.com/hold"])
    await world.delete(f"{PODS}/a")
    await asyncio.sleep(21)
    assert world.requests() == ["patch pods/status a"]
    assert world.metrics.value(FAILED, "default", "unscheduled") == 1
    await asyncio.sleep(20)
    assert world.requests()[1:] == ["patch pods/status a", "delete pods a"]
