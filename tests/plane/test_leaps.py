"""Skipping idle virtual time changes nothing: with and without it a plane has the same writes at the same times with
the same causes."""

import asyncio
import datetime
import hashlib
import math
import threading
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.coordination import LEASES, Lease
from pilothouse.api.core import CONFIG_MAPS, NODES, RESOURCE_QUOTAS
from pilothouse.apiserver.endpoints.renewal import DirectRenewal
from pilothouse.client import merge_patch
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllers.shared.monitors import ResourceMonitors
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.runtime import SharedInformer, WorkQueue
from pilothouse.runtime.reflector import Reflector
from pilothouse.sim import Simulation, SimulationOptions, simulate
from pilothouse.storage import MemoryStore
from pilothouse.storage.store import Changes

_FAULT = f"{PREFIX}fault"
Write = tuple[datetime.datetime, int, str, str, str, object]


def _deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:v1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


async def _rest(plane: Plane) -> None:
    await asyncio.sleep(900)


async def _definitions(plane: Plane) -> None:
    """What the garbage collector and quotas watch changes, and what their caches lead to."""
    client = plane.client()
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "things.example.com"}, "spec": spec}
    await asyncio.sleep(33.3)
    await client.create(CUSTOM_RESOURCE_DEFINITIONS.raw, definition, "")
    await asyncio.sleep(40)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "gone", "uid": "no-such-uid"}
    owned = {"metadata": {"name": "owned", "namespace": "default", "ownerReferences": [thing]}}
    await client.create(CONFIG_MAPS.raw, owned, "default")
    quota = {"metadata": {"name": "few", "namespace": "default"}, "spec": {"hard": {"pods": "10"}}}
    await client.create(RESOURCE_QUOTAS.raw, quota, "default")
    await client.create(DEPLOYMENTS.raw, _deployment(4), "default")
    await asyncio.sleep(70)
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "things.example.com")
    await asyncio.sleep(65.5)
    await client.delete(DEPLOYMENTS, "web", "default")
    await asyncio.sleep(400)


async def _work(plane: Plane) -> None:
    client = plane.client()
    await client.create(DEPLOYMENTS.raw, _deployment(12), "default")
    await asyncio.sleep(47.3)
    await client.patch(NODES.raw, "node-1", merge_patch({"metadata": {"annotations": {_FAULT: "silent"}}}))
    await asyncio.sleep(430)
    await client.patch(NODES.raw, "node-1", merge_patch({"metadata": {"annotations": {_FAULT: None}}}))
    await client.delete(NODES, "node-2")
    await asyncio.sleep(200.25)
    await client.patch(DEPLOYMENTS.raw, "web", merge_patch({"spec": {"replicas": 3}}), "default")
    now = asyncio.get_running_loop().time()

    async def label(number: int) -> None:
        # At the instants at which Leases are renewed, and before that in turn.
        await asyncio.sleep(math.ceil(now + 20) + number / 4 - now)
        await client.patch(NODES.raw, "node-3", merge_patch({"metadata": {"labels": {"number": str(number)}}}))

    await asyncio.gather(*map(label, range(120)))


def _writes(writes: Any, *, leaps: bool) -> list[Write]:
    """All writes of a plane with leader election."""
    result: list[Write] = []

    async def main(env: Env) -> None:
        store = MemoryStore(env)

        def note(changes: Changes) -> None:
            for change in changes:
                digest = hashlib.sha256(change.value).hexdigest()
                result.append((env.now(), change.revision, change.key, change.type, digest, change.origin))

        store.on_commit.append(note)
        manager = Options(leader_election=LeaderElection(enabled=True))
        plane = Plane(env, store, PlaneOptions(nodes=5, manager=manager))
        async with TaskGroup("plane") as group:
            group.start(plane.run())
            await plane.wait_ready()
            await writes(plane)
            group.cancel()

    virtual.run(main, leaps=leaps)
    return result


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The skipped periodic passes that ran in their timers, in this thread."""
    result: list[str] = []
    thread = threading.get_ident()

    def count(owner: Any, name: str) -> None:
        leap = getattr(owner, name)

        def counted(self: Any) -> bool:
            leapt: bool = leap(self)
            if leapt and threading.get_ident() == thread:
                result.append(owner.__name__)
            return leapt

        monkeypatch.setattr(owner, name, counted)

    count(WorkQueue, "_leap")
    count(ResourceMonitors, "_leap")
    return result


@pytest.fixture
def direct_renewals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The times of the renewals that were made without a request: in this thread, for a plane that other tests share
    may still be running in its own."""
    result: list[str] = []
    thread = threading.get_ident()
    renew = DirectRenewal.renew

    def noted(renewal: DirectRenewal, renewed: str) -> bytes | None:
        if threading.get_ident() == thread:
            result.append(renewed)
        return renew(renewal, renewed)

    monkeypatch.setattr(DirectRenewal, "renew", noted)
    return result


@cases(
    "writes",
    {"no work": _rest, "pods, unreachable and deleted nodes": _work, "definitions, quotas": _definitions},
)
def test_the_writes_are_the_same(writes: Any, direct_renewals: list[str], passes: list[str]) -> None:
    with_leaps = _writes(writes, leaps=True)
    assert len(direct_renewals) > 300
    assert passes.count("WorkQueue") > 40
    assert passes.count("ResourceMonitors") > 5
    direct_renewals.clear()
    passes.clear()
    without = _writes(writes, leaps=False)
    assert direct_renewals == passes == []
    for one, other in zip(with_leaps, without, strict=False):
        assert one == other
    assert len(with_leaps) == len(without)


def _lease_events(*, leaps: bool) -> list[tuple[float, str, str, str]]:
    """What two informers of Leases show and at what times; one only those of a namespace, for a while."""
    observed: list[tuple[float, str, str, str]] = []

    async def main(env: Env) -> None:
        plane = Plane(
            env, MemoryStore(env), PlaneOptions(nodes=5, manager=Options(leader_election=LeaderElection(enabled=True)))
        )

        def informer(name: str, namespace: str = "") -> SharedInformer[Lease]:
            def note(obj: Lease) -> None:
                observed.append((env.monotonic(), name, obj.metadata.name, obj.metadata.resource_version))

            informer_object = SharedInformer(plane.client(), env, LEASES, namespace=namespace)
            informer_object.add_handler(lambda obj, _initial: note(obj), lambda _old, obj: note(obj))
            return informer_object

        async with TaskGroup("plane") as group:
            group.start(plane.run())
            await plane.wait_ready()
            whole = informer("all")
            whole.start(group)
            await asyncio.sleep(20)
            part = informer("kube-system", "kube-system")
            part.start(group)
            await asyncio.sleep(20.5)
            part.stop()
            await asyncio.sleep(20.5)
            group.cancel()

    virtual.run(main, leaps=leaps)
    return observed


def test_informers_show_the_same_whether_they_are_woken_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[int] = []
    take: Any = Reflector._on_events

    def noted(reflector: Any, events: Any) -> None:
        received.append(len(events))
        take(reflector, events)

    monkeypatch.setattr(Reflector, "_on_events", noted)
    with_leaps = _lease_events(leaps=True)
    assert len(received) > 40, "nobody was woken for most of them"
    received.clear()
    without = _lease_events(leaps=False)
    assert received == []
    assert with_leaps == without


def test_a_simulation_has_the_same_story(direct_renewals: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def rest(_simulation: Simulation) -> None:
        await asyncio.sleep(300)

    options = SimulationOptions(nodes=3)
    with_leaps = simulate(rest, seed=7, options=options)
    assert len(direct_renewals) > 10
    direct_renewals.clear()
    monkeypatch.setattr(virtual.VirtualLoop, "is_alone", lambda _loop: False)
    monkeypatch.setattr(virtual.VirtualLoop, "is_reading_alone", lambda _loop: False)
    without = simulate(rest, seed=7, options=options)
    assert direct_renewals == []
    assert (with_leaps.writes, with_leaps.digest) == (without.writes, without.digest)
