"""The scheduling loop: pods wait in a queue, one decision at a time, what was decided is carried out beside it.

Decisions are made one after another, against a snapshot in which every earlier decision counts already. Binding is the
slow part and does not hold up the next decision; a binding that fails takes its pod out of the snapshot again. At most
``WRITES_AT_ONCE`` of them are on their way: past that decisions wait, so that a pod of high priority that comes
meanwhile is still first.

A pod that fits nowhere may push others aside (``preemption``); it then waits, nominated, for their room. In any case it
waits for an event that could help it (``hints``).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pilothouse.api.core import NAMESPACES, NODES, PODS, Node, Pod
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS, PodDisruptionBudget
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Conflict, NotFound, Timeout
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.labels import Selector
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.informer import SharedInformer
from pilothouse.scheduler.hints import (
    RELATIONS,
    NodeHint,
    TopologyChange,
    arrival_helps,
    departure_helps,
    topology_change,
    topology_helps,
)
from pilothouse.scheduler.owners import Owners
from pilothouse.scheduler.placement import Placement, Placer
from pilothouse.scheduler.pod_queue import Entry, PodQueue
from pilothouse.scheduler.pod_volumes import VOLUME_BINDING
from pilothouse.scheduler.refusals import NOT_NAMED
from pilothouse.scheduler.snapshot import NodeInfo, Placed, Snapshot
from pilothouse.scheduler.volumes import NotBound, Promise, Volumes
from pilothouse.scheduler.wish import Wish
from pilothouse.scheduler.writes import Writes
from pilothouse.semantics.pods import is_terminal

if TYPE_CHECKING:
    from pilothouse.scheduler.preemption import Outcome, Victims

SCHEDULER_NAME = "default-scheduler"
WRITES_AT_ONCE = 64
_FLUSH_SECONDS = 30.0
_ASK_AGAIN_SECONDS = 1.0


class KnownNamespaces:
    """``relations.Namespaces`` from a cache."""

    def __init__(self, informers: InformerFactory) -> None:
        self.informer = informers.informer(NAMESPACES)

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        found = self.informer.cache.get(name)
        return found.metadata.labels if found is not None else {}

    def matching(self, selector: Selector) -> frozenset[str]:
        """The namespaces that match."""
        found = self.informer.cache.list()
        return frozenset(one.metadata.name for one in found if selector.matches(one.metadata.labels))


class Scheduler:
    """Binds pending pods of ``scheduler_name`` to nodes that fit."""

    def __init__(
        self,
        env: Env,
        *,
        client: Client,
        informers: InformerFactory,
        scheduler_name: str = SCHEDULER_NAME,
        log: Log | None = None,
    ) -> None:
        self._env = env
        self._client = client
        self._informers = informers
        self._log = log or Log("scheduler")
        self._name = scheduler_name
        self._chance = env.stream("scheduler")
        self._snapshot = Snapshot()
        self._namespaces = KnownNamespaces(informers)
        self._owners = Owners(informers)
        self._budgets: SharedInformer[PodDisruptionBudget] | None = None
        self._queue = PodQueue(env)
        self._volumes = Volumes(client, informers, self._wake_for_volumes)
        self._placer = Placer(self._snapshot, self._namespaces, self._owners.selector, self._chance, self._volumes)
        self._hands = asyncio.Semaphore(WRITES_AT_ONCE)
        self._writes = Writes(client, env, scheduler_name, self._log)
        self._pods = informers.informer(PODS)
        self._nodes = informers.informer(NODES)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._see_pod(None, pod),
            on_update=self._see_pod,
            on_delete=lambda pod, _unknown: self._lose_pod(pod),
        )
        self._nodes.add_handler(
            on_add=lambda node, _initial: self._see_node(None, node),
            on_update=self._see_node,
            on_delete=lambda node, _unknown: self._lose_node(node),
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with TaskGroup("scheduler") as group:
            group.start(self._writes.recorder.run(), name="scheduler events")
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            await self._namespaces.informer.wait_synced()
            await self._owners.wait_synced()
            await self._volumes.wait_synced()
            await self._find_budgets()
            group.start(self._wake_old(), name="scheduler flush")
            while True:
                # First a free hand, then the pod: whatever came with a higher priority meanwhile is served first.
                await self._hands.acquire()
                entry = await self._queue.get()
                self._schedule(entry, group)
                # Bindings and events want their turn between two decisions.
                await asyncio.sleep(0)

    async def _find_budgets(self) -> None:
        """Watch PodDisruptionBudgets where policy/v1 is served; older servers do without, and nothing is protected."""
        while True:
            try:
                await self._client.list(POD_DISRUPTION_BUDGETS, limit=1)
            except NotFound:
                self._log.info("The server has no policy/v1: preemption knows of no PodDisruptionBudgets")
                return
            except (ApiError, OSError) as error:
                self._log.error("Failed to look for PodDisruptionBudgets", error=error)
                await asyncio.sleep(_ASK_AGAIN_SECONDS)
            else:
                break
        self._budgets = self._informers.informer(POD_DISRUPTION_BUDGETS)
        await self._budgets.wait_synced()

    # What happens around

    def _see_pod(self, old: Pod | None, pod: Pod) -> None:
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self._lose_pod(old)
            old = None
        if is_terminal(pod):
            self._lose_pod(pod)
        elif pod.spec.node_name:
            self._see_placed(pod)
        else:
            self._see_unplaced(old, pod)

    def _see_placed(self, pod: Pod) -> None:
        key = _key(pod)
        self._queue.discard(key)
        before, now = self._snapshot.confirm(pod)
        self._break_promise(key)
        if now is not None:
            self._wake_for_pod(before, now)

    def _see_unplaced(self, old: Pod | None, pod: Pod) -> None:
        key, uid = _key(pod), pod.metadata.uid
        if not self._is_mine(pod):
            self._queue.discard(key)
            self._volumes.pod_gone(pod.metadata.uid)
            self._break_promise(key)
            return
        if self._snapshot.is_assumed(key, uid):
            return
        promised = pod.status.nominated_node_name
        before = old.status.nominated_node_name if old is not None else ""
        # By us, which is known already, by somebody else, or in an earlier life of this program. That a promise was
        # taken back says nothing about a newer one, which may be on its way to the server.
        if promised != before and (promised or self._snapshot.nomination(key) == before):
            if promised != self._snapshot.nomination(key):
                self._break_promise(key)
            self._snapshot.nominate(Wish(pod), promised)
        # What is written about the pod's status, by us for one, makes it fit nowhere new.
        if (
            old is None
            or not self._queue.knows(key, uid)
            or old.spec != pod.spec
            or old.metadata.labels != pod.metadata.labels
        ):
            self._queue.put(key, uid, pod.spec.priority or 0)

    def _lose_pod(self, pod: Pod) -> None:
        key = _key(pod)
        self._queue.discard(key)
        self._volumes.pod_gone(pod.metadata.uid)
        gone = self._snapshot.forget(key)
        self._break_promise(key)
        if gone is not None:
            self._wake_for_pod(gone, None)

    def _see_node(self, old: Node | None, node: Node) -> None:
        if self._snapshot.set_node(node):
            self._wake_on(self._snapshot.nodes[node.metadata.name], topology_change(old, node))

    def _lose_node(self, node: Node) -> None:
        self._volumes.node_gone()
        info = self._snapshot.remove_node(node.metadata.name)
        if info is not None and self._queue.anybody_waits(afar=True):
            change = topology_change(info.node, None)
            self._queue.wake(self._judge(lambda wish, entry: topology_helps(wish, entry.rejected, change)), afar=True)

    # Who is tried again

    def _judge(self, helps: Callable[[Wish, Entry], bool]) -> Callable[[Entry], bool]:
        def judge(entry: Entry) -> bool:
            pod = self._pods.cache.get(entry.key)
            return pod is not None and helps(_wish(entry, pod), entry)

        return judge

    def _break_promise(self, key: str) -> None:
        """The pod no longer waits for its node: others may have the room (upstream's ``hasNominatedNodeNameChanged``,
        v1.36 ``pkg/scheduler/eventhandlers.go``)."""
        promised = self._snapshot.nomination(key)
        if promised:
            self._snapshot.drop_nomination(key)
            self._wake_on(self._snapshot.nodes.get(promised))

    def _wake_on(self, info: NodeInfo | None, change: TopologyChange | None = None) -> None:
        """There may be room on a node that was not there before."""
        if info is None or not self._queue.anybody_waits():
            return
        hint = NodeHint(self._placer, info)
        self._queue.wake(
            self._judge(
                lambda wish, entry: hint.helps(wish, entry.rejected) or topology_helps(wish, entry.rejected, change)
            )
        )

    def _wake_for_pod(self, before: Placed | None, now: Placed | None) -> None:
        """A pod came to a node, left one, or changed there. Where one only came there is no room for others."""
        afar = before is None
        if not self._queue.anybody_waits(afar=afar):
            return
        namespaces = self._namespaces
        info = self._snapshot.nodes.get(before.node_name) if before is not None else None
        hint = NodeHint(self._placer, info) if info is not None else None

        def helps(wish: Wish, entry: Entry) -> bool:
            if hint is not None and hint.helps(wish, entry.rejected):
                return True
            if before is not None and departure_helps(wish, entry.rejected, before, namespaces):
                return True
            return now is not None and arrival_helps(wish, entry.rejected, now, namespaces)

        self._queue.wake(self._judge(helps), afar=afar)

    def _wake_for_volumes(self, namespace: str, name: str) -> None:
        """A claim came or changed; or, without a name, a volume or a class did, and might serve anybody."""
        if self._queue.anybody_waits():
            self._queue.wake(
                self._judge(
                    lambda wish, entry: (
                        VOLUME_BINDING in entry.rejected
                        and (not name or (wish.namespace == namespace and name in wish.claims))
                    )
                )
            )

    async def _wake_old(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            self._queue.wake_old()

    def _is_mine(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name in {self._name, ""}
            and not pod.spec.scheduling_gates
            and pod.metadata.deletion_timestamp is None
        )

    # One pod

    def _schedule(self, entry: Entry, group: TaskGroup) -> None:
        """Decide, and start what follows. Nothing else runs in between: the snapshot is the same to the end."""
        key = entry.key
        pod = self._pods.cache.get(key)
        if pod is None or pod.metadata.uid != entry.uid or pod.spec.node_name or not self._is_mine(pod):
            # While a new list is taken over the cache is ahead of the handlers.
            self._queue.discard(key)
            self._hands.release()
            return
        wish = _wish(entry, pod)
        placement = self._placer.place(wish)
        if placement.node_name is not None:
            promise = self._promise_volumes(wish, placement.node_name)
            placed = self._snapshot.assume(wish, placement.node_name)
            self._break_promise(key)
            self._wake_for_pod(None, placed)
            group.start(self._bind(entry, wish, placement.node_name, promise), name=f"bind {key}")
            return
        outcome = self._preempt(wish, placement)
        displaced = self._nominate(wish, outcome)
        rejected = _rejected(placement)
        self._queue.refuse(entry, rejected, afar=not rejected.isdisjoint(RELATIONS))
        group.start(self._refuse(entry, pod, placement, outcome, displaced), name=f"report {key}")

    def _preempt(self, wish: Wish, placement: Placement) -> "Outcome":
        # Loaded when somebody first finds no room, which most short-lived clusters never see.
        from pilothouse.scheduler.preemption import Outcome, preempt

        if not placement.nodes:
            return Outcome()
        budgets = self._budgets.cache.list() if self._budgets is not None else []
        return preempt(self._placer, wish, placement, budgets, self._env.now(), self._chance)

    def _nominate(self, wish: Wish, outcome: "Outcome") -> list[Wish]:
        """Remember for which node the pod waits. Returns those that waited for it and matter less."""
        from pilothouse.scheduler.preemption import by_lower_priority

        if outcome.keeps_nomination:
            return []
        victims = outcome.victims
        if victims is None or victims.info.name != self._snapshot.nomination(wish.key):
            self._break_promise(wish.key)
        if victims is None:
            return []
        displaced = by_lower_priority(self._snapshot.nominated.get(victims.info.name, {}), wish)
        for other in displaced:
            self._snapshot.drop_nomination(other.key)
        self._snapshot.nominate(wish, victims.info.name)
        return displaced

    def _promise_volumes(self, wish: Wish, node_name: str) -> Promise | None:
        volumes = self._placer.volumes(wish)
        plan = volumes.plan(self._snapshot.nodes[node_name].node) if volumes is not None else None
        return self._volumes.promise(wish, plan) if plan else None

    async def _bind_volumes(self, entry: Entry, wish: Wish, promise: Promise) -> None:
        """Have the volumes bound before the pod is. Somebody else may have to make them: no hand is held meanwhile."""
        uid = wish.pod.metadata.uid
        await self._volumes.write(promise)
        self._hands.release()
        try:
            await self._volumes.wait_bound(
                promise,
                lambda: self._nodes.cache.get(promise.plan.node_name),
                lambda: self._queue.knows(entry.key, uid),
            )
        finally:
            await self._hands.acquire()

    async def _bind(self, entry: Entry, wish: Wish, node_name: str, promise: Promise | None) -> None:
        meta, key = wish.pod.metadata, entry.key
        try:
            if promise is not None:
                await self._bind_volumes(entry, wish, promise)
            await self._writes.bind(wish.pod, node_name)
        except (ApiError, OSError, NotBound) as error:
            if promise is not None:
                self._volumes.break_promise(promise)
            withdrawn = self._snapshot.withdraw(key, meta.uid)
            if withdrawn is not None:
                self._wake_for_pod(withdrawn, None)
            if isinstance(error, NotFound | Conflict):
                # Gone, being deleted, or bound by someone else: the watch will say, and this decision is void.
                self._log.info("Binding was refused", v=2, pod=key, node=node_name, err=str(error))
            else:
                self._log.error("Failed to bind pod", error=error, pod=key, node=node_name)
                # Without an answer it may be bound all the same, and must not be told otherwise.
                if isinstance(error, NotBound) and self._queue.knows(key, meta.uid):
                    message = f'running PreBind plugin "{VOLUME_BINDING}": binding volumes: {error}'
                    await self._writes.report(wish.pod, "SchedulerError", message, nominated="")
                elif isinstance(error, ApiError) and not isinstance(error, Timeout):
                    message = f'binding rejected: running Bind plugin "DefaultBinder": {error}'
                    await self._writes.report(wish.pod, "SchedulerError", message, nominated="")
            self._queue.retry(entry)
        else:
            # The watch tells the rest. Until it does the pod is assumed, and not looked at again.
            if self._snapshot.is_assumed(key, meta.uid):
                self._queue.discard(key)
        finally:
            self._hands.release()

    async def _refuse(
        self, entry: Entry, pod: Pod, placement: Placement, outcome: "Outcome", displaced: list[Wish]
    ) -> None:
        """The pod stays refused until it was told: a later attempt must not be overtaken by this one's report."""
        victims = outcome.victims
        nominated = None if outcome.keeps_nomination else victims.info.name if victims is not None else ""
        evicted = True
        try:
            await self._writes.report(pod, "Unschedulable", placement.message(outcome.message), nominated=nominated)
            if victims is not None:
                evicted = await self._push_aside(pod, victims, displaced)
        finally:
            if evicted:
                self._queue.park(entry)
            else:
                self._queue.retry(entry)
            self._hands.release()

    async def _push_aside(self, pod: Pod, victims: "Victims", displaced: list[Wish]) -> bool:
        for other in displaced:
            waiting = self._pods.cache.get(other.key)
            if waiting is not None and waiting.metadata.uid == other.pod.metadata.uid:
                await self._writes.clear_nomination(waiting)
                # It may find another node before the one it waited for is taken.
                if self._queue.knows(other.key, waiting.metadata.uid):
                    self._queue.put(other.key, waiting.metadata.uid, other.priority)
        name = victims.info.name
        self._log.info("Preempting", v=2, pod=_key(pod), node=name, victims=len(victims.pods))
        return await self._writes.evict([placed.pod for placed in victims.pods], pod, name)


def _rejected(placement: Placement) -> frozenset[str]:
    plugins = {refusal.plugin for refusal in placement.refusals}
    if placement.before:
        plugins.add(placement.plugin)
    elif len(placement.refusals) < placement.nodes:
        plugins.add(NOT_NAMED.plugin)
    return frozenset(plugins)


def _wish(entry: Entry, pod: Pod) -> Wish:
    if entry.wish is None or entry.wish.pod is not pod:
        entry.wish = Wish(pod)
    return entry.wish


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
