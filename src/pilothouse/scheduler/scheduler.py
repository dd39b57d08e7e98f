"""The scheduling loop: pods wait in a queue, one decision at a time, what was decided is carried out beside it.

Decisions are made one after another, against a snapshot in which every earlier decision counts already. Binding is the
slow part and does not hold up the next decision; a binding that fails takes its pod out of the snapshot again. At most
``WRITES_AT_ONCE`` of them are on their way: past that decisions wait, so that a pod of high priority that comes
meanwhile is still first.

A pod that fits nowhere waits for an event that could help it: a node that came or changed, or room that became free on
one, and then only if it would fit on that very node now (upstream's queueing hints ask the same per plugin).
"""

import asyncio

from pilothouse.api.core import NODES, PODS, Node, Pod
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound, Timeout
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.times import format_time
from pilothouse.runtime import EventRecorder, InformerFactory, object_reference
from pilothouse.scheduler.placement import Placement, Wish, explain, place, why_not, wish_of
from pilothouse.scheduler.pod_queue import Entry, PodQueue
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.semantics.pods import effective_requests, is_terminal

SCHEDULER_NAME = "default-scheduler"
WRITES_AT_ONCE = 64
_FLUSH_SECONDS = 30.0
_NOTE_LIMIT = 1024
"""Longest message of an event (``NoteLengthLimit``)."""


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
        self._log = log or Log("scheduler")
        self._name = scheduler_name
        self._snapshot = Snapshot()
        self._start = 0
        self._queue = PodQueue(env)
        self._writes = asyncio.Semaphore(WRITES_AT_ONCE)
        self._recorder = EventRecorder(client, env, scheduler_name)
        self._pods = informers.informer(PODS)
        self._nodes = informers.informer(NODES)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._see_pod(None, pod),
            on_update=self._see_pod,
            on_delete=lambda pod, _unknown: self._lose_pod(pod),
        )
        self._nodes.add_handler(
            on_add=lambda node, _initial: self._see_node(node),
            on_update=lambda _old, node: self._see_node(node),
            on_delete=lambda node, _unknown: self._snapshot.remove_node(node.metadata.name),
        )

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with TaskGroup("scheduler") as group:
            group.start(self._recorder.run(), name="scheduler events")
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            group.start(self._wake_old(), name="scheduler flush")
            while True:
                # First a free hand, then the pod: whatever came with a higher priority meanwhile is served first.
                await self._writes.acquire()
                entry = await self._queue.get()
                self._schedule(entry, group)
                # Bindings and events want their turn between two decisions.
                await asyncio.sleep(0)

    # What happens around

    def _see_pod(self, old: Pod | None, pod: Pod) -> None:
        key, uid = _key(pod), pod.metadata.uid
        if old is not None and old.metadata.uid != uid:
            self._lose_pod(old)
            old = None
        if is_terminal(pod):
            self._lose_pod(pod)
        elif pod.spec.node_name:
            self._queue.discard(key)
            # Requests of a running pod change with its generation, if at all.
            if (
                old is None
                or old.metadata.generation != pod.metadata.generation
                or not self._snapshot.is_confirmed(key, uid, pod.spec.node_name)
            ):
                self._room_on(self._snapshot.confirm(key, uid, pod.spec.node_name, effective_requests(pod)))
        elif not self._is_mine(pod):
            self._queue.discard(key)
        elif not self._snapshot.is_assumed(key, uid) and (
            # What is written about the pod's status, by us for one, makes it fit nowhere new.
            not self._queue.knows(key, uid) or old is None or old.spec != pod.spec
        ):
            self._queue.put(key, uid, pod.spec.priority or 0)

    def _lose_pod(self, pod: Pod) -> None:
        key = _key(pod)
        self._queue.discard(key)
        self._room_on(self._snapshot.forget(key))

    def _see_node(self, node: Node) -> None:
        if self._snapshot.set_node(node):
            self._room_on(node.metadata.name)

    def _room_on(self, node_name: str | None) -> None:
        """Pods that fit on this node now are tried again."""
        info = self._snapshot.nodes.get(node_name) if node_name is not None else None
        if info is None:
            return

        def helps(entry: Entry) -> bool:
            pod = self._pods.cache.get(entry.key)
            return pod is not None and not why_not(_wish(entry, pod), info)

        self._queue.wake(helps)

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
            self._writes.release()
            return
        wish = _wish(entry, pod)
        placement = place(wish, self._snapshot.order, self._start)
        self._start = placement.next_start
        if placement.node_name is None:
            group.start(self._refuse(entry, pod, placement), name=f"report {key}")
        else:
            self._snapshot.assume(key, entry.uid, placement.node_name, wish.demand)
            group.start(self._bind(entry, wish, placement.node_name), name=f"bind {key}")

    async def _bind(self, entry: Entry, wish: Wish, node_name: str) -> None:
        meta, key = wish.pod.metadata, entry.key
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        try:
            await self._client.create(PODS.raw, binding, meta.namespace, name=meta.name, subresource="binding")
        except (ApiError, OSError) as error:
            self._room_on(self._snapshot.withdraw(key, meta.uid))
            if isinstance(error, NotFound | Conflict):
                # Gone, being deleted, or bound by someone else: the watch will say, and this decision is void.
                self._log.info("Binding was refused", v=2, pod=key, node=node_name, err=str(error))
            else:
                self._log.error("Failed to bind pod", error=error, pod=key, node=node_name)
                # Without an answer it may be bound all the same, and must not be told otherwise.
                if isinstance(error, ApiError) and not isinstance(error, Timeout):
                    message = f'binding rejected: running Bind plugin "DefaultBinder": {error}'
                    await self._report(wish.pod, "SchedulerError", message)
            self._queue.retry(entry)
        else:
            message = f"Successfully assigned {key} to {node_name}"
            self._recorder.event(object_reference(PODS, meta), "Normal", "Scheduled", message)
            # The watch tells the rest. Until it does the pod is assumed, and not looked at again.
            if self._snapshot.is_assumed(key, meta.uid):
                self._queue.discard(key)
        finally:
            self._writes.release()

    async def _refuse(self, entry: Entry, pod: Pod, placement: Placement) -> None:
        """The pod stays taken until it was told: a later attempt must not be overtaken by this one's report."""
        try:
            await self._report(pod, "Unschedulable", explain(len(self._snapshot.order), placement.refusals))
        finally:
            self._queue.park(entry)
            self._writes.release()

    async def _report(self, pod: Pod, reason: str, message: str) -> None:
        """The event FailedScheduling and the condition PodScheduled; the condition only where it says something new."""
        note = message if len(message) <= _NOTE_LIMIT else message[: _NOTE_LIMIT - 4] + " ..."
        self._recorder.event(object_reference(PODS, pod.metadata), "Warning", "FailedScheduling", note)
        present = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if present is not None and (present.status, present.reason, present.message) == ("False", reason, message):
            return
        since = present.last_transition_time if present is not None and present.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "observedGeneration": pod.metadata.generation or None,
            "lastProbeTime": None,
            "lastTransitionTime": format_time(since or self._env.now()),
        }
        patch = strategic_merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}})
        try:
            await self._client.patch(PODS.raw, pod.metadata.name, patch, pod.metadata.namespace, subresource="status")
        except (NotFound, Conflict):
            return
        except (ApiError, OSError) as error:
            self._log.error("Error updating pod condition", error=error, pod=_key(pod))


def _wish(entry: Entry, pod: Pod) -> Wish:
    if entry.wish is None or entry.wish.pod is not pod:
        entry.wish = wish_of(pod)
    return entry.wish


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
