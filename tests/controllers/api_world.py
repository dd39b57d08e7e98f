"""The base of controller test environments: the embedded API server in virtual time, an administrator, controllers.

The controllers' transport is an ``Interceptor``, which injects faults and can hold watches so that caches lag. Requests
of the test bypass it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import msgspec

from pilothouse.api import wire
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Interceptor, Observation, Sent
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, Descriptor, InformerFactory, Registry
from pilothouse.storage import MemoryStore

Doc = dict[str, Any]

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"


class ApiWorld:
    """An API server, and controllers that use it as ``user``."""

    def __init__(
        self, env: Env, group: TaskGroup, server: ServerOptions | None = None, *, user: str = "controllers"
    ) -> None:
        self.env = env
        self.store = MemoryStore(env)
        self.server = ApiServer(env, self.store, options=server)
        self.admin = Client(self.server.transport("admin", ["system:masters"]), env)
        self.faults = Interceptor(self.server.transport(user, ["system:masters"]), env, observer=self._observe)
        self.transport: wire.Transport = self.faults
        """The transport of the controllers."""
        self.metrics = Registry()
        self.controllers: list[object] = []
        """The started controllers, the latest last."""
        self._group = group

    def _observe(self, change: Observation) -> None:
        """Called for every observation of the controllers' requests."""

    async def launch(
        self,
        descriptor: Descriptor,
        options: object = None,
        *,
        beside: Sequence[Descriptor] = (),
        work: bool = True,
    ) -> asyncio.Task[None]:
        """Start a controller with new informers, which it shares with those ``beside`` it. Cancel the task to stop it.
        Discovery is refreshed every 30 s, as in a manager. Without ``work`` the controller receives events, and syncs
        only when the test calls its ``reconcile``."""
        client = Client(self.transport, self.env)
        informers = InformerFactory(client, self.env)
        mapper = RestMapper(client)
        context = ControllerContext(
            env=self.env,
            client=client,
            informers=informers,
            metadata_informers=informers,
            metrics=self.metrics,
            options=options,
            rest_mapper=mapper,
        )
        controller = descriptor.build(context)
        self.controllers.append(controller)
        others = [other.build(msgspec.structs.replace(context, options=None)) for other in beside]

        async def reset_mapper() -> None:
            while True:
                await asyncio.sleep(30.0)
                mapper.reset()

        async def run() -> None:
            async with TaskGroup("informers") as running:
                informers.start(running)
                if others:
                    running.start(reset_mapper(), name="REST mapper")
                for other in others:
                    running.start(other.run(), name=other.name)
                try:
                    await (controller.run() if work else asyncio.get_running_loop().create_future())
                finally:
                    running.cancel()

        task = self._group.start(run(), name=descriptor.name)
        await informers.wait_synced()
        return task

    async def request(
        self, method: str, path: str, body: Doc | None = None, content_type: str = "application/json"
    ) -> Doc:
        """Send a request as administrator."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        response = await self.admin.request(method, path, body=encoded, headers={"content-type": content_type})
        document: Doc = msgspec.json.decode(response.body)
        return document

    async def merge(self, path: str, changes: Doc) -> Doc:
        """Send a JSON merge patch."""
        return await self.request("PATCH", path, changes, "application/merge-patch+json")

    async def get(self, path: str) -> Doc | None:
        """The object, or None if it is not found."""
        try:
            return await self.request("GET", path)
        except NotFound:
            return None

    async def must_get(self, path: str) -> Doc:
        """The object, which must exist."""
        obj = await self.get(path)
        assert obj is not None, f"{path} not found"
        return obj

    async def sorted_events(self) -> list[Doc]:
        """All events, in order of creation."""
        items: list[Doc] = (await self.must_get("/api/v1/events"))["items"]
        return sorted(items, key=lambda item: int(item["metadata"]["resourceVersion"]))


class OwnerWorld(ApiWorld):
    """An environment for a controller whose objects own pods. Subclasses set ``descriptor`` and ``path``."""

    descriptor: Descriptor
    path: str
    """The path of the object that most tests use."""

    def __init__(self, env: Env, group: TaskGroup, server: ServerOptions | None = None) -> None:
        user = f"system:serviceaccount:kube-system:{self.descriptor.client_name}"
        super().__init__(env, group, server, user=user)
        self.requests: list[Sent] = []

    def _observe(self, change: Observation) -> None:
        if isinstance(change, Sent) and change.call.verb != "watch":
            self.requests.append(change)

    async def start(self, options: object = None, *, work: bool = True) -> asyncio.Task[None]:
        """Start a controller. Cancel the task to stop it."""
        task = await self.launch(self.descriptor, options, work=work)
        await asyncio.sleep(0.1)
        return task

    async def report(self, name: str, *, phase: str = "Running", ready: bool = True) -> None:
        """Write the status of a pod, as its kubelet."""
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": format_time(self.env.now())}
        await self.merge(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": [condition]}})

    async def remove(self, name: str) -> None:
        """Delete a pod whose containers have terminated, as its kubelet."""
        with contextlib.suppress(NotFound):
            await self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    async def set_image(self, image: str) -> None:
        """Change the image in the pod template."""
        await self.merge(
            self.path, {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
        )

    async def pods(self, *, owner: str = "", terminating: bool = False) -> list[Doc]:
        """Pods sorted by name: not terminating or ``terminating``, of ``owner`` or all."""
        return [
            item
            for item in (await self.must_get(PODS))["items"]
            if ("deletionTimestamp" in item["metadata"]) == terminating
            and (not owner or _controllers(item["metadata"]) == [owner])
        ]

    async def status(self) -> Doc:
        """The status of the object."""
        obj: Doc = (await self.must_get(self.path))["status"]
        return obj

    async def events(self) -> list[tuple[str, str, str]]:
        """(type, reason, message) of all events, oldest first, repeated by their count."""
        items = await self.sorted_events()
        return [(item["type"], item["reason"], item["message"]) for item in items for _ in range(item["count"])]

    def sent(self, verb: str, resource: str) -> list[Sent]:
        """Requests of the controller: ``sent("update", "replicasets/status")``."""
        kind, _slash, subresource = resource.partition("/")
        return [
            request
            for request in self.requests
            if (request.call.verb, request.call.resource, request.call.subresource) == (verb, kind, subresource)
        ]

    def bodies(self, verb: str, resource: str) -> list[Doc]:
        """The bodies of ``sent``."""
        return [msgspec.json.decode(item.request.body) for item in self.sent(verb, resource)]

    async def wait_for_sync(self, seconds: float = 3.0) -> None:
        """Wait until pending work is done."""
        await asyncio.sleep(seconds)


def _controllers(meta: Doc) -> list[str]:
    return [reference["name"] for reference in meta.get("ownerReferences", ()) if reference.get("controller")]


W = TypeVar("W", bound=ApiWorld)


@contextlib.asynccontextmanager
async def in_group(world_type: "type[W]", env: Env, server: ServerOptions | None = None) -> AsyncIterator[W]:
    """An environment with the system namespaces, without a controller. It is torn down with the block."""
    async with TaskGroup("world") as group:
        world = world_type(env, group, server)
        group.start(world.server.run(), name="API server")
        for name in ("default", "kube-node-lease"):
            if await world.get(f"/api/v1/namespaces/{name}") is None:
                await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        try:
            yield world
        finally:
            group.cancel()
