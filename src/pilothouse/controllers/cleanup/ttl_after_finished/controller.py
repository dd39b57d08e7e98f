"""Waits until the TTL of each finished Job has passed, reads it live, and deletes it."""

from pilothouse.api.batch import JOBS, Job
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.cleanup.ttl_after_finished import DESCRIPTOR, TTLAfterFinishedOptions
from pilothouse.controllers.cleanup.ttl_after_finished.decide import expires_at, needs_cleanup
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, object_key


def build(context: ControllerContext) -> "TTLAfterFinishedController":
    """The factory of the descriptor."""
    return TTLAfterFinishedController(context)


class TTLAfterFinishedController(ManagedController):
    """See the package."""

    def __init__(self, context: ControllerContext) -> None:
        jobs = context.informer(JOBS)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=context.options_as(TTLAfterFinishedOptions).workers,
            queue_name="ttl_jobs_to_delete",
        )
        self._client = context.client
        self._jobs = jobs.cache
        self._lateness = context.metrics.histogram(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "[ALPHA] The time it took to delete the job since it became eligible for deletion",
            buckets=exponential_buckets(0.1, 2, 14),
        ).labels()
        jobs.add_handler(
            lambda job, _initial: self._enqueue(job), lambda _old, job: self._enqueue(job), lambda _job, _u: None
        )

    def _enqueue(self, job: Job) -> None:
        if needs_cleanup(job):
            self.queue.add(object_key(job.metadata))

    async def reconcile(self, key: str) -> Requeue | None:
        """Delete the Job if its TTL has passed, both in the cache and live (``processJob``, ``processTTL``)."""
        job = self._jobs.get(key)
        if job is None:
            return None
        wait = self._time_left(job)
        if wait is None or wait > 0:
            return None if wait is None else Requeue(wait)
        # The cache may be old: the TTL may have been extended, or there may be another Job with the name.
        meta = job.metadata
        try:
            live = await self._client.get(JOBS, meta.name, meta.namespace)
        except NotFound:
            return None
        wait = self._time_left(live)
        if wait is None or wait > 0:
            return None if wait is None else Requeue(wait)
        seconds = live.spec.ttl_seconds_after_finished
        record_decision(f"the Job finished {seconds or 0 - wait:.0f} s ago, ttlSecondsAfterFinished {seconds}")
        try:
            await self._client.delete(
                JOBS, meta.name, meta.namespace, uid=live.metadata.uid, propagation_policy="Foreground"
            )
        except NotFound:
            return None
        except Conflict:
            return Requeue(0)  # there is another Job with that name: check that one
        late = self._time_left(live)
        assert late is not None, "it was due"
        self._lateness.observe(-late)
        self.log.info("Deleted job after its TTL", v=2, job=key)
        return None

    def _time_left(self, job: Job) -> float | None:
        due = expires_at(job)
        return None if due is None else (due - self.env.now()).total_seconds()
