"""The scheduling loop: pods wait in a queue, one decision at a time, bindings go out in parallel.

Decisions are made one after another, against a snapshot in which every earlier decision counts already. Binding is the
slow part and does not hold up the next decision; a binding that fails takes its pod out of the snapshot again. A pod
that fits nowhere waits for an event that could help: a node that came or changed, or a pod that went.
"""

import asyncio
from collections.abc import Mapping

from pilothouse.api.core import NODES, PODS, Node, Pod
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.times import format_time
from pilothouse.runtime import (
    EventRecorder,
    ExponentialFailureLimiter,
    InformerFactory,
    QueueClosed,
    WorkQueue,
    object_reference,
)
from pilothouse.scheduler.placement import explain, place
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.semantics.pods import effective_requests, is_terminal

SCHEDULER_NAME = "default-scheduler"
BINDINGS_AT_ONCE = 32
_BACKOFF_SECONDS = (1.0, 10.0)
"""First and longest pause of a pod that could not be placed (kube-scheduler v1.36 defaults)."""
_UNSCHEDULABLE_SECONDS = 300.0
"""A pod that nothing has helped is tried again after this long all the same (v1.36
``podMaxInUnschedulablePodsDuration``)."""


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
        self._order = list(self._snapshot.nodes.values())
        self._start = 0
        self._unschedulable: dict[str, float] = {}
        self._queue: WorkQueue[str] = WorkQueue(env, "scheduler", limiter=ExponentialFailureLimiter(*_BACKOFF_SECONDS))
        self._bindings = asyncio.Semaphore(BINDINGS_AT_ONCE)
        self._recorder = EventRecorder(client, env, scheduler_name)
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
            group.start(self._recorder.run(), name="scheduler events")
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            group.start(self._retry_left_behind(), name="scheduler flush")
            while True:
                try:
                    key = await self._queue.get()
                except QueueClosed:
                    return
                try:
                    self._schedule(key, group)
                finally:
                    self._queue.done(key)

    # What happens around

    def _see_pod(self, _old: Pod | None, pod: Pod) -> None:
        key = _key(pod)
        if is_terminal(pod):
            self._lose_pod(pod)
        elif pod.spec.node_name:
            self._unschedulable.pop(key, None)
            self._snapshot.place(key, pod, pod.spec.node_name, effective_requests(pod))
        elif self._is_mine(pod) and key not in self._unschedulable:
            self._queue.add(key)

    def _lose_pod(self, pod: Pod) -> None:
        key = _key(pod)
        self._unschedulable.pop(key, None)
        self._queue.forget(key)
        if self._snapshot.forget(key):
            self._try_unschedulable_again()

    def _see_node(self, old: Node | None, node: Node) -> None:
        self._snapshot.set_node(node)
        if old is None:
            self._order = list(self._snapshot.nodes.values())
        if (
            old is None
            or old.spec != node.spec
            or old.metadata.labels != node.metadata.labels
            or old.status.allocatable != node.status.allocatable
        ):
            self._try_unschedulable_again()

    def _lose_node(self, node: Node) -> None:
        self._snapshot.remove_node(node.metadata.name)
        self._order = list(self._snapshot.nodes.values())

    def _try_unschedulable_again(self) -> None:
        for key in self._unschedulable:
            self._queue.add_rate_limited(key)
        self._unschedulable.clear()

    async def _retry_left_behind(self) -> None:
        """Upstream's flush: whatever has waited for five minutes is tried again, in case a wake-up was missed."""
        while True:
            await asyncio.sleep(30.0)
            now = self._env.monotonic()
            late = [key for key, since in self._unschedulable.items() if now - since >= _UNSCHEDULABLE_SECONDS]
            for key in late:
                del self._unschedulable[key]
                self._queue.add(key)

    def _is_mine(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name in {self._name, ""}
            and not pod.spec.scheduling_gates
            and pod.metadata.deletion_timestamp is None
        )

    # One pod

    def _schedule(self, key: str, group: TaskGroup) -> None:
        pod = self._pods.cache.get(key)
        if pod is None or pod.spec.node_name or not self._is_mine(pod) or is_terminal(pod):
            return
        demand = effective_requests(pod)
        placement = place(pod, demand, self._order, self._start)
        self._start = placement.next_start
        if placement.node_name is None:
            self._unschedulable[key] = self._env.monotonic()
            group.start(self._report_unschedulable(pod, placement.refusals), name=f"report {key}")
            return
        self._snapshot.place(key, pod, placement.node_name, demand)
        group.start(self._bind(key, pod, placement.node_name), name=f"bind {key}")

    async def _bind(self, key: str, pod: Pod, node_name: str) -> None:
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        try:
            async with self._bindings:
                await self._client.create(PODS.raw, binding, meta.namespace, name=meta.name, subresource="binding")
        except (ApiError, ConnectionError, TimeoutError) as error:
            self._snapshot.forget(key)
            if isinstance(error, NotFound | Conflict):
                # Gone, replaced or bound by someone else: the watch will say, and this decision is void.
                self._log.info("Binding was refused", v=2, pod=key, node=node_name, err=str(error))
            else:
                self._log.error("Failed to bind pod", error=error, pod=key, node=node_name)
            self._queue.add_rate_limited(key)
            return
        self._queue.forget(key)
        message = f"Successfully assigned {key} to {node_name}"
        self._recorder.event(object_reference(PODS, meta), "Normal", "Scheduled", message)

    async def _report_unschedulable(self, pod: Pod, refusals: Mapping[str, int]) -> None:
        message = explain(len(self._order), refusals)
        self._recorder.event(object_reference(PODS, pod.metadata), "Warning", "FailedScheduling", message)
        present = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if present is not None and (present.status, present.reason, present.message) == (
            "False",
            "Unschedulable",
            message,
        ):
            return
        since = present.last_transition_time if present is not None and present.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": format_time(since or self._env.now()),
        }
        patch = strategic_merge_patch({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}})
        try:
            await self._client.patch(PODS.raw, pod.metadata.name, patch, pod.metadata.namespace, subresource="status")
        except (NotFound, Conflict):
            return
        except (ApiError, ConnectionError, TimeoutError) as error:
            self._log.error("Error updating pod condition", error=error, pod=_key(pod))


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
