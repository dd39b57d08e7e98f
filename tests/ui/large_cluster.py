"""A program for tests of the page: an API server with many nodes and pods, which change all the time.

``python -m tests.ui.large_cluster NODES PODS CHANGES_PER_SECOND`` serves it on a free port, and prints a link once
everything is there. The objects are written to the store, copies of a Node and a Pod that the API server has made: what
is measured is the page, and not controllers and kubelets that work for thousands of pods.
"""

import asyncio
import itertools
import json
import sys
from typing import Any

from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.env.memory import collecting_rarely
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.plane.served import ServedApiServer, ServedOptions
from pilothouse.storage import Store
from pilothouse.ui import PATH, Page

TICK_SECONDS = 0.05
BATCH = 500
READY = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")],
    "containerStatuses": [
        {
            "name": "main",
            "image": "nginx",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }
    ],
}


async def main(nodes: int, pods: int, changes: int) -> None:
    """Serve until the process is ended."""
    env = Env()
    served = ServedApiServer(env, ServedOptions(port=0))
    plane = Plane(env, served.store, PlaneOptions(nodes=0, scheduler=False, manager=None), server=served.server)
    page = Page(
        env, served.server.core, user="kubernetes-admin", client=plane.client(), is_administrator=lambda *_given: False
    )
    served.mount(PATH, page)
    await served.start()
    async with TaskGroup("large cluster") as group:
        group.start(plane.run(), name="plane")
        group.start(page.run(), name="page")
        await plane.wait_ready()
        await fill(served.store, plane.client(), nodes, pods)
        print(page.link(served.url), flush=True)
        await change(served.store, pods, changes)


async def fill(store: Store, client: Client, nodes: int, pods: int) -> None:
    """Write the objects."""
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "template"}}
    await client.create(NODES, json.dumps(node).encode())
    spec = {"containers": [{"name": "main", "image": "nginx"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "template"}, "spec": spec}
    await client.create(PODS, json.dumps(pod).encode(), "default")
    for key in ("/nodes/template", "/pods/default/template"):
        await store.commit(store.stage(key, None))
        template = json.loads(store.changes(key.rpartition("template")[0].removesuffix("default/"))[-1].value)
        count = nodes if "nodes" in key else pods
        for first in range(0, count, BATCH):
            staged = [stage(store, key, template, number, nodes) for number in range(first, min(first + BATCH, count))]
            await store.commit(staged[-1])


def stage(store: Store, key: str, template: dict[str, Any], number: int, nodes: int) -> Any:
    """Write one copy."""
    name = f"node-{number}" if "nodes" in key else f"pod-{number}"
    metadata = {**template["metadata"], "name": name, "uid": f"{name}-uid"}
    document = {**template, "metadata": metadata}
    if "nodes" in key:
        document["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    else:
        document["spec"] = {**template["spec"], "nodeName": f"node-{number % nodes}"}
        document["status"] = READY
    value = json.dumps(document).encode()
    return store.stage(key.replace("template", name), lambda _revision: value)


async def change(store: Store, pods: int, per_second: int) -> None:
    """Pods become ready and not ready, one after the other."""
    numbers = itertools.cycle(range(0, pods, 7))
    while True:
        await asyncio.sleep(TICK_SECONDS)
        staged = None
        for _ in range(round(per_second * TICK_SECONDS)):
            key = f"/pods/default/pod-{next(numbers)}"
            record = store.get(key)
            assert record is not None
            if b'"ready": true' in record.value:
                value = record.value.replace(b'"ready": true', b'"ready": false').replace(
                    b'{"type": "Ready", "status": "True"}', b'{"type": "Ready", "status": "False"}'
                )
            else:
                value = record.value.replace(b'"ready": false', b'"ready": true').replace(
                    b'{"type": "Ready", "status": "False"}', b'{"type": "Ready", "status": "True"}'
                )
            staged = store.stage(key, lambda _revision, value=value: value)  # type: ignore[misc]
        if staged is not None:
            await store.commit(staged)


if __name__ == "__main__":
    with collecting_rarely(older=False):
        loops.run(main(*map(int, sys.argv[1:4])))
