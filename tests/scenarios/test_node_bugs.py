"""Bugs that upstream had or has around nodes, each with and without the guard against it (see ``test_known_bugs``)."""

import asyncio
import itertools
from collections.abc import Sequence

import msgspec
from tests.scenarios.machines import NODES, Machines
from tests.scenarios.test_nodes import OPTIONS, tolerations
from tests.scenarios.users import NAMESPACE, Doc, User
from tests.scenarios.variants import AS_IT_IS, Patch, broken_without

from pilothouse.api.core import Pod
from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.cleanup.pod_garbage_collector import PodGarbageCollectorOptions
from pilothouse.controllers.cleanup.pod_garbage_collector.controller import PodGarbageCollector
from pilothouse.controllers.node.node_lifecycle.controller import NodeLifecycleController
from pilothouse.controllers.node.taint_eviction.controller import TaintEvictionController
from pilothouse.controllers.node.taint_eviction.timed_workers import Entry, State, TimedWorkers
from pilothouse.nodes import Profile
from pilothouse.runtime import Requeue
from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.evictions import Evictions
from pilothouse.sim.invariants.nodes import NodeHealth
from pilothouse.sim.invariants.pod_garbage import PodGarbage

OUT = "node.kubernetes.io/out-of-service"


def options(*controllers: str, **changes: object) -> SimulationOptions:
    return msgspec.structs.replace(OPTIONS, nodes=2, controllers=controllers, **changes)


async def start_pod(user: User, name: str, *tolerated: Doc, node: str = "node-0", **meta: object) -> None:
    spec = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "pause"}],
        "terminationGracePeriodSeconds": 1,
        "tolerations": list(tolerated),
    }
    await user.ask("POST", f"{NAMESPACE}/pods", {"metadata": {"name": name, **meta}, "spec": spec})


def garbage() -> Sequence[Invariant]:
    return (PodGarbage(),)


def evictions() -> Sequence[Invariant]:
    return (Evictions(),)


async def read_cached(self: PodGarbageCollector, name: str, since: int) -> object:
    await self._live.get(name, since=since)
    return self._nodes.get(name)


@broken_without(
    (PodGarbageCollector, "_read_live", read_cached),
    fails="is there, and when last read it was not out of service",
    options=options("nodelifecycle", "podgc"),
    invariants=garbage,
)
async def test_141887_a_taint_that_only_the_cache_still_has(simulation: Simulation, variant: str) -> None:
    """kubernetes#141887: a node recovers, its out-of-service taint goes, the cache is late: its pods are forced off."""
    machines = Machines(simulation, {"node-0": "", "node-1": ""})
    user = User(simulation.user)
    await start_pod(user, "p")
    await asyncio.sleep(5.0)
    machines.silence("node-0")
    await asyncio.sleep(70.0)
    await machines.taint("node-0", OUT, "NoSchedule")
    await asyncio.sleep(25.0)
    with simulation.held_watches("nodes"):
        await machines.untaint("node-0", OUT)
        await user.ask("DELETE", f"{NAMESPACE}/pods/p")
        await asyncio.sleep(60.0)
        if variant == AS_IT_IS:
            assert await user.get(f"{NAMESPACE}/pods/p") is not None, "it is the kubelet's to remove"
    await machines.restore("node-0")
    await simulation.settle()
    assert await user.get(f"{NAMESPACE}/pods/p") is None


@broken_without(
    fails="was forced off after 20 s",
    instead=options(
        "podgc",
        controller_options={"pod-garbage-collector-controller": PodGarbageCollectorOptions(quarantine=1.0)},
    ),
    options=options(
        "podgc",
        controller_options={"pod-garbage-collector-controller": PodGarbageCollectorOptions(quarantine=40.0)},
    ),
    invariants=garbage,
)
async def test_48213_a_kubelet_that_makes_its_mirror_pods_again_and_again(simulation: Simulation) -> None:
    """kubernetes#48213: the Node was deleted, the kubelet lives, and its mirror pods were forced off every 20 s. Since
    then a node must be missing for 40 s before."""
    user = User(simulation.user)
    deletions: list[float] = []
    for _ in range(600):
        if await user.get(f"{NAMESPACE}/pods/static-gone") is None:
            deletions.append(simulation.env.monotonic())
            await start_pod(user, "static-gone", node="gone", annotations={"kubernetes.io/config.mirror": "hash"})
        await asyncio.sleep(1.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(deletions[1:])]
    assert gaps
    if min(gaps) < 40.0:
        raise Violation(f"the pod of a node that is gone was forced off after {min(gaps):.0f} s")


def remembered_by_name() -> list[Patch]:
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


@broken_without(
    remembered_by_name,
    fails="web-0 is still on node-0",
    options=options("taint-eviction-controller"),
    invariants=evictions,
)
async def test_107543_the_next_pod_of_that_name(simulation: Simulation, variant: str) -> None:
    """kubernetes#107543: what was done for a pod was remembered by its name; its successor was never evicted."""
    machines = Machines(simulation, {"node-0": "", "node-1": ""})
    user = User(simulation.user)
    for _ in range(2):
        await start_pod(user, "web-0", *tolerations(30, ("a",)))
        await machines.taint("node-0", "a")
        await asyncio.sleep(40.0)
        if variant == AS_IT_IS:
            assert await user.get(f"{NAMESPACE}/pods/web-0") is None
        await machines.untaint("node-0", "a")
    await machines.taint("node-0", "a")
    await simulation.settle()


async def trust(self: TaintEvictionController, _key: str, entry: Entry, _pod: Pod) -> bool:
    await self._live.get(entry.node, since=entry.decided)
    return True


@broken_without(
    (TaintEvictionController, "_is_still_needed", trust),
    fails="first is evicted and tolerates what node node-0 had",
    options=options("taint-eviction-controller"),
    invariants=evictions,
)
async def test_119862_a_pod_that_was_bound_after_the_taint_went(simulation: Simulation) -> None:
    """kubernetes#119862: nodes start with a taint that their agent takes off; the first pods were evicted all the same,
    when the node's event came after theirs."""
    machines = Machines(simulation, {"node-0": "", "node-1": ""})
    user = User(simulation.user)
    await machines.taint("node-0", "agent-not-ready")
    await asyncio.sleep(5.0)
    with simulation.held_watches("nodes"):
        await machines.untaint("node-0", "agent-not-ready")
        await start_pod(user, "first")
        await asyncio.sleep(20.0)
    await simulation.settle()
    assert await user.get(f"{NAMESPACE}/pods/first") is not None


tend = NodeLifecycleController._tend


async def once(self: NodeLifecycleController, name: str) -> Requeue | None:
    try:
        return await tend(self, name)
    except ApiError:
        return None


@broken_without(
    (NodeLifecycleController, "_tend", once),
    fails="its taints are \\[\\]",
    options=options("nodelifecycle", profile=Profile(events=False, status_period=14400.0)),
    invariants=lambda: (NodeHealth(),),
)
async def test_what_failed_once_does_not_wait_for_the_next_event(simulation: Simulation) -> None:
    """As kubernetes#75836: something is wrong until some event of a node happens to come. Upstream's worker for
    NoSchedule taints and labels still drops what failed ("Add nodeName back to the queue" is to be done)."""
    machines = Machines(simulation, {"node-0": "", "node-1": ""})
    await asyncio.sleep(60.0)
    simulation.add_rule(Rule(fail(500, "InternalError"), verb="patch", resource="nodes", nth=1))
    await machines.merge(f"{NODES}/node-0", {"spec": {"unschedulable": True}})
    await asyncio.sleep(0.001)
    await simulation.settle()
    found = [taint["key"] for taint in await machines.taints("node-0")]
    if found != ["node.kubernetes.io/unschedulable"]:
        raise Violation(f"node-0 is cordoned, and its taints are {found}")
