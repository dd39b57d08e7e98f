"""Which pods to count, and which finalizers to remove. Pure.

A pod that has ended is counted in three steps: its uid is added to ``status.uncountedTerminatedPods`` (of a succeeded
one of an indexed Job its index to ``completedIndexes``), its finalizer is removed, and its uid is replaced by an
increment of the counter. So any sync can determine which steps are done. Upstream: v1.36
``pkg/controller/job/job_controller.go`` (``trackJobStatusAndRemoveFinalizers``).
"""

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from pilothouse.api.batch import JobStatus, UncountedTerminatedPods
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.job.decide import Census, Observed, has_failed, is_indexed
from pilothouse.controllers.workloads.job.indexes import index_of_pod
from pilothouse.controllers.workloads.job.pod_failure_policy import match_pod_failure_policy
from pilothouse.controllers.workloads.job.status import Ending, with_condition

MAX_UNCOUNTED_PODS = 500
"""``MaxUncountedPods``: so that a status does not grow without bound."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The first two steps for all finished pods."""

    status: JobStatus
    """Must be written first, if it differs from the stored one."""
    release: tuple[Pod, ...]
    """The pods whose finalizers are removed then."""
    full: bool
    """Whether there are more to count than fit: then the Job cannot finish yet."""
    handled: tuple[str, ...] = ()
    """Actions of the failure policy that were taken, one for each pod."""


def count_pods_without_finalizer(status: JobStatus, tracked: Collection[str]) -> JobStatus:
    """Count uids of pods that have no finalizer."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in uncounted.succeeded if uid in tracked)
    failed = tuple(uid for uid in uncounted.failed if uid in tracked)
    return replace(
        status,
        succeeded=status.succeeded + len(uncounted.succeeded) - len(succeeded),
        failed=status.failed + len(uncounted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


def plan(observed: Observed, census: Census, status: JobStatus, ending: Ending | None) -> Plan:
    """The status to write and the finalizers to remove."""
    job = observed.job
    indexed = is_indexed(job)
    completions = job.spec.completions or 0
    status = count_pods_without_finalizer(status, observed.tracked)
    old = status.uncounted_terminated_pods or UncountedTerminatedPods()
    uncounted_succeeded, uncounted_failed = dict.fromkeys(old.succeeded), dict.fromkeys(old.failed)
    new_indexes: dict[int, None] = {}
    release: list[Pod] = []
    handled: list[str] = []
    full = False
    pods = sorted(observed.pods, key=index_of_pod) if indexed else observed.pods
    for pod in pods:
        uid = pod.metadata.uid
        if uid not in observed.tracked:
            continue
        failed = has_failed(job, pod)
        if not _can_remove_finalizer(observed, census, ending, pod, failed):
            continue
        release.append(pod)
        index = index_of_pod(pod)
        counts_here = not indexed or 0 <= index < completions
        if pod.status.phase == "Succeeded" and uid not in uncounted_failed:
            if not indexed:
                uncounted_succeeded[uid] = None
            elif counts_here and index not in census.completed_before:
                new_indexes[index] = None
        elif (failed or (ending is not None and not ending.success)) and uid not in uncounted_failed and counts_here:
            matched = match_pod_failure_policy(job.spec.pod_failure_policy, pod)
            if matched.action:
                handled.append(matched.action)
            if matched.counts:
                uncounted_failed[uid] = None
        if len(new_indexes) + len(uncounted_succeeded) + len(uncounted_failed) >= MAX_UNCOUNTED_PODS:
            # The next sync processes the rest.
            full = True
            break
    status = replace(
        status,
        uncounted_terminated_pods=UncountedTerminatedPods(
            succeeded=tuple(uncounted_succeeded), failed=tuple(uncounted_failed)
        ),
    )
    if indexed:
        completed = census.completed_before.plus(new_indexes)
        status = replace(status, succeeded=completed.total, completed_indexes=str(completed))
        if census.failed_indexes is not None:
            status = replace(status, failed_indexes=str(census.failed_indexes))
    if ending is not None:
        conditions, _changed = with_condition(
            status.conditions, ending.type, "True", ending.reason, ending.message, observed.now
        )
        status = replace(status, conditions=conditions)
    return Plan(status=status, release=tuple(release), full=full, handled=tuple(handled))


def _can_remove_finalizer(observed: Observed, census: Census, ending: Ending | None, pod: Pod, failed: bool) -> bool:
    if observed.job.metadata.deletion_timestamp is not None or ending is not None or pod.status.phase == "Succeeded":
        return True
    if not failed:
        return False
    kept_pod = census.kept.get(index_of_pod(pod))
    return kept_pod is None or kept_pod.metadata.uid != pod.metadata.uid


def has_ended(plan: Plan, status: JobStatus, ending: Ending | None) -> bool:
    """Whether the Job may get its final condition: all pods are counted, none is active."""
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return (
        ending is not None
        and not plan.full
        and not uncounted.succeeded
        and not uncounted.failed
        and not status.terminating
        and not status.active
    )
