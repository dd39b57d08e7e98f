"""DaemonSets under faults: one live pod per node, with surge one old and one new, and the right ones in the end."""

import asyncio
import random

import msgspec
import pytest
from tests.scenarios.users import NAMESPACE, Doc, User

from pilothouse.client.errors import ApiError
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.runtime import UidTrackingExpectations
from pilothouse.sim import Invariant, Simulation, SimulationOptions, draw, simulate
from pilothouse.sim.faults import FaultPlan, HoldWatches
from pilothouse.sim.invariants.daemonsets import DaemonSets

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
AGENT = f"{SETS}/agent"
OPTIONS = SimulationOptions(nodes=4)
RESOURCES = ("pods", "daemonsets", "nodes", "controllerrevisions")
SECONDS = 90.0


def invariants() -> list[Invariant]:
    return [DaemonSets()]


def daemon_set(**rolling: int | str) -> Doc:
    """A DaemonSet that goes to nodes with pool=yes, and to those without the label pool."""
    terms = [{"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["no"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return {
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"affinity": affinity, "containers": [{"name": "main", "image": "pause:0"}]},
            },
        },
    }


class Administrator(User):
    """Works on nodes, templates and pods."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.user)
        self._chance: random.Random = simulation.env.stream("user")
        self._image = 0

    async def work(self, seconds: float, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(self._chance.uniform(0, 2 * seconds / count))
            act = self._chance.choice(
                (self._label, self._label, self._update, self._delete_pod, self._fail_pod, *[self.wake] * 5)
            )
            try:
                await act()
            except ApiError:
                continue  # somebody was faster

    async def _label(self) -> None:
        node = f"/api/v1/nodes/node-{self._chance.randrange(4)}"
        await self.merge(node, {"metadata": {"labels": {"pool": self._chance.choice(("yes", "no", None))}}})

    async def _update(self) -> None:
        self._image = self._chance.randrange(3)
        containers = [{"name": "main", "image": f"pause:{self._image}"}]
        await self.merge(AGENT, {"spec": {"template": {"spec": {"containers": containers}}}})

    async def wake(self) -> None:
        """Makes the controller look while its caches are what they are."""
        await self.merge(AGENT, {"metadata": {"annotations": {"wake": str(self._chance.random())}}})

    async def _pod(self) -> str:
        pods = await self.items(f"{NAMESPACE}/pods")
        return f"{NAMESPACE}/pods/{self._chance.choice(pods)['metadata']['name']}" if pods else f"{NAMESPACE}/pods/none"

    async def _delete_pod(self) -> None:
        await self.ask("DELETE", await self._pod())

    async def _fail_pod(self) -> None:
        await self.merge(f"{await self._pod()}/status", {"status": {"phase": "Failed"}})


async def work_under_faults(simulation: Simulation, manifest: Doc, *, restarts: bool) -> None:
    plan = draw(simulation.env.stream("plan"), SECONDS, count=12, resources=RESOURCES, restarts=restarts)
    user = Administrator(simulation)
    await user.ask("POST", SETS, manifest)
    await asyncio.gather(simulation.follow(plan), user.work(SECONDS, 80))
    await simulation.settle()


def test_one_pod_lives_on_a_node(seed: int) -> None:
    async def tell(simulation: Simulation) -> None:
        await work_under_faults(simulation, daemon_set(maxUnavailable=2), restarts=False)

    simulate(tell, seed=seed, options=OPTIONS, invariants=invariants)


def test_during_a_surge_two_pods_live_on_a_node(seed: int) -> None:
    async def tell(simulation: Simulation) -> None:
        await work_under_faults(simulation, daemon_set(maxSurge=1, maxUnavailable=0), restarts=False)

    simulate(tell, seed=seed, options=OPTIONS, invariants=invariants)


def test_managers_that_die_and_start_with_old_lists_come_to_the_same_end(seed: int) -> None:
    async def tell(simulation: Simulation) -> None:
        await work_under_faults(simulation, daemon_set(maxUnavailable=1), restarts=True)

    simulate(tell, seed=seed, options=OPTIONS, invariants=invariants)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "without guard and expectations"])
def test_the_invariant_sees_a_second_pod(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch of pods that stands still is the worst moment; without what holds the controller back it goes wrong."""
    if not guarded:
        monkeypatch.setattr(UidTrackingExpectations, "satisfied", lambda _self, _key: True)

    async def tell(simulation: Simulation) -> None:
        user = Administrator(simulation)
        plan = FaultPlan((HoldWatches(at=0.0, resource="pods", seconds=20.0),))
        following = asyncio.ensure_future(simulation.follow(plan))
        await asyncio.sleep(1)
        await user.ask("POST", SETS, daemon_set(maxUnavailable=1))
        for _ in range(5):
            await asyncio.sleep(2)
            await user.wake()
        await following
        await simulation.settle()

    options = msgspec.structs.replace(
        OPTIONS, controller_options={"daemonset-controller": DaemonSetOptions(wait_for_own_writes=guarded)}
    )
    if guarded:
        simulate(tell, seed=1, options=options, invariants=invariants)
    else:
        with pytest.raises(AssertionError, match="one too many"):
            simulate(tell, seed=1, options=options, invariants=invariants)
