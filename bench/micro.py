"""Single operations: CPU microseconds of decoding, queue, cache, informer, storage, embedded server, requests.

The figure is the best of several rounds, in CPU time of this process: disturbances only make a round longer.
"""

import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from bench import client, micro_runtime
from bench.durable_creates import pod
from bench.report import Figure
from pilothouse.api.coordination import LEASES
from pilothouse.api.core import PODS, Pod
from pilothouse.apiserver import ApiServer
from pilothouse.client import Client
from pilothouse.env import Env, loops
from pilothouse.machinery.splice import replace_fields
from pilothouse.storage import MemoryStore, Store
from pilothouse.storage.sqlite import SqliteStore

_ROUNDS = 5
_CONCURRENCY = 50


def _best(run: Callable[[], object], operations: int) -> float:
    found = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found) / operations * 1e6


async def _best_async(run: Callable[[], Awaitable[object]], operations: int) -> float:
    found = []
    for _ in range(_ROUNDS + 1):
        began = time.process_time()
        await run()
        found.append(time.process_time() - began)
    return min(found[1:]) / operations * 1e6


def _running_pod(env: Env) -> bytes:
    """A pod as the server stores it, with the status that a kubelet writes."""

    async def made() -> bytes:
        server = ApiServer(env, MemoryStore(env))
        created = await Client(server.transport("admin"), env).create(PODS.raw, pod("web-abcde"), "default")
        return bytes(created)

    document = msgspec.json.decode(loops.run(made()))
    document["metadata"]["annotations"] = {f"example.com/note-{n}": "x" * 60 for n in range(8)}
    document["metadata"]["managedFields"] = [
        {"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field-{n}": {} for n in range(60)}}
    ]
    stamp = "2026-01-01T00:00:00Z"
    document["status"] = {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "conditions": [
            {"type": name, "status": "True", "lastTransitionTime": stamp, "lastProbeTime": None}
            for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": "registry.k8s.io/pause:3.10",
                "imageID": "registry.k8s.io/pause@sha256:" + "0" * 64,
                "containerID": "containerd://" + "0" * 64,
                "state": {"running": {"startedAt": stamp}},
            }
        ],
        "startTime": stamp,
    }
    return msgspec.json.encode(document)


def decoding() -> dict[str, float]:
    """One pod from JSON to what a program reads."""
    text = _running_pod(Env())
    size = f"pod of {len(text) / 1000:.1f} kB"
    view, generic = msgspec.json.Decoder(Pod), msgspec.json.Decoder()
    return {
        f"decode {size}: view": _best(lambda: [view.decode(text) for _ in range(2000)], 2000),
        f"decode {size}: msgspec to dict": _best(lambda: [generic.decode(text) for _ in range(500)], 500),
        f"decode {size}: json.loads": _best(lambda: [json.loads(text) for _ in range(500)], 500),
    }


async def _storage(store: Store, count: int) -> float:
    value = b"x" * 3000
    numbers = itertools.count()

    async def write() -> None:
        key = f"/pods/default/pod-{next(numbers)}"
        await store.commit(store.stage(key, lambda _revision: value, expected=0))

    async def burst() -> None:
        for _ in range(count // _CONCURRENCY):
            await asyncio.gather(*(write() for _ in range(_CONCURRENCY)))

    return await _best_async(burst, count)


def storage() -> dict[str, float]:
    """Stage and commit of 3 kB, fifty at a time."""

    async def measure() -> dict[str, float]:
        env = Env()
        found = {"storage write, memory": await _storage(MemoryStore(env), 5000)}
        with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as directory:
            store = SqliteStore.open(env, str(Path(directory) / "data"))
            found["storage write, SQLite, synchronous (CPU)"] = await _storage(store, 5000)
            await store.close()
        return found

    return loops.run(measure())


def embedded() -> dict[str, float]:
    """Requests to the embedded server on the local transport."""

    async def measure() -> dict[str, float]:
        env = Env()
        server = ApiServer(env, MemoryStore(env))
        admin = Client(server.transport("admin", ("system:masters",)), env)
        lease = await admin.create(LEASES.raw, {"metadata": {"name": "node-0"}, "spec": {}}, "kube-node-lease")
        names = itertools.count()

        async def renew() -> None:
            nonlocal lease
            for _ in range(1000):
                spec = {"holderIdentity": "node-0", "renewTime": f"2026-01-01T00:00:00.{next(names):06}Z"}
                changed = replace_fields(lease, {"spec": msgspec.json.encode(spec)})
                lease = await admin.update(LEASES.raw, "node-0", changed, "kube-node-lease")

        async def create() -> None:
            for _ in range(1000):
                await admin.create(PODS.raw, pod(f"pod-{next(names)}"), "default")

        async def get() -> None:
            for _ in range(1000):
                await admin.get(LEASES, "node-0", "kube-node-lease")

        return {
            "local transport: PUT of a Lease": await _best_async(renew, 1000),
            "local transport: POST of a Pod": await _best_async(create, 1000),
            "local transport: GET of a Lease": await _best_async(get, 1000),
        }

    return loops.run(measure())


def figures() -> list[Figure]:
    """All of them."""
    found = {**decoding(), **micro_runtime.all_figures(), **storage(), **embedded(), **client.figures()}
    return [Figure(name=name, unit="µs", value=value) for name, value in found.items()]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
