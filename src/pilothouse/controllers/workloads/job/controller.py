"""The wiring: observe → decide → apply → report. Upstream: v1.36 ``pkg/controller/job/job_controller.go``."""

import datetime
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from pilothouse.api.batch import JOBS, Job, JobStatus, UncountedTerminatedPods
from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import Object, OwnerReference
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import ApiError, NotFound, has_cause
from pilothouse.controllers.shared.blueprints import Blueprints
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.controllers.workloads.job import TRACKING, JobOptions, backoff, tracking
from pilothouse.controllers.workloads.job.blueprint import Blueprint, draw
from pilothouse.controllers.workloads.job.decide import (
    COMPLETIONS_REACHED,
    Census,
    CreatePods,
    Observed,
    RemovePods,
    Wait,
    creation_reason,
    decide_ending,
    decide_pods,
    is_complete,
    is_indexed,
    is_suspended,
    new_failure_count_annotations,
    take_census,
    until_deadline,
)
from pilothouse.controllers.workloads.job.describe import (
    describe_creation,
    describe_ending,
    describe_parallelism,
    describe_status,
)
from pilothouse.controllers.workloads.job.indexes import Indexes, pod_generate_name_with_index
from pilothouse.controllers.workloads.job.metrics import Metrics
from pilothouse.controllers.workloads.job.orphans import is_external, is_of_a_job, may_be_released
from pilothouse.controllers.workloads.job.pod_events import FinalizerExpectations, JobEvents
from pilothouse.controllers.workloads.job.status import SUSPENDED, Ending, finished, with_condition
from pilothouse.env.clock import whole_seconds
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import controller_of, new_controller_reference
from pilothouse.machinery.resource_versions import compare
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    ManagedController,
    PodControl,
    Requeue,
    WorkerPool,
    WorkQueue,
    controller_index_key,
    index_by_controller,
    object_key,
    object_reference,
    run_all,
    slow_start,
)
from pilothouse.runtime.batches import INITIAL_BATCH, Futile
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.jobs import is_finished
from pilothouse.semantics.pods import is_ready

_RELEASE = strategic_merge_patch({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}})
_FIRST_RETRY, _LAST_RETRY = 1.0, 60.0
_FAILURES = (ApiError, OSError)


class _SyncJobContext:
    def __init__(self, job: Job, raw: bytes) -> None:
        self.job = job
        self.raw = raw
        """The whole object, at the version of the controller's last write."""
        self.active = self.ready = self.terminating = 0
        self.action = "reconciling"
        self.wait: float | None = None
        self.error: Exception | None = None

    def again_in(self, seconds: float) -> None:
        """Sync again after this many seconds, or earlier."""
        self.wait = seconds if self.wait is None else min(self.wait, seconds)

    def removed(self, pods: Iterable[Pod], errors: Iterable[Exception | None]) -> None:
        """Pods were deleted; those with an error were not. The first error of the sync is kept."""
        for pod, error in zip(pods, errors, strict=True):
            if error is None:
                self.active -= 1
                self.terminating += 1
                self.ready -= is_ready(pod)
            elif self.error is None:
                self.error = error


class JobController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(JobOptions)
        jobs = context.informer(JOBS)
        pods = context.informer(PODS, indexes={CONTROLLER_INDEX: index_by_controller})
        super().__init__(
            context,
            "job-controller",
            workers=options.workers,
            limiter=ExponentialFailureLimiter(_FIRST_RETRY, _LAST_RETRY),
            queue_name="job",
        )
        self._clear_start_time = options.clear_start_time
        self._client = context.client
        self._jobs = jobs.cache
        self._pods = pods.cache
        self._recorder = EventRecorder(context.client, context.env, self.name)
        self.add_runnable("events", self._recorder.run)
        self._pod_control = PodControl(context.client, self._recorder)
        self._removals = FinalizerExpectations()
        self._blueprints: Blueprints[Job, Blueprint] = Blueprints(
            JOBS.kind, lambda job: job.spec.selector, draw, self.log
        )
        self._gate = OwnerGate(
            context,
            JOBS,
            jobs,
            pods,
            read=(pods, jobs),
            prefix="job",
            wait_for_own_writes=options.wait_for_own_writes,
            selector_of=lambda job: self._blueprints.of(job).selector,
            on_deleted=self._forget,
        )
        self._expectations, self._writes = self._gate.expectations, self._gate.writes
        self._metrics = Metrics(context.metrics)
        self._failures: dict[str, tuple[str, backoff.BackoffRecord]] = {}
        # Key → uid of a Job whose final condition was written but is not in the cache yet.
        self._finished: dict[str, str] = {}
        self._orphans: WorkQueue[str] = WorkQueue(
            context.env,
            "job_orphan_pod",
            context.metrics,
            limiter=ExponentialFailureLimiter(_FIRST_RETRY, _LAST_RETRY),
        )
        orphan_pool = WorkerPool(
            f"{self.name}-orphans",
            self._orphans,
            self._sync_orphan_pod,
            workers=options.workers,
            metrics=context.metrics,
            log=self.log,
        )
        self.add_worker_pool(orphan_pool)
        self.events = JobEvents(
            context.env,
            self._gate,
            self._pods,
            self.queue,
            self.log,
            orphans=self._orphans,
            removals=self._removals,
            on_job_deleted=self._delete_job,
        )
        jobs.add_handler(self._add_job, self.events.update_owner, self.events.delete_owner)
        pods.add_handler(self.events.add_pod, self._update_pod, self.events.delete_pod)

    def _add_job(self, job: Job, initial: bool) -> None:
        if is_external(job):
            self._metrics.external.labels(job.spec.managed_by or "").inc()
        self.events.add_owner(job, initial)

    def _delete_job(self, key: str, job: Job) -> None:
        self._blueprints.forget(key)
        self._failures.pop(key, None)
        if self._finished.get(key) == job.metadata.uid:
            del self._finished[key]

    def _update_pod(self, old: Pod, new: Pod) -> None:
        self._record_finished_pod_with_tracking_finalizer(old, new)
        self.events.update_pod(old, new)

    def _record_finished_pod_with_tracking_finalizer(self, old: Pod, new: Pod) -> None:
        """A pod has finished with the finalizer, or lost it after that (``recordFinishedPodWithTrackingFinalizer``)."""
        if not (old.metadata.finalizers or new.metadata.finalizers):
            return

        def ended_with_it(pod: Pod) -> bool:
            return pod.status.phase in ("Succeeded", "Failed") and TRACKING in pod.metadata.finalizers

        previous, after = ended_with_it(old), ended_with_it(new)
        if previous != after:
            self._metrics.finalizers.labels("delete" if previous else "add").inc()

    def _forget(self, key: str) -> None:
        self._removals.forget(key)
        self._failures.pop(key, None)

    # One sync

    async def reconcile(self, key: str) -> Requeue | None:
        snapshot = await self._gate.enter(key)
        if snapshot is None or is_external(snapshot.owner):
            return None
        job = snapshot.owner
        if is_finished(job):
            self._failures.pop(key, None)
            self._finished.pop(key, None)
            return None
        if self._finished.get(key) == job.metadata.uid:
            return None
        mode = job.spec.completion_mode or "NonIndexed"
        if mode not in ("NonIndexed", "Indexed"):
            text = "Skipped Job sync because completion mode is unknown"
            self._recorder.event(object_reference(JOBS, job.metadata), WARNING, "UnknownCompletionMode", text)
            return None
        blueprint = self._blueprints.of(job)
        if blueprint.selector is None:
            return None
        sync = _SyncJobContext(job, snapshot.raw)
        started_at = self.env.perf_counter()
        result = "error"
        try:
            await self._sync_job(
                key, sync, blueprint, blueprint.selector, expectations_satisfied=snapshot.expectations_satisfied
            )
            result = "success"
        finally:
            labels = (mode, result, sync.action)
            self._metrics.sync_seconds.labels(*labels).observe(self.env.perf_counter() - started_at)
            self._metrics.syncs.labels(*labels).inc()
        expires = self._expectations.expires_in(key)
        if expires is not None:
            sync.again_in(expires)
        return Requeue(sync.wait) if sync.wait is not None else None

    async def _sync_job(
        self, key: str, sync: _SyncJobContext, blueprint: Blueprint, selector: Selector, *, expectations_satisfied: bool
    ) -> None:
        job = sync.job
        pods = await self._get_pods_for_job(key, job, selector)
        if not self._jobs.still_has(job.metadata):
            return  # it was deleted in the meantime; the event enqueues the key
        now = self.env.now()
        tracked = frozenset(
            pod.metadata.uid
            for pod in pods
            if TRACKING in pod.metadata.finalizers and not self._removals.is_awaited(key, pod.metadata.uid)
        )
        observed = Observed(job=job, pods=pods, tracked=tracked, now=now)
        census = take_census(observed)
        known_uid, record = self._failures.get(key, ("", backoff.NONE))
        old = record if known_uid == job.metadata.uid else backoff.NONE
        failures = backoff.new_backoff_record(old, census.new_succeeded, census.new_failed)
        observed = replace(observed, failures=failures)
        sync.active, sync.ready, sync.terminating = len(census.active), census.ready, census.terminating
        status = job.status
        if status.start_time is None and not is_suspended(job):
            status = replace(status, start_time=whole_seconds(now))
        ending = decide_ending(observed, census, status.start_time)
        deadline = until_deadline(job, status.start_time, now)
        if ending is None and deadline is not None:
            sync.again_in(deadline)
        if ending is not None:
            all_deleted = await self._delete_active_pods(sync, census.active, describe_ending(job, census, ending))
            if not all_deleted or not expectations_satisfied:
                ending = None
        else:
            managed = expectations_satisfied and job.metadata.deletion_timestamp is None
            if managed:
                await self._manage_job(key, sync, observed, census, blueprint)
            if is_complete(job, census, sync.active):
                ending = COMPLETIONS_REACHED
            elif managed:
                status = self._update_suspended_condition(job, status, now)
        status = replace(
            status,
            active=sync.active,
            ready=min(sync.ready, sync.active),
            terminating=sync.terminating,
            uncounted_terminated_pods=status.uncounted_terminated_pods or UncountedTerminatedPods(),
        )
        await self._track_job_status_and_remove_finalizers(key, sync, observed, census, status, ending, failures)
        if sync.error is not None:
            raise sync.error

    async def _get_pods_for_job(self, key: str, job: Job, selector: Selector) -> tuple[Pod, ...]:
        """The pods of the Job, after adoption and release. Adopted ones have the finalizer."""
        meta = job.metadata
        controlled = self._pods.by_index(
            CONTROLLER_INDEX, controller_index_key(meta.namespace, JOBS.kind, meta.name, meta.uid)
        )
        orphans = self._pods.by_index(CONTROLLER_INDEX, meta.namespace)
        candidates = [*controlled, *(pod for pod in orphans if selector.matches(pod.metadata.labels))]
        claimed = await self._gate.pod_claims(key, meta, selector, finalizers=(TRACKING,)).claim(candidates)
        return tuple(pod if controller_of(pod.metadata) is not None else _adopted(pod) for pod in claimed)

    def _update_suspended_condition(self, job: Job, status: JobStatus, now: datetime.datetime) -> JobStatus:
        reference = object_reference(JOBS, job.metadata)
        if is_suspended(job):
            conditions, changed = with_condition(
                status.conditions, SUSPENDED, "True", "JobSuspended", "Job suspended", now
            )
            if changed:
                self._recorder.event(reference, NORMAL, "Suspended", "Job suspended")
                started = None if self._clear_start_time else status.start_time
                return replace(status, conditions=conditions, start_time=started)
            return status
        conditions, changed = with_condition(status.conditions, SUSPENDED, "False", "JobResumed", "Job resumed", now)
        if changed:
            self._recorder.event(reference, NORMAL, "Resumed", "Job resumed")
            return replace(status, conditions=conditions, start_time=whole_seconds(now))
        return status

    # Pods

    async def _delete_active_pods(self, sync: _SyncJobContext, pods: Iterable[Pod], reason: str) -> bool:
        """Delete the active pods of a Job that is finishing. Returns whether all deletes succeeded."""
        to_delete = list(pods)
        record_decision(f"active pods are deleted: {reason}")
        reference = object_reference(JOBS, sync.job.metadata)

        async def delete(pod: Pod) -> None:
            try:
                await self._pod_control.delete_pod(pod.metadata.namespace, pod.metadata.name, reference)
            except NotFound:
                return

        errors = await run_all([delete(pod) for pod in to_delete]) if to_delete else []
        sync.removed(to_delete, errors)
        return sync.error is None

    async def _manage_job(
        self, key: str, sync: _SyncJobContext, observed: Observed, census: Census, blueprint: Blueprint
    ) -> None:
        sync.action = "tracking"
        match decide_pods(observed, census):
            case RemovePods(pods):
                sync.action = "pods_deleted"
                if pods:
                    record_decision(f"{describe_parallelism(observed.job, census)}: {len(pods)} pods are deleted")
                await self._delete_job_pods(key, sync, pods)
            case CreatePods() as action:
                sync.action = "pods_created"
                record_decision(describe_creation(observed.job, census, action))
                await self._create_pods(key, sync, action, census, blueprint)
            case Wait(seconds):
                sync.action = "pods_created"
                sync.again_in(seconds)
            case None:
                pass

    async def _delete_job_pods(self, key: str, sync: _SyncJobContext, pods: tuple[Pod, ...]) -> None:
        """Remove the finalizer first, so that the pod does not count as failed."""
        self._expectations.expect_deletions(key, [object_key(pod.metadata) for pod in pods])
        reference = object_reference(JOBS, sync.job.metadata)

        async def remove(pod: Pod) -> None:
            meta = pod.metadata
            missing = False
            try:
                if TRACKING in meta.finalizers:
                    await self._remove_tracking_finalizer(key, sync.job, pod)
                await self._pod_control.delete_pod(meta.namespace, meta.name, reference)
                missing = True
            except NotFound:
                return
            except _FAILURES as error:
                self._writes.failed(key, error)
                raise
            finally:
                if not missing:
                    self._expectations.deletion_observed(key, object_key(meta))

        sync.removed(pods, await run_all([remove(pod) for pod in pods]))

    async def _create_pods(
        self, key: str, sync: _SyncJobContext, action: CreatePods, census: Census, blueprint: Blueprint
    ) -> None:
        job = sync.job
        meta = job.metadata
        self._expectations.expect_creations(key, action.count)
        reference = object_reference(JOBS, meta)
        controller_ref = new_controller_reference(meta, JOBS)
        per_index = job.spec.backoff_limit_per_index is not None
        reason = creation_reason(job, census)

        async def create(number: int) -> None:
            template, prefix = blueprint.template, ""
            if action.indexes:
                index = action.indexes[number]
                counts = new_failure_count_annotations(job, census.kept.get(index)) if per_index else {}
                template, prefix = blueprint.of_index(index, counts), pod_generate_name_with_index(meta.name, index)
            try:
                pod = await self._pod_control.create_pod(
                    meta.namespace, template, reference, controller_ref, prefix=prefix
                )
            except _FAILURES as error:
                self._writes.failed(key, error)
                # The expectation stays, and delays the Job while its namespace is deleted.
                if has_cause(error, "NamespaceTerminating"):
                    raise Futile from error
                self._metrics.pods_created.labels(reason, "failed").inc()
                raise
            sync.active += 1
            self._metrics.pods_created.labels(reason, "succeeded").inc()
            self._writes.created(key, meta.uid, pod.metadata)

        created, sync.error = await slow_start(action.count, INITIAL_BATCH, create)
        if created < action.count:
            self._expectations.lower(key, action.count - created, 0)

    async def _remove_tracking_finalizer(self, key: str, job: Job, pod: Pod) -> None:
        """Raises ``NotFound`` if the pod does not exist."""
        meta = pod.metadata
        self._removals.expect(key, meta.uid)
        try:
            written = await self._pod_control.patch_pod(meta.namespace, meta.name, _RELEASE)
        except _FAILURES as error:
            if not isinstance(error, NotFound) or not self._pods.still_has(meta):
                self._removals.observed(key, meta.uid)
            raise
        if not self._pods.still_has(meta):
            self._removals.observed(key, meta.uid)  # it was deleted in the meantime, and there are no more events of it
        self._writes.patched(key, job.metadata.uid, written.metadata)

    # Counting

    async def _track_job_status_and_remove_finalizers(
        self,
        key: str,
        sync: _SyncJobContext,
        observed: Observed,
        census: Census,
        status: JobStatus,
        ending: Ending | None,
        failures: backoff.BackoffRecord,
    ) -> None:
        job = sync.job
        plan = tracking.plan(observed, census, status, ending)
        if plan.status != job.status:
            await self._put_status(key, sync, plan.status)
            self._record_job_pod_finished(job, job.status, plan.status)
        self._failures[key] = (job.metadata.uid, failures)
        for action in plan.handled:
            self._metrics.handled.labels(action).inc()
        tracked, error = await self._remove_tracking_finalizers(key, sync, observed, plan)
        status = tracking.count_pods_without_finalizer(plan.status, tracked)
        if is_indexed(job):
            status = replace(status, succeeded=plan.status.succeeded)
        ended = ending is not None and error is None and tracking.has_ended(plan, status, ending)
        if ending is not None and ended:
            status = finished(status, ending, self.env.now())
        if status != plan.status:
            await self._put_status(key, sync, status)
            self._record_job_pod_finished(job, plan.status, status)
        if ending is not None and ended:
            if self._jobs.still_has(job.metadata):
                self._finished[key] = job.metadata.uid
            self._record_job_finished(job, ending, status)
        if error is not None:
            raise error

    async def _remove_tracking_finalizers(
        self, key: str, sync: _SyncJobContext, observed: Observed, plan: tracking.Plan
    ) -> tuple[set[str], Exception | None]:
        """Remove the finalizers. Returns the uids of pods that still have one, and the first failure."""
        tracked = set(observed.tracked)
        if not plan.release:
            return tracked, None

        async def take(pod: Pod) -> None:
            record_decision(f"{pod.metadata.name} ({pod.status.phase}) is counted: its finalizer {TRACKING} is removed")
            try:
                await self._remove_tracking_finalizer(key, sync.job, pod)
            except NotFound:
                return

        errors = await run_all([take(pod) for pod in plan.release])
        for pod, error in zip(plan.release, errors, strict=True):
            if error is None:
                tracked.discard(pod.metadata.uid)
        return tracked, next((error for error in errors if error is not None), None)

    async def _put_status(self, key: str, sync: _SyncJobContext, status: JobStatus) -> None:
        meta = sync.job.metadata
        record_decision(describe_status(sync.job, status))
        new_body = replace_fields(sync.raw, {"status": msgspec.json.encode(status), "metadata.managedFields": None})
        try:
            response = await self._client.update(JOBS.raw, meta.name, new_body, meta.namespace, subresource="status")
        except NotFound as error:
            self._writes.record_owner_missing(key, meta, error)
            raise
        sync.raw = bytes(response)
        sync.job = replace(sync.job, status=status)
        version = take_field(response, "metadata.resourceVersion")
        if version is not None:
            self._writes.wrote_at(key, meta.uid, JOBS.group_resource, bytes(version).decode().strip('"'))

    # Events and metrics

    def _record_job_finished(self, job: Job, ending: Ending, status: JobStatus) -> None:
        reference = object_reference(JOBS, job.metadata)
        mode = job.spec.completion_mode or "NonIndexed"
        desired = job.spec.completions
        if ending.success:
            if not is_indexed(job) and desired is not None and status.succeeded > desired:
                text = "Too many succeeded pods running after completion count reached"
                self._recorder.event(reference, WARNING, "TooManySucceededPods", text)
            self._recorder.event(reference, NORMAL, "Completed", "Job completed")
        else:
            self._recorder.event(reference, WARNING, ending.reason, ending.message)
        result = "succeeded" if ending.success else "failed"
        self._metrics.finished.labels(mode, result, ending.reason).inc()

    def _record_job_pod_finished(self, job: Job, old: JobStatus, new: JobStatus) -> None:
        """Count the difference of two written statuses (``recordJobPodFinished``). Only indexes below the current
        completions are compared, because a Job may be scaled down."""
        mode = job.spec.completion_mode or "NonIndexed"
        succeeded = new.succeeded - old.succeeded
        if is_indexed(job):
            label = "global" if job.spec.backoff_limit_per_index is None else "perIndex"
            succeeded = self._more(job, old.completed_indexes, new.completed_indexes)
            more_failed = self._more(job, old.failed_indexes or "", new.failed_indexes or "")
            for result, count in (("succeeded", succeeded), ("failed", more_failed)):
                if count > 0:
                    self._metrics.finished_indexes.labels(result, label).inc(count)
        for result, count in (("succeeded", succeeded), ("failed", new.failed - old.failed)):
            if count > 0:
                self._metrics.pods_finished.labels(mode, result).inc(count)

    @staticmethod
    def _more(job: Job, old: str, new: str) -> int:
        if old == new:
            return 0
        completions = job.spec.completions or 0
        return Indexes.parse(new, completions).total - Indexes.parse(old, completions).total

    # Orphans

    async def _sync_orphan_pod(self, key: str) -> Requeue | None:
        """Remove the finalizer of a pod that no Job counts."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        reference = controller_of(pod.metadata)
        job = None
        if reference is not None and is_of_a_job(reference):
            job = self._jobs.get(f"{pod.metadata.namespace}/{reference.name}")
        if not may_be_released(pod, job):
            return None
        if job is None and reference is not None and not await self._is_owner_deleted(pod, reference):
            return None
        record_decision(f"no Job counts {pod.metadata.name}: its finalizer {TRACKING} is removed")
        try:
            await self._pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, _RELEASE)
        except NotFound:
            return None
        return None

    async def _is_owner_deleted(self, pod: Pod, reference: OwnerReference) -> bool:
        """Whether the owner that is not in the cache was deleted, and is not just too new for it. After a failover the
        pods may be listed later than the Jobs. The owner is older than its pod: a cache that is as new as the pod would
        have it. Otherwise the owner is read live."""
        order = compare(self._jobs.resource_version, pod.metadata.resource_version)
        if order is not None and order >= 0:
            return True
        try:
            live = await self._client.get(JOBS.read_as(Object), reference.name, pod.metadata.namespace)
        except NotFound:
            return True
        return live.metadata.uid != reference.uid


def _adopted(pod: Pod) -> Pod:
    finalizers = pod.metadata.finalizers
    if TRACKING in finalizers:
        return pod
    return replace(pod, metadata=replace(pod.metadata, finalizers=(*finalizers, TRACKING)))


build = JobController
