"""Pods that a Job creates and deletes, by index, and their failure count annotations.

Rows mirror v1.36 ``pkg/controller/job/job_controller_test.go`` and ``indexed_job_utils_test.go``.
"""

from typing import Any

from tests.controllers.job.builders import T0, at, job, pod
from tests.controllers.job.observed import (
    ANY_FAILURE,
    EVICTED,
    IGNORE_EVICTIONS,
    INDEXED,
    JUST_FAILED,
    NEVER,
    F,
    P,
    R,
    S,
    failed,
    going,
    indexed,
    observed,
    pending,
    running,
    succeeded,
)
from tests.tables import cases

from pilothouse.api.batch import PodFailurePolicy
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.job.backoff import NONE, BackoffRecord
from pilothouse.controllers.workloads.job.decide import (
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    CreatePods,
    RemovePods,
    Wait,
    creation_reason,
    decide_pods,
    new_failure_count_annotations,
    parse_failure_count,
    take_census,
    until_replaced,
)
from pilothouse.controllers.workloads.job.indexes import UNKNOWN, Indexes


@cases(
    "spec, groups, failures, expected",
    {
        "a start": ({"completions": 5}, [], NONE, 2),
        "a start without completions": ({}, [], NONE, 2),
        "pending pods": ({"completions": 5}, [pending(2)], NONE, 0),
        "at parallelism": ({"completions": 5, "parallelism": 3}, [running(3)], NONE, 0),
        "at parallelism without completions": ({}, [running(2)], NONE, 0),
        "below parallelism": ({"completions": 5}, [running(1), succeeded(1)], NONE, 1),
        "below parallelism without completions": ({}, [running(1)], NONE, 1),
        "without completions, one succeeded": ({}, [running(1), succeeded(1)], NONE, 0),
        "without completions, all succeeded": ({}, [succeeded(2)], NONE, 0),
        "without completions, podReplacementPolicy Failed": (
            {"parallelism": 1, "pod_replacement_policy": "Failed"},
            [running(1), failed(1), going(1)],
            NONE,
            0,
        ),
        "one active, one failed, one terminating": (
            {"parallelism": 1, "completions": 1},
            [running(1), failed(1), going(1)],
            NONE,
            0,
        ),
        "a terminating pod is replaced": ({"parallelism": 1, "completions": 1}, [going(1)], NONE, 1),
        "a terminating pod is not replaced before it has failed": (
            {"parallelism": 1, "completions": 1, "pod_replacement_policy": "Failed"},
            [going(1)],
            NONE,
            0,
        ),
        "a terminating pod with a pod failure policy is not replaced": (
            {"parallelism": 1, "completions": 1, "pod_failure_policy": ANY_FAILURE},
            [going(1)],
            NONE,
            0,
        ),
        "more terminating than parallelism": (
            {"parallelism": 1, "completions": 1, "pod_replacement_policy": "Failed"},
            [running(2), going(4)],
            NONE,
            -1,
        ),
        "kubernetes#122235: the same with a failure policy": (
            {"parallelism": 1, "completions": 1, "pod_failure_policy": ANY_FAILURE},
            [running(2), going(4)],
            NONE,
            -1,
        ),
        "below parallelism, in backoff": ({"parallelism": 1, "completions": 1}, [], JUST_FAILED, 10.0),
        "below parallelism, success since the failure": (
            {"parallelism": 1, "completions": 1},
            [],
            BackoffRecord(0, T0),
            1,
        ),
        "above parallelism": ({"completions": 5}, [running(3)], NONE, -1),
        "above parallelism, in backoff": ({"completions": 5}, [running(3)], JUST_FAILED, -1),
        "far above parallelism": ({"completions": 5}, [running(10)], NONE, -8),
        "above the remaining completions": ({"parallelism": 3, "completions": 4}, [running(3), succeeded(2)], NONE, -1),
        "one of each phase": ({"completions": 5}, [running(1), succeeded(1), failed(1)], NONE, 1),
        "remaining completions active": ({"completions": 5}, [running(2), succeeded(2)], NONE, 0),
        "complete": ({"completions": 5}, [succeeded(5)], NONE, 0),
        "suspended: running pods are deleted": ({"completions": 5, "suspend": True}, [running(2)], NONE, -2),
        "suspended without pods": ({"completions": 5, "suspend": True}, [], NONE, 0),
        "suspended: deleted without burst limit": ({"completions": 700, "suspend": True}, [running(700)], NONE, -700),
        "parallelism 0": ({"parallelism": 0, "completions": 5}, [running(2)], NONE, -2),
        "created up to 500": ({"parallelism": 700, "completions": 700}, [], NONE, 500),
        "deleted up to 500": ({"parallelism": 0, "completions": 700}, [running(700)], NONE, -500),
    },
)
def test_manage_job(spec: dict[str, Any], groups: list[list[Pod]], failures: BackoffRecord, expected: float) -> None:
    """TestControllerSyncJob, its rows without indexes: positive numbers are creations, negative deletions, fractions a
    delay."""
    owner = job(**{"parallelism": 2, "backoff_limit": 6, "template": NEVER, **spec})
    sync = observed(owner, *groups, failures=failures)
    match decide_pods(sync, take_census(sync)):
        case None:
            plan: float = 0
        case CreatePods(count):
            plan = count
        case RemovePods(pods):
            plan = -len(pods)
        case Wait(seconds):
            assert isinstance(expected, float)
            plan = seconds
    assert plan == expected


@cases(
    "parallelism, completions, pods, expected",
    {
        "a start": (2, 5, [], CreatePods(2, (0, 1))),
        "completed": (2, 3, [(0, S), (1, F), (1, S), (2, S)], None),
        "an index twice": (2, 3, [(0, S), (1, S), (1, S)], CreatePods(1, (2,))),
        "some running, some succeeded": (
            8,
            20,
            [(0, R), (2, S), (3, P), (4, S), (5, S), (7, S), (8, S), (9, S)],
            CreatePods(6, (1, 6, 10, 11, 12, 13)),
        ),
        "some failed": (3, 4, [(0, F), (1, P), (2, F)], CreatePods(2, (0, 2))),
        "pods without index are deleted": (
            2,
            5,
            [(None, R), (None, S), (None, F), (None, P), (0, S), (1, R), (2, R)],
            ["i3", "i0"],
        ),
        "duplicate indexes are deleted": (5, 5, [(None, R), (0, S), (1, R), (2, R), (2, P)], ["i0", "i4"]),
        "past the last index": (2, 5, [(0, S), (5, R), (6, S), (7, P), (8, F)], ["i1", "i3"]),
    },
)
def test_manage_indexed_job(
    parallelism: int, completions: int, pods: list[tuple[int | None, str]], expected: CreatePods | list[str] | None
) -> None:
    """TestControllerSyncJob, its rows of indexed Jobs."""
    owner = job(
        parallelism=parallelism, completions=completions, backoff_limit=6, completion_mode="Indexed", template=NEVER
    )
    sync = observed(owner, indexed(*pods))
    plan = decide_pods(sync, take_census(sync))
    if isinstance(plan, RemovePods):
        assert [victim.metadata.name for victim in plan.pods] == expected
    else:
        assert plan == expected


@cases(
    "policy, expected",
    {
        "only failed: its index waits": ("Failed", CreatePods(1, (1,))),
        "index of a terminating pod is recreated": ("TerminatingOrFailed", CreatePods(2, (0, 1))),
    },
)
def test_indexed_job_with_some_pods_deleted(policy: str, expected: CreatePods) -> None:
    """TestControllerSyncJob, "indexed job with some pods deleted"."""
    owner = job(parallelism=2, completions=5, completion_mode="Indexed", template=NEVER, pod_replacement_policy=policy)
    sync = observed(owner, [pod("a", index=0, deleted=0)])
    assert decide_pods(sync, take_census(sync)) == expected


@cases(
    "now, expected",
    {
        "both indexes in backoff": (5, Wait(5.0)),
        "waits at least one second": (9.5, Wait(1.0)),
        "one index past its backoff": (12, CreatePods(1, (0,))),
        "both indexes past their backoff": (30, CreatePods(2, (0, 1))),
    },
)
def test_pod_creation_backoff_per_index(now: float, expected: CreatePods | Wait) -> None:
    """TestGetPodCreationInfoForIndependentIndexes."""
    owner = job(parallelism=2, completions=2, completion_mode="Indexed", template=NEVER, backoff_limit_per_index=5)
    first = pod("a", "Failed", index=0, finished=0, notes={FAILURE_COUNT: "0"})
    second = pod("b", "Failed", index=1, finished=0, notes={FAILURE_COUNT: "1"})
    sync = observed(owner, [first, second], now=at(now))
    assert decide_pods(sync, take_census(sync)) == expected


@cases(
    "counted, ignored, expected",
    {
        "no annotation": (None, None, 10.0),
        "two failures": ("2", None, 40.0),
        "one failure and one ignored failure": ("1", "1", 40.0),
        "at most ten minutes": ("9", None, 600.0),
    },
)
def test_remaining_backoff_time_per_index(counted: str | None, ignored: str | None, expected: float) -> None:
    """TestGetRemainingBackoffTimePerIndex."""
    notes = {name: text for name, text in ((FAILURE_COUNT, counted), (IGNORED_FAILURE_COUNT, ignored)) if text}
    assert until_replaced(job(), pod("a", "Failed", deleted=0, notes=notes), T0) == expected
    assert until_replaced(job(), None, T0) == 0.0


@cases(
    "text, expected",
    {
        "no annotation": (None, 0),
        "a number": ("2", 2),
        "the largest": ("2147483647", 2147483647),
        "too large": ("2147483648", 0),
        "negative": ("-1", 0),
        "invalid annotation": ("xyz", 0),
    },
)
def test_index_failure_count(text: str | None, expected: int) -> None:
    """TestGetIndexFailureCount."""
    assert parse_failure_count(pod("a", notes={FAILURE_COUNT: text} if text is not None else {})) == expected


@cases(
    "policy, last, expected",
    {
        "the first": (None, None, {FAILURE_COUNT: "0"}),
        "after the first": (None, pod("a", F, notes={FAILURE_COUNT: "0"}), {FAILURE_COUNT: "1"}),
        "after the fourth": (None, pod("a", F, notes={FAILURE_COUNT: "3"}), {FAILURE_COUNT: "4"}),
        "after one that is ignored": (
            IGNORE_EVICTIONS,
            pod("a", F, conditions=EVICTED, notes={FAILURE_COUNT: "3"}),
            {FAILURE_COUNT: "3", IGNORED_FAILURE_COUNT: "1"},
        ),
        "ignored failures are passed on": (
            IGNORE_EVICTIONS,
            pod("a", F, notes={FAILURE_COUNT: "3", IGNORED_FAILURE_COUNT: "2"}),
            {FAILURE_COUNT: "4", IGNORED_FAILURE_COUNT: "2"},
        ),
    },
)
def test_new_index_failure_count(policy: PodFailurePolicy | None, last: Pod | None, expected: dict[str, str]) -> None:
    """TestGetNewIndexFailureCountValue."""
    assert new_failure_count_annotations(job(pod_failure_policy=policy), last) == expected


@cases(
    "policy, pods, expected",
    {
        "new": ("TerminatingOrFailed", [], "new"),
        "one failed": ("TerminatingOrFailed", failed(1), "recreate_terminating_or_failed"),
        "one terminating": ("TerminatingOrFailed", going(1), "recreate_terminating_or_failed"),
        "podReplacementPolicy Failed, one failed": ("Failed", failed(1), "recreate_failed"),
        "podReplacementPolicy Failed, new": ("Failed", [], "new"),
    },
)
def test_pod_creation_reasons(policy: str, pods: list[Pod], expected: str) -> None:
    """``recordJobPodsCreationTotal``; TestJobPodReplacementPolicy of test/integration/job."""
    owner = job(pod_replacement_policy=policy)
    assert creation_reason(owner, take_census(observed(owner, pods))) == expected


def test_pods_without_a_completion_index_are_ignored() -> None:
    sync = observed(job(**INDEXED), indexed((None, S), (-2, S), (7, S)))
    census = take_census(sync)
    assert (census.completed, census.succeeded, census.new_succeeded) == (Indexes(), 0, ())
    assert UNKNOWN not in census.completed
