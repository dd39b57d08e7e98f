"""The embedded API server in virtual time with a ReplicaSet controller, and helpers."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.controllers.api_world import PODS, Doc, OwnerWorld, in_group
from tests.workloads import pod_spec, workload

from pilothouse.controllers.workloads.replicaset import DESCRIPTOR, ReplicaSetOptions
from pilothouse.env import Env

SETS = "/apis/apps/v1/namespaces/default/replicasets"
WEB = f"{SETS}/web"


class World(OwnerWorld):
    """A cluster of one API server and one controller."""

    descriptor = DESCRIPTOR
    path = WEB

    async def create_set(self, replicas: int, name: str = "web", *, labels: Doc | None = None, **fields: Any) -> Doc:
        """Create a ReplicaSet whose pods have ``nodeName: n1``, so that their deletion is graceful."""
        spec, labels = {"replicas": replicas, **fields.pop("spec", {})}, labels or {"app": "web"}
        body = workload("ReplicaSet", name, pod=pod_spec(nodeName="n1"), labels=labels, metadata=fields, **spec)
        return await self.request("POST", SETS, body)

    async def create_pod(self, name: str, *, labels: Doc | None = None, **metadata: Any) -> Doc:
        """Create a pod that no controller created."""
        meta = {"name": name, "labels": {"app": "web"} if labels is None else labels, **metadata}
        spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "pause"}]}
        return await self.request("POST", PODS, {"metadata": meta, "spec": spec})

    async def scale(self, replicas: int, path: str = WEB) -> None:
        """Change spec.replicas."""
        await self.merge(path, {"spec": {"replicas": replicas}})

    async def wait_for_sync(self, seconds: float = 2.0) -> None:
        await super().wait_for_sync(seconds)

    async def owned(self, name: str = "web") -> list[str]:
        """Names of the pods that the ReplicaSet of that name controls and that are not being deleted."""
        return [item["metadata"]["name"] for item in await self.pods(owner=name)]


def world(env: Env) -> contextlib.AbstractAsyncContextManager[World]:
    """An environment without a controller. It is torn down with the block."""
    return in_group(World, env)


@contextlib.asynccontextmanager
async def controlled(env: Env, options: ReplicaSetOptions | None = None) -> AsyncIterator[World]:
    """An environment with the controller running."""
    async with world(env) as new_world:
        await new_world.start(options)
        yield new_world
