"""What events of pods wake which owner, for every controller whose objects own pods.

A controller derives from ``PodEvents`` or makes one, and adds its handlers to the shared informers. They are plain
functions that observe and enqueue; the queue is read by the controller. Upstream repeats these handlers in every
controller (v1.36 ``pkg/controller/replicaset/replica_set.go``, ``pkg/controller/daemon/daemon_controller.go``: addPod,
updatePod, deletePod and their like).
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from pilothouse.api.core import Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.shared.ending import EndingOwners, Enqueuer
from pilothouse.env import Log
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import Cache, ConsistencyStore, UidTrackingExpectations, object_key
from pilothouse.runtime.cache import Cached
from pilothouse.semantics.pods import is_ready

T = TypeVar("T", bound=Cached)


class PodEvents(Generic[T]):
    """The handlers of one controller.

    ``selector_of`` gives what an owner selects, ``None`` where that makes no sense. ``ready_delay`` says in how many
    seconds an owner wants another sync after a pod that has just become ready, 0 for not at all. A create that is
    refused because the namespace is being deleted is reported to ``refused``.
    """

    def __init__(
        self,
        kind: Kind[T],
        *,
        owners: Cache[T],
        queue: Enqueuer,
        expectations: UidTrackingExpectations,
        consistency_store: ConsistencyStore | None,
        selector_of: Callable[[T], Selector | None],
        ready_delay: Callable[[T], float],
        log: Log,
    ) -> None:
        self._kind: Kind[Any] = kind
        self._owners = owners
        self._queue = self.ending = EndingOwners(queue)
        self._expectations = expectations
        self._consistency_store = consistency_store
        self._selector_of = selector_of
        self._ready_delay = ready_delay
        self._log = log

    # Owners

    def owner_added(self, owner: T, _initial: bool) -> None:
        self._queue.add(object_key(owner.metadata))

    def owner_changed(self, old: T, new: T) -> None:
        """Enqueue it, also when only its status changed and at resyncs: a sync is cheap, a missed one is not."""
        if old.metadata.uid != new.metadata.uid:
            self.owner_gone(old, True)
        self._queue.add(object_key(new.metadata))

    def owner_gone(self, owner: T, _final_state_unknown: bool) -> None:
        """What was expected for it must not hold up another one of its name."""
        key = object_key(owner.metadata)
        if self._consistency_store is not None:
            self._consistency_store.clear(key, owner.metadata.uid)
        self._expectations.delete(key)
        self.ending.forget(key)
        self._queue.add(key)

    def refused(self, owner: ObjectMeta) -> None:
        """The server would make no pod for this owner because its namespace goes away."""
        if self._owners.still_has(owner):
            self.ending.refused(object_key(owner))

    # Pods

    def pod_added(self, pod: Pod, _initial: bool) -> None:
        """A pod that is being deleted already, as seen after a restart, is no creation that was waited for."""
        self._arriving(pod)

    def is_foreign(self, old: Pod, new: Pod) -> bool:
        """Whether the pod belongs, and belonged, to an owner of another kind. Most do, and wake nobody here."""
        before, after = controller_of(old.metadata), controller_of(new.metadata)
        kind = self._kind.kind
        return before is not None and after is not None and before.kind != kind != after.kind

    def pod_changed(self, old: Pod, new: Pod) -> None:
        """Enqueues the owner, a former owner, or whoever may adopt it."""
        before, after = old.metadata, new.metadata
        if before.resource_version == after.resource_version:
            return
        if before.uid != after.uid:
            # Deleted and made again while nobody watched. Upstream takes it for a change, and waits for the deletion
            # and the creation until they expire.
            self._leaving(old)
            self._arriving(new)
            return
        labels_changed = before.labels != after.labels
        reference, former = controller_of(after), controller_of(before)
        if former is not None and former != reference:
            # From here on the former owner hears nothing of this pod. If it waits for the pod's deletion, that must not
            # go on until the wait expires (upstream's does, and the owner does nothing meanwhile).
            self._leaving(old)
        if after.deletion_timestamp is not None:
            self._leaving(new)
            if labels_changed:
                self._leaving(old)
            return
        if reference is None:
            if labels_changed or former is not None:
                self._orphan(new)
            return
        key = self.owner_key(after.namespace, reference)
        if key is None:
            return
        self._queue.add(key)
        owner = self._owners.get(key)
        if owner is not None and not is_ready(old) and is_ready(new):
            # Availability comes without an event; the requeue at the end of a sync is the other half of this.
            delay = self._ready_delay(owner)
            if delay > 0:
                self._queue.add_after(key, delay)

    def pod_gone(self, pod: Pod, _final_state_unknown: bool) -> None:
        """Its owner may wait for that, or whoever asked for its deletion."""
        self._leaving(pod)

    def _arriving(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            self._leaving(pod)
            return
        reference = controller_of(pod.metadata)
        if reference is None:
            self._orphan(pod)
            return
        key = self.owner_key(pod.metadata.namespace, reference)
        if key is not None:
            self._expectations.creation_observed(key)
            self._queue.add(key)

    def _leaving(self, pod: Pod) -> None:
        pod_key = object_key(pod.metadata)
        reference = controller_of(pod.metadata)
        owner = None if reference is None else self.owner_key(pod.metadata.namespace, reference)
        for key in dict.fromkeys((owner, self._expectations.awaited_by(pod_key))):
            if key is not None:
                self._expectations.deletion_observed(key, pod_key)
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

    def _selecting(self, obj: Cached) -> Iterable[T]:
        labels = obj.metadata.labels
        if not labels:
            return
        for owner in self._owners.list(obj.metadata.namespace):
            selector = self._selector_of(owner)
            if selector is not None and not selector.empty and selector.matches(labels):
                yield owner

    def owner_key(self, namespace: str, reference: OwnerReference) -> str | None:
        """The key of the owner, if it is one of ours: kind, name and uid must fit."""
        if reference.kind != self._kind.kind:
            return None
        key = f"{namespace}/{reference.name}"
        owner = self._owners.get(key)
        return key if owner is not None and owner.metadata.uid == reference.uid else None
