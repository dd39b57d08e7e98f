"""A quota over ReplicaSets that are scaled, under faults: in the end its usage is correct."""

import asyncio
import contextlib

import pytest
from tests.scenarios.users import NAMESPACE, SETS, User, replica_set

from pilothouse.client.errors import ApiError
from pilothouse.controllers.policy.resourcequota.controller import ResourceQuotaController
from pilothouse.controllers.policy.resourcequota.counting import Counter
from pilothouse.machinery.quantities import Quantity
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.quotas import Quotas

OPTIONS = SimulationOptions(controllers=("resourcequota", "replicaset", "garbagecollector"))
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (Quotas(),))
SECONDS = 60.0


async def use_up(simulation: Simulation) -> None:
    user = User(simulation.user)
    rng = simulation.env.stream("user")
    await user.request(
        "POST", f"{NAMESPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "6"}}}
    )
    for name in ("a", "b"):
        await user.request("POST", SETS, replica_set(name, 2, {"app": name}))
    plan = draw(
        simulation.env.stream("plan"), SECONDS, count=8, resources=("resourcequotas", "replicasets", "pods"),
        restarts=True,
    )  # fmt: skip

    async def run_actions() -> None:
        for _ in range(15):
            with contextlib.suppress(ApiError):  # a person shrugs
                if rng.random() < 0.2:
                    limits = {"pods": str(rng.randrange(3, 9))}
                    await user.merge(f"{NAMESPACE}/resourcequotas/q", {"spec": {"hard": limits}})
                else:
                    replicas = rng.randrange(0, 6)
                    await user.merge(f"{SETS}/{rng.choice('ab')}", {"spec": {"replicas": replicas}})
            await asyncio.sleep(rng.choice((0.05, 0.5, 3.0, 10.0)))

    await asyncio.gather(simulation.follow(plan), run_actions())
    for name in ("a", "b"):
        await user.merge(f"{SETS}/{name}", {"spec": {"replicas": 2}})
    # Rejected pods are retried with growing backoff, so at the end all of them are allowed.
    await user.merge(f"{NAMESPACE}/resourcequotas/q", {"spec": {"hard": {"pods": "20"}}})
    await asyncio.sleep(400.0)
    await simulation.run_until_idle()


async def test_used_converges_to_the_existing_objects(simulation: Simulation, seed: int) -> None:
    await use_up(simulation)


@pytest.mark.simulation(
    fails="reports pods: 0, its objects use 4",
    patches=[(ResourceQuotaController, "_calculate_usage", lambda *_: asyncio.sleep(0, ({"pods": Quantity(0)}, [])))],
    seed=1,
)
async def test_invariant_detects_a_wrong_usage(simulation: Simulation) -> None:
    await use_up(simulation)


async def use_all_kinds(simulation: Simulation) -> None:
    """Amounts, counts of other kinds, and a quota with a scope, whose usage decreases again."""
    user = User(simulation.user)
    counted = {
        "requests.storage": "20Gi",
        "persistentvolumeclaims": "3",
        "services": "2",
        "count/replicasets.apps": "5",
    }
    measured = {"requests.cpu": "4", "pods": "9"}
    for name, spec in (("counted", {"hard": counted}), ("scoped", {"hard": measured, "scopes": ["NotBestEffort"]})):
        await user.request("POST", f"{NAMESPACE}/resourcequotas", {"metadata": {"name": name}, "spec": spec})
    await asyncio.sleep(SECONDS)
    for name, size in (("a", "5Gi"), ("b", "1500Mi")):
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        await user.request("POST", f"{NAMESPACE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": claim})
    await user.request("POST", f"{NAMESPACE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    for name, requests in (("a", {"cpu": "250m"}), ("b", {})):
        owner = replica_set(name, 2, {"app": name})
        owner["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": requests}
        await user.request("POST", SETS, owner)
    await asyncio.sleep(SECONDS)
    await user.merge(f"{SETS}/a", {"spec": {"replicas": 1}})
    await user.request("DELETE", f"{NAMESPACE}/services/s")
    await asyncio.sleep(400.0)
    await simulation.run_until_idle()


async def test_used_of_all_kinds(simulation: Simulation) -> None:
    await use_all_kinds(simulation)


@pytest.mark.simulation(
    fails="quota scoped reports pods: 0, its objects use 1",
    patches=[(Counter, "_add", lambda *_: None)],
)
async def test_invariant_detects_a_wrong_amount(simulation: Simulation) -> None:
    await use_all_kinds(simulation)
