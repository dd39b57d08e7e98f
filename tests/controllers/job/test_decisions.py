"""What a Job wants: how it ends, which pods it makes and removes. Rows mirror v1.36
``pkg/controller/job/job_controller_test.go`` and ``indexed_job_utils_test.go``."""

import datetime
from collections.abc import Iterable
from typing import Any

import pytest
from tests.controllers.job.builders import T0, at, ended, job, pod

from pilothouse.api.batch import (
    ExitCodesRequirement,
    Job,
    JobCondition,
    JobStatus,
    PodConditionPattern,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
    UncountedTerminatedPods,
)
from pilothouse.api.core import ContainerStatus, Pod, PodCondition
from pilothouse.controllers.workloads.job.backoff import NONE, Failures
from pilothouse.controllers.workloads.job.decide import (
    COMPLETIONS_REACHED,
    FAILURE_COUNT,
    IGNORED_FAILURE_COUNT,
    CreatePods,
    RemovePods,
    Seen,
    Wait,
    decide_ending,
    decide_pods,
    failures_noted,
    is_complete,
    next_failure_counts,
    take_census,
    until_deadline,
    until_replaced,
    why_created,
)
from pilothouse.controllers.workloads.job.indexes import UNKNOWN, Indexes
from pilothouse.controllers.workloads.job.status import FAILURE_TARGET, SUCCESS_CRITERIA_MET, Ending

NEVER, ON_FAILURE = b'{"spec":{"restartPolicy":"Never"}}', b'{"spec":{"restartPolicy":"OnFailure"}}'


def seen(owner: Job, *groups: Iterable[Pod], failures: Failures = NONE, now: datetime.datetime = T0) -> Seen:
    pods = tuple(each for group in groups for each in group)
    tracked = frozenset(each.metadata.uid for each in pods if each.metadata.finalizers)
    return Seen(job=owner, pods=pods, tracked=tracked, now=now, failures=failures)


def running(count: int, *, ready: int = 0) -> list[Pod]:
    return [pod(f"r{number}", ready=number < ready or None) for number in range(count)]


def pending(count: int) -> list[Pod]:
    return [pod(f"p{number}", "Pending") for number in range(count)]


def succeeded(count: int) -> list[Pod]:
    return [pod(f"s{number}", "Succeeded", finished=0) for number in range(count)]


def failed(count: int) -> list[Pod]:
    return [pod(f"f{number}", "Failed", finished=0) for number in range(count)]


def going(count: int) -> list[Pod]:
    return [pod(f"g{number}", deleted=0) for number in range(count)]


def indexed(*pods: tuple[int | None, str]) -> list[Pod]:
    return [pod(f"i{number}", phase, index=index) for number, (index, phase) in enumerate(pods)]


R, P, S, F = "Running", "Pending", "Succeeded", "Failed"
ANY_FAILURE = PodFailurePolicy()
JUST_FAILED = Failures(1, T0)


@pytest.mark.parametrize(
    ("spec", "groups", "failures", "expected"),
    [
        pytest.param({"completions": 5}, [], NONE, 2, id="a start"),
        pytest.param({}, [], NONE, 2, id="a start without completions"),
        pytest.param({"completions": 5}, [pending(2)], NONE, 0, id="pending ones are there"),
        pytest.param({"completions": 5, "parallelism": 3}, [running(3)], NONE, 0, id="as many as wanted"),
        pytest.param({}, [running(2)], NONE, 0, id="as many as wanted without completions"),
        pytest.param({"completions": 5}, [running(1), succeeded(1)], NONE, 1, id="too few"),
        pytest.param({}, [running(1)], NONE, 1, id="too few without completions"),
        pytest.param({}, [running(1), succeeded(1)], NONE, 0, id="without completions, one has succeeded: no more"),
        pytest.param({}, [succeeded(2)], NONE, 0, id="without completions, all have succeeded"),
        pytest.param(
            {"parallelism": 1, "pod_replacement_policy": "Failed"},
            [running(1), failed(1), going(1)],
            NONE,
            0,
            id="without completions, one runs, one failed, one goes: replace what failed",
        ),
        pytest.param(
            {"parallelism": 1, "completions": 1},
            [running(1), failed(1), going(1)],
            NONE,
            0,
            id="one runs, one failed, one goes",
        ),
        pytest.param({"parallelism": 1, "completions": 1}, [going(1)], NONE, 1, id="one that goes is replaced"),
        pytest.param(
            {"parallelism": 1, "completions": 1, "pod_replacement_policy": "Failed"},
            [going(1)],
            NONE,
            0,
            id="one that goes is not replaced before it has failed",
        ),
        pytest.param(
            {"parallelism": 1, "completions": 1, "pod_failure_policy": ANY_FAILURE},
            [going(1)],
            NONE,
            0,
            id="nor with a failure policy",
        ),
        pytest.param(
            {"parallelism": 1, "completions": 1, "pod_replacement_policy": "Failed"},
            [running(2), going(4)],
            NONE,
            -1,
            id="more going than wanted: still one too many runs",
        ),
        pytest.param(
            {"parallelism": 1, "completions": 1, "pod_failure_policy": ANY_FAILURE},
            [running(2), going(4)],
            NONE,
            -1,
            id="kubernetes#122235: the same with a failure policy",
        ),
        pytest.param({"parallelism": 1, "completions": 1}, [], JUST_FAILED, 10.0, id="too few, just failed: wait"),
        pytest.param({"parallelism": 1, "completions": 1}, [], Failures(0, T0), 1, id="too few, a success since"),
        pytest.param({"completions": 5}, [running(3)], NONE, -1, id="too many"),
        pytest.param({"completions": 5}, [running(3)], JUST_FAILED, -1, id="too many go without waiting"),
        pytest.param({"completions": 5}, [running(10)], NONE, -8, id="far too many"),
        pytest.param(
            {"parallelism": 3, "completions": 4},
            [running(3), succeeded(2)],
            NONE,
            -1,
            id="more than are still to succeed",
        ),
        pytest.param({"completions": 5}, [running(1), succeeded(1), failed(1)], NONE, 1, id="some of each"),
        pytest.param({"completions": 5}, [running(2), succeeded(2)], NONE, 0, id="nothing to do"),
        pytest.param({"completions": 5}, [succeeded(5)], NONE, 0, id="all done"),
        pytest.param({"completions": 5, "suspend": True}, [running(2)], NONE, -2, id="suspended: none runs"),
        pytest.param({"completions": 5, "suspend": True}, [], NONE, 0, id="suspended, and none runs"),
        pytest.param({"parallelism": 0, "completions": 5}, [running(2)], NONE, -2, id="no parallelism"),
        pytest.param({"parallelism": 700, "completions": 700}, [], NONE, 500, id="not more than a burst"),
        pytest.param({"parallelism": 0, "completions": 700}, [running(700)], NONE, -500, id="nor removed"),
    ],
)
def test_which_pods_to_make_and_to_remove(
    spec: dict[str, Any], groups: list[list[Pod]], failures: Failures, expected: float
) -> None:
    """TestControllerSyncJob, its rows without indexes: more than 0 are made, less removed, a fraction is a wait."""
    owner = job(**{"parallelism": 2, "backoff_limit": 6, "template": NEVER, **spec})
    look = seen(owner, *groups, failures=failures)
    match decide_pods(look, take_census(look)):
        case None:
            got: float = 0
        case CreatePods(count):
            got = count
        case RemovePods(pods):
            got = -len(pods)
        case Wait(seconds):
            assert isinstance(expected, float)
            got = seconds
    assert got == expected


@pytest.mark.parametrize(
    ("parallelism", "completions", "pods", "expected"),
    [
        pytest.param(2, 5, [], CreatePods(2, (0, 1)), id="a start"),
        pytest.param(2, 3, [(0, S), (1, F), (1, S), (2, S)], None, id="completed"),
        pytest.param(2, 3, [(0, S), (1, S), (1, S)], CreatePods(1, (2,)), id="an index twice"),
        pytest.param(
            8,
            20,
            [(0, R), (2, S), (3, P), (4, S), (5, S), (7, S), (8, S), (9, S)],
            CreatePods(6, (1, 6, 10, 11, 12, 13)),
            id="some run, some are done",
        ),
        pytest.param(3, 4, [(0, F), (1, P), (2, F)], CreatePods(2, (0, 2)), id="some failed"),
        pytest.param(
            2,
            5,
            [(None, R), (None, S), (None, F), (None, P), (0, S), (1, R), (2, R)],
            ["i3", "i0"],
            id="pods without index go",
        ),
        pytest.param(5, 5, [(None, R), (0, S), (1, R), (2, R), (2, P)], ["i0", "i4"], id="doubles go"),
        pytest.param(2, 5, [(0, S), (5, R), (6, S), (7, P), (8, F)], ["i1", "i3"], id="past the last index"),
    ],
)
def test_which_indexes(
    parallelism: int, completions: int, pods: list[tuple[int | None, str]], expected: CreatePods | list[str] | None
) -> None:
    """TestControllerSyncJob, its rows of indexed Jobs."""
    owner = job(
        parallelism=parallelism, completions=completions, backoff_limit=6, completion_mode="Indexed", template=NEVER
    )
    look = seen(owner, indexed(*pods))
    got = decide_pods(look, take_census(look))
    if isinstance(got, RemovePods):
        assert [victim.metadata.name for victim in got.pods] == expected
    else:
        assert got == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Failed", CreatePods(1, (1,)), id="only failed: its index waits"),
        pytest.param("TerminatingOrFailed", CreatePods(2, (0, 1)), id="its index is taken over"),
    ],
)
def test_an_index_whose_pod_goes(policy: str, expected: CreatePods) -> None:
    """TestControllerSyncJob, "indexed job with some pods deleted"."""
    owner = job(parallelism=2, completions=5, completion_mode="Indexed", template=NEVER, pod_replacement_policy=policy)
    look = seen(owner, [pod("a", index=0, deleted=0)])
    assert decide_pods(look, take_census(look)) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param(5, Wait(5.0), id="both wait: until the first may be made"),
        pytest.param(9.5, Wait(1.0), id="never less than a second"),
        pytest.param(12, CreatePods(1, (0,)), id="one may"),
        pytest.param(30, CreatePods(2, (0, 1)), id="both may"),
    ],
)
def test_each_index_waits_for_itself(now: float, expected: CreatePods | Wait) -> None:
    """TestGetPodCreationInfoForIndependentIndexes."""
    owner = job(parallelism=2, completions=2, completion_mode="Indexed", template=NEVER, backoff_limit_per_index=5)
    first = pod("a", "Failed", index=0, finished=0, notes={FAILURE_COUNT: "0"})
    second = pod("b", "Failed", index=1, finished=0, notes={FAILURE_COUNT: "1"})
    look = seen(owner, [first, second], now=at(now))
    assert decide_pods(look, take_census(look)) == expected


@pytest.mark.parametrize(
    ("counted", "ignored", "expected"),
    [
        pytest.param(None, None, 10.0, id="no annotation: one failure"),
        pytest.param("2", None, 40.0, id="two before it"),
        pytest.param("1", "1", 40.0, id="one before it that counted and one that did not"),
        pytest.param("9", None, 600.0, id="at most ten minutes"),
    ],
)
def test_the_wait_of_an_index(counted: str | None, ignored: str | None, expected: float) -> None:
    """TestGetRemainingBackoffTimePerIndex."""
    notes = {name: text for name, text in ((FAILURE_COUNT, counted), (IGNORED_FAILURE_COUNT, ignored)) if text}
    assert until_replaced(job(), pod("a", "Failed", deleted=0, notes=notes), T0) == expected
    assert until_replaced(job(), None, T0) == 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, 0, id="none"),
        pytest.param("2", 2, id="a number"),
        pytest.param("2147483647", 2147483647, id="the largest"),
        pytest.param("2147483648", 0, id="too large"),
        pytest.param("-1", 0, id="negative"),
        pytest.param("xyz", 0, id="no number"),
    ],
)
def test_the_failures_that_a_pod_notes(text: str | None, expected: int) -> None:
    """TestGetIndexFailureCount."""
    assert failures_noted(pod("a", notes={FAILURE_COUNT: text} if text is not None else {})) == expected


EVICTED = (PodCondition(type="DisruptionTarget", status="True"),)
IGNORE_EVICTIONS = PodFailurePolicy(
    rules=(PodFailurePolicyRule(action="Ignore", on_pod_conditions=(PodConditionPattern(type="DisruptionTarget"),)),)
)


def on_exit(action: str, *codes: int) -> PodFailurePolicy:
    requirement = ExitCodesRequirement(operator="In", values=codes)
    return PodFailurePolicy(rules=(PodFailurePolicyRule(action=action, on_exit_codes=requirement),))


@pytest.mark.parametrize(
    ("policy", "last", "expected"),
    [
        pytest.param(None, None, {FAILURE_COUNT: "0"}, id="the first"),
        pytest.param(None, pod("a", F, notes={FAILURE_COUNT: "0"}), {FAILURE_COUNT: "1"}, id="after the first"),
        pytest.param(None, pod("a", F, notes={FAILURE_COUNT: "3"}), {FAILURE_COUNT: "4"}, id="after the fourth"),
        pytest.param(
            IGNORE_EVICTIONS,
            pod("a", F, conditions=EVICTED, notes={FAILURE_COUNT: "3"}),
            {FAILURE_COUNT: "3", IGNORED_FAILURE_COUNT: "1"},
            id="after one that is ignored",
        ),
        pytest.param(
            IGNORE_EVICTIONS,
            pod("a", F, notes={FAILURE_COUNT: "3", IGNORED_FAILURE_COUNT: "2"}),
            {FAILURE_COUNT: "4", IGNORED_FAILURE_COUNT: "2"},
            id="what was ignored is passed on",
        ),
    ],
)
def test_the_failures_that_the_next_pod_notes(
    policy: PodFailurePolicy | None, last: Pod | None, expected: dict[str, str]
) -> None:
    """TestGetNewIndexFailureCountValue."""
    assert next_failure_counts(job(pod_failure_policy=policy), last) == expected


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
    look = seen(owner, pods)
    look = Seen(job=owner, pods=look.pods, tracked=look.tracked - set(awaited), now=T0)
    assert sorted(kept.metadata.name for kept in take_census(look).kept.values()) == expected


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
    look = seen(job(status), pods)
    census = take_census(Seen(job=look.job, pods=look.pods, tracked=look.tracked - set(awaited), now=T0))
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


INDEXED: dict[str, Any] = {"completion_mode": "Indexed", "completions": 3}
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
    look = seen(owner, pods, now=at(100))
    assert decide_ending(look, take_census(look), T0) == expected


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


@pytest.mark.parametrize(
    ("policy", "pods", "expected"),
    [
        pytest.param("TerminatingOrFailed", [], "new", id="nothing happened"),
        pytest.param("TerminatingOrFailed", failed(1), "recreate_terminating_or_failed", id="one failed"),
        pytest.param("TerminatingOrFailed", going(1), "recreate_terminating_or_failed", id="one goes"),
        pytest.param("Failed", failed(1), "recreate_failed", id="one failed, only failed ones are replaced"),
        pytest.param("Failed", [], "new", id="nothing happened, only failed ones are replaced"),
    ],
)
def test_why_pods_are_made(policy: str, pods: list[Pod], expected: str) -> None:
    """``recordJobPodsCreationTotal``; TestJobPodReplacementPolicy of test/integration/job."""
    owner = job(pod_replacement_policy=policy)
    assert why_created(owner, take_census(seen(owner, pods))) == expected


def test_pods_without_index_are_in_no_set() -> None:
    look = seen(job(**INDEXED), indexed((None, S), (-2, S), (7, S)))
    census = take_census(look)
    assert (census.completed, census.succeeded, census.new_succeeded) == (Indexes(), 0, ())
    assert UNKNOWN not in census.completed
