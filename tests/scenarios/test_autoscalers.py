"""Autoscalers under faults: replicas stay within bounds and change no faster than the policies; in the end they match
the load, and writes stop."""

import asyncio
from typing import Any

import pytest
from tests.scenarios.users import User
from tests.workloads import workload

from pilothouse.controllers.workloads.horizontal_pod_autoscaler import limits
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.recent import RecentScaling
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.autoscalers import Autoscalers

ALL = "/apis/apps/v1/namespaces/default/deployments"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
OPTIONS = SimulationOptions(controllers=("horizontalpodautoscaling", "deployment", "replicaset", "garbagecollector"))
LOAD = "simulated.pilothouse.dev/cpu-load"
SECONDS = 400.0
LEAST, MOST = 2, 12
SLOW = {
    "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}]},
    "scaleDown": {
        "stabilizationWindowSeconds": 45,
        "policies": [
            {"type": "Pods", "value": 2, "periodSeconds": 60},
            {"type": "Percent", "value": 25, "periodSeconds": 90},
        ],
    },
}


def web(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return workload("Deployment", name, pod=pod, replicas=3)


def autoscaler(name: str, **spec: Any) -> dict[str, Any]:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": LEAST,
        "maxReplicas": MOST,
        "metrics": [{"type": "Resource", "resource": cpu}],
        **spec,
    }
    return {"metadata": {"name": name}, "spec": spec}


async def set_load(user: User, name: str, milli: int) -> None:
    await user.merge(f"{ALL}/{name}", {"metadata": {"annotations": {LOAD: f"{milli}m"}}})


async def autoscale(simulation: Simulation) -> None:
    """Two workloads, one with its own policies; their load changes under faults."""
    user = User(simulation.user)
    for name in ("plain", "slow"):
        await user.request("POST", ALL, web(name))
        await user.request("POST", HPAS, autoscaler(name, **({"behavior": SLOW} if name == "slow" else {})))
    rng = simulation.env.stream("user")
    plan = draw(
        simulation.env.stream("plan"), SECONDS, count=10,
        resources=("horizontalpodautoscalers", "deployments", "replicasets", "pods"), restarts=True,
    )  # fmt: skip

    async def run_actions() -> None:
        for _ in range(20):
            await set_load(user, rng.choice(("plain", "slow")), rng.choice((10, 150, 300, 600, 2000)))
            await asyncio.sleep(rng.choice((1.0, 10.0, 40.0)))

    await asyncio.gather(simulation.follow(plan), run_actions())
    await set_load(user, "plain", 330)
    await set_load(user, "slow", 120)
    await simulation.run_until_idle()
    for name, size in (("plain", 7), ("slow", 3)):
        obj = await user.get(f"{ALL}/{name}")
        assert obj is not None
        # Within the tolerance of the desired size, on the side of the previous size.
        assert abs(obj["spec"]["replicas"] - size) <= 1, obj["spec"]["replicas"]
    assert simulation.invariants[0].changes > 2  # type: ignore[attr-defined]


def invariant() -> tuple[Autoscalers, ...]:
    return (Autoscalers(lambda: asyncio.get_running_loop().time()),)


pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=invariant)


async def test_replicas_respect_bounds_and_scaling_policies(simulation: Simulation, seed: int) -> None:
    await autoscale(simulation)


def unbounded(wanted: limits.NormalizationArg, *_rest: Any) -> limits.Normalized:
    return limits.Normalized(wanted.desired, "", "")


@pytest.mark.simulation(
    fails="outside of 2 to 12", patches=[(limits, "convert_desired_replicas_with_rules", unbounded)], seed=1
)
async def test_invariant_detects_replicas_out_of_bounds(simulation: Simulation) -> None:
    await autoscale(simulation)


@pytest.mark.simulation(
    fails="the policies allow", patches=[(RecentScaling, "store_scale_event", lambda *_: None)], seed=1
)
async def test_invariant_detects_lost_scale_events(simulation: Simulation) -> None:
    await autoscale(simulation)
