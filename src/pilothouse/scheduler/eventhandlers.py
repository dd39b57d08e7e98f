"""Event handlers: keep cache and queue up to date, and move unschedulable pods that an event may help.

As kube-scheduler v1.36 ``pkg/scheduler/eventhandlers.go``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pilothouse.api.core import Node, Pod
from pilothouse.env.lazy import lazy_imports
from pilothouse.runtime import object_key
from pilothouse.runtime.informer import SharedInformer
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.backend.gated_pods import GatedPods
from pilothouse.scheduler.backend.scheduling_queue import PriorityQueue, QueuedPodInfo
from pilothouse.scheduler.framework.runtime import Framework
from pilothouse.scheduler.framework.types import NodeChange, PodInfo, PodState, node_change
from pilothouse.scheduler.plugins import node_resources_fit
from pilothouse.scheduler.plugins.dynamic_resources import NAME
from pilothouse.scheduler.plugins.dynamic_resources.on_demand import DynamicResources
from pilothouse.scheduler.plugins.volume_binder import VolumeBinder
from pilothouse.scheduler.queueing_hints import (
    VOLUME_PLUGINS,
    is_schedulable_after_node_change,
    is_schedulable_after_pod_added,
    is_schedulable_after_pod_removed,
    is_schedulable_after_pod_update,
    may_pod_update_help,
)
from pilothouse.semantics.pods import is_terminal

if TYPE_CHECKING:
    from pilothouse.api.resource import DeviceClass, ResourceClaim

with lazy_imports():
    from pilothouse.scheduler.plugins.dynamic_resources import plugin


def pod_key(pod: Pod) -> str:
    """Namespace and name."""
    return object_key(pod.metadata)


class EventHandlers:
    """The handlers of one scheduler. Registers them when created."""

    def __init__(
        self,
        scheduler_name: str,
        queue: PriorityQueue,
        framework: Framework,
        volume_binder: VolumeBinder,
        dynamic_resources: DynamicResources,
        pods: SharedInformer[Pod],
        nodes: SharedInformer[Node],
    ) -> None:
        self._scheduler_names = {scheduler_name, ""}
        self._queue = queue
        self._framework = framework
        self._cache: Cache = framework.cache
        self._volume_binder = volume_binder
        self._dynamic_resources = dynamic_resources
        self._pods = pods
        self.gated = GatedPods()
        """Pods whose resource claims do not exist yet."""
        volume_binder.add_handler(self._move_pods_for_volumes)
        dynamic_resources.on_claim = self._move_pods_for_claim
        dynamic_resources.on_slice = self._move_pods_for_slice
        dynamic_resources.on_class = self._move_pods_for_class
        pods.add_handler(
            on_add=lambda pod, _initial: self._update_pod(None, pod),
            on_update=self._update_pod,
            on_delete=lambda pod, _unknown: self._delete_pod(pod),
        )
        nodes.add_handler(
            on_add=lambda node, _initial: self._update_node(None, node),
            on_update=self._update_node,
            on_delete=lambda node, _unknown: self._delete_node(node),
        )

    def responsible_for_pod(self, pod: Pod) -> bool:
        """Whether this scheduler should schedule the pod: it has no gates and is not being deleted."""
        return (
            pod.spec.scheduler_name in self._scheduler_names
            and not pod.spec.scheduling_gates
            and pod.metadata.deletion_timestamp is None
        )

    def is_gated(self, pod: Pod) -> bool:
        """Whether the pod would be scheduled if it had no gates."""
        gates = pod.spec.scheduling_gates
        return bool(gates) and pod.spec.scheduler_name in self._scheduler_names and not pod.metadata.deletion_timestamp

    # Pods

    def _update_pod(self, old: Pod | None, pod: Pod) -> None:
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self._delete_pod(old)
            old = None
        if is_terminal(pod):
            self._delete_pod(pod)
        elif pod.spec.node_name:
            self._update_assigned_pod(pod)
        else:
            self._update_unassigned_pod(old, pod)

    def _update_assigned_pod(self, pod: Pod) -> None:
        key = pod_key(pod)
        self._delete_from_queue(key)
        old, new = self._cache.add_pod(pod)
        self.delete_nomination(key)
        if new is not None:
            self.move_pods_for_assigned_pod(old, new)

    def _update_unassigned_pod(self, old: Pod | None, pod: Pod) -> None:
        key, uid = pod_key(pod), pod.metadata.uid
        if not self.responsible_for_pod(pod):
            self._delete_from_queue(key)
            self._volume_binder.pod_deleted(uid)
            self.delete_nomination(key)
            return
        if self._cache.is_assumed_pod(key, uid):
            return
        nominator = self._cache.nominator
        nominated = pod.status.nominated_node_name
        # The nomination of a pod with gates did not count.
        old_nominated = old.status.nominated_node_name if old is not None and self.responsible_for_pod(old) else ""
        # The nomination was written by this scheduler, which has recorded it already, by another program, or by an
        # earlier process. A removed one may be older than one that is being written.
        if nominated != old_nominated and (nominated or nominator.nominated_node_name(key) == old_nominated):
            if nominated != nominator.nominated_node_name(key):
                self.delete_nomination(key)
            nominator.add_nominated_pod(PodInfo(pod), nominated)
        # Updates of the status do not make the pod schedulable, except for names of claims.
        if (
            old is None
            or not self._queue.contains(key, uid)
            or old.spec != pod.spec
            or old.metadata.labels != pod.metadata.labels
            or (pod.spec.resource_claims and old.status.resource_claim_statuses != pod.status.resource_claim_statuses)
        ):
            self._enqueue(pod)

    def _enqueue(self, pod: Pod) -> None:
        """Add the pod to the queue, or gate it (PreEnqueue). A pod in an attempt is not gated, because it would leave
        the queue and could be popped a second time: PreFilter rejects it in the next attempt."""
        key = pod_key(pod)
        if pod.spec.resource_claims:
            if not self._queue.is_in_attempt(key) and not self._dynamic_resources.may_enqueue(pod):
                self._queue.delete(key)
                self.gated.put(key, self._dynamic_resources.claim_keys(pod))
                return
            self.gated.drop(key)
        self._queue.add(key, pod.metadata.uid, pod.spec.priority or 0)

    def enqueue_gated(self, claim: str | None = None) -> None:
        """Add the gated pods that refer to a claim, or all, to the queue if they may be scheduled now."""
        for key in self.gated.pods(claim):
            pod = self._pods.cache.get(key)
            if pod is not None and self.responsible_for_pod(pod):
                self._enqueue(pod)

    def _delete_from_queue(self, key: str) -> None:
        self._queue.delete(key)
        if self.gated:
            self.gated.drop(key)

    def _delete_pod(self, pod: Pod) -> None:
        key = pod_key(pod)
        self._delete_from_queue(key)
        self._volume_binder.pod_deleted(pod.metadata.uid)
        removed = self._cache.remove_pod(key)
        self.delete_nomination(key)
        if removed is not None:
            self.move_pods_for_assigned_pod(removed, None)

    def delete_nomination(self, key: str) -> None:
        """Remove the nomination of a pod: the room may help others (``hasNominatedNodeNameChanged``)."""
        nominated = self._cache.nominator.delete_nominated_pod_if_exists(key)
        if nominated is not None and self._queue.has_unschedulable_pods():
            # Only for pods of lower or equal priority it counted as if it were on the node.
            self._move_pods(
                lambda pod_info, rejected_by: (
                    pod_info.priority <= nominated.priority
                    and is_schedulable_after_pod_removed(pod_info, rejected_by, nominated, self._framework.namespaces)
                ),
                "UnschedulablePodUpdate",
            )

    # Nodes

    def _update_node(self, old: Node | None, node: Node) -> None:
        if self._cache.update_node(node):
            self._move_pods_for_node("NodeAdd" if old is None else "NodeUpdate", node_change(old, node))

    def _delete_node(self, node: Node) -> None:
        self._volume_binder.node_deleted()
        node_info = self._cache.remove_node(node.metadata.name)
        if node_info is not None:
            self._move_pods_for_node("NodeDelete", node_change(node_info.node, None))

    # Moving unschedulable pods

    def _move_pods(
        self, hint: Callable[[PodInfo, frozenset[str]], bool], event: str, *, cluster_wide: bool = False
    ) -> None:
        """Move the unschedulable pods for which the hint, which also gets the plugins that rejected them, is true."""

        def is_worth_requeuing(queued_pod: QueuedPodInfo) -> bool:
            pod = self._pods.cache.get(queued_pod.key)
            if pod is None or not hint(queued_pod.update(pod), queued_pod.unschedulable_plugins):
                return False
            if not pod.spec.resource_claims or self._dynamic_resources.may_enqueue(pod):
                return True
            self._enqueue(pod)  # which gates it, unless its attempt has not ended
            return False

        self._queue.move_all_to_active_or_backoff_queue(is_worth_requeuing, event=event, cluster_wide=cluster_wide)

    def _move_pods_for_node(self, event: str, change: NodeChange) -> None:
        if self._queue.has_unschedulable_pods():
            self._move_pods(
                lambda pod_info, rejected_by: is_schedulable_after_node_change(pod_info, rejected_by, change), event
            )

    def move_pods_for_assigned_pod(self, old: PodState | None, new: PodState | None) -> None:
        """A pod was added to a node (``old`` is None), removed from it (``new`` is None), or changed on it."""
        # A pod that was added only uses resources: it can only help cluster-wide plugins.
        cluster_wide = old is None
        if not self._queue.has_unschedulable_pods(cluster_wide=cluster_wide):
            return
        if old is not None and new is not None and not may_pod_update_help(old.pod_info, new.pod_info):
            return
        namespaces = self._framework.namespaces

        def hint(pod_info: PodInfo, rejected_by: frozenset[str]) -> bool:
            if old is None:
                assert new is not None, "a pod that was added has a state"
                return is_schedulable_after_pod_added(pod_info, rejected_by, new.pod_info, namespaces)
            if new is None:
                return is_schedulable_after_pod_removed(pod_info, rejected_by, old.pod_info, namespaces)
            return is_schedulable_after_pod_update(pod_info, rejected_by, old.pod_info, new.pod_info, namespaces)

        event = "AssignedPodAdd" if old is None else "AssignedPodDelete" if new is None else "AssignedPodUpdate"
        self._move_pods(hint, event, cluster_wide=cluster_wide)

    def _move_pods_for_volumes(self, namespace: str, name: str) -> None:
        """A claim was added or changed; or, with empty texts, a volume or storage class, which may help any pod."""
        if self._queue.has_unschedulable_pods():
            self._move_pods(
                lambda pod_info, rejected_by: (
                    not rejected_by.isdisjoint(VOLUME_PLUGINS)
                    and (not name or (pod_info.namespace == namespace and name in pod_info.claim_names))
                ),
                "PersistentVolumeClaimUpdate" if name else "PersistentVolumeUpdate",
            )

    def _move_pods_for_claim(self, old: "ResourceClaim | None", claim: "ResourceClaim") -> None:
        if self.gated:
            self.enqueue_gated(object_key(claim.metadata))
        if self._queue.has_unschedulable_pods():
            is_schedulable = self._dynamic_resources.plugin.is_schedulable_after_claim_change
            self._move_pods(
                lambda pod_info, rejected_by: NAME in rejected_by and is_schedulable(pod_info.pod, old, claim),
                "ResourceClaimAdd" if old is None else "ResourceClaimUpdate",
            )

    def _move_pods_for_slice(self) -> None:
        if self._queue.has_unschedulable_pods():
            self._move_pods(lambda _pod_info, rejected_by: NAME in rejected_by, "ResourceSliceUpdate")

    def _move_pods_for_class(self, old: "DeviceClass | None", device_class: "DeviceClass") -> None:
        if self._queue.has_unschedulable_pods():
            self._move_pods(
                lambda pod_info, rejected_by: (
                    NAME in rejected_by
                    or (
                        node_resources_fit.NAME in rejected_by
                        and plugin.is_fit_after_class_change(pod_info, old, device_class)
                    )
                ),
                "DeviceClassAdd" if old is None else "DeviceClassUpdate",
            )
