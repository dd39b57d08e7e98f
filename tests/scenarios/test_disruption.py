"""Evictions under faults: a budget is never exceeded, and its status converges."""

import asyncio
from typing import Any

import pytest
from tests.scenarios.users import NAMESPACE, SETS, User, replica_set

from pilothouse.client.errors import ApiError
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.budgets import Budgets

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
OPTIONS = SimulationOptions(controllers=("disruption", "replicaset", "garbagecollector"))
REPLICAS = 6
SECONDS = 120.0
RESOURCES = ("poddisruptionbudgets", "pods", "replicasets")


class Evictor(User):
    """Evicts pods."""

    refused = 0

    async def create_pods(self, **spec: Any) -> None:
        """Create pods and their budget."""
        await self.request("POST", SETS, replica_set("web", REPLICAS, {"app": "web"}))
        selector = {"matchLabels": {"app": "web"}}
        await self.request("POST", BUDGETS, {"metadata": {"name": "web"}, "spec": {"selector": selector, **spec}})

    async def evict(self, rng: Any) -> None:
        """Evict a random pod with a random grace period."""
        items = await self.items(f"{NAMESPACE}/pods")
        if not items:
            return
        name = rng.choice(items)["metadata"]["name"]
        options = {"gracePeriodSeconds": rng.choice((0, 1, 30))}
        body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}, "deleteOptions": options}
        try:
            await self.request("POST", f"{NAMESPACE}/pods/{name}/eviction", body)
        except ApiError as error:
            self.refused += error.code == 429


@pytest.mark.simulation(options=OPTIONS, invariants=lambda least: (Budgets(least=least),))
@pytest.mark.parametrize(
    ("spec", "least"),
    [({"minAvailable": 4}, 4), ({"maxUnavailable": 1}, 5), ({"minAvailable": "50%"}, 3)],
    ids=["a number", "maxUnavailable number", "a share"],
)
async def test_evictions_never_exceed_the_budget(
    simulation: Simulation, seed: int, spec: dict[str, Any], least: int
) -> None:
    user = Evictor(simulation.user)
    await user.create_pods(**spec)
    await asyncio.sleep(15.0)
    rng = simulation.env.stream("user")
    plan = draw(simulation.env.stream("plan"), SECONDS, count=10, resources=RESOURCES)

    async def run_actions() -> None:
        for _ in range(60):
            await user.evict(rng)
            await asyncio.sleep(rng.choice((0.0, 0.05, 1.0, 6.0)))

    await asyncio.gather(simulation.follow(plan), run_actions())
    await asyncio.sleep(130.0)
    await simulation.run_until_idle()
    (budgets,) = simulation.invariants
    assert isinstance(budgets, Budgets)
    assert budgets.evicted
    assert user.refused or least == 3
