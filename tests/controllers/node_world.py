"""The test environment of most controllers: the embedded API server, and helpers for nodes and pods."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.controllers.api_world import NODES, PODS, ApiWorld, Doc, in_group

from pilothouse.apiserver import ServerOptions
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Answered, Observation, Sent
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.times import format_micro_time, format_time
from pilothouse.runtime import Descriptor

__all__ = [
    "NODES",
    "PODS",
    "Doc",
    "World",
    "fixture_of",
    "no_execute",
    "started",
    "toleration",
    "wait_for_sync",
    "world",
]

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

HEALTHY = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}


class World(ApiWorld):
    """An API server and the controllers under test. There is no kubelet: the test writes Leases and statuses."""

    def __init__(self, env: Env, group: TaskGroup, server: ServerOptions | None = None) -> None:
        super().__init__(env, group, server)
        self.seen: list[Sent | Answered] = []

    def _observe(self, change: Observation) -> None:
        is_request = isinstance(change, Sent) or (isinstance(change, Answered) and change.injected)
        if is_request and change.call.verb != "watch":
            assert isinstance(change, Sent | Answered)
            self.seen.append(change)

    async def start(
        self, descriptor: Descriptor, options: object = None, *, beside: Sequence[Descriptor] = ()
    ) -> asyncio.Task[None]:
        """Start a controller. Cancel the task to stop it."""
        return await self.launch(descriptor, options, beside=beside)

    # Actions of the test

    async def node(
        self, name: str, *, conditions: dict[str, str] | None = None, taints: tuple[Doc, ...] = (), **metadata: Any
    ) -> Doc:
        """Create a node with these conditions, healthy by default, without the not-ready taint."""
        await self.request("POST", NODES, {"metadata": {"name": name, **metadata}})
        await self.taint(name, *taints)
        return await self.report_node(name, HEALTHY if conditions is None else conditions)

    async def report_node(self, name: str, conditions: dict[str, str]) -> Doc:
        """Write the node's conditions, as its kubelet."""
        now = format_time(self.env.now())
        listed = [
            {"type": kind, "status": status, "lastHeartbeatTime": now, "lastTransitionTime": now, "reason": "Kubelet"}
            for kind, status in conditions.items()
        ]
        return await self.merge(f"{NODES}/{name}/status", {"status": {"conditions": listed}})

    async def taint(self, name: str, *taints: Doc) -> Doc:
        """Replace the node's taints."""
        return await self.merge(f"{NODES}/{name}", {"spec": {"taints": list(taints) or None}})

    async def renew(self, name: str) -> None:
        """Renew the node's Lease, or create it."""
        spec = {"holderIdentity": name, "renewTime": format_micro_time(self.env.now())}
        try:
            await self.merge(f"{LEASES}/{name}", {"spec": spec})
        except NotFound:
            await self.request("POST", LEASES, {"metadata": {"name": name}, "spec": spec})

    async def pod(
        self,
        name: str,
        *,
        node: str = "",
        phase: str = "Running",
        tolerations: tuple[Doc, ...] = (),
        reason: str = "",
        ready: bool | None = None,
        group: str = "",
        **metadata: Any,
    ) -> Doc:
        """Create a pod, bound to ``node`` if given, with a status. ``group`` is the name of its PodGroup, on servers
        with the feature gate."""
        spec: Doc = {"containers": [{"name": "main", "image": "pause"}], "tolerations": list(tolerations)}
        if node:
            spec["nodeName"] = node
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        created = await self.request("POST", PODS, {"metadata": {"name": name, **metadata}, "spec": spec})
        status: Doc = {"phase": phase}
        if reason:
            status["reason"] = reason
        if ready is not None:
            condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": format_time(self.env.now())}
            status["conditions"] = [condition]
        await self.merge(f"{PODS}/{name}/status", {"status": status})
        return created

    async def delete(self, path: str, *, grace: int | None = None) -> None:
        """DELETE, as a user would."""
        await self.request("DELETE", path, None if grace is None else {"gracePeriodSeconds": grace})

    # State

    async def pods(self) -> list[str]:
        """Names of the pods that are not being deleted, sorted."""
        items = (await self.must_get(PODS))["items"]
        return [item["metadata"]["name"] for item in items if "deletionTimestamp" not in item["metadata"]]

    async def taints(self, name: str) -> list[str]:
        """``key:effect`` of the node's taints, without the prefix ``node.kubernetes.io/``."""
        obj = (await self.must_get(f"{NODES}/{name}"))["spec"].get("taints") or []
        return [f"{t['key'].removeprefix('node.kubernetes.io/')}:{t['effect']}" for t in obj]

    async def conditions(self, path: str) -> dict[str, Doc]:
        """An object's conditions by type."""
        return {c["type"]: c for c in (await self.must_get(path))["status"].get("conditions") or []}

    async def events(self, reason: str = "") -> list[str]:
        """``kind/name message`` of all events, in order of creation."""
        return [
            f"{item['involvedObject']['kind']}/{item['involvedObject']['name']} {item['message']}"
            for item in await self.sorted_events()
            if reason in ("", item["reason"])
        ]

    def requests(self, *, reads: bool = True) -> list[str]:
        """``verb resource name`` of the controllers' requests, without lists and events."""
        texts = []
        for sent in self.seen:
            call = sent.call
            resource = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
            if call.verb == "list" or resource == "events" or (call.verb == "get" and not reads):
                continue
            texts.append(f"{call.verb} {resource} {call.name}")
        return texts

    def bodies(self, verb: str, resource: str) -> list[Doc]:
        """The decoded bodies of the controllers' requests with this verb and resource."""
        result = []
        for sent in self.seen:
            call = sent.call
            name = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
            if call.verb == verb and name == resource:
                result.append(msgspec.json.decode(sent.request.body))
        return result


def toleration(key: str, seconds: int | None = None) -> Doc:
    """A toleration of a NoExecute taint with any value."""
    result: Doc = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return result if seconds is None else {**result, "tolerationSeconds": seconds}


def no_execute(key: str) -> Doc:
    """A NoExecute taint."""
    return {"key": key, "effect": "NoExecute"}


def world(env: Env, server: ServerOptions | None = None) -> contextlib.AbstractAsyncContextManager[World]:
    """An environment with the system namespaces. It is torn down with the block."""
    return in_group(World, env, server)


def fixture_of(make: Callable[[Env], contextlib.AbstractAsyncContextManager[Any]]) -> Any:
    """A fixture with the value of the context manager ``make``."""

    @pytest.fixture
    async def fixture(env: Env) -> AsyncIterator[Any]:
        async with make(env) as new_world:
            yield new_world

    return fixture


def started(
    descriptor: Descriptor, options: object = None, *, server: ServerOptions | None = None, seconds: float = 0.0
) -> Any:
    """A fixture: an environment in which the controller has run for ``seconds``."""

    @contextlib.asynccontextmanager
    async def make(env: Env) -> AsyncIterator[World]:
        async with world(env, server) as new_world:
            await new_world.start(descriptor, options)
            if seconds:
                await asyncio.sleep(seconds)
                new_world.seen.clear()
            yield new_world

    return fixture_of(make)


async def wait_for_sync(seconds: float = 1.0) -> None:
    """Wait until the controller has processed pending events."""
    await asyncio.sleep(seconds)
