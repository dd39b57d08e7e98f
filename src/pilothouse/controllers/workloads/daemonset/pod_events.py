"""Which events enqueue which DaemonSet. ``node_to_daemon_pods`` is updated with every event.

The handlers of pods are those of every owner of pods. Handlers of ControllerRevisions: v1.36 ``addHistory``,
``updateHistory``, ``deleteHistory`` in ``pkg/controller/daemon/daemon_controller.go``.
"""

from pilothouse.api.apps import DAEMON_SETS, ControllerRevision, DaemonSet
from pilothouse.api.core import Pod
from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.controllers.shared.pod_events import PodEvents
from pilothouse.controllers.workloads.daemonset.blueprint import Blueprints
from pilothouse.controllers.workloads.daemonset.node_events import daemon_key
from pilothouse.controllers.workloads.daemonset.node_to_daemon_pods import DaemonPods
from pilothouse.env import Log
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import WorkQueue, controller_index_key, object_key


class DaemonEvents(PodEvents[DaemonSet]):
    """The handlers of the controller, all but those of nodes."""

    def __init__(
        self,
        gate: OwnerGate[DaemonSet],
        queue: WorkQueue[str],
        log: Log,
        *,
        daemon_pods: DaemonPods,
        blueprints: Blueprints,
    ) -> None:
        super().__init__(gate, queue, log, ready_delay=_ready_delay)
        self._daemon_pods = daemon_pods
        self._blueprints = blueprints

    def delete_owner(self, owner: DaemonSet, final_state_unknown: bool) -> None:
        self._blueprints.forget(object_key(owner.metadata))
        self._daemon_pods.forget(daemon_key(owner.metadata))
        super().delete_owner(owner, final_state_unknown)

    def add_pod(self, pod: Pod, initial: bool) -> None:
        self._daemon_pods.put(pod, _node_pods_of(pod))
        super().add_pod(pod, initial)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if self.is_foreign(old, new):
            return
        if old.metadata.resource_version != new.metadata.resource_version:
            self._daemon_pods.put(new, _node_pods_of(new))
        super().update_pod(old, new)

    def delete_pod(self, pod: Pod, final_state_unknown: bool) -> None:
        self._daemon_pods.drop(object_key(pod.metadata))
        super().delete_pod(pod, final_state_unknown)

    # Revisions

    def add_history(self, revision: ControllerRevision, _initial: bool) -> None:
        """Another client may have created one that we own: upstream finds it with the next sync."""
        reference = controller_of(revision.metadata)
        if reference is None:
            self._enqueue_selecting(revision)
        else:
            self._enqueue_owner(revision.metadata.namespace, reference)

    def update_history(self, old: ControllerRevision, new: ControllerRevision) -> None:
        previous, after = old.metadata, new.metadata
        if previous.resource_version == after.resource_version:
            return
        reference, old_reference = controller_of(after), controller_of(previous)
        if old_reference is not None and old_reference != reference:
            self._enqueue_owner(previous.namespace, old_reference)
        if reference is not None:
            self._enqueue_owner(after.namespace, reference)
        elif previous.labels != after.labels or old_reference is not None:
            self._enqueue_selecting(new)

    def delete_history(self, revision: ControllerRevision, _final_state_unknown: bool) -> None:
        """Enqueues the owner, and any other DaemonSet with that name: one that was created again with the same template
        uses the revision of the previous one until the garbage collector deletes it. Upstream's then has none."""
        reference = controller_of(revision.metadata)
        if reference is not None and reference.kind == DAEMON_SETS.kind:
            key = f"{revision.metadata.namespace}/{reference.name}"
            if key in self._owners:
                self._queue.add(key)

    def _enqueue_owner(self, namespace: str, reference: OwnerReference) -> None:
        key = self.owner_key(namespace, reference)
        if key is not None:
            self._queue.add(key)

    def _enqueue_selecting(self, revision: ControllerRevision) -> None:
        for owner in self._owners_matching(revision):
            self._queue.add(object_key(owner.metadata))


def _ready_delay(owner: DaemonSet) -> float:
    # One second more, since the clocks of kubelet and controller may differ (v1.36 ``updatePod``).
    seconds = owner.spec.min_ready_seconds
    return seconds + 1.0 if seconds > 0 else 0.0


def _node_pods_of(pod: Pod) -> str | None:
    reference = controller_of(pod.metadata)
    if reference is None or reference.kind != DAEMON_SETS.kind:
        return None
    return controller_index_key(pod.metadata.namespace, reference.kind, reference.name, reference.uid)
