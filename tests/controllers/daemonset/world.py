"""The embedded API server in virtual time with a DaemonSet controller on it, nodes, and kubelets that run their pods.

The kubelets bind pods to the node they are pinned to and run them; a test can do without.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.controllers.api_world import NODES, PODS, REVISIONS, Doc, OwnerWorld, in_group
from tests.workloads import pod_spec, workload

from pilothouse.apiserver import ServerOptions
from pilothouse.controllers.workloads.daemonset import DESCRIPTOR, DaemonSetOptions
from pilothouse.controllers.workloads.daemonset.controller import DaemonSetController
from pilothouse.env import Env, TaskGroup

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
AGENT = f"{SETS}/agent"


class World(OwnerWorld):
    """A cluster of one API server and one controller."""

    descriptor = DESCRIPTOR
    path = AGENT

    def __init__(self, env: Env, group: TaskGroup, server: ServerOptions | None = None) -> None:
        super().__init__(env, group, server)
        self.kubelets = True
        self.ready = True
        """Whether pods that start become ready."""
        self.checks: list[Callable[[list[Doc]], None]] = []
        """Called with all pods after every step of the kubelets."""
        group.start(self._run_kubelets(), name="kubelets")

    @property
    def controller(self) -> DaemonSetController:
        """The controller that was started last."""
        controller = self.controllers[-1]
        assert isinstance(controller, DaemonSetController)
        return controller

    # Kubelets and scheduler

    async def _run_kubelets(self) -> None:
        stepped: object = None
        while True:
            await asyncio.sleep(0.1)
            # A step does nothing when nothing was written since the last one.
            state = (self.store.revision, self.ready, len(self.checks))
            if self.kubelets and state != stepped:
                stepped = state
                await self._step()

    async def _step(self) -> None:
        nodes = {node["metadata"]["name"] for node in (await self.request("GET", NODES))["items"]}
        for pod in (await self.request("GET", PODS))["items"]:
            await self._run_pod(pod, nodes)
        if self.checks:
            pods = (await self.request("GET", PODS))["items"]
            for check in self.checks:
                check(pods)

    async def _run_pod(self, pod: Doc, nodes: set[str]) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            if pod["spec"].get("nodeName") in nodes:
                await self.remove(name)
            return
        if not pod["spec"].get("nodeName"):
            affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
            terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
            target = terms[0]["matchFields"][0]["values"][0] if terms else ""
            if target in nodes:
                await self.bind(name, target)
        elif pod["status"].get("phase") == "Pending" and self.ready:
            await self.report(name)

    async def bind(self, pod: str, node: str) -> None:
        """Bind the pod, as the scheduler."""
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        await self.request("POST", f"{PODS}/{pod}/binding", body)

    async def add_nodes(self, count: int, *, first: int = 0, labels: Doc | None = None) -> None:
        """Create ready nodes from ``n<first>``."""
        for number in range(first, first + count):
            await self.request("POST", NODES, {"metadata": {"name": f"n{number}", "labels": labels or {}}})
            # A new node is not ready until its kubelet reports, and tainted; nothing removes the taint here.
            await self.taint(f"n{number}")

    async def taint(self, node: str, *taints: tuple[str, str]) -> None:
        """Replace the node's taints by these (key, effect)."""
        result = [{"key": key, "effect": effect} for key, effect in taints]
        await self.merge(f"{NODES}/{node}", {"spec": {"taints": result or None}})

    async def create_set(self, name: str = "agent", *, template: Doc | None = None, **spec: Any) -> Doc:
        """Create a DaemonSet; ``template`` are fields of the pod spec."""
        pod = pod_spec("pause:1", **(template or {}))
        return await self.request("POST", SETS, workload("DaemonSet", name, pod=pod, **spec))

    async def pods(self, *, owner: str = "agent", terminating: bool = False) -> list[Doc]:
        return await super().pods(owner=owner, terminating=terminating)

    async def nodes(self, owner: str = "agent") -> list[str]:
        """The nodes of these pods, sorted."""
        return sorted(pod["spec"].get("nodeName", "") for pod in await self.pods(owner=owner))

    async def images(self) -> list[str]:
        """The images of the pods, sorted."""
        return sorted(pod["spec"]["containers"][0]["image"] for pod in await self.pods())

    async def revisions(self) -> list[tuple[str, int]]:
        """(hash label, number) of all revisions, by number."""
        items = (await self.request("GET", REVISIONS))["items"]
        result = [(item["metadata"]["labels"].get("controller-revision-hash", ""), item["revision"]) for item in items]
        return sorted(result, key=lambda each: each[1])


def uncontrolled(env: Env) -> contextlib.AbstractAsyncContextManager[World]:
    """An environment without nodes and controller. It is torn down with the block."""
    return in_group(World, env)


@contextlib.asynccontextmanager
async def controlled(env: Env, options: DaemonSetOptions | None = None, *, nodes: int = 3) -> AsyncIterator[World]:
    """An environment with nodes and the controller running."""
    async with uncontrolled(env) as world:
        await world.add_nodes(nodes)
        await world.start(options)
        yield world
