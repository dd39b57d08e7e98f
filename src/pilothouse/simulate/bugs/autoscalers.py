"""Known bugs of HorizontalPodAutoscalers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.controllers.workloads.horizontal_pod_autoscaler import HorizontalPodAutoscalerOptions
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.recent import RecentScaling
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.status import Report
from pilothouse.sim import Invariant, Simulation, SimulationOptions
from pilothouse.sim.invariants.autoscalers import Autoscalers
from pilothouse.simulate.bugs.declaration import Bug, Pattern, Unguarded, check
from pilothouse.simulate.bugs.user import APPS, Doc, User, workload

ALL = f"{APPS}/deployments"
WEB = f"{ALL}/web"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
CONTROLLER = "horizontal-pod-autoscaler-controller"
OPTIONS = SimulationOptions(controllers=("horizontalpodautoscaling", "deployment", "replicaset", "garbagecollector"))
PREFIX = "simulated.pilothouse.dev"
PERIOD = 15.0


def invariants() -> Sequence[Invariant]:
    """The invariants of these scenarios."""
    return (Autoscalers(lambda: asyncio.get_running_loop().time()),)


class Owner(User):
    """Has a Deployment with an autoscaler."""

    async def create(self, replicas: int) -> None:
        """Pods that request 100m of cpu, of which half is the target."""
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
        pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        await self.request("POST", ALL, workload("Deployment", pod=pod, replicas=replicas))
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [{"type": "Resource", "resource": cpu}],
        }
        await self.request("POST", HPAS, {"metadata": {"name": "web"}, "spec": spec})

    async def load(self, milli: int) -> None:
        """On all pods together."""
        await self.merge(WEB, {"metadata": {"annotations": {f"{PREFIX}/cpu-load": f"{milli}m"}}})

    async def size(self) -> int:
        """Of the Deployment."""
        replicas: int = (await self.request("GET", WEB))["spec"]["replicas"]
        return replicas

    async def status(self) -> Doc:
        """Of the autoscaler."""
        status: Doc = (await self.request("GET", f"{HPAS}/web"))["status"]
        return status


LOST_HISTORY = Bug(
    "kubernetes#68826",
    "After a restart the first decision scales a workload down without the stabilization window",
    controller=CONTROLLER,
    patterns=(Pattern.INTERMEDIATE, Pattern.TIME),
    upstream="closed",
    mechanism="Recommendations are only kept in memory. A new process had none, so a moment of low load was "
    "sufficient.",
    protection="The current replicas are the first recommendation of a process, so that nothing is scaled down for "
    "five minutes.",
)


@LOST_HISTORY.scenario(
    "a restart while the load is low",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "two minutes after the restart web has 1 replicas",
        ((RecentScaling, "record_initial_recommendation", lambda _self, _replicas, _now: None),),
    ),
)
async def restart_in_a_quiet_minute(simulation: Simulation) -> None:
    """Eight pods are needed; the load drops, and the manager is restarted at that moment."""
    user = Owner(simulation.user)
    await user.create(8)
    await user.load(400)
    await asyncio.sleep(600.0)
    check(await user.size() == 8, f"web has {await user.size()} replicas under its usual load")
    await user.load(10)
    simulation.kill(down=1.0)
    await asyncio.sleep(120.0)
    check(await user.size() == 8, f"two minutes after the restart web has {await user.size()} replicas")
    await user.load(400)
    await simulation.run_until_idle()


RESET_TIME = Bug(
    "kubernetes#16275",
    "An update of the status resets the time of the last scaling",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC, Pattern.TIME),
    upstream="closed",
    mechanism="Each sync wrote the whole status, including lastScaleTime. So the delay before the next scaling never "
    "ended.",
    protection="lastScaleTime only changes when the replicas were changed.",
)
set_status = Report.set_status


def always_now(self: Report, *given: Any, **how: Any) -> None:
    """Every sync is a scaling."""
    set_status(self, *given, **{**how, "rescaled": True})


@RESET_TIME.scenario(
    "five minutes without a change",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("lastScaleTime has changed, and the size has not", ((Report, "set_status", always_now),)),
)
async def five_minutes_without_a_change(simulation: Simulation) -> None:
    """After a scaling the load changes only slightly."""
    user = Owner(simulation.user)
    await user.create(2)
    await user.load(200)
    await asyncio.sleep(400.0)
    size, before = await user.size(), (await user.status()).get("lastScaleTime")
    check(size == 4, f"web has {size} replicas, not 4")
    for milli in (205, 195, 200, 203, 198):
        await user.load(milli)
        await asyncio.sleep(60.0)
    after = (await user.status()).get("lastScaleTime")
    check(await user.size() == size, "the size has changed")
    check(after == before, f"lastScaleTime has changed, and the size has not: {before}, {after}")
    await simulation.run_until_idle()


STARTING_PODS = Bug(
    "kubernetes#98914",
    "A rollout scales the workload up, because new pods use much CPU while they start",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC, Pattern.TIME),
    upstream="closed",
    mechanism="The usage of pods that were not ready was counted in full.",
    protection="Pods that are not ready yet count with a usage of 0 in a scale-up "
    "(--horizontal-pod-autoscaler-cpu-initialization-period and -initial-readiness-delay).",
)


@STARTING_PODS.scenario(
    "new pods that are not ready",
    options=OPTIONS,
    unguarded=Unguarded(
        "during the rollout web has [0-9]+ replicas",
        options=replace(
            OPTIONS,
            controller_options={
                CONTROLLER: HorizontalPodAutoscalerOptions(cpu_initialization_period=0.0, initial_readiness_delay=0.0)
            },
        ),
        patches=(),
    ),
)
async def new_pods_are_not_ready(simulation: Simulation) -> None:
    """The new template's pods use ten times their requests, and are not ready during the scenario."""
    user = Owner(simulation.user)
    await user.create(4)
    usage = {f"{PREFIX}/cpu-usage": "50m"}
    await user.merge(WEB, {"spec": {"template": {"metadata": {"annotations": usage}}}})
    await asyncio.sleep(600.0)
    check(await user.size() == 4, f"before the rollout web has {await user.size()} replicas")
    hot = {f"{PREFIX}/cpu-usage": "1000m", f"{PREFIX}/readiness-probe": "fail"}
    await user.merge(WEB, {"spec": {"template": {"metadata": {"annotations": hot}}}})
    await asyncio.sleep(5 * PERIOD)
    check(await user.size() == 4, f"during the rollout web has {await user.size()} replicas")


BUGS = (LOST_HISTORY, RESET_TIME, STARTING_PODS)
