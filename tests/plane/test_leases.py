"""A plane whose manager loses its lease continues: the end of the manager must not end the API server.

The stand-alone manager exits, as upstream's: ``tests/controllermanager/test_manager.py``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.apiserver.api import Api
from tests.plane.running import running

from pilothouse.api import wire
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, virtual
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
CONTROLLERS = ("replicaset-controller", "serviceaccount-controller", "resourceclaim-controller")


class Slow:
    """A transport that blocks the loop once, in the middle of a write of the manager's Lease."""

    def __init__(self, transport: wire.Transport, stalls: list[float]) -> None:
        self._transport = transport
        self._stalls = stalls

    async def request(self, request: wire.Request) -> wire.Response:
        if request.method == "PUT" and request.target.startswith(LEASE) and self._stalls:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, virtual.VirtualLoop)
            await asyncio.sleep(0)
            loop.stall(self._stalls.pop())
        return await self._transport.request(request)

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._transport.open(request)

    async def close(self) -> None:
        await self._transport.close()


class Led:
    """A plane with an elected manager, and an administrator's client."""

    def __init__(self, env: Env) -> None:
        self.stalls: list[float] = []
        options = PlaneOptions(
            nodes=1,
            manager=Options(controllers=CONTROLLERS, leader_election=LeaderElection(enabled=True)),
            manager_identity="host_pilothouse-up",
        )
        wrap = lambda _program, transport: Slow(transport, self.stalls)  # noqa: E731
        self.plane = Plane(env, MemoryStore(env), options, wrap=wrap)
        self.api = Api(env)
        self.api.transport = self.plane.server.transport("admin", ("system:masters",))

    async def holder(self) -> str:
        return str((await self.api.get(LEASE)).body["spec"]["holderIdentity"])

    async def take_lease(self, holder: str = "somebody") -> None:
        renewed = self.api.env.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}
        answer = await self.api.patch(LEASE, {"spec": spec})
        assert answer.status == 200

    async def replicates(self, name: str) -> bool:
        """Whether a new ReplicaSet gets its pod."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await self.api.create(REPLICA_SETS, {"metadata": {"name": name}, "spec": spec})
        await asyncio.sleep(20)
        return bool((await self.api.get(f"{REPLICA_SETS}/{name}")).body["status"]["replicas"] == 1)


@pytest.fixture
async def world(env: Env) -> AsyncIterator[Led]:
    world = Led(env)
    async with running(world.plane):
        yield world


async def _edited(world: Led) -> None:
    await world.take_lease()


async def _deleted_and_taken(world: Led) -> None:
    await world.api.delete(LEASE)
    lease = {
        "metadata": {"name": "kube-controller-manager"},
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15},
    }
    await world.api.create(LEASE.rpartition("/")[0], lease)


async def _stalled(world: Led) -> None:
    world.stalls.append(30.0)


async def _stalled_again_and_again(world: Led) -> None:
    world.stalls += [30.0] * 5


@pytest.mark.parametrize("lose", [_edited, _deleted_and_taken, _stalled, _stalled_again_and_again])
async def test_a_plane_outlives_its_managers_lease(world: Led, lose: Callable[[Led], Awaitable[None]]) -> None:
    before = await world.replicates("before")
    await lose(world)
    await asyncio.sleep(300)
    assert world.plane.manager is not None
    assert world.plane.manager.leading.is_set()
    assert (before, await world.replicates("after"), await world.holder()) == (True, True, "host_pilothouse-up")


async def test_while_another_manager_holds_the_lease_the_planes_own_waits(world: Led) -> None:
    assert world.plane.manager is not None
    leads = []
    for _renewal in range(10):
        await world.take_lease()
        await asyncio.sleep(10)
        leads.append(world.plane.manager.leading.is_set())
    await asyncio.sleep(30)
    leads.append(world.plane.manager.leading.is_set())
    assert leads == [*[False] * 10, True]


async def test_a_restarted_manager_leaves_nothing_behind(world: Led) -> None:
    """Collected metrics belong to the current controllers."""
    assert world.plane.manager is not None
    counts = []
    for _time in range(3):
        world.plane.manager.metrics.exposition()
        counts.append(len(world.plane.manager.metrics._collectors))
        await world.take_lease()
        await asyncio.sleep(60)
    first, *later = counts
    assert later == [first, first]
