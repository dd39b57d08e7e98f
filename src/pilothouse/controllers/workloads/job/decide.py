"""How a Job finishes, and which pods to create or delete. Pure.

Upstream: v1.36 ``pkg/controller/job/job_controller.go`` (``syncJob``, ``manageJob``).
"""

import datetime
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.api.batch import Job
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.job import backoff
from pilothouse.controllers.workloads.job.indexes import UNKNOWN, Indexes, first_pending_indexes, index_of_pod
from pilothouse.controllers.workloads.job.pod_failure_policy import match_pod_failure_policy
from pilothouse.controllers.workloads.job.status import FAILURE_TARGET, SUCCESS_CRITERIA_MET, Ending
from pilothouse.controllers.workloads.job.success_policy import match_success_policy
from pilothouse.semantics.jobs import true_condition
from pilothouse.semantics.pods import is_active, is_ready, is_terminating, max_restart_counts, ready_condition

FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
BURST = 500
"""At most this many creates or deletes in one sync (``MaxPodCreateDeletePerSync``)."""
_SHORTEST_WAIT = 1.0
_LARGEST = 2**31 - 1
_LONG_AGO = datetime.datetime.min.replace(tzinfo=datetime.UTC)


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def is_suspended(job: Job) -> bool:
    return bool(job.spec.suspend)


def replaces_only_failed(job: Job) -> bool:
    """Whether a pod is replaced only when it has failed, not when it is terminating."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def has_failed(job: Job, pod: Pod) -> bool:
    """Whether the pod counts as failed: it has failed, or is terminating and that suffices for this Job."""
    if pod.status.phase == "Failed":
        return True
    if replaces_only_failed(job):
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def failure_counts(job: Job, pod: Pod) -> bool:
    """Whether the failure counts by the failure policy."""
    return match_pod_failure_policy(job.spec.pod_failure_policy, pod).counts


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision, read at one instant. ``tracked`` are the uids of pods that have the finalizer, without
    those whose finalizer we have removed, even if the cache still shows it."""

    job: Job
    pods: tuple[Pod, ...]
    tracked: frozenset[str]
    now: datetime.datetime
    failures: backoff.BackoffRecord = backoff.NONE


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a Job, classified and counted."""

    active: tuple[Pod, ...]
    ready: int
    terminating: int
    new_succeeded: tuple[Pod, ...]
    new_failed: tuple[Pod, ...]
    succeeded: int
    failed: int
    completed_before: Indexes
    completed: Indexes
    failed_indexes: Indexes | None
    kept: Mapping[int, Pod]
    """By index the failed pod that stays until its replacement exists, which inherits its count."""


def take_census(observed: Observed) -> Census:
    job, status = observed.job, observed.job.status
    completions = job.spec.completions or 0
    indexed = is_indexed(job)
    active = tuple(pod for pod in observed.pods if is_active(pod))
    uncounted = status.uncounted_terminated_pods
    waiting_succeeded = uncounted.succeeded if uncounted is not None else ()
    waiting_failed = uncounted.failed if uncounted is not None else ()
    uncounted_uids = {*waiting_succeeded, *waiting_failed}
    fresh = [
        pod
        for pod in observed.pods
        if pod.metadata.uid in observed.tracked
        and pod.metadata.uid not in uncounted_uids
        and (not indexed or 0 <= index_of_pod(pod) < completions)
    ]
    succeeded_pods = tuple(pod for pod in fresh if pod.status.phase == "Succeeded")
    failed_pods = tuple(pod for pod in fresh if has_failed(job, pod))
    completed_before = completed = Indexes()
    succeeded = status.succeeded + len(succeeded_pods) + len(waiting_succeeded)
    if indexed:
        completed_before = Indexes.parse(status.completed_indexes, completions)
        completed = completed_before.plus(index_of_pod(pod) for pod in succeeded_pods)
        succeeded = completed.total
    failed_indexes: Indexes | None = None
    pods_with_delayed_deletion: dict[int, Pod] = {}
    if indexed and job.spec.backoff_limit_per_index is not None:
        old = Indexes.parse(status.failed_indexes or "", completions)
        # Upstream counts completed ones, too (``calculateFailedIndexes``), and its status is then always rejected.
        failed_indexes = old.plus(
            index for pod in failed_pods if (index := index_of_pod(pod)) not in completed and _is_index_failed(job, pod)
        )
        pods_with_delayed_deletion = _kept(observed, active, completed, failed_indexes)
    return Census(
        active=active,
        ready=sum(1 for pod in active if is_ready(pod)),
        terminating=sum(1 for pod in observed.pods if is_terminating(pod)),
        new_succeeded=succeeded_pods,
        new_failed=failed_pods,
        succeeded=succeeded,
        failed=status.failed + sum(1 for pod in failed_pods if failure_counts(job, pod)) + len(waiting_failed),
        completed_before=completed_before,
        completed=completed,
        failed_indexes=failed_indexes,
        kept=pods_with_delayed_deletion,
    )


def _is_index_failed(job: Job, pod: Pod) -> bool:
    matched = match_pod_failure_policy(job.spec.pod_failure_policy, pod)
    if matched.action == "FailIndex":
        return True
    limit = job.spec.backoff_limit_per_index
    assert limit is not None, "asked only where there is a limit per index"
    return matched.counts and parse_failure_count(pod) >= limit


def parse_failure_count(pod: Pod, annotation: str = FAILURE_COUNT) -> int:
    """The number in the annotation; 0 if it is invalid."""
    text = pod.metadata.annotations.get(annotation, "")
    number = int(text) if text.isascii() and text.isdigit() else 0
    return number if number <= _LARGEST else 0


def _kept(observed: Observed, active: Iterable[Pod], completed: Indexes, failed: Indexes) -> dict[int, Pod]:
    running = {index_of_pod(pod) for pod in active}
    completions = observed.job.spec.completions or 0
    delayed_pods: dict[int, Pod] = {}
    for pod in observed.pods:
        if pod.metadata.uid not in observed.tracked or not has_failed(observed.job, pod):
            continue
        index = index_of_pod(pod)
        if index < 0 or index >= completions or index in running or index in completed or index in failed:
            continue
        current = delayed_pods.get(index)
        if current is None or _history(pod) > _history(current):
            delayed_pods[index] = pod
    return delayed_pods


def _history(pod: Pod) -> tuple[int, datetime.datetime, str]:
    total = parse_failure_count(pod) + parse_failure_count(pod, IGNORED_FAILURE_COUNT)
    return total, backoff.get_finished_time(pod) or _LONG_AGO, pod.metadata.uid


def new_failure_count_annotations(job: Job, last: Pod | None) -> dict[str, str]:
    """The annotations of the next pod at the index of ``last``. None: it is the first one."""
    if last is None:
        return {FAILURE_COUNT: "0"}
    failures, ignored = parse_failure_count(last), parse_failure_count(last, IGNORED_FAILURE_COUNT)
    if failure_counts(job, last):
        failures += 1
    else:
        ignored += 1
    annotations = {FAILURE_COUNT: str(failures)}
    if ignored:
        annotations[IGNORED_FAILURE_COUNT] = str(ignored)
    return annotations


# Finishing


def decide_ending(observed: Observed, census: Census, started: datetime.datetime | None) -> Ending | None:
    """The reason to finish the Job, or ``None``. The condition in the status takes precedence."""
    job, spec = observed.job, observed.job.spec
    criteria_met = true_condition(job, SUCCESS_CRITERIA_MET)
    if criteria_met is not None:
        return Ending(SUCCESS_CRITERIA_MET, criteria_met.reason, criteria_met.message)
    target = true_condition(job, FAILURE_TARGET)
    if target is not None:
        return Ending(FAILURE_TARGET, target.reason, target.message)
    message = _fail_job_message(observed)
    if message:
        return Ending(FAILURE_TARGET, "PodFailurePolicy", message)
    limit = 6 if spec.backoff_limit is None else spec.backoff_limit
    if census.failed > limit or _restarted_too_often(observed, limit):
        return Ending(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    wait = until_deadline(job, started, observed.now)
    if wait is not None and wait <= 0:
        return Ending(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
    if not is_indexed(job):
        return None
    failed = census.failed_indexes
    if failed is not None:
        if spec.max_failed_indexes is not None and failed.total > spec.max_failed_indexes:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return Ending(FAILURE_TARGET, "MaxFailedIndexesExceeded", text)
        if failed.total and failed.total + census.succeeded >= (spec.completions or 0):
            return Ending(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")
    if spec.success_policy is not None:
        rule = match_success_policy(spec.success_policy, spec.completions or 0, census.completed)
        if rule is not None:
            return Ending(SUCCESS_CRITERIA_MET, "SuccessPolicy", f"Matched rules at index {rule}")
    return None


def until_deadline(job: Job, started: datetime.datetime | None, now: datetime.datetime) -> float | None:
    """Seconds until ``activeDeadlineSeconds`` have passed; ``None`` without a deadline, or if the Job has not
    started."""
    seconds = job.spec.active_deadline_seconds
    if seconds is None or started is None or is_suspended(job):
        return None
    return seconds - (now - started).total_seconds()


def is_complete(job: Job, census: Census, active: int) -> bool:
    """Whether the completions are reached, and no pod is active."""
    desired = job.spec.completions
    return active == 0 and (census.succeeded > 0 if desired is None else census.succeeded >= desired)


COMPLETIONS_REACHED = Ending(SUCCESS_CRITERIA_MET, "CompletionsReached", "Reached expected number of succeeded pods")


def _fail_job_message(observed: Observed) -> str:
    policy = observed.job.spec.pod_failure_policy
    if policy is None:
        return ""
    for pod in observed.pods:
        if has_failed(observed.job, pod):
            message = match_pod_failure_policy(policy, pod).message
            if message:
                return message
    return ""


class _Restarts(msgspec.Struct, frozen=True):
    restart_policy: str = msgspec.field(default="", name="restartPolicy")


class _RestartsOf(msgspec.Struct, frozen=True):
    spec: _Restarts = _Restarts()


_restarts = msgspec.json.Decoder(_RestartsOf)


def _restarted_too_often(observed: Observed, limit: int) -> bool:
    """With OnFailure the restarts of containers count."""
    if _restarts.decode(observed.job.spec.template).spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        status.restart_count
        for pod in observed.pods
        if pod.status.phase in ("Running", "Pending")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


# Which pods


class RemovePods(msgspec.Struct, frozen=True):
    """Remove the finalizer of these pods, then delete them: they do not count as failed."""

    pods: tuple[Pod, ...]


class CreatePods(msgspec.Struct, frozen=True):
    """Create this many pods in batches of 1, 2, 4, …; of an indexed Job one for each of ``indexes``."""

    count: int
    indexes: tuple[int, ...] = ()


class Wait(msgspec.Struct, frozen=True):
    """Create none yet; requeue after these seconds."""

    seconds: float


def decide_pods(observed: Observed, census: Census) -> RemovePods | CreatePods | Wait | None:
    """Bring the number of active pods to the desired one, at most one burst per sync. Those of a suspended Job are
    deleted all at once."""
    job, spec = observed.job, observed.job.spec
    if is_suspended(job):
        return RemovePods(census.active)
    active = len(census.active)
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        # Once one has succeeded, no more are created.
        desired = active if census.succeeded else parallelism
    else:
        desired = max(0, min(parallelism, spec.completions - census.succeeded))
    to_delete = active_pods_for_removal(job, census.active, max(0, active - desired))[:BURST]
    if to_delete:
        return RemovePods(tuple(to_delete))
    missing = desired - active - (census.terminating if replaces_only_failed(job) else 0)
    if missing <= 0:
        return None
    missing = min(missing, BURST)
    per_index = spec.backoff_limit_per_index is not None
    if not per_index:
        remaining_time = backoff.get_remaining_time(observed.failures, observed.now)
        if remaining_time > 0:
            return Wait(max(_SHORTEST_WAIT, remaining_time))
    if not is_indexed(job):
        return CreatePods(missing)
    failed = Indexes() if census.failed_indexes is None else census.failed_indexes
    terminating_pods = (
        [index_of_pod(pod) for pod in observed.pods if is_terminating(pod)] if replaces_only_failed(job) else []
    )
    running = [index_of_pod(pod) for pod in census.active]
    indexes = first_pending_indexes(missing, spec.completions or 0, census.completed, failed, running, terminating_pods)
    if per_index:
        waits = {index: until_replaced(job, census.kept.get(index), observed.now) for index in indexes}
        indexes = [index for index in indexes if not waits[index]]
        if not indexes and waits:
            return Wait(max(_SHORTEST_WAIT, min(waits.values())))
    return CreatePods(len(indexes), tuple(indexes)) if indexes else None


def creation_reason(job: Job, census: Census) -> str:
    """The ``reason`` under which new pods are counted (``recordJobPodsCreationTotal``)."""
    if job.spec.pod_replacement_policy == "Failed" and census.failed:
        return "recreate_failed"
    return "recreate_terminating_or_failed" if census.failed or census.terminating else "new"


def until_replaced(job: Job, last: Pod | None, now: datetime.datetime) -> float:
    """Seconds until the pod that follows ``last`` at its index may be created. ``last`` counts as a failure."""
    if last is None:
        return 0.0
    count = parse_failure_count(last) + parse_failure_count(last, IGNORED_FAILURE_COUNT) + 1
    return backoff.get_remaining_time(backoff.BackoffRecord(count, backoff.get_finished_time(last)), now)


def active_pods_for_removal(job: Job, active: Iterable[Pod], at_least: int) -> list[Pod]:
    """Pods without index and duplicates of an index, then the cheapest until there are ``at_least``."""
    to_delete: list[Pod] = []
    remaining = list(active)
    if is_indexed(job):
        completions = job.spec.completions or 0
        by_index: dict[int, list[Pod]] = {}
        for pod in remaining:
            by_index.setdefault(index_of_pod(pod), []).append(pod)
        remaining = []
        for index in sorted(by_index):
            candidates = sorted(by_index[index], key=_cheapness)
            if index == UNKNOWN or index >= completions:
                to_delete += candidates
            else:
                to_delete += candidates[:-1]
                remaining.append(candidates[-1])
    if len(to_delete) < at_least:
        to_delete += sorted(remaining, key=_cheapness)[: at_least - len(to_delete)]
    return to_delete


_PHASES = {"Unknown": 1, "Running": 2}


def _cheapness(pod: Pod) -> tuple[object, ...]:
    """Sort key: unassigned, Pending, not ready, ready for a short time, restarted often, young first (v1.36
    ``ActivePods.Less``, ``pkg/controller/controller_utils.go``)."""
    condition = ready_condition(pod)
    ready = condition is not None and condition.status == "True"
    since = condition.last_transition_time if ready and condition is not None else None
    created = pod.metadata.creation_timestamp
    regular, sidecar = max_restart_counts(pod)
    return (
        pod.spec.node_name != "",
        _PHASES.get(pod.status.phase, 0),
        ready,
        -since.timestamp() if since is not None else float("-inf"),
        -regular,
        -sidecar,
        -created.timestamp() if created is not None else float("-inf"),
        pod.metadata.name,
    )
