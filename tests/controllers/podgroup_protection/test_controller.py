"""PodGroup protection.

Rows and stories mirror ``pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller_test.go`` of
v1.36. The server has the gate on, and its admission plugin protects every new group.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.node_world import PODS, World, started
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.api.core import Pod, PodSchedulingGroup, PodSpec, PodStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.apiserver import ServerOptions
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.workloads.podgroup_protection import DESCRIPTOR, FINALIZER
from pilothouse.controllers.workloads.podgroup_protection.controller import (
    active_pods_by_group,
    group_of,
    groups_to_enqueue,
)

SPEC = {"podGroupTemplateRef": None, "schedulingPolicy": {"gang": {"minCount": 2}}}
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"

_OF, _LOOK = "test_pod_group_of_a_pod", "test_pod_updates_that_enqueue"
_LEFT, _KEPT = "test_active_group_is_not_updated", "test_group_is_kept_until_all_pods_terminated"
_FREE = "test_unused_group_is_deleted_immediately"
_NEW, _DELETED = "new PodGroup without finalizer", "deleted PodGroup with finalizer"
_LAST = "PodGroup being deleted with finalizer, was last active pod"

COVERED: Cases = {
    "TestIsPodTerminated": _OF,
    "TestGetPod": "does not apply: handlers get nothing but pods here",
    "TestHandlePodChange": _LOOK,
    "TestActivePodSchedulingGroupIndexer": _OF,
    "TestHasActivePods": _KEPT,
    "TestHandlePodGroupUpdate": _LEFT,
    f"{_NEW}, no action (admission plugin handles it)": _LEFT,
    f"{_NEW}, active pod exists, then no action (admission plugin handles it)": _LEFT,
    "PodGroup with finalizer, not being deleted, then no action": _LEFT,
    f"{_DELETED}, no active pods, then finalizer is removed": _FREE,
    f"{_DELETED}, active pod exists, then finalizer is kept": _KEPT,
    f"{_DELETED}, only terminated pods, then finalizer is removed": _KEPT,
    f"{_DELETED}, mix of active and terminated pods, then finalizer is kept": _KEPT,
    "PodGroup without finalizer, already deleted, then no action (not a deletion candidate)": _LEFT,
    "PodGroup without finalizer, already deleted, active pods exist, then no action": _LEFT,
    f"pod deleted, {_LAST}, finalizer is removed": _KEPT,
    f"pod terminated succeeded, {_LAST}, then finalizer is removed": _KEPT,
    f"pod terminated failed, {_LAST}, then finalizer is removed": _KEPT,
    "new unscheduled pod, PodGroup without finalizer, then no action": _LEFT,
    "pod without schedulingGroup -> no PodGroup action": _LOOK,
    "terminated pod references non-existent PodGroup, controller handles gracefully": _LEFT,
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def pod(group: str | None = "g", *, phase: str = "Running", uid: str = "1") -> Pod:
    """A pod of that group."""
    spec = PodSpec(scheduling_group=None if group is None else PodSchedulingGroup(pod_group_name=group))
    return Pod(metadata=ObjectMeta(name="p", namespace="default", uid=uid), spec=spec, status=PodStatus(phase=phase))


@cases(
    "pod_object, key, active",
    {
        "the group of its namespace": (pod(), "default/g", True),
        "no group": (pod(None), "", False),
        "a group without a name": (pod(""), "", False),
        "Pending": (pod(phase="Pending"), "default/g", True),
        "Succeeded": (pod(phase="Succeeded"), "default/g", False),
        "Failed": (pod(phase="Failed"), "default/g", False),
    },
)
def test_pod_group_of_a_pod(pod_object: Pod, key: str, active: bool) -> None:
    assert group_of(pod_object) == key
    assert list(active_pods_by_group(pod_object)) == ([key] if active else [])


@cases(
    "old, new, keys",
    {
        "deleted": (pod(), None, ["default/g"]),
        "succeeded": (pod(), pod(phase="Succeeded"), ["default/g"]),
        "first observed when failed": (None, pod(phase="Failed"), ["default/g"]),
        "a pending pod is added": (None, pod(phase="Pending"), []),
        "a running pod is added": (None, pod(), []),
        "still running": (pod(), pod(), []),
        "a pod without a group is deleted": (pod(None), None, []),
        "a pod with an empty group name is deleted": (pod(""), None, []),
        "recreated and succeeded, same group": (pod(uid="0"), pod(phase="Succeeded"), ["default/g"]),
        "recreated and failed, another group": (
            pod(uid="0"),
            pod("other", phase="Failed"),
            ["default/other", "default/g"],
        ),
        "recreated and pending": (pod(uid="0"), pod(phase="Pending"), ["default/g"]),
    },
)
def test_pod_updates_that_enqueue(old: Pod | None, new: Pod | None, keys: list[str]) -> None:
    assert groups_to_enqueue(old, new) == keys


world = started(DESCRIPTOR, server=ServerOptions(gates=("GenericWorkload",)))


async def group(world: World, name: str = "g", *, protected: bool = True, **metadata: Any) -> None:
    """A group; unless ``protected``, without the finalizer."""
    await world.request("POST", GROUPS, {"metadata": {"name": name, **metadata}, "spec": SPEC})
    assert FINALIZER in (await finalizers(world, name) or ())
    if not protected:
        await world.merge(f"{GROUPS}/{name}", {"metadata": {"finalizers": metadata.get("finalizers")}})
    await asyncio.sleep(1)


async def finalizers(world: World, name: str = "g") -> list[str] | None:
    """Its finalizers; None if it is deleted."""
    obj = await world.get(f"{GROUPS}/{name}")
    return None if obj is None else obj["metadata"].get("finalizers") or []


async def test_active_group_is_not_updated(world: World) -> None:
    """The admission plugin has added the finalizer, or a user has removed it."""
    await group(world, protected=False)
    await group(world, "protected")
    await group(world, "going", protected=False, finalizers=["example.com/mine"])
    await world.delete(f"{GROUPS}/going")
    for phase in ("Pending", "Running", "Succeeded"):
        for name in ("g", "protected", "going", "missing"):
            await world.pod(f"{name}-{phase.lower()}", phase=phase, group=name)
    await world.merge(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(60)
    assert await finalizers(world) == []
    assert await finalizers(world, "protected") == [FINALIZER]
    assert await finalizers(world, "going") == ["example.com/mine"]
    assert world.requests() == []


@pytest.mark.parametrize("group_change", ["deleted", "Succeeded", "Failed"])
async def test_group_is_kept_until_all_pods_terminated(world: World, group_change: str) -> None:
    for name in ("p", "q"):
        await world.pod(name, node="n", phase="Running", group="g")
    await world.pod("elsewhere", node="n", phase="Running", group="other")
    await group(world)
    await world.delete(f"{GROUPS}/g")
    await asyncio.sleep(60)
    assert await finalizers(world) == [FINALIZER]
    for name, left in (("p", [FINALIZER]), ("q", None)):
        if group_change == "deleted":
            await world.delete(f"{PODS}/{name}", grace=0)
        else:
            await world.merge(f"{PODS}/{name}/status", {"status": {"phase": group_change}})
        await asyncio.sleep(1)
        assert await finalizers(world) == left


async def test_unused_group_is_deleted_immediately(world: World) -> None:
    await group(world, finalizers=["example.com/mine"])
    await world.delete(f"{GROUPS}/g")
    await asyncio.sleep(1)
    assert await finalizers(world) == ["example.com/mine"]
    assert (await world.must_get(f"{GROUPS}/g"))["spec"] == SPEC
    assert world.requests() == ["update podgroups g"]


async def test_replaced_pod_seen_as_an_update_releases_the_group(world: World) -> None:
    await world.pod("p", node="n", phase="Running", group="g")
    for name in ("g", "other"):
        await group(world, name)
        await world.delete(f"{GROUPS}/{name}")
    await asyncio.sleep(1)
    assert await finalizers(world, "other") is None
    with world.faults.hold(resource="pods"):
        await world.delete(f"{PODS}/p", grace=0)
        await world.pod("p", node="n", phase="Running", group="other")
        await asyncio.sleep(1)
    await asyncio.sleep(1)
    assert await finalizers(world) is None


async def test_failed_update_is_retried(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="update", resource="podgroups", nth=1))
    world.faults.add(Rule(conflict(), verb="update", resource="podgroups", nth=1))
    await group(world)
    await world.delete(f"{GROUPS}/g")
    await asyncio.sleep(5)
    assert await finalizers(world) is None
    assert world.requests() == ["update podgroups g"] * 3
