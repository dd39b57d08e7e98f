"""Deployments under faults: the bounds of a rollout hold, and it completes."""

import asyncio
from typing import Any

import pytest
from tests.scenarios.users import User
from tests.workloads import pod_spec, workload

from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.deployments import Deployments

ALL = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
WEB = f"{ALL}/web"
OPTIONS = SimulationOptions(controllers=("deployment", "replicaset", "garbagecollector"))
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (), seed=1)
REPLICAS = 5
SECONDS = 60.0


def web(image: str = "a", **spec: Any) -> dict[str, Any]:
    pod = pod_spec(image, terminationGracePeriodSeconds=1)
    return workload("Deployment", pod=pod, **{"replicas": REPLICAS, **spec})


async def set_image(user: User, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    await user.merge(WEB, {"spec": {"template": {"spec": {"containers": containers}}}})


def bounds(surge: int | str, unavailable: int | str) -> tuple[Deployments]:
    most = REPLICAS + (2 if surge == "25%" else int(surge))
    least = REPLICAS - (1 if unavailable == "25%" else int(unavailable))
    return (Deployments(replicas=REPLICAS, most=most, least=least),)


@pytest.mark.simulation(invariants=bounds)
@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), (2, 2), ("25%", "25%")])
async def test_rollout_bounds_hold_under_faults(
    simulation: Simulation, seed: int, surge: int | str, unavailable: int | str
) -> None:
    user = User(simulation.user)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    await user.request("POST", ALL, web(strategy=strategy))
    await asyncio.sleep(10.0)
    rng = simulation.env.stream("user")
    plan = draw(
        simulation.env.stream("plan"), SECONDS, count=8, resources=("deployments", "replicasets", "pods"),
        restarts=True,
    )  # fmt: skip

    async def run_actions() -> None:
        for _ in range(12):
            await set_image(user, rng.choice("abcd"))
            await asyncio.sleep(rng.choice((0.05, 0.5, 3.0, 10.0)))

    await asyncio.gather(simulation.follow(plan), run_actions())
    await simulation.run_until_idle()
