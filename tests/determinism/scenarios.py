"""Runs scenarios and prints a digest of each: ``python -m tests.determinism.scenarios NAME:SEED …``."""

import asyncio
import sys

from tests.scenarios import test_garbage, test_namespaces, test_nodes, test_replicasets

from pilothouse.sim import Simulation, draw, simulate


async def _replica_sets(simulation: Simulation) -> None:
    await test_replicasets.work_under_faults(simulation, restarts=True)


async def _garbage(simulation: Simulation) -> None:
    plan = draw(simulation.env.stream("plan"), 60.0, count=10, resources=test_garbage.RESOURCES)
    user = test_garbage.GraphUser(simulation.user, simulation.env.stream("user"))
    await asyncio.gather(simulation.follow(plan), user.run_actions(60))
    await simulation.run_until_idle()


async def _namespaces(simulation: Simulation) -> None:
    plan = draw(simulation.env.stream("plan"), 60.0, count=10, resources=test_namespaces.RESOURCES)
    user = test_namespaces.NamespaceUser(simulation.user, simulation.env.stream("user"))
    await asyncio.gather(simulation.follow(plan), user.run_actions(45))
    await simulation.run_until_idle()


async def _nodes(simulation: Simulation) -> None:
    await test_nodes.work_under_faults(simulation, restarts=True)


SCENARIOS = {
    "replicasets": (_replica_sets, test_replicasets),
    "garbage": (_garbage, test_garbage),
    "namespaces": (_namespaces, test_namespaces),
    "nodes": (_nodes, test_nodes),
}


def digest(name: str, seed: int) -> str:
    """The number of writes and a digest of them."""
    scenario, module = SCENARIOS[name]
    log = simulate(scenario, seed=seed, options=module.OPTIONS, invariants=module.invariants)
    return f"{name} {seed} {log.writes} {log.digest}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        name, _colon, seed = argument.partition(":")
        print(digest(name, int(seed)))
