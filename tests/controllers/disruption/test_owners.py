"""Owners of pods that are missing in the caches, or have no scale subresource.

The controller against the embedded API server, in virtual time. Some rows mirror
``pkg/controller/disruption/disruption_test.go`` of v1.36.
"""

import asyncio

from tests.controllers.disruption.world import (
    APPS,
    LABELS,
    budget,
    condition,
    define,
    pods,
    reference,
    status,
    widget,
    workload,
)
from tests.controllers.node_world import PODS, World
from tests.tables import cases


async def test_scale_of_a_custom_resource_is_used(world: World) -> None:
    """TestScaleResource."""
    await define(world, scale=True)
    owner = await widget(world)
    await budget(world, maxUnavailable=5)
    await pods(world, owner, count=4)
    await asyncio.sleep(1)
    assert await status(world) == (0, 4, 5, 10)
    await pods(world, owner, count=4, first=4)
    await asyncio.sleep(1)
    assert await status(world) == (3, 8, 5, 10)
    assert "get widgets/scale w" in world.requests()


@cases(
    "scale, message",
    {
        "the owner is deleted": (True, 'found no controllers for pod "p0"'),
        "the kind has no scale": (False, "widgets.example.com does not implement the scale subresource"),
    },
)
async def test_owner_without_a_scale_subresource_is_an_error(world: World, scale: bool, message: str) -> None:
    """TestScaleFinderNoResource."""
    await define(world, scale=scale)
    owner = await widget(world)
    if scale:
        await world.delete("/apis/example.com/v1/namespaces/default/widgets/w")
    await budget(world, maxUnavailable=1)
    await pods(world, owner, count=1)
    await asyncio.sleep(1)
    disruption_allowed = await condition(world)
    assert (disruption_allowed["status"], disruption_allowed["reason"], disruption_allowed["message"]) == (
        "False",
        "SyncFailed",
        message,
    )
    (recorded,) = await world.events("CalculateExpectedPodCountFailed")
    assert recorded == f"PodDisruptionBudget/web Failed to calculate the number of expected pods: {message}"


async def test_owner_of_an_unserved_kind_is_an_error_until_changed(world: World) -> None:
    """TestUnsupportedControllerPod."""
    unserved_owner = {
        "apiVersion": "apps.test.io/v1",
        "kind": "TestWorkload",
        "name": "f",
        "uid": "u",
        "controller": True,
    }
    await budget(world, minAvailable="28%")
    await pods(world, unserved_owner, count=1)
    await asyncio.sleep(1)
    disruption_allowed = await condition(world)
    assert disruption_allowed["message"] == 'no matches for kind "TestWorkload" in version "apps.test.io/v1"'
    assert (await status(world))[0] == 0
    requests = len(world.requests())
    await asyncio.sleep(3600)
    assert len(world.requests()) == requests, "no retries with backoff"
    await world.merge(f"{PODS}/p0", {"metadata": {"annotations": {"a": "b"}}})
    await asyncio.sleep(1)
    assert len(world.requests()) > requests, "an event of a pod enqueues the budget"
    owner = await workload(world, "replicasets", "ReplicaSet", 1)
    await world.merge(f"{PODS}/p0", {"metadata": {"ownerReferences": [owner]}})
    await asyncio.sleep(1)
    assert await status(world) == (0, 1, 1, 1)
    assert (await condition(world))["reason"] == "InsufficientPods"


async def test_daemon_set_has_no_scale(world: World) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    spec = {"selector": {"matchLabels": LABELS}, "template": template}
    created = await world.request("POST", f"{APPS}/daemonsets", {"metadata": {"name": "web"}, "spec": spec})
    await budget(world, maxUnavailable=1)
    await pods(world, reference("apps/v1", "DaemonSet", created), count=1)
    await asyncio.sleep(1)
    assert (await condition(world))["message"] == "daemonsets.apps does not implement the scale subresource"


async def test_scale_is_read_for_a_workload_missing_in_the_cache(world: World) -> None:
    await budget(world, maxUnavailable=1)
    with world.faults.hold(resource="replicasets.apps"):
        owner = await workload(world, "replicasets", "ReplicaSet", 3)
        await pods(world, owner)
        await asyncio.sleep(1)
        assert await status(world) == (1, 3, 2, 3)
    assert "get replicasets/scale web" in world.requests()
    assert await world.events("CalculateExpectedPodCountFailed") == []
