"""ReplicationControllers on a simulated cluster: common behavior with ReplicaSets, and differences."""

import asyncio
from typing import Any

from tests.controllers.node_world import fixture_of
from tests.scenarios.users import NAMESPACE, User, replica_set

from pilothouse.sim import Simulation, running

CONTROLLERS = f"{NAMESPACE}/replicationcontrollers"
PODS = f"{NAMESPACE}/pods"
LABELS = {"app": "web", "tier": "front"}


def controller(replicas: int) -> dict[str, Any]:
    """As people write it: the selector is that of the template when they leave it out."""
    document = replica_set("web", replicas, LABELS)
    del document["spec"]["selector"]
    return document


async def status_of(user: User) -> dict[str, Any]:
    obj: dict[str, Any] = (await user.request("GET", f"{CONTROLLERS}/web"))["status"]
    return obj


async def pods_of(user: User) -> list[dict[str, Any]]:
    return [pod for pod in await user.items(PODS) if pod["metadata"].get("ownerReferences")]


simulation = fixture_of(running)


async def test_replicas_are_created_and_deleted(simulation: Simulation) -> None:
    user = User(simulation.user)
    await user.request("POST", CONTROLLERS, controller(3))
    await simulation.run_until_idle()
    pods = await pods_of(user)
    for pod in pods:
        (reference,) = pod["metadata"]["ownerReferences"]
        assert (reference["apiVersion"], reference["kind"], reference["name"]) == (
            "v1",
            "ReplicationController",
            "web",
        )
        assert pod["metadata"]["generateName"] == "web-"
    assert await status_of(user) == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "observedGeneration": 1,
    }, "and pods that terminate are no part of it"
    await user.merge(f"{CONTROLLERS}/web", {"spec": {"replicas": 1}})
    await simulation.run_until_idle()
    assert len(await pods_of(user)) == 1
    events = await user.items(f"{NAMESPACE}/events")
    reported = {
        (event["reason"], event["source"]["component"])
        for event in events
        if event["involvedObject"]["kind"] == "ReplicationController"
    }
    assert reported == {("SuccessfulCreate", "replication-controller"), ("SuccessfulDelete", "replication-controller")}


async def test_pods_are_adopted_and_released_by_the_selector(simulation: Simulation) -> None:
    user = User(simulation.user)
    loose = {"metadata": {"name": "loose", "labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await user.request("POST", PODS, loose)
    other = {"metadata": {"name": "other", "labels": {"app": "web"}}, "spec": loose["spec"]}
    await user.request("POST", PODS, other)
    await user.request("POST", CONTROLLERS, controller(2))
    await simulation.run_until_idle()
    owned = {pod["metadata"]["name"] for pod in await pods_of(user)}
    assert len(owned) == 2
    assert "loose" in owned
    assert "other" not in owned
    await user.merge(f"{PODS}/loose", {"metadata": {"labels": {"tier": "back"}}})
    await simulation.run_until_idle()
    owned = {pod["metadata"]["name"] for pod in await pods_of(user)}
    assert len(owned) == 2
    assert "loose" not in owned


async def test_idle_controller_writes_nothing(simulation: Simulation) -> None:
    user = User(simulation.user)
    document = controller(1)
    document["spec"]["template"]["spec"]["priorityClassName"] = "urgent"
    await user.request("POST", CONTROLLERS, document)
    await asyncio.sleep(30)
    first = await user.request("GET", f"{CONTROLLERS}/web")
    (condition,) = first["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
    await asyncio.sleep(20)
    again = await user.request("GET", f"{CONTROLLERS}/web")
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await user.request("POST", classes, {"metadata": {"name": "urgent"}, "value": 1})
    await asyncio.sleep(1000)  # it was refused often: the pause has become long
    status = await status_of(user)
    assert "conditions" not in status
    assert status["readyReplicas"] == 1
