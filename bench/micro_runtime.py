"""CPU microseconds per operation of the controller runtime, without transports and decoding.

``python -m bench.micro_runtime`` prints them. Each function returns microseconds by name; they are the best of several
rounds, because disturbances only make a round longer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping

import msgspec

from pilothouse.api import wire
from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.client import Client, WatchEvent
from pilothouse.env import Env, loops
from pilothouse.runtime import Registry, SharedInformer, WorkQueue, index_by_controller
from pilothouse.runtime.cache import Cache

_COUNT = 5000
_ROUNDS = 5
_OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u", controller=True)


def _pods(version: int) -> list[Pod]:
    return [
        Pod(
            metadata=ObjectMeta(
                name=f"web-{number * 7919 % _COUNT:05}",
                namespace="default",
                uid=f"uid-{number}",
                resource_version=str(version + number),
                owner_references=(_OWNER,),
            )
        )
        for number in range(_COUNT)
    ]


def _best(run: Callable[[], object], operations: int) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best / operations * 1e6


def cache() -> dict[str, float]:
    """The indexed cache: a changed object with two indexes beside the namespace, and listings of 5,000."""
    store: Cache[Pod] = Cache("pods")
    store.add_index("controller", index_by_controller)
    store.add_index("node", lambda pod: (pod.spec.node_name,))
    generations = [_pods(1), _pods(100_000)]
    turn = 0

    def put_all() -> None:
        nonlocal turn
        turn += 1
        for pod in generations[turn % 2]:
            store.put(f"default/{pod.metadata.name}", pod)

    def churn() -> None:
        for pod in generations[0][:100]:
            store.drop(f"default/{pod.metadata.name}")
            store.put(f"default/{pod.metadata.name}", pod)
            store.by_index("controller", "default/ReplicaSet/web/u")

    return {
        "cache.put (controller and node index)": _best(put_all, _COUNT),
        "cache.by_index, 5,000 sorted, unchanged": _best(
            lambda: [store.by_index("controller", "default/ReplicaSet/web/u") for _ in range(20)], 20
        ),
        "cache.by_index, 5,000 sorted, after a delete and an add": _best(churn, 100),
        "cache.get": _best(lambda: [store.get("default/web-00042") for _ in range(_COUNT)], _COUNT),
    }


class _Lines:
    """A server with one watch that plays lines."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces
        self.status = 200
        self.headers: Mapping[str, str] = {}
        self.over = asyncio.get_running_loop().create_future()

    async def request(self, request: wire.Request) -> wire.Response:
        raise AssertionError(request.target)

    async def open(self, request: wire.Request) -> wire.Stream:
        return self

    async def close(self) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        self.over.set_result(None)
        await asyncio.get_running_loop().create_future()


class _Memo:
    """Decodes nothing twice: the second pass costs a dictionary lookup instead of a decode."""

    def __init__(self) -> None:
        self.events: dict[bytes, WatchEvent[Pod]] = {}

    def get(self, _view: type, _keep_raw: bool, line: bytes) -> WatchEvent[Pod] | None:
        return self.events.get(line)

    def put(self, _view: type, _keep_raw: bool, line: bytes, event: WatchEvent[Pod]) -> None:
        self.events[line] = event


def informer() -> dict[str, float]:
    """One event from the watch through reflector and cache (controller index) to two handlers that add to a queue."""

    async def measure() -> float:
        env = Env()
        end = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1","annotations":'
        end += b'{"k8s.io/initial-events-end":"true"}}}}\n'
        pieces = [end]
        pieces += [
            b'{"type":"MODIFIED","object":' + msgspec.json.encode(pod) + b"}\n"
            for version in (10_000, 20_000)
            for pod in _pods(version)
        ]
        memo = _Memo()
        best = float("inf")
        for _ in range(_ROUNDS):
            server = _Lines(pieces)
            client = Client(server, env, memo=memo)  # type: ignore[arg-type]  # an unbounded stand-in for the memo
            watched: SharedInformer[Pod] = SharedInformer(client, env, PODS, metrics=Registry())
            watched.cache.add_index("controller", index_by_controller)
            queue: WorkQueue[str] = WorkQueue(env, "bench", Registry())
            for _handler in range(2):
                watched.add_handler(
                    lambda pod, _initial, queue=queue: queue.add(pod.metadata.namespace),  # type: ignore[misc]
                    lambda _old, new, queue=queue: queue.add(new.metadata.namespace),  # type: ignore[misc]
                )
            started = time.perf_counter()
            running = asyncio.create_task(watched.run())
            await server.over
            best = min(best, time.perf_counter() - started)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return best / (len(pieces) - 1) * 1e6

    return {"informer event, without decoding (two handlers, one index)": loops.run(measure())}


def queue() -> dict[str, float]:
    """One key through the work queue: add, get, done; without and with metrics."""

    async def measure(metrics: Registry | None) -> float:
        env = Env()
        keys = [f"default/web-{number}" for number in range(_COUNT)]
        best = float("inf")
        for _ in range(_ROUNDS):
            work: WorkQueue[str] = WorkQueue(env, "bench", metrics)
            started = time.perf_counter()
            for key in keys:
                work.add(key)
            for _key in keys:
                work.done(await work.get())
            best = min(best, time.perf_counter() - started)
            work.shut_down()
        return best / _COUNT * 1e6

    return {
        "queue add+get+done": loops.run(measure(None)),
        "queue add+get+done with metrics": loops.run(measure(Registry())),
    }


def all_figures() -> dict[str, float]:
    """Everything."""
    return {**cache(), **informer(), **queue()}


if __name__ == "__main__":
    for name, microseconds in all_figures().items():
        print(f"{microseconds:9.2f} µs  {name}")
