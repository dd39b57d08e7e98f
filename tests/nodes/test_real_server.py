"""Simulated nodes and the scheduler against a real kube-apiserver."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from tests.real_cluster import RealCluster

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client, json_patch, strategic_merge_patch
from pilothouse.client.connect import connect
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, TaskGroup
from pilothouse.env.loops import run
from pilothouse.nodes import NodeSimulator, Profile
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.runtime import InformerFactory
from pilothouse.scheduler import Scheduler

NAMES = ("real-sim-0", "real-sim-1")


async def until(look: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait until it holds; ``what`` is for whoever reads the test."""
    del what
    async with asyncio.timeout(15):
        while not await look():  # noqa: ASYNC110  # another program's state: nothing tells of it
            await asyncio.sleep(0.05)


def body(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "simulated", "nodeSelector": {"kubernetes.io/os": "linux"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


def test_a_pod_lives_and_dies_on_a_real_server(real_cluster: RealCluster) -> None:
    namespace = real_cluster.namespace()
    kubeconfig = str(real_cluster.kubeconfig)

    async def main() -> None:
        env = Env()
        transport = connect(env, kubeconfig=kubeconfig)
        client = Client(transport, env)
        try:
            async with TaskGroup("programs") as group:
                informers = InformerFactory(client, env)
                profile = Profile(start_delay=0.1, stop_delay=0.1, sync_period=0.2, cpu="2")
                nodes = NodeSimulator(
                    env, names=NAMES, informers=informers, client_for=lambda _name: client, profile=profile
                )
                scheduler = Scheduler(env, client=client, informers=informers, scheduler_name="simulated")
                informers.start(group)
                group.start(nodes.run(), name="nodes")
                group.start(scheduler.run(), name="scheduler")
                await nodes.ready.wait()
                await live(client)
                group.cancel()
            for name in NAMES:
                await client.delete(NODES, name)
        finally:
            await transport.close()

    async def live(client: Client) -> None:
        async def pod(name: str) -> dict[str, Any] | None:
            try:
                raw = await client.get(PODS.raw, name, namespace)
            except NotFound:
                return None
            document: dict[str, Any] = msgspec.json.decode(raw)
            return document

        async def is_ready(name: str) -> bool:
            seen = await pod(name)
            assert seen is not None
            return {c["type"]: c["status"] for c in seen["status"].get("conditions", ())}.get("Ready") == "True"

        assert (await client.get(NODES, NAMES[0])).spec.taints == ()
        await client.create(PODS.raw, body("p", "1500m", finalizers=["example.com/hold"]), namespace)
        await until(lambda: is_ready("p"), "the pod runs")
        seen = await pod("p")
        assert seen is not None
        kinds = [c["type"] for c in seen["status"]["conditions"]]
        assert kinds == ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]

        # A status that others wrote is put right; one more pod has room, a third has not.
        lie = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        await client.patch(PODS.raw, "p", strategic_merge_patch(lie), namespace, subresource="status")
        assert not await is_ready("p")
        await until(lambda: is_ready("p"), "its status is put right")
        await client.create(PODS.raw, body("q", "1500m"), namespace)
        await until(lambda: is_ready("q"), "the second pod runs")
        await client.create(PODS.raw, body("r", "1500m"), namespace)

        async def is_told_why() -> bool:
            waiting = await client.get(PODS, "r", namespace)
            return any("2 Insufficient cpu" in c.message for c in waiting.status.conditions)

        await until(is_told_why, "the third pod is told why it waits")

        # Deletion: a terminal phase, then nothing but the finalizer keeps it, and its room is free.
        await client.delete(PODS, "p", namespace)
        await until(lambda: is_ready("r"), "the third pod gets the room")
        ended = await client.get(PODS, "p", namespace)
        assert (ended.status.phase, ended.metadata.deletion_grace_period_seconds) == ("Succeeded", 0)
        await asyncio.sleep(0.5)
        assert (await client.get(PODS, "p", namespace)).metadata.resource_version == ended.metadata.resource_version
        await client.patch(PODS.raw, "p", json_patch([{"op": "remove", "path": "/metadata/finalizers"}]), namespace)
        assert await pod("p") is None

        # A node that is deleted and created again is taken on.
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

        await until(has_lease, "the new node has a Lease")
        taken = await client.get(NODES, NAMES[0])
        assert (taken.spec.taints, taken.status.allocatable["cpu"]) == ((), "2")
        assert taken.status.conditions[-1].status == "True"

    run(main())


def test_crashes_boots_pressure_and_refusals_on_a_real_server(real_cluster: RealCluster) -> None:
    """A real API server checks every transition of a container's state."""
    namespace = real_cluster.namespace()
    kubeconfig, name = str(real_cluster.kubeconfig), "real-sim-faults"

    async def main() -> None:
        env = Env()
        transport = connect(env, kubeconfig=kubeconfig)
        client = Client(transport, env)
        try:
            async with TaskGroup("programs") as group:
                informers = InformerFactory(client, env)
                profile = Profile(start_delay=0.0, stop_delay=0.1, restart_gap=0.1, init_run_time=0.1, cpu="2")
                nodes = NodeSimulator(
                    env, names=[name], informers=informers, client_for=lambda _name: client, profile=profile
                )
                informers.start(group)
                group.start(nodes.run(), name="nodes")
                await nodes.ready.wait()
                await live(client, nodes)
                group.cancel()
            await client.delete(NODES, name)
        finally:
            await transport.close()

    async def live(client: Client, nodes: NodeSimulator) -> None:
        async def status(pod: str) -> dict[str, Any]:
            raw = await client.get(PODS.raw, pod, namespace)
            found: dict[str, Any] = msgspec.json.decode(raw)["status"]
            return found

        async def create(pod: str, policy: str, cpu: str = "10m", **annotations: str) -> None:
            made = body(pod, cpu, annotations={f"{PREFIX}{k.replace('_', '-')}": v for k, v in annotations.items()})
            inits = [{"name": "i", "image": "x"}]
            made["spec"] |= {"nodeName": name, "restartPolicy": policy, "initContainers": inits}
            await client.create(PODS.raw, made, namespace)

        async def restarts(pod: str) -> int:
            (container,) = (await status(pod)).get("containerStatuses", [{"restartCount": 0}])
            return int(container["restartCount"])

        async def has(pod: str, phase: str, reason: str = "") -> bool:
            found = await status(pod)
            return (found.get("phase"), found.get("reason", "")) == (phase, reason)

        await create("crash", "Always", exit_code="1", run_time="100ms")
        await create("retry", "OnFailure", exit_code="1,0", run_time="100ms")
        await create("once", "Never", exit_code="3", run_time="100ms")
        await create("web", "Always", memory_usage="1Gi")
        await create("worker", "OnFailure")
        await create("huge", "Always", cpu="9")

        async def loops() -> bool:
            (container,) = (await status("crash")).get("containerStatuses", [{}])
            return "CrashLoopBackOff" in str(container.get("state"))

        await until(loops, "it crashes")
        await until(lambda: has("retry", "Succeeded"), "the second try succeeds")
        await until(lambda: has("once", "Failed"), "it fails for good")
        await until(lambda: has("huge", "Failed", "OutOfcpu"), "it does not fit")
        await until(lambda: has("web", "Running"), "it runs")
        await until(lambda: has("worker", "Running"), "it runs")
        nodes.revive(name, pods=False)

        async def both_again() -> bool:
            return await restarts("web") == 1 and await restarts("worker") == 1

        await until(both_again, "the boot has ended them, and they run again")
        nodes.press(name, "memory", 1 << 30)
        await until(lambda: has("web", "Failed", "Evicted"), "the hungry one is evicted")

        async def squeezed() -> bool:
            return any(
                c.status == "True" for c in (await client.get(NODES, name)).status.conditions if "Memory" in c.type
            )

        await until(squeezed, "the node says why")

    run(main())
