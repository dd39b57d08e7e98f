"""Known bugs of ReplicaSets, and of ReplicationControllers before them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pilothouse.api.meta import Object
from pilothouse.client.interceptor import Rule, delay, time_out
from pilothouse.controllers.shared.own_writes import OwnWrites
from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.runtime import PodControl, SharedInformer, UidTrackingExpectations
from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.replicasets import ReplicaSets
from pilothouse.simulate.bugs.declaration import Bug, Pattern, Unguarded, check
from pilothouse.simulate.bugs.user import PODS, SETS, User, pod_spec, replica_set, workload

WEB = f"{SETS}/web"
CONTROLLER = "replicaset-controller"


def options(*, wait_for_own_writes: bool = True) -> SimulationOptions:
    """A manager with this controller only, in small bursts."""
    chosen = ReplicaSetOptions(burst=5, wait_for_own_writes=wait_for_own_writes)
    return SimulationOptions(controllers=("replicaset",), controller_options={CONTROLLER: chosen})


def invariants() -> Sequence[Invariant]:
    """The invariants of these scenarios."""
    return (ReplicaSets(burst=5),)


class Owner(User):
    """Has a ReplicaSet."""

    async def create(self, replicas: int) -> None:
        """The ReplicaSet ``web``."""
        await self.request("POST", SETS, replica_set("web", replicas, {"app": "web"}))

    async def touch(self, mode: str) -> None:
        """An event of the ReplicaSet, which enqueues it."""
        await self.merge(WEB, {"metadata": {"annotations": {"wake": mode}}})

    async def set_cost(self, pod: str, cost: int) -> None:
        """The pod-deletion-cost: the cheapest pod is deleted first."""
        note = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
        await self.merge(f"{PODS}/{pod}", {"metadata": {"annotations": note}})

    async def count(self) -> int:
        """How many pods exist."""
        return len(await self.items(PODS))

    async def expect(self, replicas: int) -> None:
        """A minute later there must be this many pods."""
        await asyncio.sleep(60.0)
        count = await self.count()
        check(count == replicas, f"a minute later there are {count} pods of {replicas}")


STALE_CACHE = Bug(
    "kubernetes#129795",
    "Pods are created twice, or not at all, while the watch of pods lags or breaks",
    controller=CONTROLLER,
    patterns=(Pattern.STALE, Pattern.UNOBSERVED, Pattern.TIME),
    upstream="open",
    mechanism="Expectations expire after five minutes, whether the cache has caught up or not. And a pod that is "
    "created and deleted between two lists has no event, so its creation is expected until they expire.",
    protection="The consistency store skips syncs while the cache is older than the controller's own writes. Once the "
    "cache is newer than the last created pod, remaining expectations of creations are dropped.",
)


@STALE_CACHE.scenario(
    "lag of more than five minutes",
    options=options(),
    invariants=invariants,
    unguarded=Unguarded("active pod number 4", options=options(wait_for_own_writes=False)),
)
async def lag_of_more_than_five_minutes(simulation: Simulation) -> None:
    """Three pods are created, and for six minutes no event of pods arrives."""
    user = Owner(simulation.user)
    with simulation.held_watches("pods"):
        await user.create(3)
        await asyncio.sleep(310.0)
        await user.touch("after the expectation has expired")
        await asyncio.sleep(60.0)
    await simulation.run_until_idle()


@STALE_CACHE.scenario(
    "pods that are created and deleted between two lists",
    options=options(),
    invariants=invariants,
    unguarded=Unguarded("there are 0 pods of 3", ((OwnWrites, "_lower_passed_creations", lambda _self, _key: None),)),
)
async def between_two_lists(simulation: Simulation) -> None:
    """The watch of pods breaks, and the pods are deleted before the next list: there are no events for them."""
    user = Owner(simulation.user)
    with simulation.held_watches("pods"):
        await user.create(3)
        await asyncio.sleep(1.0)
        for pod in await user.items(PODS):
            await user.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        simulation.end_watches("pods", "gone")
    await asyncio.sleep(30.0)
    await user.touch("once the cache is filled again")
    await asyncio.sleep(30.0)
    count = await user.count()
    check(count == 3, f"a minute later there are {count} pods of 3")


CREATE_TIMEOUT = Bug(
    "kubernetes#67662 kubernetes#86140",
    "A pod whose creation timed out is never created",
    controller=CONTROLLER,
    patterns=(Pattern.INTERMEDIATE,),
    upstream="fixed",
    mechanism="The timeout was treated as a success that an event would confirm, and the key was not requeued.",
    protection="A create without a response counts as failed: its expectation is lowered, the pods are listed live, "
    "and the key is retried.",
)
create_pod = PodControl.create_pod


async def swallow_timeouts(self: PodControl, *args: Any, **kwargs: Any) -> Object:
    """As upstream before the fix."""
    try:
        return await create_pod(self, *args, **kwargs)
    except TimeoutError:
        return Object()


@CREATE_TIMEOUT.scenario(
    "the first create times out",
    options=options(),
    invariants=invariants,
    unguarded=Unguarded("there are 0 pods of 1", ((PodControl, "create_pod", swallow_timeouts),)),
)
async def first_create_times_out(simulation: Simulation) -> None:
    """The create of the only pod times out before the server has read the request."""
    simulation.add_rule(Rule(time_out(sent=False), verb="create", resource="pods", nth=1))
    user = Owner(simulation.user)
    await user.create(1)
    await user.expect(1)
    await simulation.run_until_idle()


SLOW_CACHE = Bug(
    "kubernetes#41675",
    "A slow pod cache causes an extra pod, which is deleted at once",
    controller="replicationcontroller-controller",
    patterns=(Pattern.STALE,),
    upstream="closed",
    mechanism="The controller synced again before its cache had the pod that it had created, and created another one.",
    protection="Expectations: no pods are created or deleted until the creation is observed. (The consistency store "
    "alone would be sufficient, too; it is off in this scenario.)",
)


@SLOW_CACHE.scenario(
    "synced too early",
    options=options(wait_for_own_writes=False),
    invariants=invariants,
    unguarded=Unguarded("active pod number 2", ((UidTrackingExpectations, "satisfied", lambda _self, _key: True),)),
)
async def synced_too_early(simulation: Simulation) -> None:
    """The ReplicaSet changes before the event of its pod has arrived."""
    user = Owner(simulation.user)
    with simulation.held_watches("pods"):
        await user.create(1)
        await asyncio.sleep(1.0)
        await user.touch("too early")
        await asyncio.sleep(1.0)
    await simulation.run_until_idle()


FOREIGN_EVENTS = Bug(
    "kubernetes#22061 kubernetes#22579",
    "Deletions by others are counted as the controller's own, and twice",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED, Pattern.STALE),
    upstream="closed",
    mechanism="Expectations were plain counters. The deletion of any pod lowered them twice: by the update that sets "
    "deletionTimestamp and by the DELETED event. So the controller continued before it had observed its own deletions.",
    protection="Expectations of deletions have the keys of the pods (UIDTrackingControllerExpectations), and each pod "
    "counts once.",
)


def count_any(self: UidTrackingExpectations, key: str, _object_key: str) -> None:
    """Any deletion counts as an expected one."""
    self.deletion_counted(key)


@FOREIGN_EVENTS.scenario(
    "a pod is deleted manually during a scale-down",
    options=options(),
    invariants=invariants,
    unguarded=Unguarded("no pod of web is left", ((UidTrackingExpectations, "deletion_observed", count_any),)),
)
async def deleted_by_hand(simulation: Simulation) -> None:
    """Events of pods arrive three seconds late. One of four pods is deleted manually, another one gets the lowest
    pod-deletion-cost, and the ReplicaSet is scaled to two. The controller deletes two pods, because its cache is old;
    the remaining one must stay."""
    user = Owner(simulation.user)
    await user.create(4)
    await asyncio.sleep(10.0)
    cheap_now, dear, first_victim, second_victim = sorted(pod["metadata"]["name"] for pod in await user.items(PODS))
    for name, cost in ((cheap_now, 10), (dear, 10), (first_victim, 0), (second_victim, 0)):
        await user.set_cost(name, cost)
    await asyncio.sleep(1.0)
    slow = simulation.add_rule(Rule(delay(3.0), verb="watch", resource="pods"))
    await user.request("DELETE", f"{PODS}/{dear}")
    await user.set_cost(cheap_now, -10)
    await asyncio.sleep(2.5)
    await user.merge(WEB, {"spec": {"replicas": 2}})
    for _ in range(600):
        await asyncio.sleep(0.1)
        live = [pod for pod in await user.items(PODS) if "deletionTimestamp" not in pod["metadata"]]
        check(live, "no pod of web is left, 2 are wanted")
    simulation.remove_rule(slow)
    await simulation.run_until_idle()


REJECTED_PODS = Bug(
    "kubernetes#66381",
    "Pods that the kubelet rejects are replaced without a pause",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC,),
    upstream="closed; the controller still has no back-off",
    mechanism="The kubelet rejects a pod whose host port is in use. The pod is Failed, so the ReplicaSet creates "
    "another one at once, which is also rejected.",
    protection="The scheduler leaves the pod pending, because the port is not free on any node. As upstream, the "
    "controller has no backoff, so a template with nodeName, which bypasses the scheduler, still shows the bug.",
)


@REJECTED_PODS.scenario(
    "more pods than free host ports",
    options=options(),
    unguarded=Unguarded("pods were created in a minute for 3 replicas", arguments={"bound": True}),
)
async def more_pods_than_host_ports(simulation: Simulation, bound: bool = False) -> None:
    """Three pods with the same host port, and two nodes."""
    user = Owner(simulation.user)
    created: dict[str, None] = {}
    simulation.add_rule(Rule(delay(0.1), verb="create", resource="pods"))
    simulation.store.on_commit.append(
        lambda changes: created.update((change.key, None) for change in changes if change.key.startswith("/pods/"))
    )
    pod = pod_spec(**({"nodeName": "node-0"} if bound else {}))
    pod["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    await user.request("POST", SETS, workload("ReplicaSet", pod=pod, replicas=3))
    for _ in range(60):
        await asyncio.sleep(1.0)
        check(len(created) < 30, f"{len(created)} pods were created in a minute for 3 replicas")
    phases = sorted(pod["status"]["phase"] for pod in await user.items(PODS))
    if phases != ["Pending", "Running", "Running"]:
        raise Violation(f"the pods are {phases}")


PHANTOM = Bug(
    "kubernetes#34940",
    "A phantom pod: one pod is desired, none exists, and none is created",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="closed; the cause was never found",
    mechanism="The controller counts a pod that no longer exists: its deletion was not observed, and the list after "
    "the watch broke did not remove it from the cache.",
    protection="A new list replaces the whole cache, and handlers get a deletion for each object that is not in it.",
)
replace = SharedInformer.replace


async def keep_vanished(
    self: SharedInformer[Any], items: dict[str, Any], unreadable: frozenset[str], resource_version: str
) -> None:
    """Objects that are not in a new list stay in the cache."""
    vanished = frozenset(self.cache.snapshot()) - items.keys()
    await replace(self, items, unreadable | vanished, resource_version)


@PHANTOM.scenario(
    "a pod is deleted while the watch is broken",
    options=options(),
    invariants=invariants,
    unguarded=Unguarded("there are 0 pods of 1", ((SharedInformer, "replace", keep_vanished),)),
)
async def ends_while_the_watch_is_broken(simulation: Simulation) -> None:
    """The only pod is deleted, and the watch continues after a new list."""
    user = Owner(simulation.user)
    await user.create(1)
    await asyncio.sleep(10.0)
    with simulation.held_watches("pods"):
        (pod,) = await user.items(PODS)
        await user.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        simulation.end_watches("pods", "gone")
    await user.expect(1)
    await simulation.run_until_idle()


BUGS = (STALE_CACHE, CREATE_TIMEOUT, SLOW_CACHE, FOREIGN_EVENTS, REJECTED_PODS, PHANTOM)
