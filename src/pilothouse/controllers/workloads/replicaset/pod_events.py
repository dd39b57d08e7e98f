"""What events wake which ReplicaSet, and the counts that are kept up with every event.

Fed by the shared informers; ``controller`` reads the results. Table: docs/controllers/replicaset.md; the handlers
themselves are those of every owner of pods.
"""

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.api.kinds import Kind
from pilothouse.controllers.shared.pod_events import PodEvents as OwnerEvents
from pilothouse.controllers.workloads.replicaset.blueprint import Blueprints
from pilothouse.controllers.workloads.replicaset.census import Census
from pilothouse.env import Log
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import (
    Cache,
    ConsistencyStore,
    UidTrackingExpectations,
    WorkQueue,
    controller_index_key,
    object_key,
)


class PodEvents(OwnerEvents[ReplicaSet]):
    """The handlers of one controller, and what they keep: census, blueprints, and who is about to end."""

    def __init__(
        self,
        kind: Kind[ReplicaSet],
        *,
        owners: Cache[ReplicaSet],
        queue: WorkQueue[str],
        expectations: UidTrackingExpectations,
        consistency_store: ConsistencyStore | None,
        log: Log,
    ) -> None:
        self.census = Census(self._census_key)
        self.blueprints = Blueprints(kind.kind, log)
        super().__init__(
            kind,
            owners=owners,
            queue=queue,
            expectations=expectations,
            consistency_store=consistency_store,
            selector_of=lambda owner: self.blueprints.of(owner).selector,
            ready_delay=lambda owner: owner.spec.min_ready_seconds,
            log=log,
        )

    def owner_gone(self, owner: ReplicaSet, final_state_unknown: bool) -> None:
        meta = owner.metadata
        self.blueprints.forget(object_key(meta))
        self.census.dismiss(controller_index_key(meta.namespace, self._kind.kind, meta.name, meta.uid))
        super().owner_gone(owner, final_state_unknown)

    def pod_added(self, pod: Pod, initial: bool) -> None:
        self.census.add(pod)
        super().pod_added(pod, initial)

    def pod_changed(self, old: Pod, new: Pod) -> None:
        if self.is_foreign(old, new):
            return
        if old.metadata.resource_version != new.metadata.resource_version:
            self.census.replace(old, new)
        super().pod_changed(old, new)

    def pod_gone(self, pod: Pod, final_state_unknown: bool) -> None:
        self.census.remove(pod)
        super().pod_gone(pod, final_state_unknown)

    def _census_key(self, pod: Pod) -> str | None:
        """As in the controller index: pods without owner are counted under their namespace. Those of other kinds are
        not counted."""
        reference = controller_of(pod.metadata)
        if reference is None:
            return pod.metadata.namespace
        if reference.kind != self._kind.kind:
            return None
        return controller_index_key(pod.metadata.namespace, reference.kind, reference.name, reference.uid)
