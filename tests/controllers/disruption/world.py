"""Helpers for tests of the disruption controller on the embedded API server: budgets, workloads, pods, evictions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World
from tests.custom_resources import DEFINITIONS, definition, version

from pilothouse.controllers.policy.disruption import DESCRIPTOR
from pilothouse.env import Env
from pilothouse.machinery.times import format_time

PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
APPS = "/apis/apps/v1/namespaces/default"
LABELS = {"app": "web"}
UPDATE = "update poddisruptionbudgets/status web"


@contextlib.asynccontextmanager
async def world_with_controller(env: Env) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR)
        yield world


async def budget(world: World, name: str = "web", **spec: Any) -> Doc:
    return await world.request(
        "POST", PDBS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    )


async def status(world: World, name: str = "web") -> tuple[int, int, int, int]:
    """(disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods), as in upstream's tests."""
    obj = (await world.must_get(f"{PDBS}/{name}"))["status"]
    return obj["disruptionsAllowed"], obj["currentHealthy"], obj["desiredHealthy"], obj["expectedPods"]


async def condition(world: World, name: str = "web") -> Doc:
    return (await world.conditions(f"{PDBS}/{name}"))["DisruptionAllowed"]


async def disrupted(world: World, name: str = "web") -> list[str]:
    return sorted((await world.must_get(f"{PDBS}/{name}"))["status"].get("disruptedPods") or {})


async def workload(world: World, plural: str, kind: str, replicas: int = 3, **metadata: Any) -> Doc:
    """Create a workload of ``apps/v1``; returns a controller reference to it."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    created = await world.request("POST", f"{APPS}/{plural}", {"metadata": {"name": "web", **metadata}, "spec": spec})
    return reference("apps/v1", kind, created)


def reference(api_version: str, kind: str, obj: Doc) -> Doc:
    meta = obj["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


async def pods(world: World, *owners: Doc, count: int = 3, first: int = 0, ready: bool = True) -> None:
    for number in range(first, first + count):
        await world.pod(f"p{number}", node="n1", ready=ready, labels=LABELS, ownerReferences=list(owners))


async def report(world: World, name: str, *, ready: bool) -> None:
    listed = [{"type": "Ready", "status": str(ready), "lastTransitionTime": format_time(world.env.now())}]
    await world.merge(f"{PODS}/{name}/status", {"status": {"conditions": listed}})


async def evict(world: World, name: str, **options: Any) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    await world.request("POST", f"{PODS}/{name}/eviction", body)


async def note_evicted(world: World, name: str) -> None:
    """An eviction that failed between the budget and the pod: the pod is in ``disruptedPods`` and not deleted."""
    obj = await world.must_get(f"{PDBS}/web")
    obj["status"]["disruptedPods"] = {name: format_time(world.env.now())}
    obj["status"]["disruptionsAllowed"] -= 1
    await world.request("PUT", f"{PDBS}/web/status", obj)


async def define(world: World, *, scale: bool) -> None:
    """Define a custom workload kind, which no cache has."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    served = version(subresources={"scale": paths}) if scale else version()
    await world.request("POST", DEFINITIONS, definition("Widget", served))
    await asyncio.sleep(1)


async def widget(world: World) -> Doc:
    """Create a custom workload; returns a controller reference to it."""
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 10}}
    return reference("example.com/v1", "Widget", await world.request("POST", path, body))
