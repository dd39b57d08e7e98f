"""An unreachable node on kube-apiserver, in real time with short periods.

As an administrator: the roles of old servers (v1.20) do not let the node controller read a pod or patch its status.
"""

import asyncio
import os
from typing import Any

import pytest
from tests.controllers.node_world import HEALTHY, LEASES, NODES, no_execute, toleration
from tests.controllers.real_world import RealWorld
from tests.real_cluster import RealCluster

from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR as POD_GARBAGE_COLLECTOR
from pilothouse.controllers.cleanup.pod_garbage_collector import PodGarbageCollectorOptions
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR as NODE_LIFECYCLE
from pilothouse.controllers.node.node_lifecycle import NodeLifecycleOptions
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR as TAINT_EVICTION
from pilothouse.controllers.node.ttl import DESCRIPTOR as TTL
from pilothouse.env import Env
from pilothouse.machinery.times import format_micro_time, format_time

CONTROLLERS = (
    (NODE_LIFECYCLE, NodeLifecycleOptions(monitor_period=0.2, monitor_grace_period=2.0, eviction_rate=10.0)),
    (POD_GARBAGE_COLLECTOR, PodGarbageCollectorOptions(period=0.5, quarantine=1.0)),
    (TAINT_EVICTION, None),
    (TTL, None),
)
UNREACHABLE = "node.kubernetes.io/unreachable"


@pytest.mark.real_loop
async def test_pods_of_a_dead_node_are_evicted_and_garbage_collected(env: Env, real_cluster: RealCluster) -> None:
    world = RealWorld(env, real_cluster)
    pods = f"/api/v1/namespaces/{real_cluster.namespace('nodes')}/pods"
    dying, healthy = f"dying-{os.getpid()}", f"healthy-{os.getpid()}"
    alive: dict[str, None] = {}

    async def start_node(name: str) -> None:
        labels = {"topology.kubernetes.io/zone": f"zone-{os.getpid()}", "kubernetes.io/os": "linux"}
        await world.request("POST", NODES, {"metadata": {"name": name, "labels": labels}})
        now = format_time(env.now())
        conditions = [
            {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, status in HEALTHY.items()
        ]
        await world.request("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": conditions}})
        renewed = {"renewTime": format_micro_time(env.now())}
        await world.request("POST", LEASES, {"metadata": {"name": name}, "spec": renewed})
        alive[name] = None

    async def renew() -> None:
        while True:
            for name in list(alive):
                body = {"spec": {"renewTime": format_micro_time(env.now())}}
                await world.request("PATCH", f"{LEASES}/{name}", body)
            await asyncio.sleep(0.4)

    async def start_pod(name: str, *tolerations: Any) -> None:
        spec = {"nodeName": dying, "containers": [{"name": "main", "image": "pause"}], "tolerations": list(tolerations)}
        await world.request("POST", pods, {"metadata": {"name": name}, "spec": spec})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(env.now())}
        await world.request("PATCH", f"{pods}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    def taints() -> set[str]:
        node = real_cluster.request("GET", f"{NODES}/{dying}")["spec"].get("taints") or []
        return {f"{taint['key']}:{taint['effect']}" for taint in node}

    def is_initialized() -> bool:
        meta = real_cluster.request("GET", f"{NODES}/{dying}")["metadata"]
        known = meta.get("annotations", {}).get("node.alpha.kubernetes.io/ttl") == "0"
        return known and meta["labels"].get("beta.kubernetes.io/os") == "linux" and not taints()

    def terminating() -> set[str]:
        return {pod["metadata"]["name"] for pod in world.items(pods) if "deletionTimestamp" in pod["metadata"]}

    async with world.controllers(*CONTROLLERS, user=f"nodes-{os.getpid()}", roles=["cluster-admin"]) as group:
        group.start(renew())
        for name in (dying, healthy):
            await start_node(name)
        await start_pod("brief", toleration(UNREACHABLE, 1))
        await start_pod("forever", {"operator": "Exists"})
        await world.until(is_initialized, "ttl annotation, older label, no taint of new nodes")
        alive.pop(dying)
        both = {f"{UNREACHABLE}:NoSchedule", f"{UNREACHABLE}:NoExecute"}
        await world.until(lambda: taints() == both, "both taints")
        await world.until(lambda: terminating() == {"brief"}, "the eviction of the pod that tolerates for a second")
        status = (await world.request("GET", f"{pods}/brief"))["status"]
        brief = {c["type"]: c for c in status["conditions"]}
        assert brief["Ready"]["status"] == "False"
        assert brief["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
        out_of_service = {"spec": {"taints": [no_execute("node.kubernetes.io/out-of-service")]}}
        await world.request("PATCH", f"{NODES}/{dying}", out_of_service)
        await world.until(lambda: world.names(pods) == ["forever"], "the terminating pod is gone")
        await world.request("DELETE", f"{NODES}/{dying}")
        await world.until(lambda: world.names(pods) == [], "no pod is left of a node that is gone")
    await world.request("DELETE", f"{NODES}/{healthy}")
