"""How a Job ends, and when. Rows mirror v1.36 ``pkg/controller/job/job_controller_test.go`` and
``indexed_job_utils_test.go``."""

import datetime
from typing import Any

import pytest
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
    on_exit,
    running,
    seen,
    succeeded,
)

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


@pytest.mark.parametrize(
    ("spec", "status", "pods", "expected"),
    [
        pytest.param({}, JobStatus(), [], None, id="just begun"),
        pytest.param({"backoff_limit": 0}, JobStatus(), failed(1), BACKOFF, id="no failure allowed"),
        pytest.param({"backoff_limit": 1}, JobStatus(failed=1), failed(1), BACKOFF, id="one more than allowed"),
        pytest.param({"backoff_limit": 1}, JobStatus(failed=1), running(1), None, id="as many as allowed"),
        pytest.param({}, JobStatus(failed=7), [], BACKOFF, id="six are allowed where nothing is said"),
        pytest.param({"backoff_limit": 0}, JobStatus(), running(1), None, id="none allowed, and none failed"),
        pytest.param({"backoff_limit": 1}, JobStatus(), failed(1), None, id="one allowed, the first"),
        pytest.param({"backoff_limit": 1}, JobStatus(), failed(2), BACKOFF, id="one allowed, the second"),
        pytest.param({"backoff_limit": 6}, JobStatus(), [*running(1), *failed(6)], None, id="six allowed, the sixth"),
        pytest.param({"backoff_limit": 6}, JobStatus(), failed(7), BACKOFF, id="six allowed, the seventh"),
        pytest.param(
            {"backoff_limit": 0, **INDEXED}, JobStatus(), indexed((0, S), (1, F), (2, R)), BACKOFF, id="indexed, too"
        ),
        pytest.param(
            {"backoff_limit": 0, "pod_failure_policy": IGNORE_EVICTIONS},
            JobStatus(),
            [pod("a", F, conditions=EVICTED)],
            None,
            id="what is ignored does not count",
        ),
        pytest.param(
            {"backoff_limit": 0, "pod_failure_policy": on_exit("Count", 5)},
            JobStatus(),
            [pod("a", F, containers=(ended("c", 5),))],
            BACKOFF,
            id="what counts counts",
        ),
        pytest.param(
            {"backoff_limit": 0, "pod_failure_policy": on_exit("FailJob", 5)},
            JobStatus(),
            [pod("a", F, containers=(ended("c", 5),))],
            Ending(
                FAILURE_TARGET,
                "PodFailurePolicy",
                "Container c for pod default/a failed with exit code 5 matching FailJob rule at index 0",
            ),
            id="the policy comes before the limit",
        ),
        pytest.param(
            {"pod_failure_policy": on_exit("FailJob", 5)},
            JobStatus(),
            [pod("a", R, deleted=0, containers=(ended("c", 5),))],
            None,
            id="a pod that still goes is not judged",
        ),
        pytest.param(
            {"pod_failure_policy": on_exit("FailJob", 5)},
            JobStatus(),
            [pod("a", S, containers=(ended("c", 5),))],
            None,
            id="nor one that succeeded",
        ),
        pytest.param(
            {"pod_failure_policy": on_exit("FailJob", 5)},
            has(FAILURE_TARGET),
            [pod("a", F, containers=(ended("c", 5),))],
            Ending(FAILURE_TARGET, "R", "m"),
            id="what was decided stays: failure",
        ),
        pytest.param(
            {"backoff_limit": 0},
            has(SUCCESS_CRITERIA_MET),
            failed(3),
            Ending(SUCCESS_CRITERIA_MET, "R", "m"),
            id="what was decided stays: success",
        ),
        pytest.param({}, has(FAILURE_TARGET, "False"), running(1), None, id="FailureTarget=False says nothing"),
        pytest.param({}, has(SUCCESS_CRITERIA_MET, "False"), running(1), None, id="SuccessCriteriaMet=False neither"),
        pytest.param({"active_deadline_seconds": 100}, JobStatus(), running(1), DEADLINE, id="over its deadline"),
        pytest.param({"active_deadline_seconds": 101}, JobStatus(), running(1), None, id="not yet over it"),
        pytest.param(
            {"active_deadline_seconds": 100, "suspend": True}, JobStatus(), [], None, id="suspended: no deadline"
        ),
        pytest.param(
            {"active_deadline_seconds": 1, "backoff_limit": 0},
            JobStatus(),
            failed(1),
            BACKOFF,
            id="the limit comes before the deadline",
        ),
        pytest.param(
            {"backoff_limit": 1, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1)],
            BACKOFF,
            id="restarted as often as allowed",
        ),
        pytest.param(
            {"backoff_limit": 2, "template": ON_FAILURE}, JobStatus(), [restarted("a", R, 1)], None, id="less often"
        ),
        pytest.param(
            {"backoff_limit": 0, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 0)],
            None,
            id="never, none allowed",
        ),
        pytest.param(
            {"backoff_limit": 0, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 1)],
            BACKOFF,
            id="once, none allowed",
        ),
        pytest.param(
            {"backoff_limit": 3, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1), restarted("b", P, 2, init=True)],
            BACKOFF,
            id="restarts of all containers are added up",
        ),
        pytest.param(
            {"backoff_limit": 1, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 1)],
            BACKOFF,
            id="once, pending",
        ),
        pytest.param(
            {"backoff_limit": 2, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1), restarted("b", R, 1)],
            BACKOFF,
            id="two pods, once each",
        ),
        pytest.param(
            {"backoff_limit": 2, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", P, 1), restarted("b", P, 1)],
            BACKOFF,
            id="two pods, once each, pending",
        ),
        pytest.param(
            {"backoff_limit": 3, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", R, 1), restarted("b", R, 1)],
            None,
            id="two pods, once each, three allowed",
        ),
        pytest.param(
            {"backoff_limit": 6, "completions": 4, "template": ON_FAILURE},
            JobStatus(),
            [restarted(f"s{number}", S, count) for number, count in enumerate((1, 1, 2, 0))],
            None,
            id="all have succeeded, some after restarts",
        ),
        pytest.param(
            {"backoff_limit": 1, "template": ON_FAILURE},
            JobStatus(),
            [restarted("a", F, 3)],
            None,
            id="restarts of what has ended are over",
        ),
        pytest.param(
            {"backoff_limit": 1, "template": NEVER}, JobStatus(), [restarted("a", R, 3)], None, id="another policy"
        ),
        pytest.param(
            {**INDEXED, "backoff_limit_per_index": 0, "max_failed_indexes": 1},
            JobStatus(),
            indexed((0, F), (1, F), (2, R)),
            MANY,
            id="too many indexes failed",
        ),
        pytest.param(
            {**INDEXED, "backoff_limit_per_index": 0, "max_failed_indexes": 0},
            JobStatus(),
            indexed((0, F), (1, R), (2, R)),
            MANY,
            id="none may fail",
        ),
        pytest.param(
            {**INDEXED, "backoff_limit_per_index": 0},
            JobStatus(),
            indexed((0, F), (1, R), (2, R)),
            None,
            id="an index failed, others run",
        ),
        pytest.param(
            {**INDEXED, "backoff_limit_per_index": 0},
            JobStatus(),
            indexed((0, F), (1, S), (2, S)),
            SOME,
            id="an index failed, the others are done",
        ),
        pytest.param(
            {**INDEXED, "backoff_limit_per_index": 0},
            JobStatus(),
            indexed((0, S), (1, S), (2, S)),
            None,
            id="no index failed",
        ),
        pytest.param(
            {**INDEXED, "success_policy": FIRST_SUFFICES},
            JobStatus(),
            indexed((0, S), (1, R)),
            Ending(SUCCESS_CRITERIA_MET, "SuccessPolicy", "Matched rules at index 0"),
            id="enough have succeeded",
        ),
        pytest.param(
            {**INDEXED, "success_policy": FIRST_SUFFICES}, JobStatus(), indexed((0, R), (1, S)), None, id="not enough"
        ),
        pytest.param(
            {**INDEXED, "success_policy": FIRST_SUFFICES, "backoff_limit": 0},
            JobStatus(),
            indexed((0, S), (1, F)),
            BACKOFF,
            id="failure comes before the success policy",
        ),
        pytest.param(
            {**INDEXED, "success_policy": FIRST_SUFFICES, "backoff_limit_per_index": 0, "max_failed_indexes": 0},
            JobStatus(),
            indexed((0, S), (1, F)),
            MANY,
            id="failed indexes come before it, too",
        ),
    ],
)
def test_how_it_ends(spec: dict[str, Any], status: JobStatus, pods: list[Pod], expected: Ending | None) -> None:
    """TestControllerSyncJob, TestSyncJobPastDeadline, TestJobBackoffForOnFailure, TestJobBackoffOnRestartPolicyNever,
    TestSyncJobWithJobPodFailurePolicy, TestSyncJobWithJobBackoffLimitPerIndex, TestSyncJobWithJobSuccessPolicy."""
    owner = job(status, **{"template": NEVER, **spec})
    sync = seen(owner, pods, now=at(100))
    assert decide_ending(sync, take_census(sync), T0) == expected


@pytest.mark.parametrize(
    ("spec", "started", "expected"),
    [
        pytest.param({}, T0, None, id="no deadline"),
        pytest.param({"active_deadline_seconds": 10}, None, None, id="not begun"),
        pytest.param({"active_deadline_seconds": 10, "suspend": True}, T0, None, id="suspended"),
        pytest.param({"active_deadline_seconds": 10}, T0, 3.0, id="soon"),
        pytest.param({"active_deadline_seconds": 5}, T0, -2.0, id="over"),
    ],
)
def test_the_deadline(spec: dict[str, Any], started: datetime.datetime | None, expected: float | None) -> None:
    """TestSyncPastDeadlineJobFinished, ``pastActiveDeadline``."""
    assert until_deadline(job(**spec), started, at(7)) == expected


@pytest.mark.parametrize(
    ("completions", "pods", "expected"),
    [
        pytest.param(5, succeeded(5), True, id="all of them"),
        pytest.param(5, succeeded(4), False, id="not all"),
        pytest.param(5, succeeded(6), True, id="more than all"),
        pytest.param(None, succeeded(1), True, id="any, none runs"),
        pytest.param(None, [*succeeded(1), *failed(1)], True, id="any, despite a failure"),
        pytest.param(None, [*succeeded(1), *running(1)], False, id="any, and one still runs"),
        pytest.param(None, failed(1), False, id="none"),
        pytest.param(0, [], True, id="none are wanted"),
    ],
)
def test_when_it_is_complete(completions: int | None, pods: list[Pod], expected: bool) -> None:
    """TestControllerSyncJob: "job finish", "WQ job finishing", "WQ job all finished"."""
    owner = job(completions=completions)
    census = take_census(seen(owner, pods))
    assert is_complete(owner, census, len(census.active)) is expected
    assert COMPLETIONS_REACHED.success
