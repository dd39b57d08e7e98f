"""The embedded API server in virtual time with a ReplicaSet controller on it, and words for what tests do and see.

The controller's transport is an ``Interceptor``, so that faults can be put between it and the server; what the test
does goes past it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from pilothouse.apiserver.server import ApiServer
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Interceptor, Observation, Sent
from pilothouse.controllers.workloads.replicaset import DESCRIPTOR, ReplicaSetOptions
from pilothouse.controllers.workloads.replicaset.controller import ReplicaSetController
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, InformerFactory, Registry
from pilothouse.storage import MemoryStore

Doc = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
WEB = f"{SETS}/web"


class World:
    """A cluster of one API server and one controller."""

    def __init__(self, env: Env, group: TaskGroup) -> None:
        self.env = env
        self.store = MemoryStore(env)
        self.server = ApiServer(env, self.store)
        self.admin = Client(self.server.transport("admin", ["system:masters"]), env)
        self.requests: list[Sent] = []
        self.faults = Interceptor(
            self.server.transport("system:serviceaccount:kube-system:replicaset-controller", ["system:masters"]),
            env,
            observer=self._observe,
        )
        self.metrics = Registry()
        self._group = group

    def _observe(self, seen: Observation) -> None:
        if isinstance(seen, Sent) and seen.call.verb != "watch":
            self.requests.append(seen)

    async def start(self, options: ReplicaSetOptions | None = None) -> asyncio.Task[None]:
        """Start a controller with informers of its own. Cancel the task to stop it."""
        client = Client(self.faults, self.env)
        informers = InformerFactory(client, self.env)
        context = ControllerContext(
            env=self.env,
            client=client,
            informers=informers,
            metadata_informers=informers,
            metrics=self.metrics,
            options=options,
        )
        controller = DESCRIPTOR.build(context)
        assert isinstance(controller, ReplicaSetController)

        async def live() -> None:
            async with TaskGroup("informers") as running:
                informers.start(running)
                try:
                    await controller.run()
                finally:
                    running.cancel()

        task = self._group.start(live(), name="replicaset")
        await informers.wait_synced()
        await asyncio.sleep(0.1)
        return task

    # What the test does

    async def request(
        self, method: str, path: str, body: Doc | None = None, content_type: str = "application/json"
    ) -> Doc:
        """Any request of an administrator."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        response = await self.admin.request(method, path, body=encoded, headers={"content-type": content_type})
        found: Doc = msgspec.json.decode(response.body)
        return found

    async def create_set(self, replicas: int, name: str = "web", *, labels: Doc | None = None, **fields: Any) -> Doc:
        """A ReplicaSet whose pods are bound to node n1 from the start, so that deleting them takes its time."""
        labels = labels or {"app": "web"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "pause"}]},
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            **fields.pop("spec", {}),
        }
        return await self.request("POST", SETS, {"metadata": {"name": name, **fields}, "spec": spec})

    async def create_pod(self, name: str, *, labels: Doc | None = None, **metadata: Any) -> Doc:
        """A pod of somebody's own."""
        meta = {"name": name, "labels": {"app": "web"} if labels is None else labels, **metadata}
        spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "pause"}]}
        return await self.request("POST", PODS, {"metadata": meta, "spec": spec})

    async def merge(self, path: str, changes: Doc) -> Doc:
        """JSON merge patch."""
        return await self.request("PATCH", path, changes, "application/merge-patch+json")

    async def scale(self, replicas: int, path: str = WEB) -> None:
        """Change spec.replicas."""
        await self.merge(path, {"spec": {"replicas": replicas}})

    async def report(self, name: str, *, phase: str = "Running", ready: bool = True) -> None:
        """What a kubelet would say of the pod."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": format_time(self.env.now()),
        }
        await self.merge(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": [condition]}})

    async def remove(self, name: str) -> None:
        """What a kubelet does when the containers of a deleted pod have ended."""
        await self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    # What the test sees

    async def get(self, path: str) -> Doc | None:
        """An object, or None."""
        try:
            return await self.request("GET", path)
        except NotFound:
            return None

    async def pods(self, *, terminating: bool = False) -> list[Doc]:
        """Pods by name: those that are not being deleted, or those that are."""
        items: list[Doc] = (await self.request("GET", PODS))["items"]
        return [item for item in items if ("deletionTimestamp" in item["metadata"]) == terminating]

    async def owned(self, name: str = "web") -> list[str]:
        """Names of the pods that the ReplicaSet of that name controls and that are not being deleted."""
        return [
            item["metadata"]["name"]
            for item in await self.pods()
            if [ref["name"] for ref in item["metadata"].get("ownerReferences", ()) if ref.get("controller")] == [name]
        ]

    async def status(self, path: str = WEB) -> Doc:
        """The status of a ReplicaSet, without its conditions' times."""
        found = await self.request("GET", path)
        status: Doc = found["status"]
        return status

    async def events(self) -> list[tuple[str, str, str]]:
        """(type, reason, message) of all events, oldest first, repeated as often as they count."""
        items = (await self.request("GET", "/api/v1/namespaces/default/events"))["items"]
        items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [(item["type"], item["reason"], item["message"]) for item in items for _ in range(item["count"])]

    def sent(self, verb: str, resource: str) -> list[Sent]:
        """What the controller sent: ``sent("update", "replicasets/status")``."""
        kind, _slash, subresource = resource.partition("/")
        return [
            seen
            for seen in self.requests
            if (seen.call.verb, seen.call.resource, seen.call.subresource) == (verb, kind, subresource)
        ]

    def bodies(self, verb: str, resource: str) -> list[Doc]:
        """Their bodies."""
        return [msgspec.json.decode(seen.request.body) for seen in self.sent(verb, resource)]

    async def settle(self, seconds: float = 2.0) -> None:
        """Give everything that is under way the time to end."""
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def world(env: Env) -> AsyncIterator[World]:
    """A world without a controller yet; everything in it ends with the block."""
    async with TaskGroup("world") as group:
        made = World(env, group)
        if await made.get("/api/v1/namespaces/default") is None:
            await made.request("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        try:
            yield made
        finally:
            group.cancel()


@contextlib.asynccontextmanager
async def controlled(env: Env, options: ReplicaSetOptions | None = None) -> AsyncIterator[World]:
    """A world in which the controller runs."""
    async with world(env) as made:
        await made.start(options)
        yield made
