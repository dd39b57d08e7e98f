"""Known bugs around nodes: pod garbage collection and taint eviction."""

import asyncio
import itertools
from collections.abc import Sequence

from pilothouse.api.core import Node, Pod
from pilothouse.controllers.cleanup.pod_garbage_collector import PodGarbageCollectorOptions
from pilothouse.controllers.cleanup.pod_garbage_collector.controller import PodGarbageCollector
from pilothouse.controllers.node.taint_eviction.controller import TaintEvictionController
from pilothouse.controllers.node.taint_eviction.decide import Stay, decide_eviction, no_execute_taints
from pilothouse.controllers.node.taint_eviction.timed_workers import Entry, State, TimedWorkers
from pilothouse.nodes import Profile
from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.evictions import Evictions
from pilothouse.sim.invariants.pod_garbage import PodGarbage
from pilothouse.simulate.bugs.declaration import Bug, Patch, Pattern, Unguarded, check
from pilothouse.simulate.bugs.machines import NODES, Machines
from pilothouse.simulate.bugs.user import PODS, Doc, User

OUT = "node.kubernetes.io/out-of-service"
POD_GC, EVICTION = "pod-garbage-collector-controller", "taint-eviction-controller"
TWO = {"node-0": "", "node-1": ""}
"""Nodes without zones."""


def options(*controllers: str, quarantine: float = 40.0) -> SimulationOptions:
    """Two nodes that the scenario controls."""
    return SimulationOptions(
        nodes=len(TWO),
        profile=Profile(events=False, clears_start_taint=False),
        controllers=controllers,
        controller_options={POD_GC: PodGarbageCollectorOptions(quarantine=quarantine)}
        if "podgc" in controllers
        else {},
    )


def collecting() -> Sequence[Invariant]:
    """Of the pod garbage collector."""
    return (PodGarbage(),)


def evicting() -> Sequence[Invariant]:
    """Of taint eviction."""
    return (Evictions(),)


def toleration(key: str, seconds: int | None = None) -> Doc:
    """Of a NoExecute taint, for some time or without limit."""
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit}


async def start_pod(user: User, name: str, *tolerated: Doc, node: str = "node-0", **meta: object) -> None:
    """A pod that is bound already."""
    spec = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "pause"}],
        "terminationGracePeriodSeconds": 1,
        "tolerations": list(tolerated),
    }
    await user.request("POST", PODS, {"metadata": {"name": name, **meta}, "spec": spec})


async def read_cached(self: PodGarbageCollector, name: str, since: int) -> Node | None:
    """The live read is made, and ignored."""
    await self._live.get(name, since=since)
    return self._nodes.get(name)


OLD_TAINT = Bug(
    "kubernetes#141887",
    "Pods of a node that has recovered are force-deleted, because of an out-of-service taint that only the cache has",
    controller=POD_GC,
    patterns=(Pattern.STALE,),
    upstream="open (pull request of September 2026)",
    mechanism="The garbage collector reads the out-of-service taint from its cache. Its watch of nodes lags.",
    protection="The node is read live, less than a second before the deletion, and the pod's uid is a precondition of "
    "the deletion.",
)


@OLD_TAINT.scenario(
    "the taint is removed while the watch lags",
    options=options("nodelifecycle", "podgc"),
    invariants=collecting,
    unguarded=Unguarded(
        "exists, and when last read it was not out of service",
        ((PodGarbageCollector, "_get_live_node", read_cached),),
    ),
)
async def taint_goes(simulation: Simulation) -> None:
    """A node is not ready and out of service; the taint is removed, and a pod is deleted."""
    machines = Machines(simulation, TWO)
    user = User(simulation.user)
    await start_pod(user, "p")
    await asyncio.sleep(5.0)
    machines.silence("node-0")
    await asyncio.sleep(70.0)
    await machines.taint("node-0", OUT, "NoSchedule")
    await asyncio.sleep(25.0)
    with simulation.held_watches("nodes"):
        await machines.untaint("node-0", OUT)
        await user.request("DELETE", f"{PODS}/p")
        await asyncio.sleep(60.0)
        check(await user.get(f"{PODS}/p") is not None, "the pod was removed, and its kubelet has not stopped it")
    await machines.restore("node-0")
    await simulation.run_until_idle()
    check(await user.get(f"{PODS}/p") is None, "the pod is still there")


MIRROR_PODS = Bug(
    "kubernetes#48213",
    "Mirror pods of a deleted node are force-deleted every 20 seconds, forever",
    controller=POD_GC,
    patterns=(Pattern.LOGIC,),
    upstream="closed; less often since the quarantine",
    mechanism="The Node was deleted, but its kubelet still runs and creates its mirror pods again and again.",
    protection="A node must be missing for 40 seconds before its pods are deleted.",
)


@MIRROR_PODS.scenario(
    "a kubelet without a Node",
    options=options("podgc"),
    invariants=collecting,
    unguarded=Unguarded("was deleted after [0-9]+ s", options=options("podgc", quarantine=1.0)),
)
async def kubelet_without_a_node(simulation: Simulation) -> None:
    """For ten minutes the mirror pod is created again within a second after each deletion."""
    user = User(simulation.user)
    deletions: list[float] = []
    for _ in range(600):
        if await user.get(f"{PODS}/static-gone") is None:
            deletions.append(simulation.env.monotonic())
            await start_pod(user, "static-gone", node="gone", annotations={"kubernetes.io/config.mirror": "hash"})
        await asyncio.sleep(1.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(deletions[1:])]
    check(gaps, "it was never deleted")
    check(min(gaps) >= 40.0, f"the pod of a node that is gone was deleted after {min(gaps):.0f} s")


UNKNOWN_NODE = Bug(
    "kubernetes#82365 kubernetes#68071",
    "Pods of a node that is not in the cache yet are deleted as orphans",
    controller=POD_GC,
    patterns=(Pattern.STALE,),
    upstream="merged with the guard; #68071 was rejected for the lack of it",
    mechanism="To avoid a list of all nodes every 20 seconds, the garbage collector was changed to use its cache. "
    "Pods of a new node may be observed before the node.",
    protection="Missing nodes are quarantined, and then read live before each deletion.",
)


async def not_there(self: PodGarbageCollector, name: str, _since: int) -> Node | None:
    """Objects that are not in the cache are assumed not to exist."""
    return self._nodes.get(name)


@UNKNOWN_NODE.scenario(
    "a new node whose event is late",
    options=options("podgc"),
    invariants=collecting,
    unguarded=Unguarded("/pods/default/first", ((PodGarbageCollector, "_get_live_node", not_there),)),
)
async def new_node(simulation: Simulation) -> None:
    """A node is added and gets a pod, while the garbage collector's watch of nodes is stalled."""
    user = User(simulation.user)
    with simulation.held_watches("nodes"):
        await user.request("POST", NODES, {"metadata": {"name": "node-new"}})
        await start_pod(user, "first", node="node-new")
        await asyncio.sleep(120.0)
    await simulation.run_until_idle()
    check(await user.get(f"{PODS}/first") is not None, "the pod of the new node is gone")


STALE_TAINT = Bug(
    "kubernetes#119862 kubernetes#139992 kubernetes#140198",
    "A pod that was bound after a taint was removed is evicted because of it",
    controller=EVICTION,
    patterns=(Pattern.STALE,),
    upstream="open",
    mechanism="Nodes start with a taint that an agent removes. The event of the first pod arrives before that of the "
    "node, so the pod is evicted because of the cached taint.",
    protection="Node and pod are read live before a deletion, and the decision is repeated.",
)


async def trust(self: TaintEvictionController, _key: str, entry: Entry, _pod: Pod) -> bool:
    """The live read is made, and ignored."""
    await self._live.get(entry.node, since=entry.decided)
    return True


@STALE_TAINT.scenario(
    "the first pod of a node",
    options=options("taint-eviction-controller"),
    invariants=evicting,
    unguarded=Unguarded(
        "first is evicted and tolerates what node node-0 had",
        ((TaintEvictionController, "_is_eviction_still_needed", trust),),
    ),
)
async def first_pod_of_a_node(simulation: Simulation) -> None:
    """The node's taint is removed and a pod is bound, while the watch of nodes is stalled."""
    machines = Machines(simulation, TWO)
    user = User(simulation.user)
    await machines.taint("node-0", "agent-not-ready")
    await asyncio.sleep(5.0)
    with simulation.held_watches("nodes"):
        await machines.untaint("node-0", "agent-not-ready")
        await start_pod(user, "first")
        await asyncio.sleep(20.0)
    await simulation.run_until_idle()
    check(await user.get(f"{PODS}/first") is not None, "the first pod is gone")


BY_NAME = Bug(
    "kubernetes#107543",
    "The next pod with the same name is never evicted",
    controller=EVICTION,
    patterns=(Pattern.UNOBSERVED,),
    upstream="open",
    mechanism='Scheduled evictions were kept by the pod\'s name. For its successor there was "already existing work".',
    protection="A scheduled eviction is for a uid, and is removed with the pod.",
)


def remembered_by_name() -> Sequence[Patch]:
    """Entries of a pod are those of its successor of that name."""
    entries: dict[str, Entry] = {}
    keep, drop = TimedWorkers.set, TimedWorkers.drop

    def keep_once(self: TimedWorkers, key: str, entry: Entry, now: float) -> None:
        if key not in entries:
            entries[key] = entry
            keep(self, key, entry, now)

    def drop_waiting(self: TimedWorkers, key: str) -> bool:
        if key in entries and entries[key].state is State.WAITING:
            del entries[key]
            return drop(self, key)
        return False

    return [(TimedWorkers, "set", keep_once), (TimedWorkers, "drop", drop_waiting)]


@BY_NAME.scenario(
    "a pod that is created again",
    options=options("taint-eviction-controller"),
    invariants=evicting,
    unguarded=Unguarded("web-0 is still on node-0", remembered_by_name),
)
async def pod_that_comes_back(simulation: Simulation) -> None:
    """A pod that tolerates a taint for 30 s is evicted, and so is the next one with its name."""
    machines = Machines(simulation, TWO)
    user = User(simulation.user)
    for _ in range(2):
        await start_pod(user, "web-0", toleration("a", 30))
        await machines.taint("node-0", "a")
        await asyncio.sleep(40.0)
        if await user.get(f"{PODS}/web-0") is not None:
            raise Violation("after 40 s web-0 is still on node-0, whose taint it tolerates for 30 s")
        await machines.untaint("node-0", "a")
    await simulation.run_until_idle()


NOT_CANCELLED = Bug(
    "kubernetes#90794 kubernetes#93722",
    "An eviction is not cancelled when its taint is removed but another taint remains",
    controller=EVICTION,
    patterns=(Pattern.UNOBSERVED, Pattern.LOGIC),
    upstream="fixed",
    mechanism="Evictions were only cancelled if the node had no NoExecute taint at all. A pod that tolerated all "
    "remaining taints was evicted nevertheless.",
    protection="The eviction of a pod that tolerates the remaining taints without limit is cancelled, and the "
    "decision is repeated with live objects before a deletion.",
)
apply = TaintEvictionController._process_pod_on_node


def do_not_cancel(self: TaintEvictionController, pod: Pod, node: Node, decided: int) -> None:
    """As upstream before the fix."""
    taints = no_execute_taints(node)
    if isinstance(decide_eviction(taints, pod.spec.tolerations, comparison_operators=True), Stay):
        return
    apply(self, pod, node, decided)


@NOT_CANCELLED.scenario(
    "one of two taints is removed",
    options=options("taint-eviction-controller"),
    invariants=evicting,
    unguarded=Unguarded(
        "p is evicted and tolerates what node node-0 had",
        (
            (TaintEvictionController, "_process_pod_on_node", do_not_cancel),
            (TaintEvictionController, "_is_eviction_still_needed", trust),
        ),
    ),
)
async def one_taint_of_two_goes(simulation: Simulation) -> None:
    """The pod tolerates one taint without limit and the other for 30 s; the latter is removed after 10 s."""
    machines = Machines(simulation, TWO)
    user = User(simulation.user)
    await machines.taint("node-0", "mine")
    await start_pod(user, "p", toleration("mine"), toleration("not-ready", 30))
    await asyncio.sleep(5.0)
    await machines.taint("node-0", "not-ready")
    await asyncio.sleep(10.0)
    await machines.untaint("node-0", "not-ready")
    await asyncio.sleep(60.0)
    check(await user.get(f"{PODS}/p") is not None, "the pod was evicted")
    await simulation.run_until_idle()


BUGS = (OLD_TAINT, MIRROR_PODS, UNKNOWN_NODE, STALE_TAINT, BY_NAME, NOT_CANCELLED)
