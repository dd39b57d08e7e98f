"""The embedded API server in virtual time with a StatefulSet controller on it, and somebody who runs its pods.

The controller's transport is an ``Interceptor``, so that faults can be put between it and the server; what the test
does goes past it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.server import ApiServer
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Interceptor, Observation, Sent
from pilothouse.controllers.workloads.statefulset import DESCRIPTOR, StatefulSetOptions
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, InformerFactory, Registry
from pilothouse.storage import MemoryStore

Doc = dict[str, Any]

NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
CLAIMS = f"{NAMESPACE}/persistentvolumeclaims"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
WEB = f"{SETS}/web"
TEMPLATE = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


class World:
    """A cluster of one API server and one controller. Pods run as soon as they are made, and end when deleted."""

    def __init__(self, env: Env, group: TaskGroup) -> None:
        self.env = env
        # The controller's gate is an option of its own; the server keeps the field for those that have it on.
        self.server = ApiServer(env, MemoryStore(env), options=ServerOptions(gates=("MaxUnavailableStatefulSet",)))
        self.admin = Client(self.server.transport("admin", ["system:masters"]), env)
        self.requests: list[Sent] = []
        self.faults = Interceptor(
            self.server.transport("system:serviceaccount:kube-system:statefulset-controller", ["system:masters"]),
            env,
            observer=self._observe,
        )
        self.metrics = Registry()
        self.runs = True
        """Whether somebody runs pods."""
        self.unready: set[str] = set()
        """Pods that never become ready."""
        self._group = group
        group.start(self._run_pods(), name="kubelet")

    def _observe(self, seen: Observation) -> None:
        if isinstance(seen, Sent) and seen.call.verb != "watch":
            self.requests.append(seen)

    async def start(self, options: StatefulSetOptions | None = None) -> None:
        """Start the controller."""
        client = Client(self.faults, self.env)
        informers = InformerFactory(client, self.env)
        controller = DESCRIPTOR.build(
            ControllerContext(
                env=self.env,
                client=client,
                informers=informers,
                metadata_informers=informers,
                metrics=self.metrics,
                options=options,
            )
        )
        informers.start(self._group)
        self._group.start(controller.run(), name="statefulset")
        await informers.wait_synced()
        await asyncio.sleep(0.1)

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

    async def report(self, name: str, *, phase: str = "Running") -> None:
        """What a kubelet would say of the pod."""
        ready = "True" if phase == "Running" else "False"
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": format_time(self.env.now())}
        await self.merge(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": [condition]}})

    async def remove(self, name: str) -> None:
        """What a kubelet does when the containers of a deleted pod have ended."""
        with contextlib.suppress(NotFound):
            await self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    async def request(self, method: str, path: str, body: Doc | None = None, how: str = "application/json") -> Doc:
        """Any request of an administrator."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        response = await self.admin.request(method, path, body=encoded, headers={"content-type": how})
        found: Doc = msgspec.json.decode(response.body)
        return found

    async def merge(self, path: str, changes: Doc) -> Doc:
        """JSON merge patch."""
        return await self.request("PATCH", path, changes, "application/merge-patch+json")

    async def create(self, **spec: Any) -> Doc:
        """The StatefulSet ``web``."""
        labels = {"app": "web"}
        pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause:1"}]}}
        whole = {"serviceName": "web", "selector": {"matchLabels": labels}, "template": pods, **spec}
        return await self.request("POST", SETS, {"metadata": {"name": "web"}, "spec": whole})

    async def set_image(self, image: str) -> None:
        """Another template."""
        containers = [{"name": "main", "image": image}]
        await self.merge(WEB, {"spec": {"template": {"spec": {"containers": containers}}}})

    async def status(self) -> Doc:
        """What the StatefulSet says."""
        found: Doc = (await self.request("GET", WEB))["status"]
        return found

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

    async def told(self) -> list[tuple[str, str]]:
        """(reason, message) of all events, oldest first."""
        items = (await self.request("GET", f"{NAMESPACE}/events"))["items"]
        items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [(item["reason"], item["message"]) for item in items]

    def sent(self, verb: str, resource: str) -> list[Sent]:
        """What the controller sent: ``sent("update", "statefulsets/status")``."""
        kind, _slash, subresource = resource.partition("/")
        return [
            seen
            for seen in self.requests
            if (seen.call.verb, seen.call.resource, seen.call.subresource) == (verb, kind, subresource)
        ]

    async def settle(self, seconds: float = 3.0) -> None:
        """Give everything that is under way the time to end."""
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def controlled(env: Env, options: StatefulSetOptions | None = None) -> AsyncIterator[World]:
    """A world in which the controller runs."""
    async with TaskGroup("world") as group:
        made = World(env, group)
        with contextlib.suppress(Exception):
            await made.request("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        await made.start(options)
        try:
            yield made
        finally:
            group.cancel()
