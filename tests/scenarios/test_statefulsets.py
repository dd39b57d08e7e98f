"""StatefulSets under faults: names, order and bounds hold after every write, and all complete."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenarios.users import NAMESPACE, User
from tests.workloads import pod_spec, workload

from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import Crash, FaultPlan
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.invariants.statefulsets import StatefulSets

ALL = "/apis/apps/v1/namespaces/default/statefulsets"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
WEB = f"{ALL}/web"
OPTIONS = SimulationOptions(controllers=("statefulset", "pvc-protection"))
COLLECTING = SimulationOptions(
    controllers=("statefulset", "garbagecollector", "persistentvolume-binder", "pvc-protection", "pv-protection"),
    storage=True,
)
RESOURCES = ("statefulsets", "pods", "controllerrevisions", "persistentvolumeclaims")
REPLICAS = 4
SECONDS = 60.0


def web(image: str = "a", **spec: Any) -> dict[str, Any]:
    pod = pod_spec(image, terminationGracePeriodSeconds=1)
    return workload("StatefulSet", pod=pod, **{"replicas": REPLICAS, "serviceName": "web", **spec})


def rolling(**bounds: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **bounds}}


async def set_image(user: User, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    await user.merge(WEB, {"spec": {"template": {"spec": {"containers": containers}}}})


async def images(user: User) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in await user.items(f"{NAMESPACE}/pods")
    }


def plan_of(rng: random.Random) -> FaultPlan:
    """Whoever starts lists from a server that is up to date: a process that knows nothing of what was done before it,
    and is shown an old world, can't do better (kubernetes#59848)."""
    plan = draw(rng, SECONDS, count=8, resources=RESOURCES, restarts=True)
    return FaultPlan(tuple(replace(fault, stale=False) if isinstance(fault, Crash) else fault for fault in plan.faults))


pytestmark = pytest.mark.simulation(options=OPTIONS)


async def under_faults(
    simulation: Simulation,
    first: dict[str, Any],
    actions: Callable[[User, random.Random], list[Callable[[], Awaitable[None]]]],
    plan: Callable[[random.Random], FaultPlan] = plan_of,
) -> None:
    user = User(simulation.user)
    await user.request("POST", ALL, first)
    await asyncio.sleep(20.0)
    rng = simulation.env.stream("user")

    async def run_actions() -> None:
        for _ in range(12):
            await rng.choice(actions(user, rng))()
            await asyncio.sleep(rng.choice((0.05, 0.5, 3.0, 10.0)))

    await asyncio.gather(simulation.follow(plan(simulation.env.stream("plan"))), run_actions())
    await simulation.run_until_idle()


def partitioned(management: str, partition: int) -> tuple[Invariant]:
    ordered = management == "OrderedReady"
    return (StatefulSets(ordered=ordered, missing=1, replicas=REPLICAS, partition=partition),)


@pytest.mark.simulation(invariants=partitioned)
@pytest.mark.parametrize(("management", "partition"), [("OrderedReady", 0), ("OrderedReady", 2), ("Parallel", 1)])
async def test_rolling_update_has_one_unavailable_pod_and_respects_the_partition(
    simulation: Simulation, seed: int, management: str, partition: int
) -> None:
    """With Parallel only while the template stays: the walk begins at the top again, whoever is missing below."""
    others = "abcd" if management == "OrderedReady" else "b"
    first = web(podManagementPolicy=management, updateStrategy=rolling(partition=partition))
    await under_faults(simulation, first, lambda user, rng: [lambda: set_image(user, rng.choice(others))])


@pytest.mark.simulation(
    options=replace(OPTIONS, gates=("MaxUnavailableStatefulSet",)),
    invariants=lambda bound: (StatefulSets(missing=REPLICAS if bound == "100%" else 2, replicas=REPLICAS),),
)
@pytest.mark.parametrize(("management", "bound"), [("OrderedReady", 2), ("Parallel", "50%"), ("Parallel", "100%")])
async def test_rolling_update_respects_max_unavailable(
    simulation: Simulation, seed: int, management: str, bound: int | str
) -> None:
    """With the gate MaxUnavailableStatefulSet."""
    first = web(podManagementPolicy=management, updateStrategy=rolling(maxUnavailable=bound))
    await under_faults(simulation, first, lambda user, rng: [lambda: set_image(user, rng.choice("abcd"))])


@pytest.mark.simulation(options=lambda gates: replace(OPTIONS, gates=gates))
@pytest.mark.parametrize(("gates", "missing"), [((), 1), (("MaxUnavailableStatefulSet",), 2)])
async def test_simulation_gates_apply_to_the_manager(
    simulation: Simulation, gates: tuple[str, ...], missing: int
) -> None:
    user = User(simulation.user)
    bound = rolling(maxUnavailable=2)
    await user.request("POST", ALL, web(podManagementPolicy="Parallel", updateStrategy=bound))
    await asyncio.sleep(20.0)
    await set_image(user, "b")
    most = 0
    while sorted(set((await images(user)).values())) != ["b"]:
        pods = await user.items(f"{NAMESPACE}/pods")
        most = max(most, REPLICAS - sum("deletionTimestamp" not in pod["metadata"] for pod in pods))
        await asyncio.sleep(0.05)
    assert most == missing


def changes(user: User, rng: random.Random) -> list[Callable[[], Awaitable[None]]]:
    """Change the number of replicas or the image."""
    return [
        lambda: user.merge(WEB, {"spec": {"replicas": rng.choice(range(6))}}),
        lambda: set_image(user, rng.choice("abcd")),
    ]


# The invariant checks the order from 0 on, and the end always.
@pytest.mark.simulation(invariants=lambda start: (StatefulSets(ordered=not start),))
@pytest.mark.parametrize("start", [0, 3])
async def test_ordered_ready_creates_and_deletes_one_by_one(simulation: Simulation, seed: int, start: int) -> None:
    await under_faults(simulation, web(ordinals={"start": start}), changes)


CLAIMS = [
    {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
]


@pytest.mark.simulation(
    options=COLLECTING,
    invariants=lambda management: (StatefulSets(ordered=management == "OrderedReady", claims=("data",)),),
)
@pytest.mark.parametrize(
    ("management", "scaled"), [("OrderedReady", "Retain"), ("OrderedReady", "Delete"), ("Parallel", "Delete")]
)
async def test_pods_keep_their_claims(simulation: Simulation, seed: int, management: str, scaled: str) -> None:
    policy = {"whenScaled": scaled, "whenDeleted": "Delete"}
    first = web(
        podManagementPolicy=management, volumeClaimTemplates=CLAIMS, persistentVolumeClaimRetentionPolicy=policy
    )
    await under_faults(simulation, first, changes)


def disruptive_actions(user: User, rng: random.Random) -> list[Callable[[], Awaitable[None]]]:
    """Also deletes pods, or lets them fail."""

    async def delete() -> None:
        for name in list(await images(user))[:1]:
            await user.request("DELETE", f"{NAMESPACE}/pods/{name}", {})

    async def fail() -> None:
        result = list(await images(user))
        if result:
            path = f"{NAMESPACE}/pods/{rng.choice(result)}/status"
            phase = rng.choice(("Failed", "Succeeded"))
            conditions = [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]
            await user.merge(path, {"status": {"phase": phase, "conditions": conditions}})

    return [*changes(user, rng), delete, fail]


@pytest.mark.simulation(invariants=lambda: (StatefulSets(limit=1),))
@pytest.mark.parametrize("management", ["OrderedReady", "Parallel"])
async def test_converges_whatever_happens_to_pods(simulation: Simulation, seed: int, management: str) -> None:
    first = web(podManagementPolicy=management, revisionHistoryLimit=1)
    any_plan = functools.partial(draw, seconds=SECONDS, count=8, resources=RESOURCES, restarts=True)
    await under_faults(simulation, first, disruptive_actions, any_plan)
