"""The controller on kube-apiserver, with the rights of upstream's role only."""

import os

import pytest
from tests.controllers.real_world import RealWorld
from tests.real_cluster import RealCluster

from pilothouse.controllers.workloads.replicaset import DESCRIPTOR
from pilothouse.env import Env

LABELS = {"app": "web"}
SPEC = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "pause"}]}
ROLES = ("system:kube-controller-manager", "system:controller:replicaset-controller")


@pytest.mark.real_loop
async def test_scale_adopt_and_release_with_the_bootstrap_role(env: Env, real_cluster: RealCluster) -> None:
    world = RealWorld(env, real_cluster)
    namespace = real_cluster.namespace("rs")
    sets, pods = f"/apis/apps/v1/namespaces/{namespace}/replicasets", f"/api/v1/namespaces/{namespace}/pods"

    def owned() -> set[str]:
        return {pod["metadata"]["name"] for pod in world.items(pods) if pod["metadata"].get("ownerReferences")}

    def reports(replicas: int) -> bool:
        """Whether the status has the current generation and this number of pods."""
        obj = real_cluster.request("GET", f"{sets}/web")
        status, generation = obj.get("status", {}), obj["metadata"]["generation"]
        reported = (status.get("replicas"), status.get("observedGeneration"), len(owned()))
        return reported == (replicas, generation, replicas)

    def reasons() -> set[str]:
        return {event["reason"] for event in world.items(f"/api/v1/namespaces/{namespace}/events")}

    # Before the controller: with two watches it might see the set first, and create three pods.
    await world.request("POST", pods, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": SPEC})
    async with world.controllers((DESCRIPTOR, None), user=f"replicaset-{os.getpid()}", roles=ROLES):
        template = {"metadata": {"labels": LABELS}, "spec": SPEC}
        spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template}
        await world.request("POST", sets, {"metadata": {"name": "web"}, "spec": spec})
        await world.until(lambda: reports(3), "three pods")
        assert "orphan" in owned()
        await world.request("PATCH", f"{pods}/orphan", {"metadata": {"labels": {"app": "debug"}}})
        await world.until(lambda: reports(3) and "orphan" not in owned(), "another pod instead of the released one")
        await world.request("PATCH", f"{sets}/web", {"spec": {"replicas": 0}})
        await world.until(lambda: reports(0), "no pods")
        # Events are written after the status.
        await world.until(lambda: "SuccessfulDelete" in reasons(), "the event of a deletion")
        assert reasons() == {"SuccessfulCreate", "SuccessfulDelete"}
