"""The wiring: observe → decide → apply → report.

Upstream: v1.36 ``pkg/controller/cronjob/cronjob_controllerv2.go``.
"""

import msgspec

from pilothouse.api.batch import CRON_JOBS, JOBS, CronJob, Job
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound, has_cause
from pilothouse.controllers.workloads.cronjob import DESCRIPTOR, CronJobOptions
from pilothouse.controllers.workloads.cronjob.blueprint import get_job_from_template
from pilothouse.controllers.workloads.cronjob.decide import CronJobEvent, Decision, decide, job_name, jobs_to_clean_up
from pilothouse.controllers.workloads.cronjob.schedule import next_schedule_time_duration, schedule_of
from pilothouse.controllers.workloads.cronjob.status import (
    active_jobs_not_in_cache,
    active_jobs_not_in_status,
    add_to_active_list,
    delete_from_active_list,
    update_active_list,
)
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.cron import CronError
from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.machinery.owners import controller_of, is_controlled_by
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.times import format_time
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    controller_index_key,
    index_by_controller,
    object_key,
    object_reference,
)
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.runtime.events import NORMAL, WARNING

_FAILURES = (ApiError, OSError)
_decoder = msgspec.json.Decoder(CronJob)


class ReplaceFailed(RuntimeError):
    """A Job to be replaced could not be deleted."""


class _SyncContext:
    """The state of one sync of a CronJob."""

    def __init__(self, cron_job: CronJob, raw: bytes) -> None:
        self.cron_job = cron_job
        self.raw = raw
        self.status = cron_job.status
        self._removed: set[str] = set()

    def remove(self, uid: str) -> None:
        self._removed.add(uid)
        self.status = delete_from_active_list(self.status, (uid,))

    def refresh(self, cron_job: CronJob, raw: bytes) -> None:
        self.cron_job, self.raw = cron_job, raw
        self.status = delete_from_active_list(cron_job.status, self._removed)


class CronJobController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        cron_jobs = context.informer(CRON_JOBS)
        jobs = context.informer(JOBS, indexes={CONTROLLER_INDEX: index_by_controller})
        super().__init__(
            context, DESCRIPTOR.name, workers=context.options_as(CronJobOptions).workers, queue_name="cronjob"
        )
        self._client = context.client
        self._cron_jobs = cron_jobs.cache
        self._jobs = jobs.cache
        self._recorder = EventRecorder(context.client, context.env, self.name)
        self.add_runnable("events", self._recorder.run)
        self._skew = context.metrics.histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "[STABLE] Time between when a cronjob is scheduled to be run, and when the corresponding job is created",
            buckets=exponential_buckets(1, 2, 10),
        ).labels()
        self._written: dict[str, tuple[str, str]] = {}
        """By key the uid and version of our last write."""
        cron_jobs.add_handler(
            lambda created_at, _initial: self.queue.add(object_key(created_at.metadata)),
            self._update_cron_job,
            self._delete_cron_job,
        )
        jobs.add_handler(
            lambda job, _initial: self._enqueue_owner(job.metadata),
            self._update_job,
            lambda job, _unknown: self._enqueue_owner(job.metadata),
        )

    # Event handlers

    def _update_cron_job(self, old: CronJob, new: CronJob) -> None:
        """After a change of its schedule a CronJob is enqueued at the next scheduled time; earlier enqueuing stays."""
        key = object_key(new.metadata)
        previous, after = old.spec, new.spec
        same_schedule = (previous.schedule, previous.time_zone) == (after.schedule, after.time_zone)
        if same_schedule or old.metadata.uid != new.metadata.uid:
            self.queue.add(key)
            return
        try:
            schedule = schedule_of(new, self.env.zone)
        except CronError:
            text = f"unparseable schedule for cronjob: {after.schedule}"
            self._record_event(new, CronJobEvent(WARNING, "UnParseableCronJobSchedule", text))
            return
        wait = next_schedule_time_duration(new, schedule, self.env.now())
        # A schedule that is never due: the sync records an event about it.
        self.queue.add_after(key, wait if wait is not None else 0.0)

    def _delete_cron_job(self, cron_job: CronJob, _final_state_unknown: bool) -> None:
        key = object_key(cron_job.metadata)
        self._written.pop(key, None)
        self.queue.add(key)

    def _update_job(self, old: Job, new: Job) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if controller_of(old.metadata) != controller_of(new.metadata):
            self._enqueue_owner(old.metadata)
        self._enqueue_owner(new.metadata)

    def _enqueue_owner(self, job: ObjectMeta) -> None:
        reference = controller_of(job)
        key = self._owner_key(job.namespace, reference) if reference is not None else None
        if key is not None:
            self.queue.add(key)

    def _owner_key(self, namespace: str, reference: OwnerReference) -> str | None:
        if reference.kind != CRON_JOBS.kind:
            return None
        key = f"{namespace}/{reference.name}"
        owner = self._cron_jobs.get(key)
        return key if owner is not None and owner.metadata.uid == reference.uid else None

    # One sync

    async def reconcile(self, key: str) -> Requeue | None:
        cron_job, raw = self._cron_jobs.get(key), self._cron_jobs.raw(key)
        if cron_job is None:
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        meta = cron_job.metadata
        uid, version = self._written.get(key, ("", ""))
        if uid == meta.uid and is_newer(version, meta.resource_version):
            return None  # the event of that write enqueues the key
        owned = controller_index_key(meta.namespace, CRON_JOBS.kind, meta.name, meta.uid)
        jobs = sorted(self._jobs.by_index(CONTROLLER_INDEX, owned), key=lambda job: job.metadata.name)
        sync = _SyncContext(cron_job, raw)
        for job in jobs_to_clean_up(cron_job, jobs):
            record_decision(
                f"{job.metadata.name} has ended and is over the history limits: successfulJobsHistoryLimit "
                f"{cron_job.spec.successful_jobs_history_limit}, failedJobsHistoryLimit "
                f"{cron_job.spec.failed_jobs_history_limit}, the oldest go first"
            )
            await self._delete_job(sync, job.metadata)
        wait: float | None = None
        failure: Exception | None = None
        try:
            wait = await self._sync_cron_job(sync, jobs)
        except (*_FAILURES, ReplaceFailed) as error:
            failure = error
        # The status is written also after an error.
        if sync.status != sync.cron_job.status:
            await self._put_status(sync)
        if failure is not None:
            raise failure
        return Requeue(wait) if wait is not None else None

    async def _sync_cron_job(self, sync: _SyncContext, jobs: list[Job]) -> float | None:
        for job in active_jobs_not_in_status(sync.status, jobs):
            await self._check_active_job(sync, job)
        sync.status, events = update_active_list(sync.status, jobs)
        for event in events:
            self._record_event(sync.cron_job, event)
        for reference in active_jobs_not_in_cache(sync.status, jobs):
            try:
                await self._client.get(JOBS, reference.name, reference.namespace)
            except NotFound:
                text = f"Active job went missing: {reference.name}"
                self._record_event(sync.cron_job, CronJobEvent(NORMAL, "MissingJob", text))
                sync.remove(reference.uid)
        decision = decide(sync.cron_job, sync.status, self.env.now(), self.env.zone)
        for event in decision.events:
            self._record_event(sync.cron_job, event)
        if decision.start is not None:
            await self._create_job(sync, decision)
        return decision.wait

    async def _check_active_job(self, sync: _SyncContext, job: Job) -> None:
        """A Job runs that is not in the status: the cache may be behind our own last write."""
        if any(reference.uid == job.metadata.uid for reference in sync.status.active):
            return  # the newer status has it
        meta = sync.cron_job.metadata
        raw = await self._client.get(CRON_JOBS.raw, meta.name, meta.namespace)
        live = _decoder.decode(raw)
        if any(reference.uid == job.metadata.uid for reference in live.status.active):
            sync.refresh(live, bytes(raw))
            return
        text = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
        self._record_event(sync.cron_job, CronJobEvent(WARNING, "UnexpectedJob", text))

    async def _create_job(self, sync: _SyncContext, decision: Decision) -> None:
        cron_job, scheduled_time = sync.cron_job, decision.start
        assert scheduled_time is not None, "asked only when there is one"
        spec = cron_job.spec
        due = f"schedule {spec.schedule} is due at {format_time(scheduled_time)}"
        if decision.replace:
            record_decision(f"{due}, concurrencyPolicy Replace: {len(sync.status.active)} active Jobs are deleted")
            await self._replace_active(sync)
        meta = cron_job.metadata
        name = job_name(cron_job, scheduled_time)
        deadline = spec.starting_deadline_seconds
        limit = f", startingDeadlineSeconds {deadline}" if deadline is not None else ""
        record_decision(
            f"{due}: {name} is created; concurrencyPolicy {spec.concurrency_policy or 'Allow'}, "
            f"{len(sync.status.active)} "
            f"Jobs are active{limit}"
        )
        try:
            created_at = await self._client.create(
                JOBS, get_job_from_template(cron_job, scheduled_time), meta.namespace
            )
        except AlreadyExists:
            # Created by us and not in the status yet, or by another client.
            existing = await self._client.get(JOBS, name, meta.namespace)
            is_active = any(reference.uid == existing.metadata.uid for reference in sync.status.active)
            if is_active or not is_controlled_by(existing.metadata, meta.uid):
                return
            self.log.info("Job already exists", job=name, namespace=meta.namespace)
            sync.status = add_to_active_list(sync.status, existing.metadata, scheduled_time)
            return
        except _FAILURES as error:
            if not has_cause(error, "NamespaceTerminating"):
                self._record_event(cron_job, CronJobEvent(WARNING, "FailedCreate", f"Error creating job: {error}"))
            raise
        created = created_at.metadata.creation_timestamp
        if created is not None:
            self._skew.observe((created - scheduled_time).total_seconds())
        self._record_event(
            cron_job, CronJobEvent(NORMAL, "SuccessfulCreate", f"Created job {created_at.metadata.name}")
        )
        sync.status = add_to_active_list(sync.status, created_at.metadata, scheduled_time)

    async def _replace_active(self, sync: _SyncContext) -> None:
        for reference in sync.status.active:
            try:
                job = await self._client.get(JOBS, reference.name, reference.namespace)
            except _FAILURES as error:
                self._record_event(sync.cron_job, CronJobEvent(WARNING, "FailedGet", f"Get job: {error}"))
                raise
            if not await self._delete_job(sync, job.metadata):
                raise ReplaceFailed(f"could not replace job {reference.namespace}/{reference.name}")

    async def _delete_job(self, sync: _SyncContext, job: ObjectMeta) -> bool:
        try:
            await self._client.delete(JOBS, job.name, job.namespace, propagation_policy="Background")
        except _FAILURES as error:
            self._record_event(sync.cron_job, CronJobEvent(WARNING, "FailedDelete", f"Deleted job: {error}"))
            return False
        sync.remove(job.uid)
        self._record_event(sync.cron_job, CronJobEvent(NORMAL, "SuccessfulDelete", f"Deleted job {job.name}"))
        return True

    async def _put_status(self, sync: _SyncContext) -> None:
        meta = sync.cron_job.metadata
        last = sync.status.last_schedule_time
        record_decision(
            f"status: {len(sync.status.active)} active Jobs, last schedule time {format_time(last) if last else 'none'}"
        )
        body = replace_fields(sync.raw, {"status": msgspec.json.encode(sync.status), "metadata.managedFields": None})
        response = await self._client.update(CRON_JOBS.raw, meta.name, body, meta.namespace, subresource="status")
        version = take_field(response, "metadata.resourceVersion")
        if version is not None and self._cron_jobs.still_has(meta):
            self._written[object_key(meta)] = (meta.uid, bytes(version).decode().strip('"'))

    def _record_event(self, cron_job: CronJob, event: CronJobEvent) -> None:
        reference = object_reference(CRON_JOBS, cron_job.metadata)
        self._recorder.event(reference, event.type, event.reason, event.message)


build = CronJobController
