"""Invalid objects that passed the API server affect only their own key.

They are written into the store directly, as another server's database might hold them.
"""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from tests.plane.running import running
from tests.tables import cases
from tests.workloads import pod_spec, workload

from pilothouse.api import wire
from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import PODS
from pilothouse.client import merge_patch
from pilothouse.client.errors import ApiError, Invalid
from pilothouse.client.interceptor import Interceptor, Rule, delay
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

CONTROLLERS = ("replicaset", "garbagecollector", "namespace")
MANAGER = Options(controllers=CONTROLLERS, leader_election=LeaderElection(enabled=False))
OPTIONS = PlaneOptions(nodes=1, manager=MANAGER)


def replica_set(name: str, replicas: Any = 2, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "default"}
    whole = {"replicas": replicas, **spec}
    return workload("ReplicaSet", name, pod=pod_spec("nginx"), metadata=metadata, **whole)


async def smuggle(store: MemoryStore, document: dict[str, Any]) -> None:
    """Write it where the API server would, without asking it."""
    meta = document["metadata"]

    def stored(revision: int) -> bytes:
        whole = {
            **meta,
            "uid": f"uid-{meta['name']}",
            "generation": 1,
            "resourceVersion": str(revision),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        ordered = {"kind": document["kind"], "apiVersion": document["apiVersion"], "metadata": whole}
        return msgspec.json.encode({**ordered, "spec": document["spec"]})

    key = f"apps/replicasets/default/{meta['name']}"
    await store.commit(store.stage(key, stored, expected=0))


async def count(plane: Plane, name: str) -> int:
    result = await plane.client().list(PODS, "default", label_selector=f"app={name}")
    return len(result.items)


@cases(
    "document, named",
    {
        "string for a number": (replica_set("bad", "three"), "default/bad"),
        "finalizers of the wrong type": (
            {**replica_set("bad"), "metadata": {"name": "bad", "namespace": "default", "finalizers": "one"}},
            "replicasets",
        ),
        "list for a struct": ({**replica_set("bad"), "spec": ["no", "spec"]}, "default/bad"),
    },
)
@pytest.mark.parametrize("when", ["before the start", "while running"])
async def test_undecodable_object_affects_only_itself(
    env: Env, document: dict[str, Any], named: str, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore(env)
    if when == "before the start":
        await smuggle(store, document)
    plane = Plane(env, store, OPTIONS)
    async with running(plane):
        client = plane.client()
        if when == "while running":
            await smuggle(store, document)
            await asyncio.sleep(1)
        await client.create(REPLICA_SETS, replica_set("good"), "default")
        await asyncio.sleep(5)
        assert await count(plane, "good") == 2
        assert await count(plane, "bad") == 0
        await client.patch(REPLICA_SETS, "good", merge_patch({"spec": {"replicas": 3}}), "default")
        await asyncio.sleep(5)
        assert await count(plane, "good") == 3
    reported = [r for r in caplog.records if r.levelno >= logging.WARNING and named in str(getattr(r, "values", {}))]
    assert reported, "it must be logged"
    assert not [r for r in caplog.records if r.exc_info], "a bad object is no bug of ours"


async def test_invalid_selector_affects_only_its_replica_set(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    odd = {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["x"]}]}
    store = MemoryStore(env)
    plane = Plane(env, store, OPTIONS)
    async with running(plane):
        client = plane.client()
        with pytest.raises(Invalid, match="not a valid selector operator"):
            await client.create(REPLICA_SETS, replica_set("bad", selector=odd), "default")
        await smuggle(store, replica_set("bad", selector=odd))
        await client.create(REPLICA_SETS, replica_set("good"), "default")
        await asyncio.sleep(5)
        assert (await count(plane, "good"), await count(plane, "bad")) == (2, 0)
    assert [r for r in caplog.records if "default/bad" in str(getattr(r, "values", {}))], "the log names it"
    assert not [r for r in caplog.records if r.exc_info]


async def test_excessive_replicas_are_created_in_bursts(env: Env) -> None:
    """The manager keeps running, and deletes the pods when scaled down."""

    def slow_creates(program: str, transport: wire.Transport) -> wire.Transport:
        if program != "manager":
            return transport
        faults = Interceptor(transport, env)
        faults.add(Rule(delay(1.0, 1.0), verb="create", resource="pods"))
        return faults

    plane = Plane(env, MemoryStore(env), OPTIONS, wrap=slow_creates)
    async with running(plane):
        client = plane.client()
        with pytest.raises(ApiError, match="cannot unmarshal number 2147483648"):
            await client.create(REPLICA_SETS, replica_set("huge", 2**31), "default")
        await client.create(REPLICA_SETS, replica_set("huge", 2**31 - 1), "default")
        # 1, 2, 4, … 128, and 245: nine batches of a second each make the first burst of 500.
        await asyncio.sleep(9.5)
        assert await count(plane, "huge") == 500
        await client.patch(REPLICA_SETS, "huge", merge_patch({"spec": {"replicas": 0}}), "default")
        await client.create(REPLICA_SETS, replica_set("good"), "default")
        await asyncio.sleep(60)
        assert (await count(plane, "huge"), await count(plane, "good")) == (0, 2)
