"""An embedded cluster in virtual time with one controller: the real API server, no other loops.

Requests of the controller can be listed, and held up or answered by a hook; everything else is the server's own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from tests.controllers.api_world import ApiWorld, Doc, in_group

from pilothouse.api import wire
from pilothouse.apiserver import ServerOptions
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import Descriptor

Hook = Callable[[wire.Request], Awaitable[wire.Response | None]]
"""Called before a request of the controller. It may wait, change objects, or respond instead of the server."""


class Watched:
    """A transport that records requests in ``sent``, except watches."""

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


class Cluster(ApiWorld):
    """An environment with helpers for objects, owner references and recorded requests."""

    def __init__(self, env: Env, group: TaskGroup, server: ServerOptions | None = None) -> None:
        super().__init__(env, group, server, user="system:kube-controller-manager")
        self.transport: Watched = Watched(self.faults)

    @property
    def controller(self) -> Any:
        """The controller that was started last."""
        return self.controllers[-1]

    # The world

    async def create(self, path: str, **document: Any) -> Doc:
        """POST; metadata.name and the like as given. Returns the object."""
        return await self.request("POST", path, document)

    async def configmap(
        self, name: str, *owners: Doc, namespace: str = "default", blocking: bool = True, **metadata: Any
    ) -> Doc:
        """A ConfigMap with these owners."""
        references = [owner_reference(owner, blocking=blocking) for owner in owners]
        meta = {"name": name, "ownerReferences": references, **metadata}
        return await self.create(f"/api/v1/namespaces/{namespace}/configmaps", metadata=meta)

    async def names(self, path: str) -> list[str]:
        """The names in a collection."""
        return [item["metadata"]["name"] for item in (await self.must_get(path))["items"]]

    async def configmaps(self, namespace: str = "default") -> list[str]:
        """The ConfigMaps of a namespace, except ``kube-root-ca.crt``."""
        names = await self.names(f"/api/v1/namespaces/{namespace}/configmaps")
        return [name for name in names if name != "kube-root-ca.crt"]

    async def delete(self, path: str, policy: str = "Background") -> None:
        """DELETE with a propagation policy ("" for none)."""
        await self.request("DELETE", path, {"propagationPolicy": policy} if policy else None)

    async def release(self, path: str) -> None:
        """Remove all finalizers."""
        await self.merge(path, {"metadata": {"finalizers": None}})

    # The controller

    def writes(self) -> list[str]:
        """``METHOD path`` of the controller's writes, except events."""
        return [text for text in self.requests() if not text.startswith("GET ") and "/events" not in text]

    def requests(self) -> list[str]:
        """``METHOD path`` of the controller's requests, without queries, watches and discovery."""
        paths = [(request.method, request.target.partition("?")[0]) for request in self.transport.sent]
        return [f"{method} {path}" for method, path in paths if path not in ("/api", "/apis")]

    def bodies(self, method: str, ending: str = "") -> list[Doc]:
        """The decoded bodies of the controller's requests with this verb and resource."""
        return [
            msgspec.json.decode(request.body)
            for request in self.transport.sent
            if request.method == method and request.target.partition("?")[0].endswith(ending)
        ]


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
async def running(env: Env, descriptor: Descriptor | None = None, options: object = None) -> AsyncIterator[Cluster]:
    """A cluster, with the controller running if one is given. It is torn down with the block."""
    async with in_group(Cluster, env) as cluster:
        if descriptor is not None:
            await cluster.launch(descriptor, options)
            await asyncio.sleep(1.0)
        yield cluster
