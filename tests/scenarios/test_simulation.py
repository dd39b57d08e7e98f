"""Guarantees of every simulated cluster."""

import asyncio
import datetime
import random

import pytest
from tests.scenarios.users import NAMESPACE, User

from pilothouse.client import Client
from pilothouse.env import Env, virtual
from pilothouse.sim import FaultPlan, Simulation, SimulationOptions, draw, stretched
from pilothouse.sim.faults import Crash, HoldWatches, JumpClock, Lag, SlowRequests
from pilothouse.sim.invariants.clocks import latest, recent
from pilothouse.sim.simulation import STALE_SECONDS


@pytest.mark.parametrize("nodes", [0, 2])
@pytest.mark.parametrize("storage", [False, True], ids=["bare", "with storage"])
@pytest.mark.simulation(
    options=lambda nodes, storage: SimulationOptions(
        nodes=nodes, storage=storage, controllers=("ttl-after-finished-controller",)
    )
)
async def test_both_servers_start_with_the_same_objects(simulation: Simulation, nodes: int, storage: bool) -> None:
    """Also if there is no request to the first server before the second exists."""
    copied, original = (
        [(record.key, record.value, record.revision, record.created) for record in store.list("").records]
        for store in (simulation.replica, simulation.store)
    )
    assert copied == original
    second = Client(simulation.replica.server.transport("admin", ("system:masters",)), simulation.env)
    namespaces = [await User(client).items("/api/v1/namespaces") for client in (simulation.user, second)]
    assert namespaces[0] == namespaces[1]
    assert len(namespaces[0]) == 4
    simulation.replica.set_lag(None)
    await User(simulation.user).request("POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": "new"}})
    assert not await User(second).items(f"{NAMESPACE}/configmaps")
    simulation.kill(stale=True)
    await asyncio.sleep(60.0)
    assert simulation.process is not None
    assert simulation.process.stale
    assert await User(second).items(f"{NAMESPACE}/configmaps")


def test_fault_plan_can_be_stretched() -> None:
    """All that lasts lasts longer; requests are no slower, and clocks jump no further."""
    plan = FaultPlan(
        (
            HoldWatches(at=1.0, resource="pods", seconds=2.0),
            SlowRequests(at=2.0, longest=3.0, seconds=5.0),
            JumpClock(at=3.0, seconds=60.0),
            Lag(at=4.0, lag=None, seconds=1.0),
            Lag(at=5.0, lag=2.0, seconds=1.0),
        )
    )
    assert stretched(plan, 10.0) == FaultPlan(
        (
            HoldWatches(at=10.0, resource="pods", seconds=20.0),
            SlowRequests(at=20.0, longest=3.0, seconds=50.0),
            JumpClock(at=30.0, seconds=60.0),
            Lag(at=40.0, lag=None, seconds=10.0),
            Lag(at=50.0, lag=20.0, seconds=10.0),
        )
    )
    drawn = draw(random.Random(1), 90.0, count=100, resources=("pods",))
    assert stretched(drawn, 1.0) == drawn


async def test_invariant_has_the_latest_clock_reading(env: Env) -> None:
    assert isinstance(env.clock, virtual.VirtualClock)

    def ahead(within: float) -> float:
        return (latest(env, within) - env.now()).total_seconds()

    env.clock.jump(500.0)
    assert ahead(60.0) == 0.0
    await asyncio.sleep(10.0)
    env.clock.jump(-100.0)
    await asyncio.sleep(10.0)
    assert (ahead(5.0), ahead(10.0), ahead(60.0)) == (0.0, 100.0, 100.0)
    env.clock.jump(30.0)
    assert (ahead(5.0), ahead(60.0)) == (0.0, 70.0)
    env.clock.jump(-40.0)
    assert (ahead(5.0), ahead(60.0)) == (40.0, 110.0)
    env.clock.jump(1000.0)
    assert ahead(60.0) == 0.0
    assert [(item - env.now()).total_seconds() for item in recent(env, 5.0)] == [
        0.0,
        -1000.0,
        -960.0,
        -990.0,
        -995.0,
    ]
    assert latest(env, 60.0).tzinfo is datetime.UTC


@pytest.mark.simulation(options=SimulationOptions(nodes=0, controllers=("ttl-after-finished-controller",)))
async def test_server_continues_when_the_write_of_a_stale_crash_does_not_come(simulation: Simulation) -> None:
    """Otherwise a program that watches it would observe no trigger for its write."""
    second = User(Client(simulation.replica.server.transport("admin", ("system:masters",)), simulation.env))
    await simulation.follow(FaultPlan((Crash(at=0.0, nth=5, when="after", down=1.0, stale=True),)))
    await User(simulation.user).request("POST", f"{NAMESPACE}/configmaps", {"metadata": {"name": "new"}})
    await asyncio.sleep(STALE_SECONDS - 1.0)
    assert not await second.items(f"{NAMESPACE}/configmaps")
    await asyncio.sleep(2.0)
    assert await second.items(f"{NAMESPACE}/configmaps")
    assert simulation.process is not None
    assert not simulation.process.next_is_stale
