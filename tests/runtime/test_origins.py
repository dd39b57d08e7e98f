"""Causes of writes, from the event through the queue and the sync to the store."""

import asyncio
from typing import Any

import msgspec
from tests.runtime.cluster import Cluster

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.causes import MAX_TRIGGERS, Cause, Origin, Trigger, record_decision
from pilothouse.runtime import InformerFactory, WorkQueue
from pilothouse.runtime.controller import Requeue, WorkerPool

CHANGED = "default/source"


def _config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def _create(client: Client, name: str, **data: str) -> str:
    created = await client.create(CONFIG_MAPS, msgspec.json.encode(_config_map(name, **data)), "default")
    return created.metadata.resource_version


def _origins(cluster: Cluster, name: str) -> list[Origin | None]:
    return [
        change.origin for change in cluster.store.changes("/configmaps/") if change.key == f"/configmaps/default/{name}"
    ]


def _causes(cluster: Cluster, name: str) -> list[Cause | None]:
    return [None if origin is None else origin.cause for origin in _origins(cluster, name)]


class _Copier:
    """Creates ``copy`` of ``source``; the first attempt fails."""

    def __init__(self, cluster: Cluster, env: Env, *, failures: int = 0, wait: float = 0.0) -> None:
        self.queue: WorkQueue[str] = WorkQueue(env, "copier")
        self.pool = WorkerPool("copier", self.queue, self._reconcile)
        self.informers = InformerFactory(cluster.client(), env)
        self._client = cluster.client()
        self._failures = failures
        self._wait = wait
        informer = self.informers.informer(CONFIG_MAPS)
        informer.add_handler(on_add=self._notice, on_update=lambda _old, new: self._notice(new, False))

    def _notice(self, obj: Any, _initial: bool) -> None:
        if obj.metadata.name == "source":
            self.queue.add_after(CHANGED, self._wait)

    async def _reconcile(self, key: str) -> None:
        if self._failures:
            self._failures -= 1
            raise OSError("not yet")
        record_decision(f"{key} has no copy")
        await _create(self._client, "copy")


async def _run(cluster: Cluster, copier: _Copier, work: Any) -> None:
    async with TaskGroup("test") as group:
        copier.informers.start(group)
        await copier.informers.wait_synced()
        group.start(copier.pool.run(), name="pool")
        await work
        await asyncio.sleep(30)
        group.cancel()


async def test_write_has_the_triggering_event(env: Env) -> None:
    cluster = Cluster(env)
    revision = ""

    async def work() -> None:
        nonlocal revision
        revision = await _create(cluster.admin(), "source")

    await _run(cluster, _Copier(cluster, env), work())
    (origin,) = _origins(cluster, "copy")
    assert origin is not None
    assert (origin.user, origin.verb, origin.time) == ("admin", "create", (env.now().timestamp() - 30))
    assert origin.cause == Cause(
        "copier",
        CHANGED,
        f"{CHANGED} has no copy",
        (Trigger("ADDED", "configmaps", "default", "source", revision),),
    )
    assert _causes(cluster, "source") == [None]


async def test_initial_objects_are_distinguished_from_new_ones(env: Env) -> None:
    cluster = Cluster(env)
    revision = await _create(cluster.admin(), "source")
    await _run(cluster, _Copier(cluster, env), asyncio.sleep(0))
    (cause,) = _causes(cluster, "copy")
    assert cause is not None
    assert cause.triggers == (Trigger("SYNC", "configmaps", "default", "source", revision),)


async def test_retried_sync_keeps_its_events(env: Env) -> None:
    cluster = Cluster(env)
    revision = await _create(cluster.admin(), "source")
    await _run(cluster, _Copier(cluster, env, failures=2), asyncio.sleep(0))
    (cause,) = _causes(cluster, "copy")
    assert cause is not None
    assert cause.triggers == (Trigger("RETRY"), Trigger("SYNC", "configmaps", "default", "source", revision))


async def test_merged_events_are_recorded_within_bounds(env: Env) -> None:
    cluster = Cluster(env)
    first = await _create(cluster.admin(), "source")

    async def work() -> None:
        for number in range(10):
            patch = {**_config_map("source", number=str(number))}
            await cluster.admin().update(CONFIG_MAPS, "source", msgspec.json.encode(patch), "default")

    await _run(cluster, _Copier(cluster, env, wait=5.0), work())
    (cause,) = _causes(cluster, "copy")
    assert cause is not None
    assert cause.triggers[0] == Trigger("SYNC", "configmaps", "default", "source", first)
    assert [trigger.type for trigger in cause.triggers[1:]] == ["MODIFIED"] * (MAX_TRIGGERS - 1)
    assert cause.more == 11 - MAX_TRIGGERS


async def test_timer_is_recorded_as_trigger(env: Env) -> None:
    cluster = Cluster(env)
    copier = _Copier(cluster, env)

    async def work() -> None:
        copier.queue.add_after("by itself", 10)

    await _run(cluster, copier, work())
    (cause,) = _causes(cluster, "copy")
    assert cause is not None
    assert (cause.key, cause.triggers) == ("by itself", (Trigger("TIMER"),))


async def test_queue_removes_events_of_finished_keys(env: Env) -> None:
    cluster = Cluster(env)
    copier = _Copier(cluster, env)
    await _create(cluster.admin(), "source")
    await _run(cluster, copier, asyncio.sleep(0))
    assert (copier.queue._triggers, copier.queue._taken) == ({}, {})


async def test_key_added_to_another_queue_keeps_its_events(env: Env) -> None:
    cluster = Cluster(env)
    copier = _Copier(cluster, env)
    others: WorkQueue[str] = WorkQueue(env, "others")
    revision = ""

    async def pass_on(_key: str) -> None:
        others.add("now")
        others.add_after("later", 5)
        others.add_after("later", 3)

    async def write(key: str) -> None:
        await _create(cluster.client(), key)

    async def work() -> None:
        nonlocal revision
        revision = await _create(cluster.admin(), "source")

    copier.pool = WorkerPool("first", copier.queue, pass_on)
    second = WorkerPool("first-others", others, write, component="first")
    async with TaskGroup("second") as group:
        group.start(second.run(), name="second")
        await _run(cluster, copier, work())
        group.cancel()
    source = Trigger("ADDED", "configmaps", "default", "source", revision)
    for name in ("now", "later"):
        assert _causes(cluster, name) == [Cause("first", name, triggers=(source,))]


async def test_requeued_sync_has_a_timer_trigger(env: Env) -> None:
    cluster = Cluster(env)
    copier = _Copier(cluster, env)
    again = [Requeue(5), None]

    async def count(_key: str) -> Requeue | None:
        await _create(cluster.client(), f"attempt-{len(again)}")
        return again.pop(0)

    copier.pool = WorkerPool("copier", copier.queue, count)
    await _create(cluster.admin(), "source")
    await _run(cluster, copier, asyncio.sleep(0))
    causes = [cause for name in ("attempt-2", "attempt-1") for cause in _causes(cluster, name)]
    assert [[trigger.type for trigger in cause.triggers] for cause in causes if cause is not None] == [
        ["SYNC"],
        ["TIMER"],
    ]
