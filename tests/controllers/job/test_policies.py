"""The failure and the success policy, and the wait after failures. Rows mirror ``pod_failure_policy_test.go``,
``success_policy_test.go`` and ``backoff_utils_test.go`` of v1.36 ``pkg/controller/job``."""

import datetime

import pytest
from tests.controllers.job.builders import T0, at, ended, job, pod
from tests.controllers.job.observed import INDEXED, seen

from pilothouse.api.batch import (
    ExitCodesRequirement,
    PodConditionPattern,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from pilothouse.api.core import ContainerStatus, Pod, PodCondition
from pilothouse.controllers.workloads.job.backoff import NONE, Failures, after, finished_at, remaining
from pilothouse.controllers.workloads.job.decide import decide_ending, failure_counts, take_census
from pilothouse.controllers.workloads.job.indexes import Indexes
from pilothouse.controllers.workloads.job.pod_failure_policy import NO_RULE, PolicyMatch, match_pod_failure_policy
from pilothouse.controllers.workloads.job.success_policy import met_rule


def codes(action: str, operator: str, *values: int, container: str | None = None) -> PodFailurePolicyRule:
    requirement = ExitCodesRequirement(container_name=container, operator=operator, values=values)
    return PodFailurePolicyRule(action=action, on_exit_codes=requirement)


def condition(action: str, type_: str, status: str = "True") -> PodFailurePolicyRule:
    return PodFailurePolicyRule(action=action, on_pod_conditions=(PodConditionPattern(type=type_, status=status),))


EXIT_2 = pod("p", "Failed", containers=(ended("main", 2),))
EVICTED = pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="True"),))


def fails(text: str) -> PolicyMatch:
    return PolicyMatch(action="FailJob", message=text)


@pytest.mark.parametrize(
    ("rules", "failed", "expected"),
    [
        pytest.param([], EXIT_2, NO_RULE, id="no rules"),
        pytest.param([codes("Ignore", "In", 1, 2)], EXIT_2, PolicyMatch(counts=False, action="Ignore"), id="ignored"),
        pytest.param([codes("Ignore", "In", 1, 3)], EXIT_2, NO_RULE, id="another code"),
        pytest.param([codes("Count", "NotIn", 1, 3)], EXIT_2, PolicyMatch(action="Count"), id="none of these codes"),
        pytest.param([codes("Count", "NotIn", 2)], EXIT_2, NO_RULE, id="one of these codes"),
        pytest.param(
            [codes("FailJob", "NotIn", 5)],
            pod("p", "Failed", containers=(ended("main", 0),)),
            NO_RULE,
            id="0 never fits",
        ),
        pytest.param(
            [codes("FailJob", "In", 2)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 0"),
            id="the Job fails",
        ),
        pytest.param([codes("FailJob", "In", 2, container="other")], EXIT_2, NO_RULE, id="another container"),
        pytest.param(
            [codes("FailJob", "In", 5)],
            pod("p", "Failed", containers=(ended("main", 2),), init_containers=(ended("init", 5),)),
            fails("Container init for pod default/p failed with exit code 5 matching FailJob rule at index 0"),
            id="an init container",
        ),
        pytest.param(
            [condition("Ignore", "DisruptionTarget"), codes("FailJob", "In", 2)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 1"),
            id="the first rule that fits",
        ),
        pytest.param(
            [condition("Ignore", "DisruptionTarget")], EVICTED, PolicyMatch(counts=False, action="Ignore"), id="evicted"
        ),
        pytest.param([condition("Ignore", "DisruptionTarget", "False")], EVICTED, NO_RULE, id="another status"),
        pytest.param(
            [condition("FailJob", "DisruptionTarget")],
            EVICTED,
            fails("Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"),
            id="evicted, and the Job fails",
        ),
        pytest.param([codes("FailIndex", "In", 2)], EXIT_2, PolicyMatch(action="FailIndex"), id="the index fails"),
        pytest.param(
            [condition("FailIndex", "DisruptionTarget")],
            EVICTED,
            PolicyMatch(action="FailIndex"),
            id="evicted, and the index fails",
        ),
        pytest.param(
            [condition("Count", "DisruptionTarget")], EVICTED, PolicyMatch(action="Count"), id="evicted, and it counts"
        ),
        pytest.param(
            [codes("Unknown", "In", 1, 2), codes("FailJob", "In", 2, 3)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 1"),
            id="an unknown action about exit codes is passed over",
        ),
        pytest.param(
            [condition("Unknown", "DisruptionTarget"), condition("Ignore", "DisruptionTarget")],
            EVICTED,
            PolicyMatch(counts=False, action="Ignore"),
            id="an unknown action about conditions is passed over",
        ),
        pytest.param(
            [codes("Ignore", "Unknown", 1, 2), codes("FailJob", "In", 2, 3)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 1"),
            id="an unknown operator fits nothing",
        ),
        pytest.param(
            [codes("FailJob", "NotIn", 111)],
            pod(
                "p",
                "Failed",
                containers=(ended("main", 111), ended("support", 0)),
                init_containers=(ended("init", 0),),
            ),
            NO_RULE,
            id="containers that succeeded are passed over",
        ),
        pytest.param(
            [codes("FailJob", "NotIn", 0)],
            pod("p", "Failed", containers=(ended("main", 1), ended("support", 0))),
            fails("Container main for pod default/p failed with exit code 1 matching FailJob rule at index 0"),
            id="any failure",
        ),
        pytest.param(
            [codes("Count", "In", 1, 2, 3), codes("FailJob", "In", 4, 5, 6)],
            pod("p", "Failed", containers=(ended("main", 6),)),
            fails("Container main for pod default/p failed with exit code 6 matching FailJob rule at index 1"),
            id="the second rule fits",
        ),
        pytest.param(
            [codes("Count", "In", 1, 2, 3)],
            pod("p", "Failed", containers=(ContainerStatus(name="foo"), ended("bar", 2))),
            PolicyMatch(action="Count"),
            id="a container that has not ended is passed over",
        ),
        pytest.param(
            [condition("Ignore", "DisruptionTarget", "Unknown")],
            pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="Unknown"),)),
            PolicyMatch(counts=False, action="Ignore"),
            id="a status of Unknown, asked for",
        ),
        pytest.param(
            [condition("Ignore", "DisruptionTarget", "False")],
            pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="False"),)),
            PolicyMatch(counts=False, action="Ignore"),
            id="a status of False, asked for",
        ),
        pytest.param(
            [condition("Ignore", "DisruptionTarget")],
            pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="False"),)),
            NO_RULE,
            id="a status of False, not asked for",
        ),
        pytest.param(
            [
                codes("Count", "NotIn", 8),
                codes("Ignore", "In", 1, 2, 3),
                codes("FailJob", "NotIn", 5, 6, 7),
                condition("Count", "ResourceLimitExceeded"),
                condition("Ignore", "DisruptionTarget"),
            ],
            pod("p", "Failed", containers=(ended("main", 32),)),
            PolicyMatch(action="Count"),
            id="the first of many",
        ),
    ],
)
def test_what_becomes_of_a_failed_pod(rules: list[PodFailurePolicyRule], failed: Pod, expected: PolicyMatch) -> None:
    """TestMatchPodFailurePolicy."""
    assert match_pod_failure_policy(PodFailurePolicy(rules=tuple(rules)), failed) == expected


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("rule", [codes("FailIndex", "In", 2), condition("FailIndex", "DisruptionTarget")])
def test_a_rule_that_fails_an_index_is_the_last_that_is_read(rule: PodFailurePolicyRule, limit: int | None) -> None:
    """``matchPodFailurePolicy``, also of a Job that has no limit per index, and so no indexes that can fail."""
    failed = pod("p", "Failed", containers=EXIT_2.status.container_statuses, conditions=EVICTED.status.conditions)
    policy = PodFailurePolicy(rules=(rule, codes("Ignore", "In", 2), codes("FailJob", "In", 2)))
    assert match_pod_failure_policy(policy, failed) == PolicyMatch(action="FailIndex")
    assert match_pod_failure_policy(None, failed) == NO_RULE
    observed = seen(job(**INDEXED, backoff_limit_per_index=limit, pod_failure_policy=policy), [failed])
    census = take_census(observed)
    assert failure_counts(observed.job, failed)
    assert decide_ending(observed, census, None) is None


@pytest.mark.parametrize(
    ("rules", "succeeded", "expected"),
    [
        pytest.param([("0-2", None)], "", None, id="none has succeeded"),
        pytest.param([("0-2", None)], "0,1", None, id="not all of them"),
        pytest.param([("0-2", None)], "0-4", 0, id="all of them, and others"),
        pytest.param([("0-5", 2)], "1,4", 0, id="enough of them"),
        pytest.param([("0-5", 3)], "1,4,8,9", None, id="others do not count"),
        pytest.param([(None, 3)], "1,4,8", 0, id="enough of all"),
        pytest.param([(None, 4)], "1,4,8", None, id="not enough of all"),
        pytest.param([("0,2", None), ("4", None)], "4", 1, id="the second rule"),
        pytest.param([("a", None), (None, 1)], "4", 1, id="a rule that makes no sense is left out"),
        pytest.param([("1-3,5-9", None)], "0-6,7-9", 0, id="across intervals"),
        pytest.param([], "0", None, id="no rules"),
        pytest.param([("invalid-form", None)], "0", None, id="no list"),
        pytest.param([("0-2", None)], "0-2,4-7", 0, id="an interval of two"),
        pytest.param([("3", None)], "0-2", None, id="another index"),
        pytest.param([("9", None), ("4,6", None)], "0-2,4-7", 1, id="one of two rules"),
        pytest.param([("0,1", None), ("5", None)], "0-2,4-7", 0, id="both rules: the first"),
        pytest.param([("3-6", 2)], "0-2,4-7", 0, id="two of an interval"),
        pytest.param([("3-6", 2)], "0-2,6,7", None, id="one of an interval is not two"),
        pytest.param([(None, 4)], "", None, id="a number, and none has succeeded"),
        pytest.param([("2-4,6-8", None)], "1-9", 0, id="a subset"),
        pytest.param([("2-4,6-9", None)], "2-4,6-9", 0, id="the same"),
        pytest.param([("", None)], "1-3", None, id="an empty list"),
        pytest.param([("", None)], "", None, id="an empty list, and none has succeeded"),
        pytest.param([("10-12,14-16", None)], "1-3,5-7", None, id="all past the last"),
        pytest.param([("1-3,5-7", None)], "2-4,6-8", None, id="overlapping in front"),
        pytest.param([("1-3,5-7", 4)], "2-4,6-8", 0, id="overlapping in front, enough of them"),
        pytest.param([("2-4,6-9", None)], "1-3,5-7", None, id="overlapping behind"),
        pytest.param([("2-4,6-9", 4)], "1-3,5-7", 0, id="overlapping behind, enough of them"),
        pytest.param([("0-4,6-9", None)], "1-3,7,8", None, id="around"),
        pytest.param([("0-4,6-9", 5)], "1-3,7,8", 0, id="around, enough of them"),
        pytest.param([("0-6,8-9", None)], "1-3,5-9", None, id="overlapping two behind"),
        pytest.param([("0-6,8-9", 7)], "1-3,5-9", 0, id="overlapping two behind, enough of them"),
        pytest.param([("0-5,7-9", None)], "1-5,7-9", None, id="overlapping in front, the same behind"),
        pytest.param([("0-5,7-9", 8)], "1-5,7-9", 0, id="overlapping in front, the same behind, enough of them"),
        pytest.param([("0-3,6-9", None)], "1-9", None, id="two in one, the first overlapping"),
        pytest.param([("0-3,6-9", 7)], "1-9", 0, id="two in one, the first overlapping, enough of them"),
    ],
)
def test_which_rule_is_met(rules: list[tuple[str | None, int | None]], succeeded: str, expected: int | None) -> None:
    """TestMatchSuccessPolicy."""
    policy = SuccessPolicy(
        rules=tuple(SuccessPolicyRule(succeeded_indexes=indexes, succeeded_count=count) for indexes, count in rules)
    )
    assert met_rule(policy, 10, Indexes.parse(succeeded, 10)) == expected


@pytest.mark.parametrize(
    ("before", "succeeded", "failed", "expected"),
    [
        pytest.param(Failures(2, at(5)), [], [], Failures(2, at(5)), id="nothing new"),
        pytest.param(NONE, [], [10, 12, 11], Failures(3, at(12)), id="failures: the last counts"),
        pytest.param(Failures(1, at(5)), [], [10], Failures(2, at(10)), id="one more failure"),
        pytest.param(Failures(3, at(5)), [10], [], NONE, id="a success ends the row"),
        pytest.param(Failures(3, at(5)), [10], [9, 11, 12], Failures(2, at(12)), id="only those after the success"),
        pytest.param(Failures(3, at(5)), [10], [9], NONE, id="all before the success"),
        pytest.param(NONE, [], [10], Failures(1, at(10)), id="the first failure"),
        pytest.param(Failures(2), [], [10], Failures(3, at(10)), id="two without a time before it"),
        pytest.param(NONE, [8], [10, 6, 7, 9], Failures(2, at(10)), id="two failures, a success, two failures"),
        pytest.param(NONE, [10], [10], NONE, id="success and failure at once"),
        pytest.param(NONE, [10], [], NONE, id="a success"),
        pytest.param(NONE, [], [], NONE, id="nothing ever"),
    ],
)
def test_failures_in_a_row(before: Failures, succeeded: list[int], failed: list[int], expected: Failures) -> None:
    """TestNewBackoffRecord."""
    good = [pod(f"s{second}", "Succeeded", finished=second) for second in succeeded]
    bad = [pod(f"f{second}", "Failed", finished=second) for second in failed]
    assert after(before, good, bad) == expected


@pytest.mark.parametrize(
    ("ended_pod", "expected"),
    [
        pytest.param(
            pod("p", "Failed", containers=(ended("a", 1, seconds=5), ended("b", 1, seconds=9))), at(9), id="last"
        ),
        pytest.param(
            pod("p", "Failed", containers=(ended("a", 1, seconds=5), ended("b", 1)), ready=False),
            T0,
            id="not ready since",
        ),
        pytest.param(pod("p", "Failed", deleted=30), at(30), id="to be deleted"),
        pytest.param(pod("p", "Failed", deleted=30, grace=30), at(0), id="told to go before its grace period"),
        pytest.param(
            pod("p", "Failed", containers=(ended("a", 1, seconds=5), ContainerStatus(name="b")), deleted=7),
            at(7),
            id="one container runs on: to be deleted",
        ),
        pytest.param(
            pod("p", "Failed", containers=(ended("a", 1),), ready=True, deleted=7),
            at(7),
            id="ready since is no end",
        ),
        pytest.param(
            pod(
                "p",
                "Failed",
                containers=(ended("a", 1, seconds=5),),
                init_containers=(ended("i", 0, seconds=9), ended("s", 0, seconds=8)),
                sidecars=("s",),
            ),
            at(8),
            id="a sidecar ends last; other init containers do not count",
        ),
        pytest.param(
            pod(
                "p",
                "Failed",
                containers=(ended("a", 1, seconds=5), ContainerStatus(name="b")),
                init_containers=(ended("s", 0, seconds=8),),
                sidecars=("s",),
                deleted=30,
            ),
            at(8),
            id="a container runs on, all sidecars have ended: the last of them",
        ),
        pytest.param(
            pod(
                "p",
                "Failed",
                containers=(ended("a", 1, seconds=5),),
                init_containers=(ContainerStatus(name="s"),),
                sidecars=("s",),
                deleted=30,
            ),
            at(30),
            id="a sidecar runs on: to be deleted",
        ),
        pytest.param(pod("p", "Failed"), T0, id="made"),
    ],
)
def test_when_a_pod_ended(ended_pod: Pod, expected: datetime.datetime) -> None:
    """TestGetFinishedTime."""
    assert finished_at(ended_pod) == expected


@pytest.mark.parametrize(
    ("failures", "second", "expected"),
    [
        pytest.param(NONE, 0, 0.0, id="no failure"),
        pytest.param(Failures(1, T0), 0, 10.0, id="the first"),
        pytest.param(Failures(2, T0), 5, 15.0, id="the second, some time ago"),
        pytest.param(Failures(3, T0), 0, 40.0, id="the third"),
        pytest.param(Failures(1, T0), 11, 0.0, id="long enough ago"),
        pytest.param(Failures(1, T0), 1, 9.0, id="the first, a second ago"),
        pytest.param(Failures(1, T0), 10, 0.0, id="exactly long enough ago"),
        pytest.param(Failures(6, T0), 0, 320.0, id="the sixth, still below ten minutes"),
        pytest.param(Failures(7, T0), 0, 600.0, id="never more than ten minutes"),
        pytest.param(Failures(1000, T0), 0, 600.0, id="however many"),
    ],
)
def test_the_wait_after_failures(failures: Failures, second: int, expected: float) -> None:
    """TestGetRemainingBackoffTime."""
    assert remaining(failures, at(second)) == expected
