"""A pass over all nodes every few seconds, and workers for labels and NoSchedule taints, for NoExecute taints at the
zones' rates, and for new pods of nodes that are down.

Upstream: v1.36 ``pkg/controller/nodelifecycle/node_lifecycle_controller.go``.
"""

from collections.abc import Sequence

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, PODS, Pod, Taint
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR, NodeLifecycleOptions
from pilothouse.controllers.node.node_lifecycle.metrics import Metrics
from pilothouse.controllers.node.node_lifecycle.monitor import NodeMonitor
from pilothouse.controllers.node.node_lifecycle.node_writes import NodeWrites
from pilothouse.controllers.node.node_lifecycle.pod_writes import PodWrites, has_ready_condition_to_update
from pilothouse.controllers.node.node_lifecycle.taints import (
    beta_labels_to_set,
    no_execute_taints_for,
    no_schedule_changes,
)
from pilothouse.controllers.node.node_lifecycle.zones import describe_zone, zone_of
from pilothouse.controllers.shared.pauses import pause
from pilothouse.controllers.shared.pods_by_node import NODE_INDEX, index_by_node
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    RetryLater,
    WorkerPool,
    WorkQueue,
    object_key,
)
from pilothouse.semantics.nodes import node_ready_condition

PASS = "pass"  # noqa: S105  # the one key there is, no secret
NODE_WORKERS = 8
POD_WORKERS = 4
TAINTING_SECONDS = 0.1
"""The period of the check of a zone's queue."""
EVENT_SOURCE = "node-controller"


class NodeLifecycleController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        env, metrics = context.env, context.metrics
        leases = context.informer(LEASES)
        nodes = context.informer(NODES)
        pods = context.informer(PODS, indexes={NODE_INDEX: index_by_node})
        super().__init__(context, DESCRIPTOR.name, queue_name="node_lifecycle_monitor")
        self._options = context.options_as(NodeLifecycleOptions)
        self._nodes, self._pods = nodes.cache, pods.cache
        self._recorder = EventRecorder(context.client, env, EVENT_SOURCE)
        self.add_runnable("events", self._recorder.run)
        self._writes = NodeWrites(context.client, env)
        self._pod_writes = PodWrites(context.client, env, self._recorder, self.log)
        self._metrics = Metrics(metrics)
        self._node_queue: WorkQueue[str] = WorkQueue(env, "node_lifecycle_controller", metrics)
        self._pod_queue: WorkQueue[str] = WorkQueue(env, "node_lifecycle_controller_pods", metrics)
        self._zone_queue: WorkQueue[str] = WorkQueue(env, "node_lifecycle_zones", metrics)
        for suffix, queue, act, workers in (
            ("nodes", self._node_queue, self._sync_node, NODE_WORKERS),
            ("pods", self._pod_queue, self._process_pod, POD_WORKERS),
            ("zones", self._zone_queue, self._do_no_execute_tainting_pass, 1),
        ):
            self.add_worker_pool(
                WorkerPool(f"{self.name}-{suffix}", queue, act, workers=workers, metrics=metrics, log=self.log)
            )
        self._monitor = NodeMonitor(
            env=env,
            options=self._options,
            nodes=self._nodes,
            pods=self._pods,
            leases=leases.cache,
            node_writes=self._writes,
            pod_writes=self._pod_writes,
            recorder=self._recorder,
            metrics=self._metrics,
            taint=lambda zone: self._zone_queue.add_after(zone, TAINTING_SECONDS),
            log=self.log,
        )
        nodes.add_handler(
            lambda node, _initial: self._node_queue.add(node.metadata.name),
            lambda _old, node: self._node_queue.add(node.metadata.name),
            lambda node, _unknown: self._monitor.delete_node(node.metadata.name),
        )
        pods.add_handler(lambda pod, _initial: self._enqueue_pod(None, pod), self._enqueue_pod)
        self.queue.at_rest = self._at_rest
        self.queue.add(PASS)

    async def reconcile(self, key: str) -> Requeue | None:
        await self._monitor.monitor_node_health()
        return Requeue(pause(self._options.monitor_period))

    def _at_rest(self, _key: str) -> float | None:
        return pause(self._options.monitor_period) if self._monitor.is_at_rest() else None

    # One node, as soon as it changes

    async def _sync_node(self, name: str) -> Requeue | None:
        """NoSchedule taints and older labels. A failure of one does not stop the other."""
        node = self._nodes.get(name)
        if node is None:
            return None
        failure: Exception | None = None
        add, remove = no_schedule_changes(node)
        labels = beta_labels_to_set(node)
        try:
            if add or remove:
                record_decision(
                    f"NoSchedule taints by conditions and spec of node {name}:{_describe_taints(add, remove)}"
                )
                await self._writes.swap_node_controller_taint(node, add, remove)
        except NotFound:
            return None
        except (ApiError, OSError) as error:
            failure = error
        if labels:
            record_decision(f"node {name} gets the older labels {', '.join(labels)}, as their stable ones are")
            await self._writes.set_labels(name, labels)
        if failure is not None:
            raise failure
        return None

    # One zone, as long as its queue has nodes

    async def _do_no_execute_tainting_pass(self, zone: str) -> Requeue | None:
        """Taint as many nodes NoExecute as the rate allows now."""
        queue = self._monitor.taint_queue_of(zone)
        if not self._monitor.has_weighed:
            return None
        while (name := queue.head(self.env.monotonic())) is not None:
            node = self._nodes.get(name)
            if node is None:
                queue.done(name)
                continue
            ready = node_ready_condition(node)
            swap = no_execute_taints_for(ready.status) if ready is not None else None
            if ready is None or swap is None:
                # Ready again. If the cache is stale, the next pass adds it again.
                queue.done(name)
                continue
            if not queue.limiter.try_accept(self.env.monotonic()):
                break
            begin_sync(self.name, name, current_triggers())
            record_decision(
                f"Ready of node {name} is {ready.status} ({ready.reason}): taint {swap[0].key}:NoExecute, at most "
                f"{queue.limiter.rate:g} nodes/s in zone {describe_zone(zone)}"
            )
            try:
                tainted = await self._writes.swap_node_controller_taint(
                    node, [swap[0]], [swap[1]], while_ready_is=ready.status
                )
            except (ApiError, OSError) as error:
                self.log.warning("Unable to taint a node", error=error, node=name)
                queue.retry(name, self.env.monotonic())
            else:
                queue.done(name)
                if tainted:
                    self._metrics.evictions.labels(zone_of(node)).inc()
        # At rate 0 only a new rate can change anything, and that adds the zone.
        return Requeue(TAINTING_SECONDS) if len(queue) and queue.limiter.rate > 0 else None

    # One pod that is bound to a node that is down

    def _enqueue_pod(self, old: Pod | None, pod: Pod) -> None:
        name = pod.spec.node_name
        if name and (old is None or old.spec.node_name != name) and self._monitor.is_down(name):
            self._pod_queue.add(object_key(pod.metadata))

    async def _process_pod(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or not self._monitor.is_down(pod.spec.node_name):
            return None
        record_decision(f"node {pod.spec.node_name} is not ready: the pod that was bound to it becomes not ready")
        try:
            if not has_ready_condition_to_update(pod) or await self._writes.is_ready(pod.spec.node_name):
                return None  # the cache of nodes is stale
        except NotFound:
            return None
        if not await self._pod_writes.mark_pods_not_ready([pod]):
            raise RetryLater(f"pod {key} could not be marked as not ready")
        return None


def _describe_taints(added: Sequence[Taint], removed: Sequence[Taint]) -> str:
    return "".join(f" +{taint.key}" for taint in added) + "".join(f" -{taint.key}" for taint in removed)


build = NodeLifecycleController
