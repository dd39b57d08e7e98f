"""API server compared with kube-apiserver: creates, updates, a mixed load, lists of 10,000 pods, and 100 watches.

pilothouse serves HTTPS and stores durably in SQLite, or in an etcd of its own (``server-etcd``). kube-apiserver uses
an etcd with ``--unsafe-no-fsync``, as pilothouse's is then, so that the disk is not compared. Both servers run during
the whole benchmark; one load generator, this process, uses them alternately with 32 connections. Figures: operations
per second, CPU of the server per operation (with its etcd's), and resident memory per pod.

``python -m bench.api_server [PODS] [ROUNDS] [--etcd]`` runs it alone.
"""

import argparse
import asyncio
import contextlib
import functools
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.etcd import Etcd
from tests.real_cluster import missing_programs, running

from bench.durable_creates import CONCURRENCY, pod
from bench.processes import cpu_seconds, pilothouse, resident_bytes, started, wait_for_line
from bench.report import Figure, figure
from pilothouse.api.wire import Request, Response
from pilothouse.client.connect import connect
from pilothouse.client.remote import RemoteTransport
from pilothouse.env import Env, TaskGroup, loops

PODS = 10_000
ROUNDS = 5
WATCHERS = 100
_UPDATES = 2_000
_LISTS = 3
_MIXED = 5_000
_WATCHED_UPDATES = 500
_WATCHERS_PER_TRANSPORT = 25
_PATIENCE_SECONDS = 300.0
_PATH = "/api/v1/namespaces/default/pods"
_JSON = {"content-type": "application/json", "accept": "application/json"}

_stamps = itertools.count()


class _Side:
    """One of the two servers."""

    def __init__(self, name: str, kubeconfig: Path, pids: Sequence[int]) -> None:
        self.name = name
        self.kubeconfig = str(kubeconfig)
        self.pids = pids
        self.latest: dict[str, bytes] = {}
        """The last answer about each pod that is changed."""
        self.found: dict[str, list[float]] = {}

    def note(self, name: str, value: float) -> None:
        """One run's figure."""
        self.found.setdefault(name, []).append(value)

    @property
    def cpu(self) -> float:
        """Seconds of all its processes."""
        return sum(map(cpu_seconds, self.pids))

    @property
    def resident(self) -> int:
        """Bytes of all its processes."""
        return sum(map(resident_bytes, self.pids))

    def transport(self) -> RemoteTransport:
        """A way to it, as its administrator."""
        return connect(Env(), kubeconfig=self.kubeconfig)

    def run(self, what: str, work: Callable[["_Side"], Awaitable[float]], count: int) -> None:
        """Do something once: ``work`` says how many seconds it took."""

        async def main() -> float:
            return await work(self)

        before = self.cpu
        took = loops.run(main())
        self.note(f"{what} per s", count / took)
        self.note(f"{what} CPU", (self.cpu - before) / count * 1e6)


def _checked(response: Response, status: int) -> bytes:
    assert response.status == status, f"{response.status}: {response.body[:300]!r}"
    return response.body


async def _spread(works: Sequence[Callable[[], Awaitable[None]]]) -> float:
    """Do all of it, ``CONCURRENCY`` at a time; the seconds it took."""
    left = iter(works)

    async def worker() -> None:
        for work in left:
            await work()

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return time.perf_counter() - began


def _creating(names: Sequence[str]) -> Callable[[_Side], Awaitable[float]]:
    async def create(side: _Side) -> float:
        transport = side.transport()

        async def one(name: str, body: bytes) -> None:
            answer = _checked(await transport.request(Request("POST", _PATH, _JSON, body)), 201)
            if len(side.latest) < _UPDATES:
                side.latest[name] = answer

        bodies = [(name, msgspec.json.encode(pod(name))) for name in names]
        took = await _spread([lambda name=name, body=body: one(name, body) for name, body in bodies])  # type: ignore[misc]
        await transport.close()
        return took

    return create


def _changed(stored: bytes) -> bytes:
    """A pod as it was read, with another annotation."""
    document: dict[str, Any] = msgspec.json.decode(stored)
    document["metadata"]["annotations"] = {"example.com/stamp": str(next(_stamps))}
    return msgspec.json.encode(document)


async def _put(side: _Side, transport: RemoteTransport, name: str, body: bytes) -> None:
    side.latest[name] = _checked(await transport.request(Request("PUT", f"{_PATH}/{name}", _JSON, body)), 200)


async def _update(side: _Side) -> float:
    transport = side.transport()
    bodies = [(name, _changed(stored)) for name, stored in side.latest.items()]
    took = await _spread([lambda name=name, body=body: _put(side, transport, name, body) for name, body in bodies])  # type: ignore[misc]
    await transport.close()
    return took


def _mixed(round_: int) -> Callable[[_Side], Awaitable[float]]:
    """What a cluster at work sends: of ten requests four write statuses, three read single objects, and one each
    creates a pod, records an event, and lists a hundred pods. How long the creates take is noted."""

    async def run(side: _Side) -> float:
        transport = side.transport()
        names = list(side.latest)
        taken: list[float] = []

        async def create(number: int) -> None:
            body = msgspec.json.encode(pod(f"mixed-{round_}-{number}"))
            began = time.perf_counter()
            _checked(await transport.request(Request("POST", _PATH, _JSON, body)), 201)
            taken.append(time.perf_counter() - began)

        async def event(number: int) -> None:
            name = names[number % len(names)]
            about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default"}
            meta = {"name": f"mixed-{round_}-{number}", "namespace": "default"}
            body = {"metadata": meta, "involvedObject": about, "reason": "Bench", "message": "a mixed load"}
            path = "/api/v1/namespaces/default/events"
            _checked(await transport.request(Request("POST", path, _JSON, msgspec.json.encode(body))), 201)

        async def status(number: int) -> None:
            body = msgspec.json.encode({"status": {"phase": "Running", "message": str(next(_stamps))}})
            headers = {**_JSON, "content-type": "application/strategic-merge-patch+json"}
            path = f"{_PATH}/{names[number % len(names)]}/status"
            _checked(await transport.request(Request("PATCH", path, headers, body)), 200)

        async def get(number: int) -> None:
            _checked(await transport.request(Request("GET", f"{_PATH}/{names[number % len(names)]}", _JSON)), 200)

        async def list_some(_number: int) -> None:
            _checked(await transport.request(Request("GET", f"{_PATH}?limit=100", _JSON)), 200)

        mix = (create, status, get, status, event, get, status, list_some, get, status)
        works = [functools.partial(mix[number % len(mix)], number) for number in range(_MIXED)]
        took = await _spread(works)
        await transport.close()
        taken.sort()
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            side.note(f"mixed create {name}", taken[int(len(taken) * share)] * 1e3)
        return took

    return run


async def _list(side: _Side) -> float:
    transport = side.transport()
    _checked(await transport.request(Request("GET", f"{_PATH}?limit=1", _JSON)), 200)
    began = time.perf_counter()
    for _ in range(_LISTS):
        _checked(await transport.request(Request("GET", _PATH, _JSON)), 200)
    took = time.perf_counter() - began
    await transport.close()
    return took


async def _fan_out(side: _Side) -> float:
    """Seconds until every watcher has seen every change."""
    transports = [side.transport() for _ in range(WATCHERS // _WATCHERS_PER_TRANSPORT)]
    writer = side.transport()
    first = msgspec.json.decode(_checked(await writer.request(Request("GET", f"{_PATH}?limit=1", _JSON)), 200))
    since = first["metadata"]["resourceVersion"]
    target = f"{_PATH}?watch=true&resourceVersion={since}&timeoutSeconds=600"
    streams = [
        await transport.open(Request("GET", target, _JSON))
        for transport in transports
        for _ in range(_WATCHERS_PER_TRANSPORT)
    ]
    bodies = [(name, _changed(side.latest[name])) for name in list(side.latest)[:_WATCHED_UPDATES]]

    async def watch(number: int) -> None:
        left = len(bodies)
        async for piece in streams[number]:
            left -= piece.count(b"\n")
            if left <= 0:
                return
        raise AssertionError(f"a watch ended with {left} events to come")

    began = time.perf_counter()
    async with asyncio.timeout(_PATIENCE_SECONDS), TaskGroup("watchers") as group:
        for number in range(len(streams)):
            group.start(watch(number))
        await _spread([lambda name=name, body=body: _put(side, writer, name, body) for name, body in bodies])  # type: ignore[misc]
    took = time.perf_counter() - began
    for stream in streams:
        await stream.close()
    for transport in (*transports, writer):
        await transport.close()
    return took


@contextlib.contextmanager
def _pilothouse(etcd: Etcd | None) -> Iterator[_Side]:
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        kubeconfig, log = directory / "kubeconfig", directory / "log"
        command = pilothouse("apiserver", f"--data-dir={directory}/data", "--port=0", f"--kubeconfig={kubeconfig}")
        if etcd is not None:
            command.append(f"--etcd-servers={etcd.url}")
        with started(command, log, cwd=directory) as process:
            wait_for_line(process, "API server ready", log)
            yield _Side("pilothouse", kubeconfig, (process.pid, *((etcd.pid,) if etcd is not None else ())))


@contextlib.contextmanager
def _running(etcd: Etcd) -> Iterator[Etcd]:
    try:
        yield etcd.start()
    finally:
        etcd.stop()


def _measure(sides: Sequence[_Side], pods: int, rounds: int) -> None:
    """Each phase on all sides, who begins changes from round to round."""

    def in_turn(what: str, work: Callable[[int], Callable[[_Side], Awaitable[float]]], count: int) -> None:
        for number in range(rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                side.run(what, work(number), count)
                print(f"{what}, {side.name}: {side.found[f'{what} per s'][-1]:,.0f} per s", file=sys.stderr, flush=True)

    chunk = pods // rounds
    for side in sides:
        side.run("warming up", _creating([f"warm-{number}" for number in range(CONCURRENCY)]), CONCURRENCY)
        side.latest.clear()
    before = {side.name: side.resident for side in sides}
    in_turn("creates", lambda number: _creating([f"pod-{number}-{one}" for one in range(chunk)]), chunk)
    for side in sides:
        side.note("memory", (side.resident - before[side.name]) / pods / 1000)
    changed = len(sides[0].latest)
    in_turn("updates", lambda _number: _update, changed)
    in_turn("lists", lambda _number: _list, _LISTS)
    watched = min(_WATCHED_UPDATES, changed) * WATCHERS
    in_turn("events", lambda _number: _fan_out, watched)
    in_turn("requests of a mixed load", _mixed, _MIXED)


def figures(pods: int = PODS, rounds: int = ROUNDS, *, on_etcd: bool = False) -> list[Figure]:
    """Ours and, where there is one, the real server's. Nothing on etcd where there is none."""
    without = missing_programs()
    if on_etcd and without:
        return []
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(_running(Etcd())) if on_etcd else None
        sides = [stack.enter_context(_pilothouse(etcd))]
        if not without:
            cluster = stack.enter_context(running())
            sides.append(_Side("kube-apiserver+etcd", cluster.kubeconfig, cluster.process_ids))
        _measure(sides, pods, rounds)
    measured, others = sides[0].found, sides[1].found if len(sides) > 1 else {}
    other_name = sides[1].name if len(sides) > 1 else ""

    def row(title: str, unit: str, name: str, *, scale: float = 1.0, rate: bool = False, **held: float) -> Figure:
        return figure(
            title, unit, [value * scale for value in measured[name]], [value * scale for value in others.get(name, ())],
            other_name=other_name, more_is_better=rate, by_best=True,
            budget=held.get("budget") if others else None, aim=held.get("aim"),
        )  # fmt: skip

    return [
        row("pods created, durably", "per s", "creates per s", rate=True, budget=1.0 if on_etcd else 2.0, aim=5.0),
        row("  server CPU per create", "µs", "creates CPU"),
        row("pods changed by PUT", "per s", "updates per s", rate=True),
        row("  server CPU per PUT", "µs", "updates CPU"),
        row(f"lists of {pods:,} pods", "per s", "lists per s", rate=True),
        row("  server CPU per list", "ms", "lists CPU", scale=1e-3),
        row(f"events to {WATCHERS} watchers", "per s", "events per s", rate=True),
        row("  server CPU per event delivered", "µs", "events CPU"),
        row("requests of a mixed load", "per s", "requests of a mixed load per s", rate=True),
        row("  server CPU per request", "µs", "requests of a mixed load CPU"),
        row("  creates among them, median", "ms", "mixed create p50"),
        row("  creates among them, 99th percentile", "ms", "mixed create p99", budget=1.0, aim=0.5),
        row(f"resident memory per pod, after {pods:,}", "kB", "memory"),
    ]


def main() -> None:
    from bench.report import table

    parser = argparse.ArgumentParser()
    parser.add_argument("pods", nargs="?", type=int, default=PODS)
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--etcd", action="store_true")
    arguments = parser.parse_args()
    print(table(figures(arguments.pods, arguments.rounds, on_etcd=arguments.etcd)))
    print(f"load generator: {time.process_time():.1f} s of CPU, process {os.getpid()}", file=sys.stderr)


if __name__ == "__main__":
    main()
