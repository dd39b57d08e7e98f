"""Finished conditions of a Job.

Rows mirror v1.36 ``pkg/controller/job/job_controller_test.go`` and ``indexed_job_utils_test.go``.
"""

import datetime
from typing import Any

from tests.controllers.job.builders import T0, at, ended, job, pod
from tests.controllers.job.observed import (
    EVICTED,
    IGNORE_EVICTIONS,
    INDEXED,
    NEVER,
    ON_FAILURE,
    F,
    P,
    R,
    S,
    failed,
    indexed,
    observed,
    on_exit,
    running,
    succeeded,
)
from tests.tables import cases

from pilothouse.api.batch import JobCondition, JobStatus, SuccessPolicy, SuccessPolicyRule
from pilothouse.api.core import ContainerStatus, Pod
from pilothouse.controllers.workloads.job.decide import (
    COMPLETIONS_REACHED,
    decide_ending,
    is_complete,
    take_census,
    until_deadline,
)
from pilothouse.controllers.workloads.job.status import FAILURE_TARGET, SUCCESS_CRITERIA_MET, Ending

BACKOFF = Ending(FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = Ending(FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline")
MANY = Ending(
    FAILURE_TARGET, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
SOME = Ending(FAILURE_TARGET, "FailedIndexes", "Job has failed indexes")


def has(type_: str, status: str = "True") -> JobStatus:
    return JobStatus(conditions=(JobCondition(type=type_, status=status, reason="R", message="m"),))


def restarted(name: str, phase: str, count: int, *, init: bool = False) -> Pod:
    status = (ContainerStatus(name="c", restart_count=count),)
    return pod(name, phase, init_containers=status) if init else pod(name, phase, containers=status)


FIRST_SUFFICES = SuccessPolicy(rules=(SuccessPolicyRule(succeeded_indexes="0"),))


@cases(
    "spec, status, pods, expected",
    {
        "no status": ({}, JobStatus(), [], None),
        "backoffLimit 0": ({"backoff_limit": 0}, JobStatus(), failed(1), BACKOFF),
        "backoffLimit 1, two failed": ({"backoff_limit": 1}, JobStatus(failed=1), failed(1), BACKOFF),
        "backoffLimit 1, one failed": ({"backoff_limit": 1}, JobStatus(failed=1), running(1), None),
        "the default backoffLimit is 6": ({}, JobStatus(failed=7), [], BACKOFF),
        "backoffLimit 0, none failed": ({"backoff_limit": 0}, JobStatus(), running(1), None),
        "backoffLimit 1, first failure": ({"backoff_limit": 1}, JobStatus(), failed(1), None),
        "backoffLimit 1, second failure": ({"backoff_limit": 1}, JobStatus(), failed(2), BACKOFF),
        "six allowed, the sixth": ({"backoff_limit": 6}, JobStatus(), [*running(1), *failed(6)], None),
        "six allowed, the seventh": ({"backoff_limit": 6}, JobStatus(), failed(7), BACKOFF),
        "indexed, too": ({"backoff_limit": 0, **INDEXED}, JobStatus(), indexed((0, S), (1, F), (2, R)), BACKOFF),
        "ignored failures are not counted": (
            {"backoff_limit": 0, "pod_failure_policy": IGNORE_EVICTIONS},
            JobStatus(),
            [pod("a", F, conditions=EVICTED)],
            None,
        ),
        "failures of action Count": (
            {"backoff_limit": 0, "pod_failure_policy": on_exit("Count", 5)},
            JobStatus(),
            [pod("a", F, containers=(ended("c", 5),))],
            BACKOFF,
        ),
        "the policy precedes the limit": (
            {"backoff_limit": 0, "pod_failure_policy": on_exit("FailJob", 5)},
            JobStatus(),
            [pod("a", F, containers=(ended("c", 5),))],
            Ending(
                FAILURE_TARGET,
                "PodFailurePolicy",
                "Container c for pod default/a failed with exit code 5 matching FailJob rule at index 0",
            ),
        ),
        "policy ignores a terminating pod": (
            {"pod_failure_policy": on_exit("FailJob", 5)},
            JobStatus(),
            [pod("a", R, deleted=0, containers=(ended("c", 5),))],
            None,
        ),
        "policy ignores a succeeded pod": (
            {"pod_failure_policy": on_exit("FailJob", 5)},
            JobStatus(),
            [pod("a", S, containers=(ended("c", 5),))],
            None,
        ),
        "existing FailureTarget": (
            {"pod_failure_policy": on_exit("FailJob", 5)},
            has(FAILURE_TARGET),
            [pod("a", F, containers=(ended("c", 5),))],
            Ending(FAILURE_TARGET, "R", "m"),
        ),
        "existing SuccessCriteriaMet": (
            {"backoff_limit": 0},
            has(SUCCESS_CRITERIA_MET),
            failed(3),
            Ending(SUCCESS_CRITERIA_MET, "R", "m"),
        ),
        "FailureTarget False": ({}, has(FAILURE_TARGET, "False"), running(1), None),
        "SuccessCriteriaMet=False neither": ({}, has(SUCCESS_CRITERIA_MET, "False"), running(1), None),
        "deadline exceeded": ({"active_deadline_seconds": 100}, JobStatus(), running(1), DEADLINE),
        "within the deadline": ({"active_deadline_seconds": 101}, JobStatus(), running(1), None),
        "suspended: no deadline": ({"active_deadline_seconds": 100, "suspend": True}, JobStatus(), [], None),
        "the limit precedes the deadline": (
            {"active_deadline_seconds": 1, "backoff_limit": 0},
            JobStatus(),
            failed(1),
            BACKOFF,
        ),
        "restarted as often as allowed": (
            {"backoff_limit": 1, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1)],
            BACKOFF,
        ),
        "restarts below the limit": (
            {"backoff_limit": 2, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1)],
            None,
        ),
        "no restarts, backoffLimit 0": (
            {"backoff_limit": 0, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 0)],
            None,
        ),
        "one restart, backoffLimit 0": (
            {"backoff_limit": 0, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 1)],
            BACKOFF,
        ),
        "restarts of all containers are added up": (
            {"backoff_limit": 3, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1), restarted("b", P, 2, init=True)],
            BACKOFF,
        ),
        "one restart, pending pod": (
            {"backoff_limit": 1, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 1)],
            BACKOFF,
        ),
        "two pods with one restart each": (
            {"backoff_limit": 2, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1), restarted("b", R, 1)],
            BACKOFF,
        ),
        "two pending pods with one restart each": (
            {"backoff_limit": 2, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 1), restarted("b", P, 1)],
            BACKOFF,
        ),
        "two pods with one restart each, backoffLimit 3": (
            {"backoff_limit": 3, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1), restarted("b", R, 1)],
            None,
        ),
        "all succeeded after restarts": (
            {"backoff_limit": 6, "completions": 4, "template": ON_FAILURE},
            JobStatus(),
            [restarted(f"s{number}", S, count) for number, count in enumerate((1, 1, 2, 0))],
            None,
        ),
        "restarts of what has ended are over": (
            {"backoff_limit": 1, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", F, 3)],
            None,
        ),
        "restartPolicy Never": ({"backoff_limit": 1, "template": NEVER}, JobStatus(), [restarted("a", R, 3)], None),
        "maxFailedIndexes exceeded": (
            {**INDEXED, "backoff_limit_per_index": 0, "max_failed_indexes": 1},
            JobStatus(),
            indexed((0, F), (1, F), (2, R)),
            MANY,
        ),
        "maxFailedIndexes 0": (
            {**INDEXED, "backoff_limit_per_index": 0, "max_failed_indexes": 0},
            JobStatus(),
            indexed((0, F), (1, R), (2, R)),
            MANY,
        ),
        "an index failed, others run": (
            {**INDEXED, "backoff_limit_per_index": 0},
            JobStatus(),
            indexed((0, F), (1, R), (2, R)),
            None,
        ),
        "one failed index, others succeeded": (
            {**INDEXED, "backoff_limit_per_index": 0},
            JobStatus(),
            indexed((0, F), (1, S), (2, S)),
            SOME,
        ),
        "no failed index": (
            {**INDEXED, "backoff_limit_per_index": 0},
            JobStatus(),
            indexed((0, S), (1, S), (2, S)),
            None,
        ),
        "enough have succeeded": (
            {**INDEXED, "success_policy": FIRST_SUFFICES},
            JobStatus(),
            indexed((0, S), (1, R)),
            Ending(SUCCESS_CRITERIA_MET, "SuccessPolicy", "Matched rules at index 0"),
        ),
        "success policy not met": (
            {**INDEXED, "success_policy": FIRST_SUFFICES},
            JobStatus(),
            indexed((0, R), (1, S)),
            None,
        ),
        "failure precedes the success policy": (
            {**INDEXED, "success_policy": FIRST_SUFFICES, "backoff_limit": 0},
            JobStatus(),
            indexed((0, S), (1, F)),
            BACKOFF,
        ),
        "maxFailedIndexes precedes the success policy": (
            {**INDEXED, "success_policy": FIRST_SUFFICES, "backoff_limit_per_index": 0, "max_failed_indexes": 0},
            JobStatus(),
            indexed((0, S), (1, F)),
            MANY,
        ),
    },
)
def test_finished_condition(spec: dict[str, Any], status: JobStatus, pods: list[Pod], expected: Ending | None) -> None:
    """TestControllerSyncJob, TestSyncJobPastDeadline, TestJobBackoffForOnFailure, TestJobBackoffOnRestartPolicyNever,
    TestSyncJobWithJobPodFailurePolicy, TestSyncJobWithJobBackoffLimitPerIndex, TestSyncJobWithJobSuccessPolicy."""
    owner = job(status, **{"template": NEVER, **spec})
    sync = observed(owner, pods, now=at(100))
    assert decide_ending(sync, take_census(sync), T0) == expected


@cases(
    "spec, started, expected",
    {
        "no deadline": ({}, T0, None),
        "no startTime": ({"active_deadline_seconds": 10}, None, None),
        "suspended": ({"active_deadline_seconds": 10, "suspend": True}, T0, None),
        "soon": ({"active_deadline_seconds": 10}, T0, 3.0),
        "exceeded": ({"active_deadline_seconds": 5}, T0, -2.0),
    },
)
def test_past_active_deadline(spec: dict[str, Any], started: datetime.datetime | None, expected: float | None) -> None:
    """TestSyncPastDeadlineJobFinished, ``pastActiveDeadline``."""
    assert until_deadline(job(**spec), started, at(7)) == expected


@cases(
    "completions, pods, expected",
    {
        "all completions": (5, succeeded(5), True),
        "fewer than completions": (5, succeeded(4), False),
        "more than completions": (5, succeeded(6), True),
        "no completions, none running": (None, succeeded(1), True),
        "no completions, one failed": (None, [*succeeded(1), *failed(1)], True),
        "no completions, one running": (None, [*succeeded(1), *running(1)], False),
        "no completions, none succeeded": (None, failed(1), False),
        "completions 0": (0, [], True),
    },
)
def test_job_completion(completions: int | None, pods: list[Pod], expected: bool) -> None:
    """TestControllerSyncJob: "job finish", "WQ job finishing", "WQ job all finished"."""
    owner = job(completions=completions)
    census = take_census(observed(owner, pods))
    assert is_complete(owner, census, len(census.active)) is expected
    assert COMPLETIONS_REACHED.success
