"""Finished and failed pods and indexes, and delayed deletion per index.

Rows mirror v1.36 ``pkg/controller/job/job_controller_test.go`` and ``indexed_job_utils_test.go``.
"""

from typing import Any

from tests.controllers.job.builders import T0, ended, job, pod
from tests.controllers.job.observed import ANY_FAILURE, F, P, R, S, observed, on_exit
from tests.tables import cases

from pilothouse.api.batch import JobStatus, PodFailurePolicy, UncountedTerminatedPods
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.job.decide import FAILURE_COUNT, Observed, take_census


@cases(
    "limit, policy, pods, before, expected",
    {
        "backoffLimitPerIndex 0": (0, None, [pod("a", F, index=0, notes={FAILURE_COUNT: "0"})], None, "0"),
        "backoffLimitPerIndex 1, second failure": (
            1,
            None,
            [pod("a", F, index=1, notes={FAILURE_COUNT: "1"})],
            None,
            "1",
        ),
        "failed at once by the policy": (
            1,
            on_exit("FailIndex", 3),
            [pod("a", F, index=0, containers=(ended("c", 3),), notes={FAILURE_COUNT: "0"})],
            None,
            "0",
        ),
        "ignored by the policy": (
            0,
            on_exit("Ignore", 3),
            [pod("a", F, index=0, containers=(ended("c", 3),), notes={FAILURE_COUNT: "0"})],
            None,
            "",
        ),
        "one of two indexes": (
            1,
            None,
            [pod("a", F, index=0, notes={FAILURE_COUNT: "0"}), pod("b", F, index=1, notes={FAILURE_COUNT: "1"})],
            None,
            "1",
        ),
        "counted already": (0, None, [pod("a", F, index=0, tracked=False)], None, ""),
        "past the last index": (0, None, [pod("a", F, index=3)], None, ""),
        "added to failed indexes": (0, None, [pod("a", F, index=1)], "0", "0,1"),
        "first failed index": (0, None, [pod("a", F, index=1)], "", "1"),
        "earlier failed index out of range": (0, None, [pod("a", F, index=1)], "9", "1"),
        "running pod": (0, None, [pod("a", R, index=1)], None, ""),
        "index with a succeeded pod": (0, None, [pod("a", F, index=1), pod("b", S, index=1)], None, ""),
    },
)
def test_failed_indexes(
    limit: int, policy: PodFailurePolicy | None, pods: list[Pod], before: str | None, expected: str
) -> None:
    """TestIsIndexFailed, TestCalculateFailedIndexes."""
    owner = job(
        JobStatus(failed_indexes=before),
        completion_mode="Indexed",
        completions=2,
        backoff_limit_per_index=limit,
        pod_failure_policy=policy,
    )
    assert str(take_census(observed(owner, pods)).failed_indexes) == expected


def counted(name: str, index: int, count: int, phase: str = F, **more: Any) -> Pod:
    return pod(name, phase, index=index, notes={FAILURE_COUNT: str(count)}, **more)


@cases(
    "limit, pods, awaited, expected",
    {
        "failed indexes excluded": (1, [counted("a", 0, 0), counted("b", 1, 1), counted("c", 2, 0)], (), ["a", "c"]),
        "without finalizer": (0, [counted("a", 0, 0, tracked=False)], (), []),
        "finalizer removed": (1, [counted("a", 0, 0)], ("a",), []),
        "index out of range": (0, [counted("a", 4, 0)], (), []),
        "replaced pod": (1, [counted("a1", 0, 0), counted("a2", 0, 1, R)], (), []),
        "succeeded index": (1, [counted("a1", 0, 0), counted("a2", 0, 1, S)], (), []),
        "the most failures": (4, [counted("a1", 0, 0), counted("a3", 0, 2), counted("a2", 0, 1)], (), ["a3"]),
        "equal failure counts: the last": (
            4,
            [counted("a1", 0, 1, deleted=2), counted("a3", 0, 1, deleted=3), counted("a2", 0, 1, deleted=1)],
            (),
            ["a3"],
        ),
    },
)
def test_pods_with_delayed_deletion_per_index(
    limit: int, pods: list[Pod], awaited: tuple[str, ...], expected: list[str]
) -> None:
    """TestGetPodsWithDelayedDeletionPerIndex."""
    owner = job(completion_mode="Indexed", completions=3, backoff_limit_per_index=limit)
    sync = observed(owner, pods)
    sync = Observed(job=owner, pods=sync.pods, tracked=sync.tracked - set(awaited), now=T0)
    assert sorted(kept.metadata.name for kept in take_census(sync).kept.values()) == expected


@cases(
    "status, pods, awaited, expected",
    {
        "pods without finalizer are already counted": (
            JobStatus(succeeded=2, failed=1),
            [pod("a", S, tracked=False), pod("b", S), pod("c", S), pod("d", F, tracked=False), pod("e", F), pod("f")],
            (),
            (4, 2),
        ),
        "uncounted pods": (
            JobStatus(
                succeeded=1,
                failed=1,
                uncounted_terminated_pods=UncountedTerminatedPods(succeeded=("a", "c"), failed=("e", "f")),
            ),
            [
                pod("a", S, tracked=False),
                pod("b", S, tracked=False),
                pod("c", S),
                pod("d", S),
                pod("e", F, tracked=False),
                pod("f", F),
                pod("g", F),
            ],
            (),
            (4, 4),
        ),
        "removed finalizers": (
            JobStatus(
                succeeded=2,
                failed=2,
                uncounted_terminated_pods=UncountedTerminatedPods(succeeded=("a",), failed=("d",)),
            ),
            [
                pod("a", S, tracked=False),
                pod("b", S),
                pod("c", S),
                pod("d", F, tracked=False),
                pod("e", F),
                pod("f", F),
                pod("g", F),
            ],
            ("b", "f"),
            (4, 5),
        ),
        "a terminating pod has failed": (
            JobStatus(succeeded=1, failed=1),
            [
                pod("a", S, deleted=0),
                pod("b", F, deleted=0),
                pod("c", R, deleted=0),
                pod("d", P, deleted=0),
                pod("e", R, deleted=0, tracked=False),
                pod("f", P, deleted=0, tracked=False),
            ],
            (),
            (2, 4),
        ),
    },
)
def test_newly_finished_pods(
    status: JobStatus, pods: list[Pod], awaited: tuple[str, ...], expected: tuple[int, int]
) -> None:
    """TestGetNewFinshedPods."""
    sync = observed(job(status), pods)
    census = take_census(Observed(job=sync.job, pods=sync.pods, tracked=sync.tracked - set(awaited), now=T0))
    assert (census.succeeded, census.failed) == expected


@cases(
    "policy, phase, expected",
    {
        "TerminatingOrFailed: pending": ({}, P, True),
        "TerminatingOrFailed: running": ({}, R, True),
        "TerminatingOrFailed: succeeded": ({}, S, False),
        "replaced when failed: running": ({"pod_replacement_policy": "Failed"}, R, False),
        "replaced when failed: failed": ({"pod_replacement_policy": "Failed"}, F, True),
        "pod failure policy: running": ({"pod_failure_policy": ANY_FAILURE}, R, False),
        "pod failure policy: failed": ({"pod_failure_policy": ANY_FAILURE}, F, True),
    },
)
def test_terminating_pods_count_as_failed(policy: dict[str, Any], phase: str, expected: bool) -> None:
    """TestSyncJobWithJobPodFailurePolicy and TestControllerSyncJob, the rows of terminating pods."""
    census = take_census(observed(job(**policy), [pod("a", phase, deleted=0)]))
    assert bool(census.new_failed) is expected
