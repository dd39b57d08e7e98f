"""A node dies on a real API server, in real time with short periods.

As an administrator: the roles of old servers (v1.20) do not let the node controller read a pod or patch its status.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.controllers.node_world import HEALTHY, no_execute, toleration
from tests.real_cluster import RealCluster

from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR as POD_GARBAGE_COLLECTOR
from pilothouse.controllers.cleanup.pod_garbage_collector import PodGarbageCollectorOptions
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR as NODE_LIFECYCLE
from pilothouse.controllers.node.node_lifecycle import NodeLifecycleOptions
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR as TAINT_EVICTION
from pilothouse.controllers.node.ttl import DESCRIPTOR as TTL
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.machinery.times import format_micro_time, format_time
from pilothouse.runtime import ControllerContext, InformerFactory

NODES = "/api/v1/nodes"
OPTIONS = (
    (NODE_LIFECYCLE, NodeLifecycleOptions(monitor_period=0.2, monitor_grace_period=2.0, eviction_rate=10.0)),
    (POD_GARBAGE_COLLECTOR, PodGarbageCollectorOptions(period=0.5, quarantine=1.0)),
    (TAINT_EVICTION, None),
    (TTL, None),
)


def test_a_node_dies_and_its_pods_go_with_it(real_cluster: RealCluster) -> None:
    kubeconfig = str(real_cluster.user(f"nodes-{os.getpid()}", cluster_roles=["cluster-admin"]))
    namespace = real_cluster.namespace("nodes")
    pods = f"/api/v1/namespaces/{namespace}/pods"
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    dying, healthy = f"dying-{os.getpid()}", f"healthy-{os.getpid()}"
    env = Env()

    async def ask(method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        return await asyncio.to_thread(real_cluster.request, method, path, body, content_type=content_type)

    async def merge(path: str, body: Any) -> None:
        await ask("PATCH", path, body, "application/merge-patch+json")

    async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + 30
        while not await holds():
            assert time.monotonic() < deadline, what
            await asyncio.sleep(0.1)

    async def start_node(name: str) -> None:
        labels = {"topology.kubernetes.io/zone": f"zone-{os.getpid()}", "kubernetes.io/os": "linux"}
        await ask("POST", NODES, {"metadata": {"name": name, "labels": labels}})
        now = format_time(env.now())
        conditions = [
            {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, status in HEALTHY.items()
        ]
        await merge(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})
        await ask("POST", leases, {"metadata": {"name": name}, "spec": {"renewTime": format_micro_time(env.now())}})

    async def start_pod(name: str, *tolerations: Any) -> None:
        spec = {"nodeName": dying, "containers": [{"name": "main", "image": "pause"}], "tolerations": list(tolerations)}
        await ask("POST", pods, {"metadata": {"name": name}, "spec": spec})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(env.now())}
        await merge(f"{pods}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    async def taints() -> set[str]:
        found = (await ask("GET", f"{NODES}/{dying}"))["spec"].get("taints") or []
        return {f"{taint['key']}:{taint['effect']}" for taint in found}

    async def leaving() -> set[str]:
        items = (await ask("GET", pods))["items"]
        return {item["metadata"]["name"] for item in items if "deletionTimestamp" in item["metadata"]}

    async def story(alive: dict[str, None]) -> None:
        for name in (dying, healthy):
            await start_node(name)
            alive[name] = None
        key = "node.kubernetes.io/unreachable"
        await start_pod("brief", toleration(key, 1))
        await start_pod("forever", {"operator": "Exists"})

        async def is_tended() -> bool:
            node = await ask("GET", f"{NODES}/{dying}")
            meta = node["metadata"]
            known = meta.get("annotations", {}).get("node.alpha.kubernetes.io/ttl") == "0"
            return known and meta["labels"].get("beta.kubernetes.io/os") == "linux" and not await taints()

        await until(is_tended, "ttl annotation, older label, no taint of new nodes")
        alive.pop(dying)

        async def is_down() -> bool:
            return await taints() == {f"{key}:NoSchedule", f"{key}:NoExecute"}

        await until(is_down, "both taints")
        await until(lambda: is_set({"brief"}), "the eviction of whoever tolerates for a second")
        brief = {c["type"]: c for c in (await ask("GET", f"{pods}/brief"))["status"]["conditions"]}
        assert brief["Ready"]["status"] == "False"
        assert brief["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
        await merge(f"{NODES}/{dying}", {"spec": {"taints": [no_execute("node.kubernetes.io/out-of-service")]}})

        async def only_forever() -> bool:
            return [item["metadata"]["name"] for item in (await ask("GET", pods))["items"]] == ["forever"]

        await until(only_forever, "whoever was leaving is gone")
        await ask("DELETE", f"{NODES}/{dying}")

        async def nobody() -> bool:
            return not (await ask("GET", pods))["items"]

        await until(nobody, "nobody is left of a node that is gone")

    async def is_set(names: set[str]) -> bool:
        return await leaving() == names

    async def main() -> None:
        client = Client(connect(env, kubeconfig=kubeconfig), env)
        informers = InformerFactory(client, env)
        alive: dict[str, None] = {}

        async def renew() -> None:
            while True:
                for name in list(alive):
                    await merge(f"{leases}/{name}", {"spec": {"renewTime": format_micro_time(env.now())}})
                await asyncio.sleep(0.4)

        async with TaskGroup("real") as group:
            group.start(renew())
            for descriptor, options in OPTIONS:
                context = ControllerContext(
                    env=env, client=client, informers=informers, metadata_informers=informers, options=options
                )
                group.start(descriptor.build(context).run())
            informers.start(group)
            await story(alive)
            group.cancel()
        await client.close()
        await ask("DELETE", f"{NODES}/{healthy}")

    loops.run(main())
