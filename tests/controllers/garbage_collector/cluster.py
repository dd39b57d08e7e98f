"""An embedded cluster in virtual time with one controller: the real API server, no other loops.

Requests of the controller can be listed, and held up or answered by a hook; everything else is the server's own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from pilothouse.api import wire
from pilothouse.apiserver.server import ApiServer
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.informer import InformerFactory
from pilothouse.runtime.metrics import Registry
from pilothouse.storage import MemoryStore

Doc = dict[str, Any]

Hook = Callable[[wire.Request], Awaitable[wire.Response | None]]
"""Called before a request of the controller. It may wait, change the world, or answer in the server's place."""


class Watched:
    """A transport that remembers requests. Watches are left out of ``sent``."""

    def __init__(self, inner: wire.Transport) -> None:
        self._inner = inner
        self.hook: Hook | None = None
        self.sent: list[wire.Request] = []

    async def request(self, request: wire.Request) -> wire.Response:
        self.sent.append(request)
        answer = await self.hook(request) if self.hook is not None else None
        return answer if answer is not None else await self._inner.request(request)

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._inner.open(request)

    async def close(self) -> None:
        await self._inner.close()


class Cluster:
    """What tests say about the world, in plain documents."""

    def __init__(self, env: Env, server: ApiServer) -> None:
        self.env = env
        self.server = server
        self.admin = Client(server.transport("admin", ["system:masters"]), env)
        self.transport = Watched(server.transport("system:kube-controller-manager", ["system:masters"]))
        self.client = Client(self.transport, env)
        self.metrics = Registry()
        self.controller: Any = None

    # The world

    async def create(self, path: str, **document: Any) -> Doc:
        """POST; metadata.name and the like as given. Returns the object."""
        response = await self.admin.request("POST", path, body=msgspec.json.encode(document))
        created: Doc = msgspec.json.decode(response.body)
        return created

    async def configmap(
        self, name: str, *owners: Doc, namespace: str = "default", blocking: bool = True, **metadata: Any
    ) -> Doc:
        """A ConfigMap with these owners."""
        references = [owner_reference(owner, blocking=blocking) for owner in owners]
        meta = {"name": name, "ownerReferences": references, **metadata}
        return await self.create(f"/api/v1/namespaces/{namespace}/configmaps", metadata=meta)

    async def get(self, path: str) -> Doc | None:
        """GET, or None."""
        try:
            response = await self.admin.request("GET", path)
        except NotFound:
            return None
        found: Doc = msgspec.json.decode(response.body)
        return found

    async def names(self, path: str) -> list[str]:
        """The names in a collection."""
        found = await self.get(path)
        assert found is not None
        return [item["metadata"]["name"] for item in found["items"]]

    async def configmaps(self, namespace: str = "default") -> list[str]:
        """The ConfigMaps of a namespace, but for those that every namespace gets."""
        names = await self.names(f"/api/v1/namespaces/{namespace}/configmaps")
        return [name for name in names if name != "kube-root-ca.crt"]

    async def delete(self, path: str, policy: str = "Background") -> None:
        """DELETE with a propagation policy ("" for none)."""
        body = msgspec.json.encode({"propagationPolicy": policy}) if policy else b""
        await self.admin.request("DELETE", path, body=body)

    async def patch(self, path: str, changes: Mapping[str, Any]) -> Doc:
        """JSON merge patch."""
        response = await self.admin.request(
            "PATCH",
            path,
            body=msgspec.json.encode(changes),
            headers={"content-type": "application/merge-patch+json"},
        )
        found: Doc = msgspec.json.decode(response.body)
        return found

    async def release(self, path: str) -> None:
        """Take all finalizers off."""
        await self.patch(path, {"metadata": {"finalizers": None}})

    # The controller

    def writes(self) -> list[str]:
        """``METHOD path`` of what the controller changed, events left out."""
        return [text for text in self.requests() if not text.startswith("GET ") and "/events" not in text]

    def requests(self) -> list[str]:
        """``METHOD path`` of everything the controller asked, without queries, watches and discovery."""
        paths = [(request.method, request.target.partition("?")[0]) for request in self.transport.sent]
        return [f"{method} {path}" for method, path in paths if path not in ("/api", "/apis")]

    def bodies(self, method: str, ending: str = "") -> list[Doc]:
        """The bodies of such requests, decoded."""
        return [
            msgspec.json.decode(request.body)
            for request in self.transport.sent
            if request.method == method and request.target.partition("?")[0].endswith(ending)
        ]

    async def run(self, group: TaskGroup, descriptor: Descriptor, options: object = None) -> asyncio.Task[None]:
        """Start the controller with informers of its own. Cancel the task to stop it."""
        context = ControllerContext(
            env=self.env,
            client=self.client,
            informers=InformerFactory(self.client, self.env),
            metadata_informers=InformerFactory(self.client, self.env),
            metrics=self.metrics,
            options=options,
            rest_mapper=RestMapper(self.client),
        )
        self.controller = controller = descriptor.build(context)

        async def live() -> None:
            async with TaskGroup("informers") as informers:
                context.informers.start(informers)
                context.metadata_informers.start(informers)
                try:
                    await controller.run()
                finally:
                    informers.cancel()

        return group.start(live(), name=descriptor.name)


def owner_reference(owner: Doc, *, blocking: bool = True, **changes: Any) -> Doc:
    """A reference to this object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocking,
        **changes,
    }


@contextlib.asynccontextmanager
async def running(
    env: Env, descriptor: Descriptor | None = None, options: object = None
) -> AsyncIterator[tuple[Cluster, TaskGroup]]:
    """A cluster, with the controller running if one is given. Everything ends with the block."""
    server = ApiServer(env, MemoryStore(env))
    async with TaskGroup("cluster") as group:
        group.start(server.run(), name="API server")
        cluster = Cluster(env, server)
        if await cluster.get("/api/v1/namespaces/default") is None:
            await cluster.create("/api/v1/namespaces", metadata={"name": "default"})
        if descriptor is not None:
            await cluster.run(group, descriptor, options)
            await asyncio.sleep(1.0)
        try:
            yield cluster, group
        finally:
            group.cancel()
