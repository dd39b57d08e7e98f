"""Known bugs of DaemonSets."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.api.core import Node, Pod
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.controllers.workloads.daemonset.controller import DaemonSetController
from pilothouse.controllers.workloads.daemonset.node_events import NodeEvents
from pilothouse.controllers.workloads.daemonset.pod_events import DaemonEvents
from pilothouse.nodes import Profile
from pilothouse.runtime import Requeue, SharedInformer, object_key
from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.daemonsets import DaemonSets
from pilothouse.simulate.bugs.declaration import Bug, Patch, Pattern, Unguarded, check, only_invariant
from pilothouse.simulate.bugs.user import APPS, PODS, Doc, User, pod_spec, workload

ALL = f"{APPS}/daemonsets"
AGENT = f"{ALL}/agent"
CONTROLLER = "daemonset-controller"
OPTIONS = SimulationOptions(nodes=4, controllers=("daemonset", "garbagecollector", "podgc"))


def options(*, wait_for_own_writes: bool) -> SimulationOptions:
    """With the consistency store, or without."""
    chosen = DaemonSetOptions(wait_for_own_writes=wait_for_own_writes)
    return replace(OPTIONS, controller_options={CONTROLLER: chosen})


def invariants() -> Sequence[Invariant]:
    """The invariants of these scenarios."""
    return (DaemonSets(),)


class Owner(User):
    """Has DaemonSets."""

    async def create(self, name: str = "agent", *, stop: str = "") -> None:
        """A DaemonSet for all nodes, whose pods take so long to stop."""
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
        whole = workload("DaemonSet", name, pod=pod_spec("pause:0"), updateStrategy=strategy)
        if stop:
            whole["spec"]["template"]["metadata"]["annotations"] = {"simulated.pilothouse.dev/stop-delay": stop}
        await self.request("POST", ALL, whole)

    async def touch(self, mode: str) -> None:
        """An event of the DaemonSet, which enqueues it."""
        await self.merge(AGENT, {"metadata": {"annotations": {"wake": mode}}})

    async def pods(self, app: str = "agent") -> list[Doc]:
        """Of one DaemonSet."""
        return await self.items(f"{PODS}?labelSelector=app%3D{app}")

    async def delete_pods(self, node: str, app: str = "agent", *, grace: int | None = None) -> None:
        """Those of one DaemonSet on one node."""
        for pod in await self.pods(app):
            if pod["spec"].get("nodeName") == node:
                body = None if grace is None else {"gracePeriodSeconds": grace}
                await self.request("DELETE", f"{PODS}/{pod['metadata']['name']}", body)

    async def nodes_with_pods(self, app: str = "agent") -> list[str]:
        """The nodes with pods of the DaemonSet."""
        return sorted(pod["spec"].get("nodeName", "") for pod in await self.pods(app))

    async def until_on(self, *nodes: int, app: str = "agent", seconds: float = 30.0) -> None:
        """Wait for a pod on each of these nodes, and nowhere else."""
        expected = [f"node-{number}" for number in nodes]
        for _ in range(int(seconds * 10)):
            if await self.nodes_with_pods(app) == expected:
                return
            await asyncio.sleep(0.1)
        raise Violation(f"after {seconds:.0f} s {app} is on {await self.nodes_with_pods(app)}, not on {expected}")


wait_synced = SharedInformer.wait_synced


def synced_without(resource: str) -> Sequence[Patch]:
    """Controllers start before this resource is listed."""

    async def wait(self: SharedInformer[Any]) -> None:
        if self.kind.resource != resource:
            await wait_synced(self)

    return ((SharedInformer, "wait_synced", wait),)


CRASH_AFTER_CREATE = Bug(
    "kubernetes#54096",
    "After a restart there are two pods on each node",
    controller=CONTROLLER,
    patterns=(Pattern.STALE, Pattern.INTERMEDIATE),
    upstream="closed (rotten)",
    mechanism="The controller crashed after it had created the pods; the next process acted before its cache had them.",
    protection="Syncs start after all caches were listed, and the list is consistent (WatchList). A process that "
    "lists from a stale API server cannot detect that, but deletes excess pods later.",
)


@CRASH_AFTER_CREATE.scenario(
    "a consistent list after the restart",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("is one pod too many", lambda: synced_without("pods")),
    cases={"": {"stale": False}},
)
async def crash_after_create(simulation: Simulation, stale: bool) -> None:
    """The manager crashes a second after it created the pods, before it observes their events."""
    user = Owner(simulation.user)
    if stale:
        simulation.replica.set_lag(None)
    with simulation.held_watches("pods"):
        await user.create()
        await asyncio.sleep(1.0)
        simulation.kill(down=1.0, stale=stale)
        await asyncio.sleep(5.0)
    await simulation.run_until_idle()
    check(await user.nodes_with_pods() == [f"node-{number}" for number in range(4)], "not one pod is on each node")
    check(stale or only_invariant(simulation, DaemonSets).created == 4, "more than four pods were created")


CRASH_AFTER_CREATE.scenario(
    "a stale list after the restart", options=OPTIONS, invariants=invariants, cases={"": {"stale": True}}
)(crash_after_create)

STALE_CACHE = Bug(
    "kubernetes#134937",
    "Every node gets a second pod while the watch of pods lags",
    controller=CONTROLLER,
    patterns=(Pattern.STALE, Pattern.TIME),
    upstream="fixed in 1.36 (KEP-5647)",
    mechanism="Expectations expire after five minutes, whether the cache has caught up or not.",
    protection="The consistency store: syncs are skipped while the cache is older than the controller's own writes.",
)


@STALE_CACHE.scenario(
    "lag of more than five minutes",
    options=options(wait_for_own_writes=True),
    invariants=invariants,
    unguarded=Unguarded("is one pod too many", options=options(wait_for_own_writes=False)),
)
async def lag_of_more_than_five_minutes(simulation: Simulation) -> None:
    """The DaemonSet is created, and for six minutes no event of pods arrives."""
    user = Owner(simulation.user)
    with simulation.held_watches("pods"):
        await user.create()
        await asyncio.sleep(310.0)
        await user.touch("after the expectation has expired")
        await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    check(only_invariant(simulation, DaemonSets).created == 4, "more than four pods were created")


FAILED_LIST = Bug(
    "kubernetes#14528",
    "6,596 pending pods on four nodes",
    controller=CONTROLLER,
    patterns=(Pattern.INTERMEDIATE,),
    upstream="fixed",
    mechanism="The error of a failed list of nodes was ignored, and the incomplete list was used.",
    protection="Syncs start after nodes were listed, and a failed list does not change the cache.",
)


@FAILED_LIST.scenario(
    "nodes cannot be listed after a restart",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("without nodes 0 pods are wanted", lambda: synced_without("nodes")),
)
async def nodes_cannot_be_listed(simulation: Simulation) -> None:
    """The manager is restarted, and all requests for nodes fail for two minutes."""
    user = Owner(simulation.user)
    await user.create()
    await user.until_on(0, 1, 2, 3)
    before = [pod["metadata"]["uid"] for pod in await user.pods()]
    rule = simulation.add_rule(Rule(fail(500), resource="nodes"))
    simulation.kill(down=1.0)
    await asyncio.sleep(60.0)
    await user.touch("while nothing is known of nodes")
    await asyncio.sleep(60.0)
    desired = (await user.request("GET", AGENT))["status"]["desiredNumberScheduled"]
    check(desired == 4, f"without nodes {desired} pods are wanted")
    simulation.remove_rule(rule)
    await simulation.run_until_idle()
    check([pod["metadata"]["uid"] for pod in await user.pods()] == before, "pods were replaced")


STUCK = Bug(
    "kubernetes#75836",
    "Fewer pods than desired, until some event of a node",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="closed",
    mechanism="Creates failed, and no later event enqueued the DaemonSet again.",
    protection="A sync whose creates failed is retried with backoff.",
)
reconcile = DaemonSetController.reconcile


async def forget_failures(self: DaemonSetController, key: str) -> Requeue | None:
    """Failures are not retried."""
    with contextlib.suppress(Exception):
        return await reconcile(self, key)
    return None


@STUCK.scenario(
    "creates fail while watches break",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("after 60 s agent is on \\[\\]", ((DaemonSetController, "reconcile", forget_failures),)),
)
async def creates_fail(simulation: Simulation) -> None:
    """Creates are forbidden for twenty seconds. After that there are no events."""
    user = Owner(simulation.user)
    rejected = simulation.add_rule(Rule(fail(403, "Forbidden"), verb="create", resource="pods"))
    await user.create()
    await asyncio.sleep(20.0)
    simulation.end_watches("pods", "gone")
    simulation.end_watches("nodes", "lost")
    simulation.remove_rule(rejected)
    # As long as the back-off of the queue had become by then, and its next doubling.
    await user.until_on(0, 1, 2, 3, seconds=60.0)
    await simulation.run_until_idle()


TAINT_GONE = Bug(
    "kubernetes#95432",
    "After a taint is removed, one of three DaemonSets has no pod on the node",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="closed (rotten)",
    mechanism="When the taint was removed, the DaemonSet's old pod on the node was still terminating, so there was "
    "nothing to do. And the deletion of a pod that was already terminating did not enqueue the DaemonSet.",
    protection="Every event of a pod, including its deletion, enqueues its DaemonSet.",
)


def end_enqueues_nobody(self: DaemonEvents, pod: Pod) -> None:
    """The expected deletion is observed, and no sync follows."""
    key = object_key(pod.metadata)
    owner = self._expectations.awaited_by(key)
    if owner is not None:
        self._expectations.deletion_observed(owner, key)


@TAINT_GONE.scenario(
    "the taint is removed while pods terminate",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "after 30 s crane is on \\['node-0', 'node-2'", ((DaemonEvents, "_remove_controlled_pod", end_enqueues_nobody),)
    ),
)
async def taint_goes_while_pods_stop(simulation: Simulation) -> None:
    """The pods of one of three DaemonSets take long to terminate. The taint is removed meanwhile."""
    user = Owner(simulation.user)
    names = ("agent", "broom", "crane")
    for name in names:
        await user.create(name, stop="10s" if name == "crane" else "")
        await user.until_on(0, 1, 2, 3, app=name)
    await asyncio.sleep(10.0)
    node = "/api/v1/nodes/node-1"
    await user.merge(node, {"spec": {"taints": [{"key": "upgrade", "effect": "NoExecute"}]}})
    await asyncio.sleep(5.0)
    await user.merge(node, {"spec": {"taints": None}})
    await asyncio.sleep(30.0)
    for name in names:
        await user.until_on(0, 1, 2, 3, app=name)
    await simulation.run_until_idle()


@TAINT_GONE.scenario(
    "the controller observes the taint",
    options=OPTIONS,
    invariants=invariants,
    cases={"at once": {"mode": "observed"}, "late": {"mode": "held"}, "never": {"mode": "gone"}},
)
async def watch_of_nodes(simulation: Simulation, mode: str) -> None:
    """Another client evicts the pods, and the controller observes the taint immediately, late, or not at all."""
    user = Owner(simulation.user)
    names = ("agent", "broom", "crane")
    for name in names:
        await user.create(name)
        await user.until_on(0, 1, 2, 3, app=name)
    node = "/api/v1/nodes/node-1"
    with contextlib.ExitStack() as stack:
        if mode != "observed":
            stack.enter_context(simulation.held_watches("nodes"))
        await user.merge(node, {"spec": {"taints": [{"key": "special", "effect": "NoExecute"}]}})
        await asyncio.sleep(5.0)
        for name in names:
            await user.delete_pods("node-1", name)
        await asyncio.sleep(5.0)
        await user.merge(node, {"spec": {"taints": None}})
        if mode == "gone":
            simulation.end_watches("nodes", "gone")
    for name in names:
        await user.until_on(0, 1, 2, 3, app=name)
    await simulation.run_until_idle()


DELETED_NODE = Bug(
    "kubernetes#22545",
    "Pods of a deleted node are created again, and remain",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="fixed; there is still no handler for the deletion of a node",
    mechanism="The deletion of a node was not observed, so its pod was created again and again.",
    protection="The deletion of a node enqueues the DaemonSets that have a pod for it.",
)


@DELETED_NODE.scenario(
    "a node is deleted while the watch of nodes is stalled",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "after 30 s agent is on \\[''", ((NodeEvents, "delete_node", lambda _self, _node, _unknown: None),)
    ),
)
async def node_is_deleted(simulation: Simulation) -> None:
    """Its pod is deleted, too, and created again for the node that does not exist. It can never be bound."""
    user = Owner(simulation.user)
    await user.create()
    await user.until_on(0, 1, 2, 3)
    await user.request("DELETE", "/api/v1/nodes/node-2")
    with simulation.held_watches("nodes"):
        await user.delete_pods("node-2", grace=0)
        await asyncio.sleep(20.0)
    await user.until_on(0, 1, 3)
    created = only_invariant(simulation, DaemonSets).created
    check(created <= 5, f"{created} pods were created")
    await simulation.run_until_idle()
    desired = (await user.request("GET", AGENT))["status"]["desiredNumberScheduled"]
    check(desired == 3, f"{desired} pods are wanted on three nodes")


HEAVY_HANDLER = Bug(
    "kubernetes#121474 kubernetes#121662",
    "With 5,000 nodes the controller lags by hours, and its memory grows to 900 GB",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC,),
    upstream="fixed in 1.36",
    mechanism="The handler of nodes checked every DaemonSet for every event of a node, including heartbeats. "
    "Meanwhile events accumulated.",
    protection="The handler compares labels, taints and other relevant fields, and enqueues the node's name: "
    "heartbeats cause no work, several changes are merged, and two workers do the checks.",
    limits="Computation takes no time in a simulation. Therefore the checks of nodes are counted.",
)


def check_each_event(self: NodeEvents, _old: Node, new: Node) -> None:
    """Whatever has changed."""
    self.nodes.put(new)
    self._enqueue_node(new.metadata.name)


def counted() -> Sequence[Patch]:
    """More than three checks of a node in ten minutes stop the run."""
    checks: dict[str, int] = {}
    sync_node = NodeEvents.sync_node

    async def count(self: NodeEvents, name: str) -> None:
        checks[name] = checks.get(name, 0) + 1
        assert checks[name] <= 3, f"{name} is checked {checks[name]} times, and nothing has happened but heartbeats"
        await sync_node(self, name)

    return ((NodeEvents, "sync_node", count),)


@HEAVY_HANDLER.scenario(
    "ten minutes of heartbeats",
    options=SimulationOptions(
        nodes=20, profile=Profile(lease_period=10.0, status_period=10.0), controllers=("daemonset",)
    ),
    patches=counted,
    unguarded=Unguarded("nothing has happened but heartbeats", ((NodeEvents, "update_node", check_each_event),)),
)
async def heartbeats(simulation: Simulation) -> None:
    """Twenty nodes report their status every ten seconds; there are five DaemonSets."""
    user = Owner(simulation.user)
    for name in ("agent", "broom", "crane", "drill", "easel"):
        await user.create(name)
    await asyncio.sleep(600.0)
    for name in ("agent", "broom", "crane", "drill", "easel"):
        count = len(await user.pods(name))
        check(count == 20, f"{name} has {count} pods on 20 nodes")


BUGS = (CRASH_AFTER_CREATE, STALE_CACHE, FAILED_LIST, STUCK, TAINT_GONE, DELETED_NODE, HEAVY_HANDLER)
