"""Deployments under faults: the bounds of a rollout are never broken, and it comes to its end."""

import asyncio
from typing import Any

import pytest
from tests.scenarios.users import NAMESPACE, User
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
async def test_the_bounds_hold_under_faults(
    simulation: Simulation, seed: int, surge: int | str, unavailable: int | str
) -> None:
    user = User(simulation.user)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    await user.ask("POST", ALL, web(strategy=strategy))
    await asyncio.sleep(10.0)
    chance = simulation.env.stream("user")
    plan = draw(
        simulation.env.stream("plan"), SECONDS, count=8, resources=("deployments", "replicasets", "pods"),
        restarts=True,
    )  # fmt: skip

    async def work() -> None:
        for _ in range(12):
            await set_image(user, chance.choice("abcd"))
            await asyncio.sleep(chance.choice((0.05, 0.5, 3.0, 10.0)))

    await asyncio.gather(simulation.follow(plan), work())
    await simulation.settle()


async def test_43948_there_and_back_again(simulation: Simulation) -> None:
    """kubernetes#43948: A, B, A as fast as can be; the ReplicaSet of A is taken up again and nothing is dropped."""
    user = User(simulation.user)
    await user.ask("POST", ALL, web("a"))
    for image in "bababababa":
        await set_image(user, image)
        await asyncio.sleep(0.01)
    await simulation.settle()
    assert len(await user.items(SETS)) == 2


async def test_29735_a_name_that_is_taken_does_not_stop_it(simulation: Simulation) -> None:
    """kubernetes#29735: another's ReplicaSet has the name that the hash gives; the next hash is another one."""
    user = User(simulation.user)
    await user.ask("POST", ALL, web("a"))
    await simulation.settle()
    (taken,) = await user.items(SETS)
    name = taken["metadata"]["name"]
    await user.ask("DELETE", WEB, {"propagationPolicy": "Foreground"})
    await simulation.settle()
    labels = {"app": "other"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "z"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    await user.ask("POST", SETS, {"metadata": {"name": name}, "spec": spec})
    await user.ask("POST", ALL, web("a"))
    await simulation.settle()
    found = await user.get(WEB)
    assert found is not None
    assert found["status"]["collisionCount"] == 1
    assert found["status"]["availableReplicas"] == REPLICAS


async def test_117008_what_somebody_else_makes_of_the_size_is_set_right(simulation: Simulation) -> None:
    """kubernetes#117008: the ReplicaSet is scaled by hand; it goes back, and later scaling still works."""
    user = User(simulation.user)
    await user.ask("POST", ALL, web("a"))
    await simulation.settle()
    (one,) = await user.items(SETS)
    for size in (9, 1):
        await user.merge(f"{SETS}/{one['metadata']['name']}", {"spec": {"replicas": size}})
        await simulation.settle()
        assert len(await user.items(f"{NAMESPACE}/pods")) == REPLICAS
    await user.merge(f"{SETS}/{one['metadata']['name']}", {"spec": {"replicas": 7}})
    await user.merge(WEB, {"spec": {"replicas": 7}})
    await simulation.settle()
    await set_image(user, "b")
    await simulation.settle()
    assert {pod["spec"]["containers"][0]["image"] for pod in await user.items(f"{NAMESPACE}/pods")} == {"b"}
