"""PodGroups that pods belong to. Rows and stories mirror
``pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller_test.go`` of v1.36. The API is a custom
resource here, and pods have their group only in the cache of the controller: the embedded server drops the field."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.alpha_kinds import read_groups_from_labels, serve
from tests.controllers.node_world import PODS, World, play
from tests.controllers.upstream_coverage import Cases, missing

from pilothouse.api.core import Pod, PodSchedulingGroup, PodSpec, PodStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.api.scheduling import POD_GROUPS
from pilothouse.client.interceptor import Rule, conflict, fail, gone
from pilothouse.controllers.workloads.podgroup_protection import DESCRIPTOR, FINALIZER
from pilothouse.controllers.workloads.podgroup_protection.decide import group_of, index_by_group, is_used_by, matters

GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"

_USED, _MATTERS, _OF = "test_who_uses_a_group", "test_which_news_of_a_pod_matter", "test_to_which_group_a_pod_belongs"
_ADDED, _KEPT = "test_a_group_with_a_pod_is_protected", "test_a_group_is_kept_as_long_as_a_pod_has_not_ended"
_FREE = "test_a_group_without_pods_is_left_alone_and_goes_at_once"
_NEW, _DELETED = "new PodGroup without finalizer", "deleted PodGroup with finalizer"

COVERED: Cases = {
    "TestIsPodTerminated": _USED,
    "TestParsePod": "does not apply: handlers get nothing but pods here",
    "TestEnqueuePodGroupForPod": _MATTERS,
    "TestPodAddedDeletedUpdated_UIDMismatch": "test_a_pod_that_was_replaced_unseen_no_longer_counts",
    "TestPodSchedulingGroupIndexer": _OF,
    "TestIsBeingUsed": _USED,
    f"{_NEW}, no pods": _FREE,
    f"{_NEW}, active pod exists": _ADDED,
    "PodGroup with finalizer, not being deleted": _ADDED,
    f"{_DELETED}, no active pods": _FREE,
    f"{_DELETED}, active pod exists": _KEPT,
    f"{_DELETED}, only terminated pods": _KEPT,
    f"{_DELETED}, mix of active and terminated pods": _KEPT,
    "PodGroup without finalizer, already deleted": _FREE,
    "pod deleted, PodGroup being deleted, was last active pod": _KEPT,
    "pod terminated, PodGroup being deleted, was last active pod": _KEPT,
    "new unscheduled pod, PodGroup needs finalizer": _ADDED,
    "pod without schedulingGroup": _OF,
}


def test_every_case_of_upstreams_is_somewhere() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def pod(group: str | None = "g", *, node: str = "n", phase: str = "Running") -> Pod:
    """A pod of that group."""
    spec = PodSpec(node_name=node, scheduling_group=None if group is None else PodSchedulingGroup(pod_group_name=group))
    return Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=spec, status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(), "default/g", id="the group of its namespace"),
        pytest.param(pod(None), "", id="no group"),
        pytest.param(pod(""), "", id="a group without a name"),
    ],
)
def test_to_which_group_a_pod_belongs(found: Pod, expected: str) -> None:
    assert group_of(found) == expected
    assert list(index_by_group(found)) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(pod(node=""), True, id="no node yet"),
        pytest.param(pod(), False, id="it runs"),
        pytest.param(pod(phase="Succeeded"), True, id="it has succeeded"),
        pytest.param(pod(phase="Failed"), True, id="it has failed"),
        pytest.param(pod(node="", phase="Failed"), True, id="it has failed without a node"),
    ],
)
def test_which_news_of_a_pod_matter(found: Pod, expected: bool) -> None:
    assert matters(found) is expected


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        pytest.param([], False, id="no pods"),
        pytest.param(["Running"], True, id="one that runs"),
        pytest.param(["Pending"], True, id="one that waits"),
        pytest.param(["Succeeded", "Failed"], False, id="all have ended"),
        pytest.param(["Succeeded", "Running"], True, id="one of two has ended"),
    ],
)
def test_who_uses_a_group(phases: list[str], expected: bool) -> None:
    assert is_used_by([pod(phase=phase) for phase in phases]) is expected


@pytest.fixture
def by_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods belong to the group that a label names."""
    read_groups_from_labels(monkeypatch)


def running(story: Callable[[World], Awaitable[None]]) -> None:
    async def with_controller(world: World) -> None:
        await serve(world, POD_GROUPS)
        await world.start(DESCRIPTOR)
        await story(world)

    play(with_controller)


async def group(world: World, name: str = "g", **metadata: Any) -> None:
    """A group, with something that no view shows."""
    stamp = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    await world.request("POST", GROUPS, {**stamp, "metadata": {"name": name, **metadata}, "spec": {"newer": 1}})
    await asyncio.sleep(1)


async def finalizers(world: World, name: str = "g") -> list[str] | None:
    """Its finalizers; None if it is gone."""
    found = await world.get(f"{GROUPS}/{name}")
    return None if found is None else found["metadata"].get("finalizers") or []


@pytest.mark.usefixtures("by_label")
def test_a_group_with_a_pod_is_protected() -> None:
    async def story(world: World) -> None:
        await group(world)
        assert await finalizers(world) == []
        await world.pod("p", phase="Pending", labels={"group": "g"})
        await world.pod("q", phase="Pending", labels={"group": "other"})
        await asyncio.sleep(1)
        assert await finalizers(world) == [FINALIZER]
        assert (await world.see(f"{GROUPS}/g"))["spec"] == {"newer": 1}
        await group(world, "other")
        assert await finalizers(world, "other") == [FINALIZER]
        assert world.requests() == ["update podgroups g", "update podgroups other"]

    running(story)


@pytest.mark.usefixtures("by_label")
@pytest.mark.parametrize("how", ["deleted", "Succeeded", "Failed"])
def test_a_group_is_kept_as_long_as_a_pod_has_not_ended(how: str) -> None:
    async def story(world: World) -> None:
        for name in ("p", "q"):
            await world.pod(name, node="n", phase="Running", labels={"group": "g"})
        await group(world)
        await world.delete(f"{GROUPS}/g")
        await asyncio.sleep(60)
        assert await finalizers(world) == [FINALIZER]
        for name, left in (("p", [FINALIZER]), ("q", None)):
            if how == "deleted":
                await world.delete(f"{PODS}/{name}", grace=0)
            else:
                await world.merge(f"{PODS}/{name}/status", {"status": {"phase": how}})
            await asyncio.sleep(1)
            assert await finalizers(world) == left

    running(story)


@pytest.mark.usefixtures("by_label")
def test_a_group_without_pods_is_left_alone_and_goes_at_once() -> None:
    async def story(world: World) -> None:
        await group(world)
        await group(world, "protected", finalizers=[FINALIZER, "example.com/mine"])
        assert world.requests() == []
        for name in ("g", "protected"):
            await world.delete(f"{GROUPS}/{name}")
        await asyncio.sleep(1)
        assert await finalizers(world) is None
        assert await finalizers(world, "protected") == ["example.com/mine"]
        assert world.requests() == ["update podgroups protected"]

    running(story)


@pytest.mark.usefixtures("by_label")
def test_a_pod_that_was_replaced_unseen_no_longer_counts() -> None:
    async def story(world: World) -> None:
        await world.pod("p", node="n", phase="Running", labels={"group": "g"})
        await group(world)
        await group(world, "other")
        await world.delete(f"{GROUPS}/g")
        await asyncio.sleep(1)
        with world.faults.hold(resource="pods"):
            await world.delete(f"{PODS}/p", grace=0)
            await world.pod("p", node="n", phase="Running", labels={"group": "other"})
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert await finalizers(world) is None
        assert await finalizers(world, "other") == [FINALIZER]

    running(story)


@pytest.mark.usefixtures("by_label")
def test_a_pod_that_got_its_node_unseen_counts() -> None:
    async def story(world: World) -> None:
        await group(world)
        refused = world.faults.add(Rule(fail(500), resource="pods"))
        world.faults.end_watches(resource="pods", with_=gone())
        await world.pod("p", node="n", phase="Running", labels={"group": "g"})
        await asyncio.sleep(3)
        world.faults.remove(refused)
        await asyncio.sleep(60)
        assert await finalizers(world) == [FINALIZER]

    running(story)


@pytest.mark.usefixtures("by_label")
def test_a_write_that_fails_is_tried_again() -> None:
    async def story(world: World) -> None:
        world.faults.add(Rule(fail(500), verb="update", resource="podgroups", nth=1))
        world.faults.add(Rule(conflict(), verb="update", resource="podgroups", nth=1))
        await world.pod("p", phase="Pending", labels={"group": "g"})
        await group(world)
        await asyncio.sleep(5)
        assert await finalizers(world) == [FINALIZER]
        assert world.requests() == ["update podgroups g"] * 3

    running(story)
