"""An embedded API server with simulated nodes and a scheduler, each of which can be stopped and started again.

For component tests of both: ``async with world(env) as w``. Everything runs on the virtual loop.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from pilothouse.api import wire
from pilothouse.api.core import EVENTS, NODES, PODS, Event, Node, Pod
from pilothouse.apiserver import ApiServer
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Interceptor
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.metrics import Registry
from pilothouse.nodes import NodeSimulator, Profile
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.nodes.stages import Stage
from pilothouse.runtime import InformerFactory
from pilothouse.scheduler import Scheduler
from pilothouse.storage import Change, MemoryStore

QUIET = Profile(events=False)


class World:
    """See the module. ``node_faults`` and ``scheduler_faults`` stand between the programs and the server."""

    def __init__(self, env: Env, group: TaskGroup) -> None:
        self.env = env
        self.group = group
        self.simulator: NodeSimulator | None = None
        store = MemoryStore(env)
        self.writes: list[Change] = []
        store.on_commit.append(self.writes.extend)
        self.server = ApiServer(env, store)
        self.client = Client(self._transport(), env)
        self.node_faults = Interceptor(self._transport(), env)
        self.scheduler_faults = Interceptor(self._transport(), env)
        self.scheduler_metrics = Registry()
        group.start(self.server.run(), name="server")

    def _transport(self) -> wire.Transport:
        return self.server.transport("admin", ("system:masters",))

    # Programs

    async def start_nodes(
        self, *names: str, profile: Profile = QUIET, stages: tuple[Stage, ...] = ()
    ) -> asyncio.Task[None]:
        """Start the simulator and wait until its nodes are ready. Cancel the task to end it."""
        ready = asyncio.Event()
        task = self.group.start(self._nodes(names, profile, stages, ready), name="nodes")
        await ready.wait()
        return task

    @property
    def nodes(self) -> NodeSimulator:
        """The simulator that was started last."""
        assert self.simulator is not None, "no nodes were started"
        return self.simulator

    async def _nodes(
        self, names: tuple[str, ...], profile: Profile, stages: tuple[Stage, ...], ready: asyncio.Event
    ) -> None:
        client = Client(self.node_faults, self.env)
        informers = InformerFactory(client, self.env)
        nodes = self.simulator = NodeSimulator(
            self.env, names=names, informers=informers, client_for=lambda _name: client, profile=profile, stages=stages
        )
        async with TaskGroup("nodes") as group:
            informers.start(group)
            group.start(nodes.run(), name="simulator")
            await nodes.ready.wait()
            ready.set()

    def start_scheduler(self) -> asyncio.Task[None]:
        """Start the scheduler."""
        return self.group.start(self._scheduler(), name="scheduler")

    async def _scheduler(self) -> None:
        client = Client(self.scheduler_faults, self.env)
        informers = InformerFactory(client, self.env)
        scheduler = Scheduler(self.env, client=client, informers=informers, metrics=self.scheduler_metrics)
        async with TaskGroup("scheduler") as group:
            informers.start(group)
            group.start(scheduler.run(), name="scheduling")

    # Objects

    async def create_node(self, name: str, *, cpu: str = "4", **spec: Any) -> None:
        """Create a Node that is not simulated, without the taint of new nodes unless ``spec`` has it."""
        allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        body = {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec,
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }  # fmt: skip
        await self.client.create(NODES.raw, body)
        taints = strategic_merge_patch({"spec": {"taints": spec.get("taints")}})
        await self.client.patch(NODES.raw, name, taints)

    async def create_pod(self, name: str = "p", *, node: str = "", cpu: str = "", **parts: Any) -> Pod:
        """Create a pod with one container, bound if ``node`` is given. ``parts``: metadata, and fields of the spec."""
        metadata = {"name": name, "namespace": "default", **parts.pop("metadata", {})}
        container: dict[str, Any] = {"name": "c", "image": "app:v1"}
        if cpu:
            container["resources"] = {"requests": {"cpu": cpu}}
        spec = {"containers": [container], **({"nodeName": node} if node else {}), **parts}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return await self.client.create(PODS, body, "default")

    async def pod(self, name: str = "p") -> Pod | None:
        """The pod, or None."""
        try:
            return await self.client.get(PODS, name, "default")
        except NotFound:
            return None

    async def existing(self, name: str = "p") -> Pod:
        """The pod, which must be there."""
        return await self.client.get(PODS, name, "default")

    async def document(self, name: str = "p") -> dict[str, Any]:
        """The stored pod."""
        raw = await self.client.get(PODS.raw, name, "default")
        document: dict[str, Any] = msgspec.json.decode(raw)
        return document

    async def node(self, name: str) -> Node:
        """The Node."""
        return await self.client.get(NODES, name)

    async def document_of_node(self, name: str) -> dict[str, Any]:
        """The stored Node."""
        raw = await self.client.get(NODES.raw, name)
        document: dict[str, Any] = msgspec.json.decode(raw)
        return document

    async def set_node_condition(self, name: str, kind: str, status: str) -> None:
        """Write one condition of a Node, as the node lifecycle controller would."""
        patch = strategic_merge_patch({"status": {"conditions": [{"type": kind, "status": status}]}})
        await self.client.patch(NODES.raw, name, patch, subresource="status")

    async def node_events(self) -> list[Event]:
        """The events about Nodes."""
        return [event for event in (await self.client.list(EVENTS)).items if event.involved_object.kind == "Node"]

    async def events(self) -> list[Event]:
        """All events, in the order in which they were created."""
        items = (await self.client.list(EVENTS, "default")).items
        return sorted(items, key=lambda event: int(event.metadata.resource_version))

    async def set_condition(self, kind: str, status: str, name: str = "p") -> None:
        """Write one condition of a pod, as some controller would."""
        patch = strategic_merge_patch({"status": {"conditions": [{"type": kind, "status": status}]}})
        await self.client.patch(PODS.raw, name, patch, "default", subresource="status")

    async def label_node(self, name: str, key: str, value: str) -> None:
        """Label a Node."""
        await self.client.patch(NODES.raw, name, strategic_merge_patch({"metadata": {"labels": {key: value}}}))

    async def annotate_node(self, name: str, **annotations: str | None) -> None:
        """Change annotations of a Node, under the simulator's prefix."""
        changes = {f"{PREFIX}{key}": text for key, text in annotations.items()}
        patch = strategic_merge_patch({"metadata": {"annotations": changes}})
        await self.client.patch(NODES.raw, name, patch)

    async def annotate(self, name: str = "p", **annotations: str | None) -> None:
        """Change annotations of a pod, under the simulator's prefix, with - for _."""
        changes = {f"{PREFIX}{key.replace('_', '-')}": text for key, text in annotations.items()}
        patch = strategic_merge_patch({"metadata": {"annotations": changes}})
        await self.client.patch(PODS.raw, name, patch, "default")

    async def delete(self, name: str = "p", grace: int | None = None) -> None:
        """Delete a pod."""
        await self.client.delete(PODS, name, "default", grace_period_seconds=grace)

    def count_writes(self, part: str) -> int:
        """The number of writes to objects whose key contains ``part``."""
        return sum(part in change.key for change in self.writes)


@asynccontextmanager
async def world(env: Env, *nodes: str, profile: Profile = QUIET, scheduler: bool = False) -> AsyncIterator[World]:
    """A server, simulated nodes, and optionally a scheduler."""
    async with TaskGroup("world") as group:
        new_world = World(env, group)
        if nodes:
            await new_world.start_nodes(*nodes, profile=profile)
        if scheduler:
            new_world.start_scheduler()
        yield new_world
        group.cancel()
