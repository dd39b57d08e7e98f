"""The embedded API server in virtual time with a StatefulSet controller on it, and a kubelet that runs its pods."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.controllers.api_world import PODS, Doc, OwnerWorld, in_group
from tests.workloads import pod_spec, workload

from pilothouse.apiserver.options import ServerOptions
from pilothouse.controllers.workloads.statefulset import DESCRIPTOR, StatefulSetOptions
from pilothouse.env import Env, TaskGroup

NAMESPACE = "/api/v1/namespaces/default"
CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
WEB = f"{SETS}/web"
TEMPLATE = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


class World(OwnerWorld):
    """An API server and the controller. Pods run when created, and terminate when deleted."""

    descriptor = DESCRIPTOR
    path = WEB

    def __init__(self, env: Env, group: TaskGroup, server: ServerOptions | None = None) -> None:
        super().__init__(env, group, server)
        self.runs = True
        """Whether a kubelet runs pods."""
        self.unready: set[str] = set()
        """Pods that never become ready."""
        group.start(self._run_pods(), name="kubelet")

    async def _run_pods(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            if not self.runs:
                continue
            for pod in (await self.request("GET", PODS))["items"]:
                meta = pod["metadata"]
                if "deletionTimestamp" in meta:
                    await self.remove(meta["name"])
                elif pod["status"].get("phase") == "Pending" and meta["name"] not in self.unready:
                    await self.report(meta["name"])

    async def create(self, **spec: Any) -> Doc:
        """Create the StatefulSet ``web``."""
        body = workload("StatefulSet", pod=pod_spec("pause:1"), **{"serviceName": "web", **spec})
        return await self.request("POST", SETS, body)

    async def names(self, path: str = PODS) -> list[str]:
        """The names of the objects of a collection that are not being deleted."""
        items = (await self.request("GET", path))["items"]
        return [item["metadata"]["name"] for item in items if "deletionTimestamp" not in item["metadata"]]

    async def images(self) -> list[str]:
        """The images of the pods, by name."""
        items = (await self.request("GET", PODS))["items"]
        return [item["spec"]["containers"][0]["image"].rpartition(":")[2] for item in items]

    async def owners(self, claim: str) -> list[str]:
        """The kinds of a claim's owners."""
        meta = (await self.request("GET", f"{CLAIMS}/{claim}"))["metadata"]
        return [owner["kind"] for owner in meta.get("ownerReferences", ())]

    async def messages(self) -> list[tuple[str, str]]:
        """(reason, message) of all events, oldest first."""
        return [(item["reason"], item["message"]) for item in await self.sorted_events()]


@contextlib.asynccontextmanager
async def controlled(env: Env, options: StatefulSetOptions | None = None) -> AsyncIterator[World]:
    """An environment with the controller running."""
    # The controller's gate is a separate option; the server always keeps the field.
    async with in_group(World, env, ServerOptions(gates=("MaxUnavailableStatefulSet",))) as world:
        await world.start(options)
        yield world
