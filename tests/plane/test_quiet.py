"""An idle plane uses nearly no CPU, and clients in the same process send no unnecessary requests."""

import asyncio
import re

import msgspec
from tests.custom_resources import DEFINITIONS, definition
from tests.plane.running import running

from pilothouse.api import wire
from pilothouse.api.core import PODS
from pilothouse.client.discovery import discover
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

_ALONE = PlaneOptions(nodes=0, manager=Options(leader_election=LeaderElection(enabled=False)))


class _Recorder:
    """Forwards everything, and records requests."""

    def __init__(self, transport: wire.Transport, targets: list[str]) -> None:
        self._transport = transport
        self._targets = targets

    async def request(self, request: wire.Request) -> wire.Response:
        self._targets.append(request.target)
        return await self._transport.request(request)

    async def open(self, request: wire.Request) -> wire.Stream:
        self._targets.append(request.target)
        return await self._transport.open(request)

    async def close(self) -> None:
        await self._transport.close()


async def test_without_nodes_and_election_nothing_is_written(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), _ALONE)
    async with running(plane):
        await asyncio.sleep(60)
        before = plane.server.store.revision
        await asyncio.sleep(7 * 86400)
        written = plane.server.store.revision - before
    assert written == 0


async def test_a_wrapped_transport_is_watched_over_as_a_network_is(env: Env) -> None:
    targets: list[str] = []
    plane = Plane(env, MemoryStore(env), _ALONE, wrap=lambda _program, transport: _Recorder(transport, targets))
    async with running(plane):
        await asyncio.sleep(60)
    limits = [int(match[1]) for target in targets if (match := re.search(r"timeoutSeconds=(\d+)", target))]
    assert len(limits) > 50
    assert {300 <= limit < 600 for limit in limits} == {True}


async def test_a_local_watch_is_not_reopened_every_few_minutes(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), _ALONE)
    async with running(plane):
        await asyncio.sleep(60)
        before = list(plane.server.core.watches)
        await asyncio.sleep(6 * 3600)
        after = list(plane.server.core.watches)
    assert len(before) > 50
    assert len(set(before) - set(after)) == 0


async def test_discovery_is_the_same_object_until_something_else_is_served(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), _ALONE)
    client = plane.client()
    async with running(plane):
        first = await discover(client)
        assert await discover(client) is first
        assert first.serves(PODS)
        await client.request("POST", DEFINITIONS, body=msgspec.json.encode(definition("Gadget")))
        await asyncio.sleep(10)
        second = await discover(client)
        assert second is not first
        assert second.find("example.com/v1", "Gadget") is not None
