"""An API server for a test, and an HTTP-like client of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.stores import new_store
from tests.workloads import pod_spec, workload

from pilothouse.api.wire import Request, Stream
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.env import Env
from pilothouse.storage import Retention, Store

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class Answer:
    """Status, headers and decoded body of a response."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.text = body.decode()
        self.body: Object = json.loads(body) if body.startswith(b"{") else {}

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.body.get("message", ""))

    @property
    def meta(self) -> Object:
        """The metadata of the object."""
        result: Object = self.body["metadata"]
        return result


class Api:
    """One user of one server."""

    def __init__(
        self,
        env: Env,
        options: ServerOptions | None = None,
        *,
        retention: Retention | None = None,
        store: Store | None = None,
    ) -> None:
        self.env = env
        self.store = store or new_store(env, retention)
        self.server = ApiServer(env, self.store, options=options)
        self.transport = self.server.transport("admin", ("system:masters",), user_agent="test/1")

    async def request(
        self, method: str, target: str, body: Any = None, content_type: str = JSON, **headers: str
    ) -> Answer:
        """One request; a body that is not bytes is sent as JSON."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": content_type} if raw else {}
        response = await self.transport.request(Request(method, target, {**sent, **headers}, raw))
        return Answer(response.status, response.headers, response.body)

    async def get(self, target: str) -> Answer:
        return await self.request("GET", target)

    async def post(self, target: str, body: Any) -> Answer:
        return await self.request("POST", target, body)

    async def put(self, target: str, body: Any) -> Answer:
        return await self.request("PUT", target, body)

    async def patch(self, target: str, body: Any, content_type: str = MERGE) -> Answer:
        return await self.request("PATCH", target, body, content_type)

    async def delete(self, target: str, body: Any = None) -> Answer:
        return await self.request("DELETE", target, body)

    async def create(self, target: str, body: Any) -> Object:
        """Create an object that must be accepted."""
        answer = await self.post(target, body)
        assert answer.status == 201, answer.text
        return answer.body

    async def rewrite(self, key: str, old: str, new: str) -> None:
        """Change a stored object, bypassing the server."""
        record = self.store.staged(key)
        assert record is not None
        assert old in record.value.decode()
        value = record.value.decode().replace(old, new).encode()
        await self.store.commit(self.store.stage(key, lambda _revision: value))

    async def watch(self, target: str) -> "Events":
        """Open a watch; the target may have a query."""
        separator = "&" if "?" in target else "?"
        return Events(await self.transport.open(Request("GET", f"{target}{separator}watch=true")))


class Events:
    """The events of one watch."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._pieces = stream.__aiter__()

    async def line(self) -> bytes:
        """The next line, unparsed."""
        return await self._pieces.__anext__()

    async def next(self) -> tuple[str, Object]:
        """The next event."""
        event = json.loads(await self.line())
        return event["type"], event["object"]

    async def take(self, count: int) -> list[tuple[str, str, str]]:
        """The next ``count`` events as (type, name, resource version)."""
        received = []
        for _ in range(count):
            type_, obj = await self.next()
            received.append((type_, obj["metadata"].get("name", ""), obj["metadata"]["resourceVersion"]))
        return received

    async def rest(self) -> list[tuple[str, Object]]:
        """All events until the stream ends."""
        remaining = []
        async for line in self._pieces:
            event = json.loads(line)
            remaining.append((event["type"], event["object"]))
        return remaining


@contextlib.asynccontextmanager
async def started(api: Api, authorization: str = "AlwaysAllow") -> AsyncIterator[None]:
    """Run the server with everything it has outside of simulations."""
    handler_chain = HandlerChain(api.server, address="127.0.0.1:6443", authorization=authorization)
    await handler_chain.start()
    handler_chain.publish("10.1.2.3", 6443)
    work = asyncio.get_running_loop().create_task(api.server.run())
    await asyncio.sleep(1)
    try:
        yield
    finally:
        work.cancel()


def pod(name: str = "p", **more: Any) -> Object:
    """A pod as a client sends it."""
    labels = more.pop("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **more.pop("metadata", {})},
        "spec": {"containers": [{"name": "c", "image": "nginx:1.25"}], **more},
    }


def config_map(name: str = "c", **more: Any) -> Object:
    """A config map as a client sends it."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more.pop("metadata", {})}, **more}


def replica_set(name: str = "r", *, metadata: Object | None = None, **more: Any) -> Object:
    """A replica set as a client sends it."""
    pod = pod_spec("nginx:1.25", container="c")
    return workload("ReplicaSet", name, pod=pod, labels={"app": "x"}, metadata=metadata, **more)


def all_errors_of(answer: Answer) -> list[str]:
    """``field: message`` of every cause of a 422."""
    assert answer.status == 422, answer.text
    return [f"{cause['field']}: {cause['message']}" for cause in answer.body["details"]["causes"]]


def errors_of(answer: Answer) -> list[str]:
    """``all_errors_of``, each text once."""
    return list(dict.fromkeys(all_errors_of(answer)))


async def errors_of_create(api: Api, path: str, **fields: Any) -> list[str]:
    """The errors of an object named x, unless it has a name."""
    return errors_of(await api.post(path, {**fields, "metadata": {"name": "x", **fields.get("metadata", {})}}))
