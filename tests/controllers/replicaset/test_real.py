"""The controller on a real API server, with the rights of upstream's role and no more."""

import asyncio
import os
import time
from typing import Any

from tests.real_cluster import RealCluster

from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.controllers.workloads.replicaset import DESCRIPTOR
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.runtime import ControllerContext, InformerFactory

LABELS = {"app": "web"}
SPEC = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "pause"}]}


def test_scale_adopt_and_release_with_upstreams_role(real_cluster: RealCluster) -> None:
    roles = ["system:kube-controller-manager", "system:controller:replicaset-controller"]
    kubeconfig = str(real_cluster.user(f"replicaset-{os.getpid()}", cluster_roles=roles))
    namespace = real_cluster.namespace("rs")
    sets, pods = f"/apis/apps/v1/namespaces/{namespace}/replicasets", f"/api/v1/namespaces/{namespace}/pods"

    async def ask(method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        return await asyncio.to_thread(real_cluster.request, method, path, body, content_type=content_type)

    async def merge(path: str, body: Any) -> None:
        await ask("PATCH", path, body, "application/merge-patch+json")

    async def until(replicas: int) -> set[str]:
        """Wait for the status to say so, and give the names of the pods that are there then."""
        deadline = time.monotonic() + 30
        while True:
            found = await ask("GET", f"{sets}/web")
            status, generation = found.get("status", {}), found["metadata"]["generation"]
            owned = {
                item["metadata"]["name"]
                for item in (await ask("GET", pods))["items"]
                if item["metadata"].get("ownerReferences")
            }
            reported = (status.get("replicas"), status.get("observedGeneration"), len(owned))
            if reported == (replicas, generation, replicas):
                return owned
            assert time.monotonic() < deadline, f"{status}, pods {sorted(owned)}"
            await asyncio.sleep(0.05)

    async def main() -> None:
        env = Env()
        client = Client(connect(env, kubeconfig=kubeconfig), env)
        informers = InformerFactory(client, env)
        context = ControllerContext(env=env, client=client, informers=informers, metadata_informers=informers)
        async with TaskGroup("real") as group:
            informers.start(group)
            group.start(DESCRIPTOR.build(context).run())
            await ask("POST", pods, {"metadata": {"name": "orphan", "labels": LABELS}, "spec": SPEC})
            template = {"metadata": {"labels": LABELS}, "spec": SPEC}
            spec = {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template}
            await ask("POST", sets, {"metadata": {"name": "web"}, "spec": spec})
            assert "orphan" in await until(3)
            await merge(f"{pods}/orphan", {"metadata": {"labels": {"app": "debug"}}})
            deadline = time.monotonic() + 30
            while "orphan" in (owned := await until(3)):
                assert time.monotonic() < deadline, owned
            await merge(f"{sets}/web", {"spec": {"replicas": 0}})
            await until(0)
            events = (await ask("GET", f"/api/v1/namespaces/{namespace}/events"))["items"]
            assert {event["reason"] for event in events} == {"SuccessfulCreate", "SuccessfulDelete"}
            group.cancel()
        await client.close()

    loops.run(main())
