"""Which events enqueue which Job, and which orphan pods.

Changes of pods are gathered for a second, so that a Job of many pods is not synced once for each; changes of a Job's
spec are not. Upstream: v1.36 ``pkg/controller/job/job_controller.go``.
"""

from collections.abc import Callable

from pilothouse.api.batch import JOBS, Job
from pilothouse.api.core import Pod
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.controllers.shared.pod_events import PodEvents
from pilothouse.controllers.workloads.job import TRACKING
from pilothouse.controllers.workloads.job.decide import until_deadline
from pilothouse.controllers.workloads.job.orphans import is_external
from pilothouse.env import Env, Log
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import Cache, WorkQueue, controller_index_key, object_key
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.semantics.jobs import is_finished

BATCH_SECONDS = 1.0
"""``SyncJobBatchPeriod``."""


class _BatchedQueue:
    """Delays keys by a second. Of two times for one key the queue keeps the earlier."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self._queue = queue

    def add(self, key: str) -> None:
        self._queue.add_after(key, BATCH_SECONDS)

    def add_after(self, key: str, delay: float) -> None:
        self._queue.add_after(key, delay)


class FinalizerExpectations:
    """Pods whose finalizer was removed, until the cache shows it: by key of the Job their uids."""

    def __init__(self) -> None:
        self._awaited: dict[str, set[str]] = {}

    def expect(self, key: str, uid: str) -> None:
        self._awaited.setdefault(key, set()).add(uid)

    def observed(self, key: str, uid: str) -> None:
        awaited = self._awaited.get(key)
        if awaited is not None:
            awaited.discard(uid)
            if not awaited:
                del self._awaited[key]

    def is_awaited(self, key: str, uid: str) -> bool:
        """Whether the cache may still show a removed finalizer."""
        return uid in self._awaited.get(key, ())

    def forget(self, key: str) -> None:
        self._awaited.pop(key, None)


class JobEvents(PodEvents[Job]):
    """The handlers. ``on_job_deleted`` is called for each Job that is deleted."""

    def __init__(
        self,
        env: Env,
        gate: OwnerGate[Job],
        pods: Cache[Pod],
        queue: WorkQueue[str],
        log: Log,
        *,
        orphans: WorkQueue[str],
        removals: FinalizerExpectations,
        on_job_deleted: Callable[[str, Job], None],
    ) -> None:
        super().__init__(gate, _BatchedQueue(queue), log)
        self._env = env
        self._pods = pods
        self._immediate_queue = queue
        self._orphans = orphans
        self._removals = removals
        self._on_job_deleted = on_job_deleted

    # Jobs

    def add_owner(self, owner: Job, _initial: bool) -> None:
        self._immediate_queue.add(object_key(owner.metadata))
        if is_finished(owner):
            self._enqueue_orphans_of(owner)

    def update_owner(self, old: Job, new: Job) -> None:
        if old.metadata.uid != new.metadata.uid:
            self.delete_owner(old, True)
        key = object_key(new.metadata)
        if is_finished(new):
            self._enqueue_orphans_of(new)
            self._immediate_queue.add(key)
            return
        if old.metadata.generation != new.metadata.generation or old.metadata.uid != new.metadata.uid:
            self._immediate_queue.add(key)
        else:
            self._queue.add(key)
        started, seconds = new.status.start_time, new.spec.active_deadline_seconds
        if started is not None and seconds is not None and seconds != old.spec.active_deadline_seconds:
            wait = until_deadline(new, started, self._env.now())
            if wait is not None:
                self._immediate_queue.add_after(key, wait)

    def delete_owner(self, owner: Job, _final_state_unknown: bool) -> None:
        key = object_key(owner.metadata)
        if self._consistency_store is not None:
            self._consistency_store.clear(key, owner.metadata.uid)
        self._expectations.delete(key)
        self._removals.forget(key)
        self._on_job_deleted(key, owner)
        self._immediate_queue.add(key)
        self._enqueue_orphans_of(owner)

    def _enqueue_orphans_of(self, job: Job) -> None:
        meta = job.metadata
        index_key = controller_index_key(meta.namespace, JOBS.kind, meta.name, meta.uid)
        for pod in self._pods.by_index(CONTROLLER_INDEX, index_key):
            if TRACKING in pod.metadata.finalizers:
                self._orphans.add(object_key(pod.metadata))

    # Pods

    def add_pod(self, pod: Pod, initial: bool) -> None:
        self._enqueue_orphan_of_job(pod)
        super().add_pod(pod, initial)

    def update_pod(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if not (old.metadata.finalizers or new.metadata.finalizers) and self.is_foreign(old, new):
            return
        if old.metadata.uid != new.metadata.uid or TRACKING not in new.metadata.finalizers:
            self._finalizer_removed(old)
        old_reference, reference = controller_of(old.metadata), controller_of(new.metadata)
        if old_reference is not None and reference is not None and old_reference != reference:
            key = self.owner_key(old.metadata.namespace, old_reference)
            if key is not None:
                self._queue.add(key)
        self._enqueue_orphan_of_job(new)
        super().update_pod(old, new)

    def delete_pod(self, pod: Pod, final_state_unknown: bool) -> None:
        self._finalizer_removed(pod)
        super().delete_pod(pod, final_state_unknown)

    def _finalizer_removed(self, pod: Pod) -> None:
        reference = controller_of(pod.metadata)
        if reference is not None:
            self._removals.observed(f"{pod.metadata.namespace}/{reference.name}", pod.metadata.uid)

    def _enqueue_orphan_of_job(self, pod: Pod) -> None:
        if TRACKING not in pod.metadata.finalizers:
            return
        reference = controller_of(pod.metadata)
        if reference is not None:
            key = self.owner_key(pod.metadata.namespace, reference)
            job = self._owners.get(key) if key is not None else None
            if job is not None and (is_external(job) or not is_finished(job)):
                return
        self._orphans.add(object_key(pod.metadata))
