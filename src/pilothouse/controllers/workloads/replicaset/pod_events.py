"""The handlers of events, and the counts that are updated with every event.

The handlers of pods are those of every owner of pods. Table: docs/controllers/replicaset.md.
"""

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.controllers.shared.blueprints import Blueprints
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.controllers.shared.pod_events import PodEvents as OwnerEvents
from pilothouse.controllers.workloads.replicaset.blueprint import Blueprint
from pilothouse.controllers.workloads.replicaset.census import Census
from pilothouse.env import Log
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import WorkQueue, controller_index_key, object_key


class PodEvents(OwnerEvents[ReplicaSet]):
    """The handlers of one controller, with its census."""

    def __init__(
        self,
        gate: OwnerGate[ReplicaSet],
        queue: WorkQueue[str],
        log: Log,
        *,
        blueprints: Blueprints[ReplicaSet, Blueprint],
    ) -> None:
        super().__init__(gate, queue, log, ready_delay=lambda owner: owner.spec.min_ready_seconds)
        self.census = Census(self._census_key)
        self._blueprints = blueprints

    def delete_owner(self, owner: ReplicaSet, final_state_unknown: bool) -> None:
        meta = owner.metadata
        self._blueprints.forget(object_key(meta))
        self.census.dismiss(controller_index_key(meta.namespace, self._kind, meta.name, meta.uid))
        super().delete_owner(owner, final_state_unknown)

    def add_pod(self, pod: Pod, initial: bool) -> None:
        self.census.add(pod)
        super().add_pod(pod, initial)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if self.is_foreign(old, new):
            return
        if old.metadata.resource_version != new.metadata.resource_version:
            self.census.replace(old, new)
        super().update_pod(old, new)

    def delete_pod(self, pod: Pod, final_state_unknown: bool) -> None:
        self.census.remove(pod)
        super().delete_pod(pod, final_state_unknown)

    def _census_key(self, pod: Pod) -> str | None:
        """As in the controller index: pods without owner are counted under their namespace. Those of other kinds are
        not counted."""
        reference = controller_of(pod.metadata)
        if reference is None:
            return pod.metadata.namespace
        if reference.kind != self._kind:
            return None
        return controller_index_key(pod.metadata.namespace, reference.kind, reference.name, reference.uid)
