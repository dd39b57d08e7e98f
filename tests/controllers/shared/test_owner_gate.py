"""Checks before an owner is synced, in their order."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from tests.controllers.node_world import fixture_of
from tests.runtime.cluster import Cluster
from tests.tables import cases

from pilothouse.api.apps import REPLICA_SETS, ReplicaSet
from pilothouse.api.core import PODS
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import ConnectionLost
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.labels import Selector, selector_from
from pilothouse.runtime import ControllerContext, InformerFactory, StaleCache

KEY = "default/web"
FAR_AHEAD = "999999999"
POD_SPEC = {"containers": [{"name": "main", "image": "pause"}]}
SPEC = {
    "replicas": 0,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC},
}


class OwnerGateFixture:
    """A ReplicaSet in a cache, and the gate in front of it."""

    def __init__(self, env: Env, *, wait_for_own_writes: bool) -> None:
        self.cluster = Cluster(env)
        client = self.cluster.client()
        self.informers = InformerFactory(client, env)
        owners = self.informers.informer(REPLICA_SETS, keep_raw=True)
        pods = self.informers.informer(PODS)
        context = ControllerContext(env=env, client=client, informers=self.informers, metadata_informers=self.informers)
        self.forgotten: list[str] = []
        self.gate: OwnerGate[ReplicaSet] = OwnerGate(
            context,
            REPLICA_SETS,
            owners,
            pods,
            read=(pods, owners),
            prefix="replicaset",
            wait_for_own_writes=wait_for_own_writes,
            selector_of=_selector_of,
            on_deleted=self.forgotten.append,
        )
        self.owners = owners.cache
        self.stop_watching: Callable[[], object] = lambda: None
        """Leaves the caches as they are."""

    async def owner(self) -> ObjectMeta:
        """Create it, and wait for the cache."""
        body = {"metadata": {"name": "web"}, "spec": SPEC}
        await self.cluster.admin().create(REPLICA_SETS.raw, body, "default")
        await self.informers.wait_synced()
        obj = self.owners.get(KEY)
        assert obj is not None
        return obj.metadata


def _selector_of(owner: ReplicaSet) -> Selector | None:
    return selector_from(owner.spec.selector)


async def _watch(informers: InformerFactory) -> None:
    async with TaskGroup("informers") as group:
        informers.start(group)
        await asyncio.get_running_loop().create_future()


@contextlib.asynccontextmanager
async def gated(env: Env, *, wait_for_own_writes: bool = True) -> AsyncIterator[OwnerGateFixture]:
    fixture = OwnerGateFixture(env, wait_for_own_writes=wait_for_own_writes)
    async with TaskGroup("test") as group:
        fixture.stop_watching = group.start(_watch(fixture.informers)).cancel
        await fixture.informers.wait_synced()
        yield fixture
        group.cancel()


fixture = fixture_of(gated)


async def test_owner_is_passed_from_the_cache_with_its_json(fixture: OwnerGateFixture) -> None:
    meta = await fixture.owner()
    result = await fixture.gate.enter(KEY)
    assert result is not None
    assert result.owner.metadata == meta
    assert meta.uid.encode() in result.raw
    assert result.expectations_satisfied


async def test_owner_with_unfulfilled_expectations_is_passed_for_its_status(fixture: OwnerGateFixture) -> None:
    await fixture.owner()
    fixture.gate.expectations.expect_creations(KEY, 1)
    result = await fixture.gate.enter(KEY)
    assert result is not None
    assert not result.expectations_satisfied


async def test_state_of_a_deleted_owner_is_removed(fixture: OwnerGateFixture) -> None:
    fixture.gate.expectations.expect_creations(KEY, 1)
    assert await fixture.gate.enter(KEY) is None
    assert fixture.forgotten == [KEY]
    assert fixture.gate.expectations.get(KEY) is None


async def test_owner_deleted_on_the_server_is_not_synced(
    fixture: OwnerGateFixture,
) -> None:
    meta = await fixture.owner()
    fixture.gate.writes.record_owner_missing(KEY, meta)
    assert await fixture.gate.enter(KEY) is None
    assert fixture.forgotten == []


@cases("deleted", {"owner cached": False, "owner deleted": True})
async def test_cache_behind_an_own_write_delays_the_sync(fixture: OwnerGateFixture, deleted: bool) -> None:
    uid = "gone" if deleted else (await fixture.owner()).uid
    fixture.gate.writes.wrote_at(KEY, uid, PODS.group_resource, FAR_AHEAD)
    with pytest.raises(StaleCache):
        await fixture.gate.enter(KEY)
    assert fixture.forgotten == []


async def test_pods_are_listed_after_a_lost_response_before_own_writes_are_compared(fixture: OwnerGateFixture) -> None:
    """The live list may reveal a write that the cache must have first."""
    meta = await fixture.owner()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": meta.uid, "controller": True}
    pod = {
        "metadata": {"name": "web-1", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": POD_SPEC,
    }
    fixture.gate.writes.failed(KEY, ConnectionLost("broken"))
    fixture.stop_watching()
    await fixture.cluster.admin().create(PODS.raw, pod, "default")
    with pytest.raises(StaleCache):
        await fixture.gate.enter(KEY)
    assert not fixture.gate.writes.is_undecided(KEY)


async def test_cache_is_used_as_is_without_the_consistency_store(env: Env) -> None:
    async with gated(env, wait_for_own_writes=False) as fixture:
        meta = await fixture.owner()
        fixture.gate.writes.wrote_at(KEY, meta.uid, PODS.group_resource, FAR_AHEAD)
        assert await fixture.gate.enter(KEY) is not None
