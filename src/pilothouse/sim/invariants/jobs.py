"""Invariants of Jobs: pods are counted correctly, not too many run, and no finalizer remains.

Computed from the committed objects after every write. If users delete pods or change parallelism, fewer conditions can
be checked: see the arguments.
"""

import msgspec

from pilothouse.api.batch import Job
from pilothouse.api.core import Pod
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.jobs import is_finished, true_condition
from pilothouse.semantics.pods import is_active
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_pod = msgspec.json.Decoder(Pod).decode

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


class _PodResults:
    """The results of the pods of one Job, by uid."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.created: dict[str, None] = {}
        self.succeeded: dict[str, str] = {}
        """The completion index of the pod, "" if it has none."""
        self.lost: dict[str, None] = {}
        """Failed or deleted pods."""


class Jobs(Invariant):
    """All Jobs, with their pods.

    ``bounded``: only the controller deletes pods, and Jobs are not changed. Then the number of running pods never
    exceeds ``parallelism`` or the remaining completions, and at the end exactly the succeeded pods are counted.
    """

    def __init__(self, *, bounded: bool = True) -> None:
        self._bounded = bounded
        self._jobs = Objects("batch/jobs/", Job)
        self._results: dict[str, _PodResults] = {}
        self._pods: dict[str, Pod] = {}

    @property
    def created(self) -> int:
        """The number of pods created for Jobs."""
        return sum(len(results.created) for results in self._results.values())

    def committed(self, change: Change, origin: Origin | None) -> None:
        deleted = change.type == "DELETED"
        if update := self._jobs.follow(change):
            _key, old, new = update
            if new is not None:
                self._check_status(new, old)
        elif change.key.startswith("/pods/"):
            self._pods.pop(change.key, None)
            pod = _pod(change.value)
            if not deleted:
                self._pods[change.key] = pod
            self._record(change.key, pod, deleted)

    def _record(self, key: str, pod: Pod, deleted: bool) -> None:
        reference = controller_of(pod.metadata)
        if reference is None or reference.kind != "Job":
            return
        results = self._results.setdefault(reference.uid, _PodResults())
        uid, phase = pod.metadata.uid, pod.status.phase
        results.pods.pop(uid, None)
        if phase == "Succeeded":
            results.succeeded.setdefault(uid, pod.metadata.annotations.get(INDEX, ""))
        if phase == "Failed" or pod.metadata.deletion_timestamp is not None or deleted:
            results.lost[uid] = None
        if deleted:
            return
        results.pods[uid] = pod
        is_new = uid not in results.created
        results.created[uid] = None
        job = next((candidate for candidate in self._jobs.values() if candidate.metadata.uid == reference.uid), None)
        if is_new and self._bounded and job is not None:
            self._check_new(key, job, results)

    def _check_new(self, key: str, job: Job, results: _PodResults) -> None:
        active = [pod for pod in results.pods.values() if is_active(pod)]
        parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
        if len(active) > parallelism:
            raise Violation(
                f"{key} is active pod number {len(active)} of {job.metadata.name}, {parallelism} are allowed"
            )
        desired = job.spec.completions
        if desired is not None and len(active) + len(results.succeeded) > desired:
            succeeded = len(results.succeeded)
            raise Violation(
                f"{key} was created for {job.metadata.name}: {succeeded} of {desired} are done, {len(active)} run"
            )

    def _check_status(self, job: Job, old: Job | None) -> None:
        """Counts do not exceed the observed results, and do not decrease."""
        name, status = job.metadata.name, job.status
        results = self._results.get(job.metadata.uid, _PodResults())
        if min(status.active, status.succeeded, status.failed) < 0:
            raise Violation(f"{name} has a negative count: {status}")
        if status.succeeded > len(results.succeeded):
            raise Violation(f"{name} counts {status.succeeded} as succeeded, {len(results.succeeded)} have")
        if status.failed > len(results.lost):
            raise Violation(f"{name} counts {status.failed} as failed, {len(results.lost)} have")
        if old is None or old.metadata.uid != job.metadata.uid:
            return
        counts, previous_counts = (status.succeeded, status.failed), (old.status.succeeded, old.status.failed)
        if self._bounded and (counts[0] < previous_counts[0] or counts[1] < previous_counts[1]):
            raise Violation(f"{name} counted {previous_counts} as succeeded and failed, and now {counts}")
        if is_finished(old) and (not is_finished(job) or counts != previous_counts):
            raise Violation(f"{name} had finished with {previous_counts}, and now reports {counts}")

    def check_final_state(self) -> None:
        """At the end each Job is finished with the correct result; pods of finished or deleted Jobs have no
        finalizer."""
        alive = {job.metadata.uid: job for job in self._jobs.values()}
        for key, pod in self._pods.items():
            reference = controller_of(pod.metadata)
            if TRACKING not in pod.metadata.finalizers or (reference is not None and reference.kind != "Job"):
                continue
            job = alive.get(reference.uid) if reference is not None else None
            if job is None or is_finished(job):
                raise Violation(f"{key} still has the finalizer of {reference.name if reference else 'no Job'}")
        for job in self._jobs.values():
            self._check_end(job)

    def _check_end(self, job: Job) -> None:
        name, status = job.metadata.name, job.status
        if job.spec.suspend or job.spec.managed_by is not None:
            return
        if not is_finished(job):
            raise Violation(f"{name} has not finished: {status}")
        uncounted = status.uncounted_terminated_pods
        running_counts = (status.active, status.terminating, status.ready)
        if any(running_counts) or (uncounted is not None and (uncounted.succeeded or uncounted.failed)):
            raise Violation(f"{name} has finished and reports {status}")
        results = self._results.get(job.metadata.uid, _PodResults())
        succeeded = (
            len({*results.succeeded.values()}) if job.spec.completion_mode == "Indexed" else len(results.succeeded)
        )
        if self._bounded and (
            status.succeeded != succeeded or status.failed != len(results.lost.keys() - results.succeeded)
        ):
            raise Violation(f"{name} reports {status}; {succeeded} succeeded and {len(results.lost)} were lost")
        desired = job.spec.completions or 0
        if true_condition(job, "Complete") and job.spec.success_policy is None and status.succeeded < desired:
            raise Violation(f"{name} is complete with {status.succeeded} of {desired}")
