"""Which events of pods enqueue which owner, for every controller whose objects own pods.

A controller derives from ``PodEvents`` or makes one, and adds its handlers to the shared informers. They are plain
functions that observe and enqueue; the queue is read by the controller. Upstream repeats these handlers in every
controller (v1.36 ``pkg/controller/replicaset/replica_set.go``, ``pkg/controller/daemon/daemon_controller.go``: addPod,
updatePod, deletePod and their like).
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from pilothouse.api.core import Pod
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.env import Log
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import object_key
from pilothouse.runtime.cache import Cached
from pilothouse.semantics.pods import is_ready

T = TypeVar("T", bound=Cached)

GATHER_SECONDS = 1.0
"""As long as the Job controller gathers changes of pods (``SyncJobBatchPeriod``, v1.36 job_controller.go)."""


class Enqueuer(Protocol):
    """The work queue, or something that delays keys."""

    def add(self, key: str) -> None: ...

    def add_after(self, key: str, delay: float) -> None: ...


class EndingOwners:
    """A queue that delays the keys of owners whose namespace is being deleted. Of two times for one key the queue keeps
    the earlier.

    Pods are the first to be deleted with a namespace (KEP-5080), one by one. Each deletion enqueues the owner, which
    cannot replace the pod and only updates its counts, as does the owner's owner. Upstream writes every one of these
    statuses; here one per second.
    """

    def __init__(self, queue: Enqueuer) -> None:
        self._queue = queue
        self._ending: set[str] = set()  # never iterated

    def namespace_terminating(self, key: str) -> None:
        """The server rejected a pod of this owner because its namespace is being deleted, which nothing can stop."""
        self._ending.add(key)

    def forget(self, key: str) -> None:
        """The owner was deleted; another one with its name may exist in a namespace that was created again."""
        self._ending.discard(key)

    def add(self, key: str) -> None:
        if key in self._ending:
            self._queue.add_after(key, GATHER_SECONDS)
        else:
            self._queue.add(key)

    def add_after(self, key: str, delay: float) -> None:
        self._queue.add_after(key, delay)


class PodEvents(Generic[T]):
    """The handlers of one controller.

    ``ready_delay`` is the number of seconds after which an owner is synced again when a pod has become ready, 0 for not
    at all.
    """

    def __init__(
        self, gate: OwnerGate[T], queue: Enqueuer, log: Log, *, ready_delay: Callable[[T], float] = lambda _owner: 0.0
    ) -> None:
        self._kind: str = gate.kind.kind
        self._owners = gate.owners
        self._queue = self.ending = EndingOwners(queue)
        self._expectations = gate.expectations
        self._consistency_store = gate.consistency_store
        self._selector_of = gate.selector_of
        self._ready_delay = ready_delay
        self._log = log

    # Owners

    def add_owner(self, owner: T, _initial: bool) -> None:
        self._queue.add(object_key(owner.metadata))

    def update_owner(self, old: T, new: T) -> None:
        """Enqueue it, also when only its status changed and at resyncs: a sync is cheap, a missed one is not."""
        if old.metadata.uid != new.metadata.uid:
            self.delete_owner(old, True)
        self._queue.add(object_key(new.metadata))

    def delete_owner(self, owner: T, _final_state_unknown: bool) -> None:
        """Its expectations must not delay another one of its name."""
        key = object_key(owner.metadata)
        if self._consistency_store is not None:
            self._consistency_store.clear(key, owner.metadata.uid)
        self._expectations.delete(key)
        self.ending.forget(key)
        self._queue.add(key)

    def namespace_terminating(self, owner: ObjectMeta) -> None:
        """The server rejected a pod of this owner because its namespace is being deleted."""
        if self._owners.still_has(owner):
            self.ending.namespace_terminating(object_key(owner))

    # Pods

    def add_pod(self, pod: Pod, _initial: bool) -> None:
        """A pod that is terminating already, after a restart, is not an expected creation."""
        self._add_controlled_pod(pod)

    def is_foreign(self, old: Pod, new: Pod) -> bool:
        """Whether the pod belongs, and belonged, to an owner of another kind. Most pods do, and enqueue nothing
        here."""
        previous, after = controller_of(old.metadata), controller_of(new.metadata)
        return previous is not None and after is not None and previous.kind != self._kind != after.kind

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Enqueues the owner, a former owner, or the sets that may adopt the pod."""
        previous, after = old.metadata, new.metadata
        if previous.resource_version == after.resource_version:
            return
        if previous.uid != after.uid:
            # Deleted and created again between two lists. Upstream takes it for a change, and expects the deletion and
            # the creation until they expire.
            self._remove_controlled_pod(old)
            self._add_controlled_pod(new)
            return
        labels_changed = previous.labels != after.labels
        reference, old_reference = controller_of(after), controller_of(previous)
        if old_reference is not None and old_reference != reference:
            # The former owner gets no more events of this pod. If it expects the pod's deletion, lower that expectation
            # now (upstream waits until it expires).
            self._remove_controlled_pod(old)
        if after.deletion_timestamp is not None:
            self._remove_controlled_pod(new)
            if labels_changed:
                self._remove_controlled_pod(old)
            return
        if reference is None:
            if labels_changed or old_reference is not None:
                self._enqueue_matching(new)
            return
        key = self.owner_key(after.namespace, reference)
        if key is None:
            return
        self._queue.add(key)
        owner = self._owners.get(key)
        if owner is not None and not is_ready(old) and is_ready(new):
            # There is no event when a pod becomes available; the requeue at the end of a sync covers the other case.
            delay = self._ready_delay(owner)
            if delay > 0:
                self._queue.add_after(key, delay)

    def delete_pod(self, pod: Pod, _final_state_unknown: bool) -> None:
        """Enqueues the owner, and the former owner that expects the deletion."""
        self._remove_controlled_pod(pod)

    def _add_controlled_pod(self, pod: Pod) -> None:
        if pod.metadata.deletion_timestamp is not None:
            self._remove_controlled_pod(pod)
            return
        reference = controller_of(pod.metadata)
        if reference is None:
            self._enqueue_matching(pod)
            return
        key = self.owner_key(pod.metadata.namespace, reference)
        if key is not None:
            self._expectations.creation_observed(key)
            self._queue.add(key)

    def _remove_controlled_pod(self, pod: Pod) -> None:
        pod_key = object_key(pod.metadata)
        reference = controller_of(pod.metadata)
        owner = None if reference is None else self.owner_key(pod.metadata.namespace, reference)
        for key in dict.fromkeys((owner, self._expectations.awaited_by(pod_key))):
            if key is not None:
                self._expectations.deletion_observed(key, pod_key)
                self._queue.add(key)

    def _enqueue_matching(self, pod: Pod) -> None:
        """Enqueues all that select it; the first to adopt it has it. No creation was expected of an orphan."""
        matching = [object_key(owner.metadata) for owner in self._owners_matching(pod)]
        if len(matching) > 1:
            pod_key = object_key(pod.metadata)
            self._log.warning("More than one owner is selecting the same pod", kind=self._kind, pod=pod_key)
        for key in matching:
            self._queue.add(key)

    def _owners_matching(self, obj: Cached) -> Iterable[T]:
        labels = obj.metadata.labels
        if not labels:
            return
        for owner in self._owners.list(obj.metadata.namespace):
            selector = self._selector_of(owner)
            if selector is not None and not selector.empty and selector.matches(labels):
                yield owner

    def owner_key(self, namespace: str, reference: OwnerReference) -> str | None:
        """The key of the owner, if it is in the cache with this kind, name and uid."""
        if reference.kind != self._kind:
            return None
        key = f"{namespace}/{reference.name}"
        owner = self._owners.get(key)
        return key if owner is not None and owner.metadata.uid == reference.uid else None
