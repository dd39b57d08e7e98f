"""Job tracking with finalizers: counts, conditions, and finalizers of orphan pods.

Rows mirror v1.36 ``pkg/controller/job/job_controller_test.go``.
"""

import pytest
from msgspec.structs import replace
from tests.controllers.job.builders import T0, at, ended, job, pod
from tests.tables import cases

from pilothouse.api.batch import (
    ExitCodesRequirement,
    Job,
    JobCondition,
    JobStatus,
    PodFailurePolicy,
    PodFailurePolicyRule,
    UncountedTerminatedPods,
)
from pilothouse.api.core import Pod
from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.workloads.job.decide import FAILURE_COUNT, Census, Observed, take_census
from pilothouse.controllers.workloads.job.orphans import may_be_released
from pilothouse.controllers.workloads.job.status import (
    FAILURE_TARGET,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    Ending,
    finished,
    with_condition,
)
from pilothouse.controllers.workloads.job.tracking import count_pods_without_finalizer, has_ended, plan

R, P, S, F = "Running", "Pending", "Succeeded", "Failed"
FAILS = Ending(FAILURE_TARGET, "BackoffLimitExceeded", "m")
SUCCEEDS = Ending(SUCCESS_CRITERIA_MET, "SuccessPolicy", "m")
Uids = tuple[str, ...]
Counts = tuple[Uids, Uids, int, int]
"""Uids of pods that succeeded and failed and are not yet in the counters; the counters of both."""


def sync(owner: Job, pods: list[Pod], awaited: Uids = ()) -> tuple[Observed, Census]:
    tracked = frozenset(item.metadata.uid for item in pods if item.metadata.finalizers)
    observed = Observed(job=owner, pods=tuple(pods), tracked=tracked - set(awaited), now=T0)
    return observed, take_census(observed)


def status(succeeded: int = 0, failed: int = 0, good: Uids = (), bad: Uids = (), completed: str = "") -> JobStatus:
    uncounted = UncountedTerminatedPods(succeeded=good, failed=bad)
    return JobStatus(
        succeeded=succeeded, failed=failed, uncounted_terminated_pods=uncounted, completed_indexes=completed
    )


def counts(counted: JobStatus) -> Counts:
    uncounted = counted.uncounted_terminated_pods or UncountedTerminatedPods()
    return uncounted.succeeded, uncounted.failed, counted.succeeded, counted.failed


@cases(
    "before, pods, awaited, ending, released, first, then",
    {
        "no pods": (status(), [], (), None, 0, ((), (), 0, 0), ((), (), 0, 0)),
        "terminated pods": (
            status(),
            [
                pod("a", S),
                pod("b", F),
                pod("c", S, deleted=0),
                pod("d", F, deleted=0),
                pod("e", P, deleted=0),
                pod("x", P),
                pod("y", R),
            ],
            (),
            None,
            5,
            (("a", "c"), ("b", "d", "e"), 0, 0),
            ((), (), 2, 3),
        ),
        "terminated earlier and now": (
            status(2, 3, ("a", "e"), ("b", "f")),
            [
                pod("e", S, tracked=False),
                pod("x", F, tracked=False),
                pod("y", P, tracked=False),
                pod("a", S),
                pod("b", F),
                pod("c", S),
                pod("d", F),
            ],
            (),
            None,
            4,
            (("a", "c"), ("b", "d"), 3, 4),
            ((), (), 5, 6),
        ),
        "removed finalizers not yet observed": (
            status(2, 3, ("a", "g"), ("b", "h")),
            [pod(name, S if name in "aceg" else F) for name in "abcdefgh"],
            ("c", "d", "g", "h"),
            None,
            4,
            (("a", "e"), ("b", "f"), 3, 4),
            ((), (), 5, 6),
        ),
        "complete: running pods are not counted as failed": (
            status(),
            [pod("a", S), pod("b", F), pod("c", P)],
            (),
            SUCCEEDS,
            3,
            (("a",), ("b",), 0, 0),
            ((), (), 1, 1),
        ),
        "failed: running pods are counted as failed": (
            status(),
            [pod("a", S), pod("b", F), pod("c", R)],
            (),
            FAILS,
            3,
            (("a",), ("b", "c"), 0, 0),
            ((), (), 1, 2),
        ),
        "uncounted failed pod that succeeds stays failed": (
            status(bad=("a", "b")),
            [pod("a", F), pod("b", S)],
            (),
            FAILS,
            2,
            ((), ("a", "b"), 0, 0),
            ((), (), 0, 2),
        ),
        "terminating pod already counted": (
            status(bad=("a",)),
            [pod("a", R, deleted=0, tracked=False)],
            (),
            FAILS,
            0,
            ((), (), 0, 1),
            ((), (), 0, 1),
        ),
        "more than 500 uncounted pods": (
            status(bad=("a", "b")),
            [*(pod(f"{number}", S) for number in range(500)), pod("b", F)],
            (),
            None,
            499,
            (tuple(f"{number}" for number in range(499)), ("b",), 0, 1),
            ((), ("b",), 499, 1),
        ),
    },
)
def test_track_job_status_and_remove_finalizers(
    before: JobStatus,
    pods: list[Pod],
    awaited: Uids,
    ending: Ending | None,
    released: int,
    first: Counts,
    then: Counts,
) -> None:
    """TestTrackJobStatusAndRemoveFinalizers: the first status, and the second after the finalizers were removed."""
    observed, census = sync(job(before), pods, awaited)
    decided = plan(observed, census, before, ending)
    assert len(decided.release) == released
    assert counts(decided.status) == first
    released_uids = {item.metadata.uid for item in decided.release}
    assert counts(count_pods_without_finalizer(decided.status, observed.tracked - released_uids)) == then


def test_pods_with_a_failed_finalizer_removal_are_not_counted() -> None:
    """TestTrackJobStatusAndRemoveFinalizers, "pod patch errors with partial success"."""
    before = status(good=("a",), bad=("b",))
    observed, census = sync(job(before), [pod("a", S, tracked=False), pod("c", S), pod("d", F)])
    decided = plan(observed, census, before, None)
    assert counts(decided.status) == (("c",), ("d",), 1, 1)
    assert count_pods_without_finalizer(decided.status, observed.tracked) == decided.status


def test_deleted_job_releases_all_pods_without_counting_running_ones_as_failed() -> None:
    """TestTrackJobStatusAndRemoveFinalizers, "deleted job"."""
    observed, census = sync(job(deleted=True), [pod("a", S), pod("b", F), pod("c", R)])
    decided = plan(observed, census, status(), None)
    assert len(decided.release) == 3
    assert counts(decided.status) == (("a",), ("b",), 0, 0)


@cases(
    "completions, before, pods, released, completed, expected",
    {
        "new ones, one twice, one without index": (
            6,
            status(),
            [
                pod("a", S, index=1),
                pod("b", S, index=3),
                pod("c", S, index=3),
                pod("d", R, index=5),
                pod("e", S),
            ],
            4,
            "1,3",
            ((), (), 2, 0),
        ),
        "completions decreased: completed index out of range": (
            2,
            status(1, completed="3"),
            [pod("a", R, index=0), pod("b", R, index=1)],
            0,
            "",
            ((), (), 0, 0),
        ),
        "completions decreased: new index in range": (
            2,
            status(1, completed="3"),
            [pod("a", R, index=0), pod("b", S, index=1)],
            1,
            "1",
            ((), (), 1, 0),
        ),
        "failures without index are not counted": (
            6,
            status(),
            [
                pod("a", F, index=1),
                pod("b", F, index=3),
                pod("c", F, index=3),
                pod("d", R, index=5),
                pod("e", F),
            ],
            4,
            "",
            ((), ("a", "b", "c"), 0, 0),
        ),
        "terminated earlier and now, indexed": (
            7,
            status(5, 2, completed="0-2,4,6,7"),
            [
                pod("x", S, index=0, tracked=False),
                pod("y", F, index=1, tracked=False),
                pod("c", S, index=1),
                pod("d", S, index=3),
                pod("a", F, index=2),
                pod("b", F, index=5),
            ],
            4,
            "0-4,6",
            ((), ("a", "b"), 6, 2),
        ),
        "more than 500 indexes": (
            501,
            status(),
            [pod(f"{number}", S, index=number) for number in range(501)],
            500,
            "0-499",
            ((), (), 500, 0),
        ),
    },
)
def test_track_indexed_job_status(
    completions: int, before: JobStatus, pods: list[Pod], released: int, completed: str, expected: Counts
) -> None:
    """TestTrackJobStatusAndRemoveFinalizers, its indexed Jobs."""
    observed, census = sync(job(before, completion_mode="Indexed", completions=completions), pods)
    decided = plan(observed, census, before, None)
    assert (len(decided.release), decided.status.completed_indexes) == (released, completed)
    assert counts(decided.status) == expected
    assert decided.full is (released == 500)


@cases(
    "pods, released, failed_indexes, bad",
    {
        "kept for the failure count of its index": ([pod("a", F, index=1, notes={FAILURE_COUNT: "0"})], 0, "", ()),
        "replaced": (
            [pod("a", F, index=1, notes={FAILURE_COUNT: "0"}), pod("b", R, index=1, notes={FAILURE_COUNT: "1"})],
            1,
            "",
            ("a",),
        ),
        "index failed": ([pod("a", F, index=1, notes={FAILURE_COUNT: "1"})], 1, "1", ("a",)),
    },
)
def test_track_job_status_with_backoff_limit_per_index(
    pods: list[Pod], released: int, failed_indexes: str, bad: Uids
) -> None:
    """TestTrackJobStatusAndRemoveFinalizers, with JobBackoffLimitPerIndex."""
    observed, census = sync(job(completion_mode="Indexed", completions=6, backoff_limit_per_index=1), pods)
    decided = plan(observed, census, status(), None)
    assert (len(decided.release), decided.status.failed_indexes) == (released, failed_indexes)
    assert counts(decided.status)[1] == bad


@cases(
    "after, ending, expected",
    {
        "FailureTarget reached, no active pods": (status(1), FAILS, True),
        "neither FailureTarget nor SuccessCriteriaMet": (status(1), None, False),
        "uncounted succeeded pod": (status(good=("a",)), SUCCEEDS, False),
        "uncounted failed pod": (status(bad=("a",)), FAILS, False),
        "terminating pod": (replace(status(), terminating=1), SUCCEEDS, False),
        "active pod": (replace(status(), active=1), SUCCEEDS, False),
    },
)
def test_finished_condition_is_delayed_until_finalizers_are_removed(
    after: JobStatus, ending: Ending | None, expected: bool
) -> None:
    """TestTrackJobStatusAndRemoveFinalizers: "condition is delayed"; ``enactJobFinished``."""
    observed, census = sync(job(), [])
    assert has_ended(plan(observed, census, after, None), after, ending) is expected


@cases(
    "before, type_, value, expected, changed",
    {
        "a new one": ((), SUSPENDED, "True", [(SUSPENDED, "True")], True),
        "a new one is not added as False": ((), SUSPENDED, "False", [], False),
        "unchanged status": (((SUSPENDED, "True"),), SUSPENDED, "True", [(SUSPENDED, "True")], False),
        "changed status": (((SUSPENDED, "True"),), SUSPENDED, "False", [(SUSPENDED, "False")], True),
        "position is kept": (
            (("Other", "True"), (SUSPENDED, "False"), ("More", "True")),
            SUSPENDED,
            "True",
            [("Other", "True"), (SUSPENDED, "True"), ("More", "True")],
            True,
        ),
        "behind others": ((("Other", "True"),), SUSPENDED, "True", [("Other", "True"), (SUSPENDED, "True")], True),
    },
)
def test_ensure_job_conditions(
    before: tuple[tuple[str, str], ...], type_: str, value: str, expected: list[tuple[str, str]], changed: bool
) -> None:
    """TestEnsureJobConditions."""
    old = tuple(JobCondition(type=name, status=said, reason="r", message="m") for name, said in before)
    conditions, different = with_condition(old, type_, value, "r", "m", at(1.5))
    assert [(condition.type, condition.status) for condition in conditions] == expected
    assert different is changed
    assert all(condition.last_transition_time == at(1) for condition in conditions if condition not in old)


def test_changed_reason_updates_the_condition() -> None:
    """TestEnsureJobConditions: update true condition reason."""
    old = (JobCondition(type=SUSPENDED, status="True", reason="foo"),)
    conditions, different = with_condition(old, SUSPENDED, "True", "bar", "", at(1))
    assert ([(item.status, item.reason) for item in conditions], different) == ([("True", "bar")], True)


@pytest.mark.parametrize(
    ("ending", "type_", "completed"),
    [(SUCCEEDS, "Complete", True), (FAILS, "Failed", False)],
    ids=["Complete", "badly"],
)
def test_completion_time_only_for_complete_jobs(ending: Ending, type_: str, completed: bool) -> None:
    """``enactJobFinished``: only complete Jobs have a completion time."""
    completion = finished(JobStatus(), ending, at(3))
    assert [(c.type, c.status, c.reason, c.message) for c in completion.conditions] == [
        (type_, "True", ending.reason, "m")
    ]
    assert completion.completion_time == (at(3) if completed else None)


def owned(
    kind: str = "Job",
    api_version: str = "batch/v1",
    uid: str = "job",
    *,
    tracked: bool = True,
    controller: bool = True,
) -> Pod:
    reference = OwnerReference(api_version=api_version, kind=kind, name="work", uid=uid, controller=controller)
    owned_pod = pod("a", R, tracked=tracked)
    return replace(owned_pod, metadata=replace(owned_pod.metadata, owner_references=(reference,)))


OVER = JobStatus(conditions=(JobCondition(type="Complete", status="True"),))


@cases(
    "candidate, owner, expected",
    {
        "Job deleted": (owned(), None, True),
        "another Job of that name": (owned(uid="other"), job(), True),
        "unfinished Job": (owned(), job(), False),
        "finished Job": (owned(), job(OVER), True),
        "Job managed by another controller": (owned(), job(managed_by="example.com/other"), False),
        "finished Job managed by another controller": (owned(), job(OVER, managed_by="example.com/other"), False),
        "managedBy job-controller": (owned(), job(managed_by="kubernetes.io/job-controller"), False),
        "without an owner": (pod("a", R), None, True),
        "a Job that does not control it": (owned(controller=False), job(), True),
        "owner of another group that is not the controller": (
            owned(api_version="example.com/v1", controller=False),
            None,
            True,
        ),
        "a CronJob's": (owned(kind="CronJob"), None, False),
        "no finalizer": (owned(tracked=False), None, False),
        "owner of another kind": (owned(kind="StatefulSet", api_version="apps/v1"), None, False),
        "Job of another group": (owned(api_version="example.com/v1"), None, False),
    },
)
def test_sync_orphan_pod(candidate: Pod, owner: Job | None, expected: bool) -> None:
    """TestSyncOrphanPod; kubernetes#124798 for the last two."""
    assert may_be_released(candidate, owner) is expected


def test_pod_failure_policy_actions_are_counted_once_per_pod() -> None:
    """TestSyncJobWithJobPodFailurePolicy, its metrics."""
    codes = ExitCodesRequirement(operator="In", values=(5,))
    rules = (PodFailurePolicyRule(action="Ignore", on_exit_codes=codes),)
    pods = [pod("a", F, containers=(ended("c", 5),)), pod("b", F), pod("c", F, containers=(ended("c", 5),))]
    observed, census = sync(job(pod_failure_policy=PodFailurePolicy(rules=rules)), pods)
    decided = plan(observed, census, status(), None)
    assert decided.handled == ("Ignore", "Ignore")
    assert counts(decided.status) == ((), ("b",), 0, 0)
    assert len(decided.release) == 3
