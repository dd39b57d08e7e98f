"""Counts and allowed disruptions of a budget.

The controller against the embedded API server, in virtual time. Some rows mirror
``pkg/controller/disruption/disruption_test.go`` of v1.36.
"""

import asyncio

import pytest
from tests.controllers.disruption.world import (
    APPS,
    LABELS,
    PDBS,
    UPDATE,
    budget,
    condition,
    pods,
    reference,
    report,
    status,
    workload,
)
from tests.controllers.node_world import PODS, Doc, World


async def test_integer_min_available_expects_the_existing_pods(world: World) -> None:
    """TestUnavailable."""
    await budget(world, minAvailable=3)
    for number in range(5):
        await asyncio.sleep(1)
        assert await status(world) == (max(0, number - 3), number, 3, number)
        await pods(world, count=1, first=number)
    await report(world, "p0", ready=False)
    await report(world, "p1", ready=False)
    await asyncio.sleep(1)
    assert await status(world) == (0, 3, 3, 5)
    disruption_allowed = await condition(world)
    assert (disruption_allowed["status"], disruption_allowed["reason"], disruption_allowed["message"]) == (
        "False",
        "InsufficientPods",
        "",
    )
    assert await world.events("NoPods") == ["PodDisruptionBudget/web No matching pods found"]


@pytest.mark.parametrize(
    ("spec", "desired"),
    [({"minAvailable": "34%"}, 2), ({"maxUnavailable": 1}, 2), ({"maxUnavailable": "34%"}, 1)],
    ids=["minAvailable percentage", "maxUnavailable number", "a share that may be missing"],
)
@pytest.mark.parametrize(("plural", "kind"), [("replicasets", "ReplicaSet"), ("statefulsets", "StatefulSet")])
async def test_percentages_are_of_the_controllers_replicas(
    world: World, spec: Doc, desired: int, plural: str, kind: str
) -> None:
    """TestReplicaSet, TestStatefulSetController."""
    owner = await workload(world, plural, kind)
    await budget(world, **spec)
    await asyncio.sleep(1)
    assert await status(world) == (0, 0, 0, 0)
    for number in range(3):
        await pods(world, owner, count=1, first=number)
        await asyncio.sleep(1)
        assert await status(world) == (max(0, number + 1 - desired), number + 1, desired, 3)
    assert not [request for request in world.requests() if request.startswith("get")]


async def test_percentage_of_a_replication_controller_with_an_unmanaged_pod(world: World) -> None:
    """TestReplicationController."""
    spec = {"replicas": 3, "selector": LABELS, "template": {"metadata": {"labels": LABELS}, "spec": {}}}
    spec["template"]["spec"] = {"containers": [{"name": "main", "image": "pause"}]}  # type: ignore[index]
    path = "/api/v1/namespaces/default/replicationcontrollers"
    created = await world.request("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    await budget(world, minAvailable="34%")
    await pods(world, reference("v1", "ReplicationController", created))
    await pods(world, count=1, first=3)
    await asyncio.sleep(1)
    assert await status(world) == (2, 4, 2, 3)
    (recorded,) = await world.events("UnmanagedPods")
    assert "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,}," in recorded
    assert "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, " in recorded


async def test_rollout_counts_the_deployments_replicas_once(world: World) -> None:
    above = await workload(world, "deployments", "Deployment", 3)
    old = await workload(world, "replicasets", "ReplicaSet", 2, ownerReferences=[above])
    new = await workload(world, "replicasets", "ReplicaSet", 2, ownerReferences=[above], name="web-2")
    await budget(world, maxUnavailable=1)
    await pods(world, old, count=2)
    await pods(world, new, count=2, first=2)
    await asyncio.sleep(1)
    assert await status(world) == (2, 4, 2, 3)


@pytest.mark.parametrize("spec", [{"minAvailable": "28%"}, {"maxUnavailable": 1}], ids=["a share", "maxUnavailable"])
async def test_unmanaged_pods_allow_no_disruptions_and_are_reported(world: World, spec: Doc) -> None:
    """TestNakedPod, TestIntegerMaxUnavailable, TestStatusForUnmanagedPod."""
    await budget(world, **spec)
    await pods(world, count=1)
    await asyncio.sleep(1)
    assert (await status(world))[0] == 0
    assert (await condition(world))["reason"] == "InsufficientPods"
    assert len(await world.events("UnmanagedPods")) == 1


async def test_scaling_a_controller_updates_the_budget(world: World) -> None:
    """TestIntegerMaxUnavailableWithScaling, without its manual sync."""
    owner = await workload(world, "replicasets", "ReplicaSet", 3)
    await budget(world, maxUnavailable=1)
    await budget(world, "number", minAvailable=1)
    await pods(world, owner)
    await asyncio.sleep(1)
    assert await status(world) == (1, 3, 2, 3)
    await world.merge(f"{APPS}/replicasets/web", {"spec": {"replicas": 7}})
    await asyncio.sleep(1)
    assert await status(world) == (0, 3, 6, 7)
    assert await status(world, "number") == (2, 3, 1, 3)


async def test_workloads_do_not_trigger_a_budget_without_pods(world: World) -> None:
    """Each sync of such a budget repeats the event NoPods."""
    await budget(world, maxUnavailable=1)
    await asyncio.sleep(1)
    before = await world.sorted_events()
    await workload(world, "deployments", "Deployment", 0)
    await workload(world, "replicasets", "ReplicaSet", 0)
    await world.merge(f"{APPS}/replicasets/web", {"spec": {"replicas": 7}})
    await asyncio.sleep(1)
    assert await world.sorted_events() == before


async def test_pod_that_no_longer_matches_is_not_counted(world: World) -> None:
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    await world.merge(f"{PODS}/p0", {"metadata": {"labels": {"app": "other"}}})
    await asyncio.sleep(1)
    assert await status(world) == (1, 2, 1, 2)


async def test_pod_matched_by_several_budgets_is_counted_in_each_and_reported(world: World) -> None:
    await budget(world, "b", minAvailable=1)
    await budget(world, "a", minAvailable=0)
    await pods(world, count=1)
    await asyncio.sleep(1)
    assert await status(world, "a") == (1, 1, 0, 1)
    assert await status(world, "b") == (0, 1, 1, 1)
    text = 'Pod/p0 Pod "default"/"p0" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'
    assert await world.events("MultiplePodDisruptionBudgets") == [text]


async def test_irrelevant_updates_enqueue_nothing(world: World) -> None:
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    adds = world.metrics.value("workqueue_adds_total", "disruption")
    for number in range(10):
        await world.merge(f"{PODS}/p0", {"metadata": {"annotations": {"a": str(number)}}})
    await asyncio.sleep(1)
    assert world.metrics.value("workqueue_adds_total", "disruption") == adds


async def test_a_large_budget_is_synced_once_for_concurrent_events(world: World) -> None:
    await budget(world, minAvailable=1)
    await pods(world, count=600, ready=False)
    await asyncio.sleep(1)
    assert await status(world) == (0, 0, 1, 600)
    before = world.requests().count(UPDATE)
    for number in range(600):
        await report(world, f"p{number}", ready=True)
    assert (await status(world))[1] < 600
    await asyncio.sleep(0.05)
    assert await status(world) == (599, 600, 1, 600)
    assert world.requests().count(UPDATE) - before < 5
    for number in range(550):
        await world.delete(f"{PODS}/p{number}", grace=0)
    await asyncio.sleep(1)
    await world.delete(f"{PDBS}/web")
    await asyncio.sleep(1)
    await budget(world, minAvailable=1)
    await asyncio.sleep(0.001)
    assert await status(world) == (49, 50, 1, 50)


async def test_observed_generation_is_updated(world: World) -> None:
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    await world.merge(f"{PDBS}/web", {"spec": {"minAvailable": 3}})
    await asyncio.sleep(1)
    obj = (await world.must_get(f"{PDBS}/web"))["status"]
    assert obj["observedGeneration"] == 2
    assert await status(world) == (0, 3, 3, 3)
    assert (await condition(world))["observedGeneration"] == 2
