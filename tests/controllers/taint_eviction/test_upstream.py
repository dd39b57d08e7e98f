"""Cases of v1.36 ``pkg/controller/tainteviction``, ``taint_eviction_test.go`` and ``timed_workers_test.go``, and their
coverage."""

import asyncio
from pathlib import Path

import pytest
from tests.controllers.node_world import PODS, Doc, World, no_execute, started, toleration
from tests.controllers.upstream_coverage import NOT, Cases, missing
from tests.tables import cases

from pilothouse.client.interceptor import Rule, delay
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR

COVERED: Cases = {
    "TestFilterNoExecuteTaints": "test_only_no_execute_taints_evict",
    "TestCreatePod: not scheduled - ignore": "test_create_pod",
    "TestCreatePod: scheduled on untainted Node": "test_create_pod",
    "TestCreatePod: schedule on tainted Node": "test_create_pod",
    "TestCreatePod: schedule on tainted Node with finite toleration": "test_create_pod",
    "TestCreatePod: schedule on tainted Node with zero-second toleration": "test_create_pod",
    "TestCreatePod: schedule on tainted Node with infinite toleration": "test_create_pod",
    "TestCreatePod: schedule on tainted Node with infinite invalid toleration": "test_create_pod",
    "TestDeletePod": "test_delete_pod",
    "TestUpdatePod: scheduling onto tainted Node": "test_eviction_time",
    "TestUpdatePod: scheduling onto tainted Node with toleration": "test_eviction_time",
    "TestUpdatePod: removing toleration": NOT
    + "the API server refuses it; without one a pod goes at once (test_decide)",
    "TestUpdatePod: lengthening toleration shouldn't work": "test_eviction_time",
    "TestCreateNode: Creating Node matching already assigned Pod": "test_create_node",
    "TestCreateNode: Creating tainted Node matching already assigned Pod": "test_create_node",
    "TestCreateNode: Creating tainted Node matching already assigned tolerating Pod": "test_create_node",
    "TestDeleteNode": "test_eviction_time",
    "TestUpdateNode: Added taint": "test_eviction_time",
    "TestUpdateNode: Added tolerated taint": "test_eviction_time",
    "TestUpdateNode: Only one added taint tolerated": "test_eviction_decision",
    "TestUpdateNode: Taint removed": "test_eviction_time",
    "TestUpdateNode: Pod with multiple tolerations are evicted when first one runs out": "test_eviction_decision",
    "TestUpdateNodeWithMultipleTaints": "test_eviction_time",
    "TestUpdateNodeWithMultiplePods: Pods with different toleration times are evicted appropriately": (
        "test_pods_of_one_node_are_evicted_by_their_tolerations"
    ),
    "TestUpdateNodeWithMultiplePods: Evict all pods not matching all taints instantly": (
        "test_pods_of_one_node_are_evicted_by_their_tolerations"
    ),
    "TestGetMinTolerationTime": "test_eviction_decision",
    "TestEventualConsistency: existing pod2 scheduled onto tainted Node": "test_eventual_consistency",
    "TestEventualConsistency: existing pod2 with taint toleration scheduled onto tainted Node": (
        "test_eventual_consistency"
    ),
    "TestEventualConsistency: new pod2 created on tainted Node": "test_eventual_consistency",
    "TestEventualConsistency: new pod2 with tait toleration created on tainted Node": "test_eventual_consistency",
    "TestPodDeletionEvent: emitPodDeletionEvent": "test_eviction_requests_events_and_condition_are_upstreams",
    "TestPodDeletionEvent: emitCancelPodDeletionEvent": "test_cancellation_event_only_for_a_pending_eviction",
    "timed_workers_test.go TestExecute": "test_timed_workers",
    "timed_workers_test.go TestExecuteDelayed": "test_timed_workers",
    "timed_workers_test.go TestCancel": "test_timed_workers",
    "timed_workers_test.go TestCancelAndRead": "test_timed_workers",
    "timed_workers_test.go TestRunningWorkerCompletionDoesNotRemoveReplacement (after v1.36)": (
        "test_deletion_in_progress_does_not_affect_the_recreated_pod"
    ),
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


A = no_execute("a")


world = started(DESCRIPTOR)


CREATED = [
    pytest.param("", A, (), False, id="not scheduled - ignore"),
    pytest.param("n1", None, (), False, id="scheduled on untainted Node"),
    pytest.param("n1", A, (), True, id="schedule on tainted Node"),
    pytest.param("n1", A, (toleration("a", 100),), False, id="finite toleration"),
    pytest.param("n1", A, (toleration("a", 0),), True, id="zero-second toleration"),
    pytest.param("n1", A, (toleration("a"),), False, id="infinite toleration"),
    pytest.param("n1", A, (toleration("b"),), True, id="infinite invalid toleration"),
]


@pytest.mark.parametrize(("node", "taint", "tolerations", "expected"), CREATED)
async def test_create_pod(
    world: World, node: str, taint: Doc | None, tolerations: tuple[Doc, ...], expected: bool
) -> None:
    """TestCreatePod."""
    await world.node("n1", taints=(taint,) if taint else ())
    await asyncio.sleep(1)
    await world.pod("p", node=node, tolerations=tolerations)
    await asyncio.sleep(5)
    writes = world.requests(reads=False)
    assert writes == (["patch pods/status p", "delete pods p"] if expected else [])


@pytest.mark.parametrize(("node", "taint", "tolerations", "expected"), CREATED)
async def test_create_node(
    world: World, node: str, taint: Doc | None, tolerations: tuple[Doc, ...], expected: bool
) -> None:
    """TestCreateNode: the result is the same if the pod is created first."""
    await world.pod("p", node=node, tolerations=tolerations)
    await asyncio.sleep(1)
    await world.node("n1", taints=(taint,) if taint else ())
    await asyncio.sleep(5)
    writes = world.requests(reads=False)
    assert writes == (["patch pods/status p", "delete pods p"] if expected else [])


async def test_delete_pod(world: World) -> None:
    """TestDeletePod: whether it was to be evicted or not."""
    await world.node("n1", taints=(A,))
    await world.pod("waits", node="n1", tolerations=(toleration("a", 100),))
    await world.pod("stays", node="n1", tolerations=(toleration("a"),))
    await asyncio.sleep(1)
    for name in ("waits", "stays"):
        await world.delete(f"{PODS}/{name}", grace=0)
    await asyncio.sleep(300)
    assert world.requests() == []
    assert await world.events() == ["Pod/waits Cancelling deletion of Pod default/waits"]


@pytest.mark.parametrize("bound_late", [True, False], ids=["existing pod2 scheduled", "new pod2 created"])
@pytest.mark.parametrize("tolerations", [(), (toleration("a", 100),)], ids=["no toleration", "finite toleration"])
async def test_eventual_consistency(world: World, bound_late: bool, tolerations: tuple[Doc, ...]) -> None:
    """TestEventualConsistency: the node's event arrives before that of the second pod."""
    await world.node("n1")
    await world.pod("pod1", node="n1")
    if bound_late:
        await world.pod("pod2", tolerations=tolerations)
    await asyncio.sleep(1)
    with world.faults.hold(resource="pods"):
        if bound_late:
            target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
            await world.request("POST", f"{PODS}/pod2/binding", {"metadata": {"name": "pod2"}, "target": target})
        else:
            await world.pod("pod2", node="n1", tolerations=tolerations)
        await world.taint("n1", A)
        await asyncio.sleep(5)
        assert await world.pods() == ["pod2"]
    await asyncio.sleep(5)
    assert await world.pods() == (["pod2"] if tolerations else [])
    await asyncio.sleep(100)
    assert await world.pods() == []


@cases(
    "seconds, off_at, on_at, expected",
    {
        "TestExecute": (0, None, None, {0: 5}),
        "TestExecuteDelayed": (10, None, None, {10: 5}),
        "TestCancel": (10, 4, None, {10: 3}),
        "TestCancelAndRead": (10, 4, 6, {10: 3, 16: 2}),
    },
)
async def test_timed_workers(
    world: World, seconds: int, off_at: int | None, on_at: int | None, expected: dict[int, int]
) -> None:
    """Pods 1, 3 and 5 are on one node, 2 and 4 on another, whose taint is added and removed."""
    for name in ("n0", "n1"):
        await world.node(name)
    for number in range(1, 6):
        await world.pod(str(number), node=f"n{number % 2}", tolerations=(toleration("a", seconds),))
    await asyncio.sleep(1)
    for name in ("n0", "n1"):
        await world.taint(name, A)
    result: dict[int, int] = {}
    for second in range(30):
        if second == off_at:
            await world.taint("n0")
        if second == on_at:
            await world.taint("n0", A)
        if second == 2:
            for name in ("n0", "n1"):
                await world.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"look": "again"}}})
        before = len([text for text in world.requests() if text.startswith("delete pods")])
        await asyncio.sleep(1)
        after = len([text for text in world.requests() if text.startswith("delete pods")])
        if after > before:
            result[second] = after - before
    assert result == expected


async def test_deletion_in_progress_does_not_affect_the_recreated_pod(world: World) -> None:
    """A StatefulSet's pod is recreated while the response for the old one is pending."""
    await world.node("n1", taints=(A,))
    await asyncio.sleep(1)
    world.faults.add(Rule(delay(8.0, 8.0), verb="delete", resource="pods", nth=1))
    await world.pod("web-0", node="n1")
    await asyncio.sleep(2)
    await world.delete(f"{PODS}/web-0", grace=0)
    await world.pod("web-0", node="n1", tolerations=(toleration("a", 20),))
    await asyncio.sleep(15)
    assert await world.pods() == ["web-0"], "the late deletion means another uid"
    await asyncio.sleep(10)
    assert await world.pods() == []
