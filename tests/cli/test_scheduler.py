"""``pilothouse scheduler --leader-elect``: one of several schedules at a time."""

import asyncio
from typing import Any

import pytest
from tests.nodes.world import World
from tests.nodes.world import world as run_world

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import PODS
from pilothouse.cli import scheduler
from pilothouse.cli.program import UserError
from pilothouse.client import merge_patch
from pilothouse.env import Env
from pilothouse.env.tasks import first_of

_LEASE = "kube-scheduler"


def _candidate(world: World, *words: str) -> "asyncio.Task[None]":
    parsed = scheduler.flag_set("pilothouse scheduler").parse(["--leader-elect", *words])
    return asyncio.create_task(scheduler._elect(parsed, world.env, world.client))


async def _holder(world: World) -> Any:
    return (await world.client.get(LEASES, _LEASE, "kube-system")).spec.holder_identity


async def _bound(world: World, name: str) -> bool:
    container = {"name": "c", "image": "i"}
    await world.client.create(PODS.raw, {"metadata": {"name": name}, "spec": {"containers": [container]}}, "default")
    await asyncio.sleep(5)
    return bool((await world.client.get(PODS, name, "default")).spec.node_name)


async def test_second_scheduler_takes_over(env: Env) -> None:
    async with run_world(env) as world:
        await world.start_nodes("n1")
        first = _candidate(world)
        await asyncio.sleep(1)
        holder = await _holder(world)
        second = _candidate(world)
        assert await _bound(world, "a")
        assert await _holder(world) == holder
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await _bound(world, "b")
        assert await _holder(world) not in ("", holder)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def test_a_lost_lease_ends_the_program(env: Env) -> None:
    async with run_world(env) as world:
        running = _candidate(world)
        await asyncio.sleep(3)
        other = merge_patch({"spec": {"holderIdentity": "other"}})
        await world.client.patch(LEASES, _LEASE, other, "kube-system")
        await asyncio.wait([running])
        error = running.exception()
        assert error is not None
        assert isinstance(first_of(error), UserError)
        assert str(first_of(error)).startswith("leaderelection lost: ")
        assert not await _bound(world, "a")


async def test_inconsistent_durations_are_rejected(env: Env) -> None:
    async with run_world(env) as world:
        with pytest.raises(UserError, match="leaseDuration must be greater than renewDeadline") as raised:
            await _candidate(world, "--leader-elect-renew-deadline=20s")
        assert raised.value.code == 2
