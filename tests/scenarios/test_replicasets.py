"""ReplicaSets under faults: never too many pods, one controller each, a correct status, and the right number in the
end."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.scenarios.users import SETS, replica_set, user_of

from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.sim import Invariant, Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.replicaset_status import StatusBehindCache
from pilothouse.sim.invariants.replicasets import ReplicaSets

BURST = 5
OPTIONS = SimulationOptions(
    controllers=("replicaset", "garbagecollector", "namespace"),
    controller_options={"replicaset-controller": ReplicaSetOptions(burst=BURST)},
)
RESOURCES = ("pods", "replicasets")
SECONDS = 90.0


def invariants() -> Sequence[Invariant]:
    return (ReplicaSets(burst=BURST), StatusBehindCache())


pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=invariants)


async def work_under_faults(simulation: Simulation, *, restarts: bool, faults: int = 12) -> None:
    plan = draw(simulation.env.stream("plan"), SECONDS, count=faults, resources=RESOURCES, restarts=restarts)
    user = user_of(simulation)
    await user.request("POST", SETS, replica_set("web", 4, {"app": "web", "track": "web"}))
    await asyncio.gather(simulation.follow(plan), user.run_actions(SECONDS, 40))
    await simulation.run_until_idle()


async def test_never_more_pods_than_ever_desired_without_a_restart(simulation: Simulation, seed: int) -> None:
    await work_under_faults(simulation, restarts=False)


async def test_restart_with_a_stale_list_adds_at_most_one_burst(simulation: Simulation, seed: int) -> None:
    await work_under_faults(simulation, restarts=True)


@pytest.mark.parametrize("violations", [15, 198, 1245, 1351])
async def test_regression_seeds(simulation: Simulation, violations: int) -> None:
    """A status that was overwritten by an older one, deletions that were never observed."""
    await work_under_faults(simulation, restarts=True)
