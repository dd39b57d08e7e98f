"""Which pods have ended or failed, which indexes with them, and who is kept for the next one's count. Rows mirror
v1.36 ``pkg/controller/job/job_controller_test.go`` and ``indexed_job_utils_test.go``."""

from typing import Any

import pytest
from tests.controllers.job.builders import T0, ended, job, pod
from tests.controllers.job.observed import ANY_FAILURE, F, P, R, S, on_exit, seen

from pilothouse.api.batch import JobStatus, PodFailurePolicy, UncountedTerminatedPods
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.job.decide import FAILURE_COUNT, Seen, take_census


@pytest.mark.parametrize(
    ("limit", "policy", "pods", "before", "expected"),
    [
        pytest.param(0, None, [pod("a", F, index=0, notes={FAILURE_COUNT: "0"})], None, "0", id="none allowed"),
        pytest.param(
            1, None, [pod("a", F, index=1, notes={FAILURE_COUNT: "1"})], None, "1", id="one allowed, the second"
        ),
        pytest.param(
            1,
            on_exit("FailIndex", 3),
            [pod("a", F, index=0, containers=(ended("c", 3),), notes={FAILURE_COUNT: "0"})],
            None,
            "0",
            id="failed at once by the policy",
        ),
        pytest.param(
            0,
            on_exit("Ignore", 3),
            [pod("a", F, index=0, containers=(ended("c", 3),), notes={FAILURE_COUNT: "0"})],
            None,
            "",
            id="ignored by the policy",
        ),
        pytest.param(
            1,
            None,
            [pod("a", F, index=0, notes={FAILURE_COUNT: "0"}), pod("b", F, index=1, notes={FAILURE_COUNT: "1"})],
            None,
            "1",
            id="one of two",
        ),
        pytest.param(0, None, [pod("a", F, index=0, tracked=False)], None, "", id="counted already"),
        pytest.param(0, None, [pod("a", F, index=3)], None, "", id="past the last index"),
        pytest.param(0, None, [pod("a", F, index=1)], "0", "0,1", id="one more"),
        pytest.param(0, None, [pod("a", F, index=1)], "", "1", id="none before"),
        pytest.param(0, None, [pod("a", F, index=1)], "9", "1", id="one before that is past the last index"),
        pytest.param(0, None, [pod("a", R, index=1)], None, "", id="one that runs"),
        pytest.param(0, None, [pod("a", F, index=1), pod("b", S, index=1)], None, "", id="one that has completed, too"),
    ],
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
    assert str(take_census(seen(owner, pods)).failed_indexes) == expected


def counted(name: str, index: int, count: int, phase: str = F, **more: Any) -> Pod:
    return pod(name, phase, index=index, notes={FAILURE_COUNT: str(count)}, **more)


@pytest.mark.parametrize(
    ("limit", "pods", "awaited", "expected"),
    [
        pytest.param(
            1, [counted("a", 0, 0), counted("b", 1, 1), counted("c", 2, 0)], (), ["a", "c"], id="not of failed indexes"
        ),
        pytest.param(0, [counted("a", 0, 0, tracked=False)], (), [], id="not without finalizer"),
        pytest.param(1, [counted("a", 0, 0)], ("a",), [], id="not when the finalizer was taken away"),
        pytest.param(0, [counted("a", 4, 0)], (), [], id="not past the last index"),
        pytest.param(1, [counted("a1", 0, 0), counted("a2", 0, 1, R)], (), [], id="not when replaced"),
        pytest.param(1, [counted("a1", 0, 0), counted("a2", 0, 1, S)], (), [], id="not when the index has succeeded"),
        pytest.param(
            4, [counted("a1", 0, 0), counted("a3", 0, 2), counted("a2", 0, 1)], (), ["a3"], id="the most failures"
        ),
        pytest.param(
            4,
            [counted("a1", 0, 1, deleted=2), counted("a3", 0, 1, deleted=3), counted("a2", 0, 1, deleted=1)],
            (),
            ["a3"],
            id="of as many failures the last",
        ),
    ],
)
def test_who_is_kept_for_its_index(limit: int, pods: list[Pod], awaited: tuple[str, ...], expected: list[str]) -> None:
    """TestGetPodsWithDelayedDeletionPerIndex."""
    owner = job(completion_mode="Indexed", completions=3, backoff_limit_per_index=limit)
    sync = seen(owner, pods)
    sync = Seen(job=owner, pods=sync.pods, tracked=sync.tracked - set(awaited), now=T0)
    assert sorted(kept.metadata.name for kept in take_census(sync).kept.values()) == expected


@pytest.mark.parametrize(
    ("status", "pods", "awaited", "expected"),
    [
        pytest.param(
            JobStatus(succeeded=2, failed=1),
            [pod("a", S, tracked=False), pod("b", S), pod("c", S), pod("d", F, tracked=False), pod("e", F), pod("f")],
            (),
            (4, 2),
            id="those without finalizer are counted already",
        ),
        pytest.param(
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
            id="some are on the way to be counted",
        ),
        pytest.param(
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
            id="of some the finalizer was taken away",
        ),
        pytest.param(
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
            id="what goes before its end has failed",
        ),
    ],
)
def test_what_has_ended(
    status: JobStatus, pods: list[Pod], awaited: tuple[str, ...], expected: tuple[int, int]
) -> None:
    """TestGetNewFinshedPods."""
    sync = seen(job(status), pods)
    census = take_census(Seen(job=sync.job, pods=sync.pods, tracked=sync.tracked - set(awaited), now=T0))
    assert (census.succeeded, census.failed) == expected


@pytest.mark.parametrize(
    ("policy", "phase", "expected"),
    [
        pytest.param({}, P, True, id="replaced when it goes: pending"),
        pytest.param({}, R, True, id="replaced when it goes: running"),
        pytest.param({}, S, False, id="replaced when it goes: succeeded"),
        pytest.param({"pod_replacement_policy": "Failed"}, R, False, id="replaced when failed: running"),
        pytest.param({"pod_replacement_policy": "Failed"}, F, True, id="replaced when failed: failed"),
        pytest.param({"pod_failure_policy": ANY_FAILURE}, R, False, id="with a failure policy: running"),
        pytest.param({"pod_failure_policy": ANY_FAILURE}, F, True, id="with a failure policy: failed"),
    ],
)
def test_whether_a_pod_that_goes_has_failed(policy: dict[str, Any], phase: str, expected: bool) -> None:
    """TestSyncJobWithJobPodFailurePolicy and TestControllerSyncJob, the rows of terminating pods."""
    census = take_census(seen(job(**policy), [pod("a", phase, deleted=0)]))
    assert bool(census.new_failed) is expected
