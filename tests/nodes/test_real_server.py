"""Simulated nodes and the scheduler against a real kube-apiserver."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.real_cluster import RealCluster

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client, json_patch, strategic_merge_patch
from pilothouse.client.connect import connect
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, TaskGroup
from pilothouse.nodes import NodeSimulator, Profile
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.runtime import InformerFactory
from pilothouse.scheduler import Scheduler

NAMES = ("real-sim-0", "real-sim-1")


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until the condition is met."""
    async with asyncio.timeout(15):
        while not await condition():  # noqa: ASYNC110  # the state of another program
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def simulated(
    env: Env, cluster: RealCluster, names: Sequence[str], profile: Profile, *, schedules: bool = False
) -> AsyncIterator[tuple[Client, NodeSimulator]]:
    """Nodes of these names, and a scheduler named ``simulated`` if required. The nodes are deleted at the end."""
    client = Client(connect(env, kubeconfig=str(cluster.kubeconfig)), env)
    try:
        async with TaskGroup("programs") as group:
            informers = InformerFactory(client, env)
            nodes = NodeSimulator(
                env, names=names, informers=informers, client_for=lambda _name: client, profile=profile
            )
            scheduler = Scheduler(env, client=client, informers=informers, scheduler_name="simulated")
            informers.start(group)
            group.start(nodes.run(), name="nodes")
            if schedules:
                group.start(scheduler.run(), name="scheduler")
            await nodes.ready.wait()
            yield client, nodes
            group.cancel()
        for name in names:
            await client.delete(NODES, name)
    finally:
        await client.close()


def body(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "simulated", "nodeSelector": {"kubernetes.io/os": "linux"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


@pytest.mark.real_loop
async def test_lifecycle_of_a_pod_on_a_real_server(env: Env, real_cluster: RealCluster) -> None:
    namespace = real_cluster.namespace()
    profile = Profile(start_delay=0.1, stop_delay=0.1, sync_period=0.2, cpu="2")
    async with simulated(env, real_cluster, NAMES, profile, schedules=True) as (client, _nodes):

        async def pod(name: str) -> dict[str, Any] | None:
            try:
                raw = await client.get(PODS.raw, name, namespace)
            except NotFound:
                return None
            document: dict[str, Any] = msgspec.json.decode(raw)
            return document

        async def is_ready(name: str) -> bool:
            running_pod = await pod(name)
            assert running_pod is not None
            return {c["type"]: c["status"] for c in running_pod["status"].get("conditions", ())}.get("Ready") == "True"

        assert (await client.get(NODES, NAMES[0])).spec.taints == ()
        await client.create(PODS.raw, body("p", "1500m", finalizers=["example.com/hold"]), namespace)
        await until(lambda: is_ready("p"))
        observed_pod = await pod("p")
        assert observed_pod is not None
        kinds = [c["type"] for c in observed_pod["status"]["conditions"]]
        assert kinds == ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]

        # A status written by another client is corrected; one more pod fits, a third does not.
        lie = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await client.patch(PODS.raw, "p", strategic_merge_patch(lie), namespace, subresource="status")
        assert not await is_ready("p")
        await until(lambda: is_ready("p"))
        await client.create(PODS.raw, body("q", "1500m"), namespace)
        await until(lambda: is_ready("q"))
        await client.create(PODS.raw, body("r", "1500m"), namespace)

        async def has_reason() -> bool:
            waiting = await client.get(PODS, "r", namespace)
            return any("2 Insufficient cpu" in c.message for c in waiting.status.conditions)

        await until(has_reason)

        # Deletion: a terminal phase, then nothing but the finalizer keeps it, and its room is free.
        await client.delete(PODS, "p", namespace)
        await until(lambda: is_ready("r"))
        ended = await client.get(PODS, "p", namespace)
        assert (ended.status.phase, ended.metadata.deletion_grace_period_seconds) == ("Succeeded", 0)
        await asyncio.sleep(0.5)
        assert (await client.get(PODS, "p", namespace)).metadata.resource_version == ended.metadata.resource_version
        await client.patch(PODS.raw, "p", json_patch([{"op": "remove", "path": "/metadata/finalizers"}]), namespace)
        assert await pod("p") is None

        # A node that is deleted and created again is adopted.
        await client.delete(NODES, NAMES[0])
        await client.delete(LEASES, NAMES[0], "kube-node-lease")
        await asyncio.sleep(0.3)
        node = await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAMES[0]}})

        async def has_lease() -> bool:
            try:
                lease = await client.get(LEASES, NAMES[0], "kube-node-lease")
            except NotFound:
                return False
            return lease.metadata.owner_references[0].uid == node.metadata.uid

        await until(has_lease)
        node_before = await client.get(NODES, NAMES[0])
        assert (node_before.spec.taints, node_before.status.allocatable["cpu"]) == ((), "2")
        assert node_before.status.conditions[-1].status == "True"


@pytest.mark.real_loop
async def test_crashes_boots_pressure_and_refusals_on_a_real_server(env: Env, real_cluster: RealCluster) -> None:
    """A real API server checks every transition of a container's state."""
    namespace, name = real_cluster.namespace(), "real-sim-faults"
    profile = Profile(start_delay=0.0, stop_delay=0.1, restart_gap=0.1, init_run_time=0.1, cpu="2")
    async with simulated(env, real_cluster, [name], profile) as (client, nodes):

        async def status(pod: str) -> dict[str, Any]:
            raw = await client.get(PODS.raw, pod, namespace)
            document: dict[str, Any] = msgspec.json.decode(raw)["status"]
            return document

        async def create(pod: str, policy: str, cpu: str = "10m", **annotations: str) -> None:
            pod_body = body(pod, cpu, annotations={f"{PREFIX}{k.replace('_', '-')}": v for k, v in annotations.items()})
            inits = [{"name": "i", "image": "x"}]
            pod_body["spec"] |= {"nodeName": name, "restartPolicy": policy, "initContainers": inits}
            await client.create(PODS.raw, pod_body, namespace)

        async def restarts(pod: str) -> int:
            (container,) = (await status(pod)).get("containerStatuses", [{"restartCount": 0}])
            return int(container["restartCount"])

        async def has(pod: str, phase: str, reason: str = "") -> bool:
            result = await status(pod)
            return (result.get("phase"), result.get("reason", "")) == (phase, reason)

        await create("crash", "Always", exit_code="1", run_time="100ms")
        await create("retry", "OnFailure", exit_code="1,0", run_time="100ms")
        await create("once", "Never", exit_code="3", run_time="100ms")
        await create("web", "Always", memory_usage="1Gi")
        await create("worker", "OnFailure")
        await create("huge", "Always", cpu="9")

        async def loops() -> bool:
            (container,) = (await status("crash")).get("containerStatuses", [{}])
            return "CrashLoopBackOff" in str(container.get("state"))

        await until(loops)
        await until(lambda: has("retry", "Succeeded"))
        await until(lambda: has("once", "Failed"))
        await until(lambda: has("huge", "Failed", "OutOfcpu"))
        await until(lambda: has("web", "Running"))
        await until(lambda: has("worker", "Running"))
        nodes.revive(name, pods=False)

        async def both_again() -> bool:
            return await restarts("web") == 1 and await restarts("worker") == 1

        await until(both_again)
        nodes.press(name, "memory", 1 << 30)
        await until(lambda: has("web", "Failed", "Evicted"))

        async def squeezed() -> bool:
            return any(
                c.status == "True" for c in (await client.get(NODES, name)).status.conditions if "Memory" in c.type
            )

        await until(squeezed)
