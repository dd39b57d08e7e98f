"""Invariants of CronJobs: one Job for each scheduled time, not before that time, and ``Forbid`` is respected.

Computed from the committed objects after every write.
"""

import datetime

from pilothouse.api.batch import CronJob, Job
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.jobs import is_finished
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobs(Invariant):
    """All CronJobs. ``forbid``: at most one Job of each runs at a time."""

    def __init__(self, *, forbid: bool = False) -> None:
        self._forbid = forbid
        self._owners = Objects("batch/cronjobs/", CronJob)
        self._jobs = Objects("batch/jobs/", Job)
        self.moments: dict[str, list[str]] = {}
        """By name of the CronJob: the scheduled times of its Jobs, in order."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self._owners.follow(change) and (update := self._jobs.follow(change)):
            _key, old, job = update
            if old is None and job is not None:
                self._check_new(job)

    def _check_new(self, job: Job) -> None:
        reference = controller_of(job.metadata)
        if reference is None or reference.kind != "CronJob":
            return
        scheduled_text = job.metadata.annotations[SCHEDULED]
        scheduled_texts = self.moments.setdefault(reference.name, [])
        if scheduled_text in scheduled_texts:
            raise Violation(f"{reference.name} was started twice for {scheduled_text}")
        scheduled_texts.append(scheduled_text)
        owner = next((cron_job for cron_job in self._owners.values() if cron_job.metadata.uid == reference.uid), None)
        scheduled_time, created = datetime.datetime.fromisoformat(scheduled_text), job.metadata.creation_timestamp
        if created is not None and created < scheduled_time:
            raise Violation(f"{job.metadata.name} was created at {created}, before {scheduled_text}")
        since = owner.metadata.creation_timestamp if owner is not None else None
        if since is not None and scheduled_time < since:
            raise Violation(f"{job.metadata.name} is for {scheduled_text}, before {reference.name} was created")
        if self._forbid:
            running = [running_job.metadata.name for running_job in self._jobs.values() if not is_finished(running_job)]
            if len(running) > 1:
                raise Violation(f"concurrent Jobs of {reference.name}: {sorted(running)}")

    def check_final_state(self) -> None:
        """At the end no finished or deleted Job is listed as active."""
        alive = {job.metadata.uid for job in self._jobs.values() if not is_finished(job)}
        for owner in self._owners.values():
            stale = [reference.name for reference in owner.status.active if reference.uid not in alive]
            if stale:
                raise Violation(f"{owner.metadata.name} lists {stale} as active")
