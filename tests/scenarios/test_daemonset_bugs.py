"""Bugs that upstream's DaemonSet controller had, each as the scenario that showed it.

Where a guard of ours can be taken away the scenario is run without it too, and the invariant must be broken.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.scenarios.test_daemonsets import AGENT, OPTIONS, SETS, daemon_set
from tests.scenarios.users import NAMESPACE, Doc, User
from tests.scenarios.variants import broken_without

from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.controllers.workloads.daemonset.pod_events import DaemonEvents
from pilothouse.runtime import UidTrackingExpectations
from pilothouse.runtime.informer import SharedInformer
from pilothouse.sim import Invariant, Simulation, Violation
from pilothouse.sim.invariants.daemonsets import DaemonSets

FEW = msgspec.structs.replace(OPTIONS, controllers=("daemonset", "garbagecollector", "podgc"))


def invariants() -> Sequence[Invariant]:
    return (DaemonSets(),)


pytestmark = pytest.mark.simulation(options=FEW, invariants=invariants)


class Watcher(User):
    """Makes DaemonSets and looks at what comes of them."""

    async def make(self, name: str = "agent") -> None:
        manifest = daemon_set(maxUnavailable=1)
        manifest["metadata"]["name"] = name
        manifest["spec"]["selector"]["matchLabels"] = {"app": name}
        manifest["spec"]["template"]["metadata"]["labels"] = {"app": name}
        await self.ask("POST", SETS, manifest)

    async def wake(self, how: str) -> None:
        await self.merge(AGENT, {"metadata": {"annotations": {"wake": how}}})

    async def pods(self, app: str = "agent") -> list[Doc]:
        return await self.items(f"{NAMESPACE}/pods?labelSelector=app%3D{app}")

    async def places(self, app: str = "agent") -> list[str]:
        return sorted(pod["spec"].get("nodeName", "") for pod in await self.pods(app))

    async def until_on(self, *nodes: int, app: str = "agent", seconds: float = 30.0) -> None:
        """Wait for a pod on each of these nodes, and nowhere else."""
        expected = [f"node-{number}" for number in nodes]
        for _ in range(int(seconds * 10)):
            if await self.places(app) == expected:
                return
            await asyncio.sleep(0.1)
        raise Violation(f"after {seconds:.0f} s {app} is on {await self.places(app)}, not on {expected}")


def created(simulation: Simulation) -> int:
    (invariant,) = simulation.invariants
    assert isinstance(invariant, DaemonSets)
    return invariant.created


@pytest.mark.parametrize("stale", [False, True], ids=["with new lists", "with old lists"])
async def test_54096_a_crash_after_the_creates(simulation: Simulation, stale: bool) -> None:
    """kubernetes#54096: started again the controller did not know its own pods, and two were on each node.

    A process that lists anew makes none. One whose lists are old can't know, but takes away again what is too much.
    """
    user = Watcher(simulation.user)
    if stale:
        simulation.replica.set_lag(None)
    with simulation.held_watches("pods"):
        await user.make()
        await asyncio.sleep(1.0)
        simulation.kill(down=1.0, stale=stale)
        await asyncio.sleep(5.0)
    await simulation.settle()
    assert await user.places() == [f"node-{number}" for number in range(4)]
    if not stale:
        assert created(simulation) == 4


@broken_without(
    fails="is one too many",
    instead=msgspec.structs.replace(
        FEW, controller_options={"daemonset-controller": DaemonSetOptions(wait_for_own_writes=False)}
    ),
    options=msgspec.structs.replace(
        FEW, controller_options={"daemonset-controller": DaemonSetOptions(wait_for_own_writes=True)}
    ),
)
async def test_134937_a_cache_that_stays_old_for_more_than_five_minutes(simulation: Simulation) -> None:
    """kubernetes#134937: expectations expire while the watch of pods lags, and every node gets a second pod."""
    user = Watcher(simulation.user)
    with simulation.held_watches("pods"):
        await user.make()
        await asyncio.sleep(310.0)
        await user.wake("after the expectation has expired")
        await asyncio.sleep(60.0)
    await simulation.settle()
    assert created(simulation) == 4


wait_synced = SharedInformer.wait_synced


async def do_not_wait(self: SharedInformer[Any]) -> None:
    if self.kind.resource != "nodes":
        await wait_synced(self)


@broken_without((SharedInformer, "wait_synced", do_not_wait), fails="without nodes 0 pods are wanted")
async def test_14528_nodes_that_cannot_be_listed(simulation: Simulation) -> None:
    """kubernetes#14528: a failed list was taken for an empty one. Whoever knows no nodes sends all daemons away."""
    user = Watcher(simulation.user)
    await user.make()
    await user.until_on(0, 1, 2, 3)
    before = [pod["metadata"]["uid"] for pod in await user.pods()]
    rule = simulation.add_rule(Rule(fail(500), resource="nodes"))
    simulation.kill(down=1.0)
    await asyncio.sleep(60.0)
    await user.wake("while nothing is known of nodes")
    await asyncio.sleep(60.0)
    said = (await user.ask("GET", AGENT))["status"]["desiredNumberScheduled"]
    if said != 4:
        raise Violation(f"without nodes {said} pods are wanted")
    simulation.remove_rule(rule)
    await simulation.settle()
    assert [pod["metadata"]["uid"] for pod in await user.pods()] == before


async def test_75836_creates_that_fail_while_watches_break(simulation: Simulation) -> None:
    """kubernetes#75836: fewer pods than wanted, until some node changed. Nothing changes here but time."""
    user = Watcher(simulation.user)
    refused = simulation.add_rule(Rule(fail(403, "Forbidden"), verb="create", resource="pods"))
    await user.make()
    await asyncio.sleep(20.0)
    simulation.end_watches("pods", "gone")
    simulation.end_watches("nodes", "lost")
    simulation.remove_rule(refused)
    # As long as the back-off of the queue had become by then, and its next doubling.
    await user.until_on(0, 1, 2, 3, seconds=60.0)
    await simulation.settle()


@pytest.mark.parametrize("how", ["seen", "held", "between two lists"])
async def test_95432_three_sets_and_a_taint_that_goes_again(simulation: Simulation, how: str) -> None:
    """kubernetes#95432: one of three did not come back to the node."""
    user = Watcher(simulation.user)
    names = ("agent", "broom", "crane")
    for name in names:
        await user.make(name)
        await user.until_on(0, 1, 2, 3, app=name)
    node = "/api/v1/nodes/node-1"
    with contextlib.ExitStack() as stack:
        if how != "seen":
            stack.enter_context(simulation.held_watches("nodes"))
        await user.merge(node, {"spec": {"taints": [{"key": "special", "effect": "NoExecute"}]}})
        await asyncio.sleep(5.0)
        for name in names:
            # Whoever evicts: the pods are gone, and with the watch held the controller does not know why.
            for pod in await user.pods(name):
                if pod["spec"].get("nodeName") == "node-1":
                    await user.ask("DELETE", f"{NAMESPACE}/pods/{pod['metadata']['name']}")
        await asyncio.sleep(5.0)
        await user.merge(node, {"spec": {"taints": None}})
        if how == "between two lists":
            simulation.end_watches("nodes", "gone")
    for name in names:
        await user.until_on(0, 1, 2, 3, app=name)
    await simulation.settle()


async def test_22545_pods_of_a_node_that_was_deleted(simulation: Simulation) -> None:
    """kubernetes#22545: they were made again and again for a node that was not there, and stayed."""
    user = Watcher(simulation.user)
    await user.make()
    await user.until_on(0, 1, 2, 3)
    await user.ask("DELETE", "/api/v1/nodes/node-2")
    with simulation.held_watches("nodes"):
        for pod in await user.pods():
            if pod["spec"].get("nodeName") == "node-2":
                await user.ask("DELETE", f"{NAMESPACE}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        await asyncio.sleep(20.0)
    # Made for the node while its end was not known; as soon as it is, the pod goes that nobody could bind.
    await user.until_on(0, 1, 3)
    assert created(simulation) <= 5
    await simulation.settle()
    assert (await user.ask("GET", AGENT))["status"]["desiredNumberScheduled"] == 3


@broken_without(
    (UidTrackingExpectations, "awaited_by", lambda _self, _object_key: None), fails="after 30 s agent is on"
)
async def test_a_pod_that_is_adopted_deleted_and_gone_before_the_watch_is_back(simulation: Simulation) -> None:
    """It ends as the orphan that the cache knew, and nobody would tell whoever waits for its deletion: for five minutes
    no pod is made, and afterwards nobody is woken. Upstream has that."""
    user = Watcher(simulation.user)
    await user.make()
    await user.until_on(0, 1, 2, 3)
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "pause:0"}]}
    slow = simulation.add_rule(Rule(delay(2.0), verb="patch", resource="pods"))
    await user.ask(
        "POST", f"{NAMESPACE}/pods", {"metadata": {"name": "loose", "labels": {"app": "agent"}}, "spec": spec}
    )
    await asyncio.sleep(1.0)
    # The orphan was seen. That it is adopted, deleted as one too many, and gone is not.
    with simulation.held_watches("pods"):
        await asyncio.sleep(10.0)
        assert await user.places() == [f"node-{number}" for number in range(4)]
        simulation.end_watches("pods", "gone")
    simulation.remove_rule(slow)
    victim = (await user.pods())[0]["metadata"]["name"]
    await user.ask("DELETE", f"{NAMESPACE}/pods/{victim}", {"gracePeriodSeconds": 0})
    await asyncio.sleep(1.0)
    await user.until_on(0, 1, 2, 3)
    await simulation.settle()


enqueue = DaemonEvents._enqueue_owner


def gone(self: DaemonEvents, revision: Any, _final_state_unknown: bool) -> None:
    reference = revision.metadata.owner_references[0]
    enqueue(self, revision.metadata.namespace, reference)


@broken_without((DaemonEvents, "revision_gone", gone), fails="has no revision")
async def test_a_set_made_again_has_a_revision_of_its_own(simulation: Simulation) -> None:
    """It finds the revision of its predecessor under the name that its own would get. The garbage collector takes that
    one away, and upstream's is left without history until something else happens."""
    user = Watcher(simulation.user)
    await user.make()
    await user.until_on(0, 1, 2, 3)
    slow = simulation.add_rule(Rule(fail(500), verb="delete", resource="controllerrevisions.apps"))
    await user.ask("DELETE", AGENT)
    await user.make()
    await user.until_on(0, 1, 2, 3)
    await asyncio.sleep(5.0)
    simulation.remove_rule(slow)
    await simulation.settle()
