"""One pass over all garbage, every 20 seconds: find, confirm live, mark as Failed, delete.

Upstream: v1.36 ``pkg/controller/podgc/gc_controller.go``, with kubernetes#141887.
"""

from pilothouse.api.core import NODES, PODS, Node, Pod, PodCondition
from pilothouse.api.meta import Object
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR, PodGarbageCollectorOptions
from pilothouse.controllers.cleanup.pod_garbage_collector.decide import (
    GARBAGE_INDEX,
    TERMINATED,
    TERMINATING,
    UNSCHEDULED,
    index_by_garbage,
    is_kept_by_finalizers,
    is_out_of_service,
    pods_over_threshold,
    sorted_for_deletion,
)
from pilothouse.controllers.shared.disruption import disruption_target, status_patch
from pilothouse.controllers.shared.live_nodes import LiveNodes
from pilothouse.controllers.shared.parallel import each
from pilothouse.controllers.shared.pods_by_node import NODE_INDEX, index_by_node
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, WorkQueue, object_key
from pilothouse.semantics.pods import is_terminal

PASS = "pass"  # noqa: S105  # the one key there is, no secret
CONCURRENCY = 16
"""Concurrent deletions. Upstream starts all at once; here each is checked shortly before it is sent."""
LIVE_SECONDS = 1.0
"""Maximum age of a live read of a node when one of its pods is deleted because of it."""

_POD_META = PODS.read_as(Object)


class PodGarbageCollector(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        pods = context.informer(PODS, indexes={NODE_INDEX: index_by_node, GARBAGE_INDEX: index_by_garbage})
        nodes = context.informer(NODES)
        super().__init__(context, DESCRIPTOR.name, queue_name="pod_garbage_collector")
        self._options = context.options_as(PodGarbageCollectorOptions)
        self._client = context.client
        self._pods = pods.cache
        self._nodes = nodes.cache
        self._live = LiveNodes(context.client, context.env)
        self._quarantine: WorkQueue[str] = WorkQueue(context.env, "orphaned_pods_nodes", context.metrics)
        labels = ("namespace", "reason")
        self._attempts = context.metrics.counter(
            "pod_gc_collector_force_delete_pods_total",
            "[ALPHA] Number of pods that are being forcefully deleted since the Pod GC Controller started.",
            labels,
        )
        self._failures = context.metrics.counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "[ALPHA] Number of errors encountered when forcefully deleting the pods since the Pod GC Controller "
            "started.",
            labels,
        )
        self.queue.at_rest = self._at_rest
        self.queue.add(PASS)

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            self._quarantine.shut_down()

    async def reconcile(self, key: str) -> Requeue | None:
        """One pass. Failures are logged and retried in the next one."""
        terminated = pods_over_threshold(
            self._pods.by_index(GARBAGE_INDEX, TERMINATED), self._options.terminated_threshold
        )
        if terminated:
            self.log.info("Garbage collecting pods", numPods=len(terminated))
        await each(terminated, lambda pod: self._mark_failed_and_delete_pod(pod, "terminated"), concurrency=CONCURRENCY)
        await self._gc_terminating()
        await self._gc_orphaned()
        for pod in self._pods.by_index(GARBAGE_INDEX, UNSCHEDULED):
            await self._mark_failed_and_delete_pod(pod, "unscheduled")
        return Requeue(self._options.period)

    def _at_rest(self, _key: str) -> float | None:
        """The period, if a pass would find no pods to process."""
        pods, nodes = self._pods, self._nodes
        terminated = pods.count(GARBAGE_INDEX, TERMINATED)
        if (
            (terminated and terminated > self._options.terminated_threshold)
            or pods.count(GARBAGE_INDEX, TERMINATING)
            or pods.count(GARBAGE_INDEX, UNSCHEDULED)
            or len(self._quarantine)
            or any(name not in nodes for name in pods.index_values(NODE_INDEX))
        ):
            return None
        return self._options.period

    async def _gc_terminating(self) -> None:
        to_delete = []
        for pod in self._pods.by_index(GARBAGE_INDEX, TERMINATING):
            node = self._nodes.get(pod.spec.node_name)
            if node is not None and is_out_of_service(node):
                to_delete.append(pod)
        since = self._live.moment()

        async def remove(pod: Pod) -> None:
            node = await self._get_live_node(pod.spec.node_name, since)
            if isinstance(node, Node) and is_out_of_service(node):
                await self._mark_failed_and_delete_pod(pod, "out-of-service")

        await each(sorted_for_deletion(to_delete), remove, concurrency=CONCURRENCY)

    async def _gc_orphaned(self) -> None:
        for name in self._pods.index_values(NODE_INDEX):
            if name not in self._nodes:
                self._quarantine.add_after(name, self._options.quarantine)
        since = self._live.moment()
        while len(self._quarantine):
            name = await self._quarantine.get()
            try:
                await self._delete_pods_of_node(name, since)
            finally:
                self._quarantine.done(name)

    async def _delete_pods_of_node(self, name: str, since: int) -> None:
        """Delete all pods of a missing node; if a read fails, the next pass continues."""
        for pod in self._pods.by_index(NODE_INDEX, name):
            if name in self._nodes or await self._get_live_node(name, since) is not None:
                return
            self.log.info("Found orphaned Pod assigned to the Node, deleting", v=2, pod=_key(pod), node=name)
            condition = disruption_target(pod, "DeletionByPodGC", "PodGC: node no longer exists")
            await self._mark_failed_and_delete_pod(pod, "orphaned", condition)

    async def _get_live_node(self, name: str, since: int) -> Node | Exception | None:
        """The live node, None if it does not exist, or the error."""
        try:
            return await self._live.get(name, since=since, max_age=LIVE_SECONDS)
        except (ApiError, OSError) as error:
            self.log.error("Error while getting node", error=error, node=name)  # noqa: TRY400  # no traceback: the server said no
            return error

    async def _mark_failed_and_delete_pod(self, pod: Pod, reason: str, condition: PodCondition | None = None) -> None:
        """Set its phase to Failed if it has not finished, then force-delete it."""
        if is_kept_by_finalizers(pod):
            return
        meta = pod.metadata
        begin_sync(self.name, _key(pod), current_triggers())
        record_decision(self._describe(pod, reason))
        self.log.info("PodGC is force deleting Pod", pod=_key(pod), reason=reason)
        self._attempts.labels(meta.namespace, reason).inc()
        try:
            if not is_terminal(pod):
                body = status_patch(pod, self.env.now(), condition=condition, phase="Failed")
                assert body is not None, "an unfinished pod is not Failed yet"
                patch = strategic_merge_patch(body)
                await self._client.patch(_POD_META, meta.name, patch, meta.namespace, subresource="status")
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)
        except NotFound:
            return
        except (ApiError, OSError) as error:
            if isinstance(error, Conflict) and self._is_replaced(pod):
                return
            self._failures.labels(meta.namespace, reason).inc()
            self.log.error("Unable to remove a pod", error=error, pod=_key(pod), reason=reason)  # noqa: TRY400  # no traceback: the server said no

    def _describe(self, pod: Pod, reason: str) -> str:
        node, phase = pod.spec.node_name, pod.status.phase
        match reason:
            case "terminated":
                return (
                    f"the pod has ended ({phase}), and more than {self._options.terminated_threshold} ended pods exist"
                )
            case "out-of-service":
                return f"the pod is being deleted, and its node {node} is not ready and out of service"
            case "orphaned":
                return f"its node {node} does not exist, and did not for {self._options.quarantine:g} s"
            case _:
                return "the pod is being deleted and was never bound to a node"

    def _is_replaced(self, pod: Pod) -> bool:
        now = self._pods.get(_key(pod))
        return now is None or now.metadata.uid != pod.metadata.uid


def _key(pod: Pod) -> str:
    return object_key(pod.metadata)


build = PodGarbageCollector
