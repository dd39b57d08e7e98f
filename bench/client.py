"""CPU of the client per create: ``Client`` on a ``RemoteTransport``, with a server in another process.

``python -m bench.client [COUNT]`` prints microseconds of this process' CPU per request, for ``Client`` and for the
transport alone; the difference is what ``Client`` costs.
"""

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable

import httptools

from pilothouse.api import wire
from pilothouse.api.core import PODS
from pilothouse.client import Client
from pilothouse.client.endpoint import parse_endpoint
from pilothouse.client.remote import RemoteTransport
from pilothouse.client.requests import FixedHeaders
from pilothouse.env import Env, loops

_POD = (
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-abcde","generateName":"web-","namespace":"default",'
    b'"uid":"5a2f6a5c-1111-4222-8333-444444444444","resourceVersion":"12345","labels":{"app":"web"},"ownerReferences":'
    b'[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"6a2f6a5c-1111-4222-8333-444444444444",'
    b'"controller":true,"blockOwnerDeletion":true}]},"spec":{"containers":[{"name":"web","image":"nginx"}]},'
    b'"status":{"phase":"Pending"}}'
)
_ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 5a2f6a5c\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 5a2f6a5c\r\nX-Kubernetes-Pf-Prioritylevel-Uid: 5a2f6a5c\r\n"
    b"Date: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(_POD), _POD)
)


class _Server(asyncio.Protocol):
    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._transport.write(_ANSWER)


def _serve(pipe: "multiprocessing.connection.Connection") -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    loops.run(main())


async def _measure(count: int, call: Callable[[], Awaitable[object]], concurrency: int) -> tuple[float, float]:
    """Microseconds of CPU per request, and requests per second."""

    async def worker(times: int) -> None:
        for _ in range(times):
            await call()

    await asyncio.gather(*(worker(20) for _ in range(concurrency)))  # connections are made, caches are warm
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker(count // concurrency) for _ in range(concurrency)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    done = count // concurrency * concurrency
    return cpu / done * 1e6, done / wall


async def _main(port: int, count: int) -> dict[str, tuple[float, float]]:
    env = Env()
    transport = RemoteTransport(parse_endpoint(f"http://127.0.0.1:{port}", "bench"), env)
    client = Client(transport, env)
    body = {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}}
    headers = FixedHeaders({"accept": "application/json", "content-type": "application/json"})
    request = wire.Request("POST", "/api/v1/namespaces/default/pods", headers, _POD)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "transport": lambda: transport.request(request),
        "Client.create": lambda: client.create(PODS, body, "default"),
        "Client.create, raw answer": lambda: client.create(PODS.raw, _POD, "default"),
    }
    found = {}
    for concurrency in (1, 32, 200):
        for name, call in calls.items():
            found[f"{name}, {concurrency} at once"] = await _measure(count, call, concurrency)
    await client.close()
    return found


def measure(count: int) -> dict[str, tuple[float, float]]:
    """By name: microseconds of CPU per request, requests per second."""
    own_end, child_end = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(child_end,), daemon=True)
    server.start()
    try:
        return loops.run(_main(own_end.recv(), count))
    finally:
        server.terminate()
        server.join()


def figures() -> dict[str, float]:
    """CPU of the requests with 32 connections, for the table."""
    return {f"HTTP {name}": cpu for name, (cpu, _rate) in measure(6400).items() if "32 at once" in name}


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    for name, (cpu, rate) in measure(count).items():
        print(f"{name:40} {cpu:7.1f} µs CPU per request  {rate:8.0f} per second")


if __name__ == "__main__":
    main()
