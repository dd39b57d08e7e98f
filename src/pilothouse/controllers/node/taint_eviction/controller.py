"""Node and pod events lead to syncs, syncs schedule and cancel deletions, and timers start them.

Three queues. Syncs only read caches and schedule deletions, without awaiting, so that one worker each is enough and
their reads are consistent. Upstream: v1.36 ``pkg/controller/tainteviction``.
"""

import asyncio

from pilothouse.api.core import NODES, PODS, Node, ObjectReference, Pod, Taint
from pilothouse.api.meta import Object
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR, TaintEvictionOptions
from pilothouse.controllers.node.taint_eviction.decide import (
    EvictAfter,
    EvictNow,
    Stay,
    decide_eviction,
    no_execute_taints,
    taints_readded,
)
from pilothouse.controllers.node.taint_eviction.timed_workers import Entry, State, TimedWorkers
from pilothouse.controllers.shared.disruption import disruption_target, status_patch
from pilothouse.controllers.shared.live_nodes import LiveNodes, is_about
from pilothouse.controllers.shared.pods_by_node import NODE_INDEX, index_by_node
from pilothouse.env import TaskGroup
from pilothouse.machinery.causes import begin_sync, record_decision
from pilothouse.machinery.times import format_time
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    Requeue,
    WorkerPool,
    WorkQueue,
    object_key,
    split_key,
)
from pilothouse.runtime.events import NORMAL

REASON = "TaintManagerEviction"
RETRY_SECONDS = (0.01, 60.0)
"""Upstream tries five times, 10 ms apart, and then drops the pod (kubernetes#140639)."""
RESYNC_SECONDS = 5.0
"""Delay before a pod is synced again whose cached node and live node differed."""

LIVE_SECONDS = 1.0
"""Maximum age of a live read of a node when one of its pods is deleted because of it."""

_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0)
_POD_META = PODS.read_as(Object)


class TaintEvictionController:
    def __init__(self, context: ControllerContext) -> None:
        self.name = DESCRIPTOR.name
        self._env = context.env
        self._log = context.log
        self._client = context.client
        nodes = context.informer(NODES)
        pods = context.informer(PODS, indexes={NODE_INDEX: index_by_node})
        self._waits_for = context.awaited
        self._nodes, self._pods = nodes.cache, pods.cache
        self._live = LiveNodes(context.client, context.env)
        self._recorder = EventRecorder(context.client, context.env, self.name)
        metrics = context.metrics
        self._deletions = metrics.counter(
            "taint_eviction_controller_pod_deletions_total",
            "[ALPHA] Total number of Pods deleted by TaintEvictionController since its start.",
        ).labels()
        self._latency = metrics.histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "[ALPHA] Latency, in seconds, between the time when a taint effect has been activated for the Pod and its "
            "deletion via TaintEvictionController.",
            buckets=_BUCKETS,
        ).labels()
        self._node_queue: WorkQueue[str] = WorkQueue(context.env, "noexec_taint_node", metrics)
        self._pod_queue: WorkQueue[str] = WorkQueue(context.env, "noexec_taint_pod", metrics)
        limiter = ExponentialFailureLimiter[str](*RETRY_SECONDS)
        self._timed_workers = TimedWorkers(WorkQueue(context.env, "noexec_taint_eviction", metrics, limiter=limiter))
        options = context.options_as(TaintEvictionOptions)
        self._comparison_operators = options.comparison_operators
        self.pools = (
            WorkerPool(
                f"{self.name}-nodes",
                self._node_queue,
                self._handle_node_update,
                metrics=metrics,
                log=self._log,
                component=self.name,
            ),
            WorkerPool(
                f"{self.name}-pods",
                self._pod_queue,
                self._handle_pod_update,
                metrics=metrics,
                log=self._log,
                component=self.name,
            ),
            WorkerPool(
                self.name,
                self._timed_workers.queue,
                self._evict_pod,
                workers=options.workers,
                metrics=metrics,
                log=self._log,
            ),
        )
        nodes.add_handler(
            lambda node, _initial: self._node_queue.add(node.metadata.name),
            self._update_node,
            lambda node, _unknown: self._node_queue.add(node.metadata.name),
        )
        pods.add_handler(
            lambda pod, _initial: self._pod_queue.add(object_key(pod.metadata)),
            self._update_pod,
            lambda pod, _unknown: self._pod_queue.add(object_key(pod.metadata)),
        )

    async def run(self) -> None:
        self._log.info("Starting controller", controller=self.name)
        try:
            async with TaskGroup(self.name) as group:
                group.start(self._recorder.run(), name=f"{self.name}-events")
                for informer in self._waits_for:
                    await informer.wait_synced()
                for pool in self.pools:
                    group.start(pool.run(), name=pool.name)
                await asyncio.get_running_loop().create_future()
        finally:
            for pool in self.pools:
                pool.queue.shut_down()
            self._log.info("Stopped controller", controller=self.name)

    # Event handlers

    def _update_node(self, old: Node, new: Node) -> None:
        if no_execute_taints(old) != no_execute_taints(new):
            self._node_queue.add(new.metadata.name)

    def _update_pod(self, old: Pod, new: Pod) -> None:
        moved = old.spec.node_name != new.spec.node_name or old.metadata.uid != new.metadata.uid
        if moved or old.spec.tolerations != new.spec.tolerations:
            self._pod_queue.add(object_key(new.metadata))

    # Syncs

    async def _handle_node_update(self, name: str) -> Requeue | None:
        node = self._nodes.get(name)
        if node is None:
            return None  # scheduled deletions stay, as upstream
        taints = no_execute_taints(node)
        decided = self._live.moment()
        for pod in self._pods.by_index(NODE_INDEX, name):
            if taints:
                self._process_pod_on_node(pod, node, decided)
            else:
                self._cancel_work_with_event(object_key(pod.metadata))
        return None

    async def _handle_pod_update(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        entry = self._timed_workers.get(key)
        if entry is not None and (pod is None or pod.metadata.uid != entry.uid):
            self._cancel_work_with_event(key)
        if pod is None or not pod.spec.node_name:
            return None
        node = self._nodes.get(pod.spec.node_name)
        # Without taints there is nothing to cancel here: the sync of the node has done that.
        if node is not None and no_execute_taints(node):
            self._process_pod_on_node(pod, node, self._live.moment())
        return None

    def _process_pod_on_node(self, pod: Pod, node: Node, decided: int) -> None:
        key = object_key(pod.metadata)
        taints = no_execute_taints(node)
        match decide_eviction(taints, pod.spec.tolerations, comparison_operators=self._comparison_operators):
            case EvictNow():
                self._cancel_work_with_event(key)
                self._schedule(pod, taints, 0.0, decided, immediate=True)
            case Stay():
                self._cancel_work_with_event(key)
            case EvictAfter(seconds):
                entry = self._timed_workers.get(key)
                remaining = entry is not None and entry.state is State.WAITING
                if (
                    entry is None
                    or entry.uid != pod.metadata.uid
                    or (remaining and taints_readded(entry.taints, taints))
                ):
                    self._cancel_work_with_event(key)
                    self._schedule(pod, taints, seconds, decided, immediate=False)
                elif remaining and entry.made_at == self._env.monotonic():
                    # More events may arrive at the same moment.
                    self._schedule(pod, taints, seconds, decided, immediate=False)
                elif remaining:
                    entry.taints = taints

    def _schedule(self, pod: Pod, taints: tuple[Taint, ...], seconds: float, decided: int, *, immediate: bool) -> None:
        now = self._env.monotonic()
        meta = pod.metadata
        entry = Entry(meta.uid, pod.spec.node_name, taints, now + seconds, now, decided, immediate=immediate)
        self._timed_workers.set(object_key(meta), entry, now)

    def _cancel_work_with_event(self, key: str) -> None:
        if self._timed_workers.drop(key):
            self._record_event(key, f"Cancelling deletion of Pod {key}")

    # Deletions

    async def _evict_pod(self, key: str) -> Requeue | None:
        """Delete the pod if that is still right. Failures are raised, and retried."""
        entry = self._timed_workers.get(key)
        now = self._env.monotonic()
        if entry is None or entry.state is State.DONE:
            return None
        if entry.at > now:
            return Requeue(entry.at - now)  # it was rescheduled
        if entry.state is State.WAITING:
            entry.state = State.DUE
            entry.decided = self._live.moment()
        namespace, name = split_key(key)
        begin_sync(self.name, key, entry.triggers)
        try:
            pod = await self._client.get(PODS, name, namespace)
            if pod.metadata.uid != entry.uid or not await self._is_eviction_still_needed(key, entry, pod):
                return None
            if not entry.announced:
                entry.announced = True
                self._record_event(key, f"Marking for deletion Pod {key}")
            record_decision(_reason(entry))
            await self._add_condition_and_delete_pod(pod)
        except NotFound as error:
            if not is_about(error, name):
                raise
            self._finish(key, entry)
            return None
        self._finish(key, entry)
        self._deletions.inc()
        self._latency.observe(max(0.0, self._env.monotonic() - entry.at))
        return None

    async def _is_eviction_still_needed(self, key: str, entry: Entry, pod: Pod) -> bool:
        """Whether the live pod and node lead to the same decision: the caches may be old (kubernetes#119862).

        A time that has passed counts as passed. A pod that was to be deleted immediately, but tolerates the live taints
        for some time, gets that time; so does one whose taint was removed and added again in the meantime.
        """
        node = await self._live.get(entry.node, since=entry.decided, max_age=LIVE_SECONDS)
        if self._timed_workers.get(key) is not entry:
            return False  # cancelled, or decided again
        if node is None:
            return True
        taints = no_execute_taints(node)
        immediate = entry.at == entry.made_at
        match decide_eviction(taints, pod.spec.tolerations, comparison_operators=self._comparison_operators):
            case Stay():
                self._log.info("Not evicting pod, its node has no taint that it must leave for", v=2, pod=key)
                self._timed_workers.drop(key)
                # The cache may show the taint added again without the change in between: sync once more.
                self._pod_queue.add_after(key, RESYNC_SECONDS)
                return False
            case EvictAfter(seconds) if seconds > 0 and (immediate or taints_readded(entry.taints, taints)):
                self._log.info("Not evicting pod yet, it tolerates the taints for a time", v=2, pod=key)
                self._schedule(pod, taints, seconds, self._live.moment(), immediate=False)
                return False
            case _:
                return True

    async def _add_condition_and_delete_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        message = "Taint manager: deleting due to NoExecute taint"
        body = status_patch(pod, self._env.now(), condition=disruption_target(pod, "DeletionByTaintManager", message))
        if body is not None:
            patch = strategic_merge_patch(body)
            await self._client.patch(_POD_META, meta.name, patch, meta.namespace, subresource="status")
        self._log.info("Deleting pod", controller=self.name, pod=object_key(meta))
        await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)

    def _finish(self, key: str, entry: Entry) -> None:
        """Mark as done, unless something else was decided in the meantime; kept until the pod's deletion is
        observed."""
        entry.state = State.DONE
        pod = self._pods.get(key)
        if self._timed_workers.get(key) is entry and (pod is None or pod.metadata.uid != entry.uid):
            self._timed_workers.drop(key)

    def _record_event(self, key: str, message: str) -> None:
        namespace, name = split_key(key)
        # Upstream's reference has no uid; kubectl describe finds the event by name.
        reference = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name)
        self._recorder.event(reference, NORMAL, REASON, message)


def _reason(entry: Entry) -> str:
    taints = ", ".join(
        f"{taint.key}:NoExecute" + (f" since {format_time(taint.time_added)}" if taint.time_added else "")
        for taint in entry.taints
    )
    seconds = entry.at - entry.made_at
    tolerated = f"tolerates for {seconds:g} s" if seconds > 0 else "does not tolerate"
    return f"evicted from node {entry.node}: the pod {tolerated} its taints {taints}"


build = TaintEvictionController
