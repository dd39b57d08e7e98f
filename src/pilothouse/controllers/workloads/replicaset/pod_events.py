"""What events wake which ReplicaSet: plain functions that count, observe and enqueue.

Fed by the shared informers; ``controller`` reads the results. Table: docs/controllers/replicaset.md; upstream's
handlers are in v1.36 ``pkg/controller/replicaset/replica_set.go`` (addPod, updatePod, deletePod, addRS, updateRS,
deleteRS).
"""

from collections.abc import Iterable

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.workloads.replicaset.blueprint import Blueprints
from pilothouse.controllers.workloads.replicaset.census import Census
from pilothouse.env import Log
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import (
    Cache,
    ConsistencyGuard,
    UidTrackingExpectations,
    WorkQueue,
    controller_index_key,
    object_key,
)
from pilothouse.semantics.pods import is_ready


class PodEvents:
    """The handlers of one controller, and what they keep: census and blueprints."""

    def __init__(
        self,
        kind: Kind[ReplicaSet],
        *,
        owners: Cache[ReplicaSet],
        queue: WorkQueue[str],
        expectations: UidTrackingExpectations,
        guard: ConsistencyGuard | None,
        log: Log,
    ) -> None:
        self._kind = kind
        self._owners = owners
        self._queue = queue
        self._expectations = expectations
        self._guard = guard
        self._log = log
        self.census = Census(self._census_key)
        self.blueprints = Blueprints(kind.kind, log)

    # ReplicaSets

    def owner_added(self, owner: ReplicaSet, _initial: bool) -> None:
        """Look at it."""
        self._queue.add(object_key(owner.metadata))

    def owner_changed(self, old: ReplicaSet, new: ReplicaSet) -> None:
        """Look at it, also when only its status changed and at resyncs: a look is cheap, a missed one is not."""
        if old.metadata.uid != new.metadata.uid:
            self.owner_gone(old, True)
        self._queue.add(object_key(new.metadata))

    def owner_gone(self, owner: ReplicaSet, _final_state_unknown: bool) -> None:
        """What was expected for it must not hold up another one of its name."""
        key = object_key(owner.metadata)
        if self._guard is not None:
            self._guard.forget(key, owner.metadata.uid)
        self._expectations.delete(key)
        self.blueprints.forget(key)
        self._queue.add(key)

    # Pods

    def pod_added(self, pod: Pod, _initial: bool) -> None:
        """A pod that is being deleted already, as seen after a restart, is no creation that was waited for."""
        self.census.add(pod)
        self._arriving(pod)

    def pod_changed(self, old: Pod, new: Pod) -> None:
        """Wakes the owner, a former owner, or whoever may adopt it."""
        before, after = old.metadata, new.metadata
        if before.resource_version == after.resource_version:
            return
        self.census.replace(old, new)
        if before.uid != after.uid:
            # Deleted and made again while nobody watched. Upstream takes it for a change, and waits for the deletion
            # and the creation until they expire.
            self._leaving(old)
            self._arriving(new)
            return
        labels_changed = before.labels != after.labels
        if after.deletion_timestamp is not None:
            self._leaving(new)
            if labels_changed:
                self._leaving(old)
            return
        reference, former = controller_of(after), controller_of(before)
        if former is not None and former != reference:
            self._enqueue_owner(before.namespace, former)
        if reference is None:
            if labels_changed or former is not None:
                self._orphan(new)
            return
        key = self._owner_key(after.namespace, reference)
        if key is None:
            return
        self._queue.add(key)
        owner = self._owners.get(key)
        if owner is not None and owner.spec.min_ready_seconds > 0 and not is_ready(old) and is_ready(new):
            # Availability comes without an event; the requeue at the end of a look is the other half of this.
            self._queue.add_after(key, owner.spec.min_ready_seconds)

    def pod_gone(self, pod: Pod, _final_state_unknown: bool) -> None:
        """Nobody waits for a pod without owner; for another one its owner may."""
        self.census.remove(pod)
        self._leaving(pod)

    def _arriving(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            self._leaving(pod)
            return
        reference = controller_of(pod.metadata)
        if reference is None:
            self._orphan(pod)
            return
        key = self._owner_key(pod.metadata.namespace, reference)
        if key is not None:
            self._expectations.creation_observed(key)
            self._queue.add(key)

    def _leaving(self, pod: Pod) -> None:
        reference = controller_of(pod.metadata)
        if reference is None:
            return
        key = self._owner_key(pod.metadata.namespace, reference)
        if key is not None:
            self._expectations.deletion_observed(key, object_key(pod.metadata))
            self._queue.add(key)

    def _orphan(self, pod: Pod) -> None:
        """Wake all that select it; who is first to adopt it has it. No creation: nobody waits for an orphan."""
        matching = [object_key(owner.metadata) for owner in self._selecting(pod)]
        if len(matching) > 1:
            self._log.warning(
                "More than one owner is selecting the same pod", kind=self._kind.kind, pod=object_key(pod.metadata)
            )
        for key in matching:
            self._queue.add(key)

    def _selecting(self, pod: Pod) -> Iterable[ReplicaSet]:
        labels = pod.metadata.labels
        if not labels:
            return
        for owner in self._owners.list(pod.metadata.namespace):
            selector = self.blueprints.of(owner).selector
            if selector is not None and not selector.empty and selector.matches(labels):
                yield owner

    def _enqueue_owner(self, namespace: str, reference: OwnerReference) -> None:
        key = self._owner_key(namespace, reference)
        if key is not None:
            self._queue.add(key)

    def _owner_key(self, namespace: str, reference: OwnerReference) -> str | None:
        """The key of the owner, if it is one of ours: kind, name and uid must fit."""
        if reference.kind != self._kind.kind:
            return None
        key = f"{namespace}/{reference.name}"
        owner = self._owners.get(key)
        return key if owner is not None and owner.metadata.uid == reference.uid else None

    def _census_key(self, pod: Pod) -> str | None:
        """As in the controller index: pods without owner are counted under their namespace. Those of other kinds are
        not counted."""
        reference = controller_of(pod.metadata)
        if reference is None:
            return pod.metadata.namespace
        if reference.kind != self._kind.kind:
            return None
        return controller_index_key(pod.metadata.namespace, reference.kind, reference.name, reference.uid)
