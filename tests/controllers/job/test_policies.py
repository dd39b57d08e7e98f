"""Pod failure policy, success policy, and backoff.

Rows mirror ``pod_failure_policy_test.go``, ``success_policy_test.go`` and ``backoff_utils_test.go`` of v1.36
``pkg/controller/job``.
"""

import datetime

import pytest
from tests.controllers.job.builders import T0, at, ended, job, pod
from tests.controllers.job.observed import INDEXED, observed
from tests.tables import cases

from pilothouse.api.batch import (
    ExitCodesRequirement,
    PodConditionPattern,
    PodFailurePolicy,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from pilothouse.api.core import ContainerStatus, Pod, PodCondition
from pilothouse.controllers.workloads.job.backoff import (
    NONE,
    BackoffRecord,
    get_finished_time,
    get_remaining_time,
    new_backoff_record,
)
from pilothouse.controllers.workloads.job.decide import decide_ending, failure_counts, take_census
from pilothouse.controllers.workloads.job.indexes import Indexes
from pilothouse.controllers.workloads.job.pod_failure_policy import NO_RULE, PolicyMatch, match_pod_failure_policy
from pilothouse.controllers.workloads.job.success_policy import match_success_policy


def codes(action: str, operator: str, *values: int, container: str | None = None) -> PodFailurePolicyRule:
    requirement = ExitCodesRequirement(container_name=container, operator=operator, values=values)
    return PodFailurePolicyRule(action=action, on_exit_codes=requirement)


def condition(action: str, type_: str, status: str = "True") -> PodFailurePolicyRule:
    return PodFailurePolicyRule(action=action, on_pod_conditions=(PodConditionPattern(type=type_, status=status),))


EXIT_2 = pod("p", "Failed", containers=(ended("main", 2),))
EVICTED = pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="True"),))


def fails(text: str) -> PolicyMatch:
    return PolicyMatch(action="FailJob", message=text)


@cases(
    "rules, failed, expected",
    {
        "no rules": ([], EXIT_2, NO_RULE),
        "ignored": ([codes("Ignore", "In", 1, 2)], EXIT_2, PolicyMatch(counts=False, action="Ignore")),
        "In: no matching exit code": ([codes("Ignore", "In", 1, 3)], EXIT_2, NO_RULE),
        "NotIn: matching exit code": ([codes("Count", "NotIn", 1, 3)], EXIT_2, PolicyMatch(action="Count")),
        "NotIn: exit code listed": ([codes("Count", "NotIn", 2)], EXIT_2, NO_RULE),
        "NotIn: exit code 0": (
            [codes("FailJob", "NotIn", 5)],
            pod("p", "Failed", containers=(ended("main", 0),)),
            NO_RULE,
        ),
        "the Job fails": (
            [codes("FailJob", "In", 2)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 0"),
        ),
        "containerName does not match": ([codes("FailJob", "In", 2, container="other")], EXIT_2, NO_RULE),
        "an init container": (
            [codes("FailJob", "In", 5)],
            pod("p", "Failed", containers=(ended("main", 2),), init_containers=(ended("init", 5),)),
            fails("Container init for pod default/p failed with exit code 5 matching FailJob rule at index 0"),
        ),
        "first matching rule": (
            [condition("Ignore", "DisruptionTarget"), codes("FailJob", "In", 2)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 1"),
        ),
        "evicted": ([condition("Ignore", "DisruptionTarget")], EVICTED, PolicyMatch(counts=False, action="Ignore")),
        "different condition status": ([condition("Ignore", "DisruptionTarget", "False")], EVICTED, NO_RULE),
        "evicted, and the Job fails": (
            [condition("FailJob", "DisruptionTarget")],
            EVICTED,
            fails("Pod default/p has condition DisruptionTarget matching FailJob rule at index 0"),
        ),
        "the index fails": ([codes("FailIndex", "In", 2)], EXIT_2, PolicyMatch(action="FailIndex")),
        "evicted, and the index fails": (
            [condition("FailIndex", "DisruptionTarget")],
            EVICTED,
            PolicyMatch(action="FailIndex"),
        ),
        "evicted, action Count": ([condition("Count", "DisruptionTarget")], EVICTED, PolicyMatch(action="Count")),
        "an unknown action about exit codes is passed over": (
            [codes("Unknown", "In", 1, 2), codes("FailJob", "In", 2, 3)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 1"),
        ),
        "an unknown action about conditions is passed over": (
            [condition("Unknown", "DisruptionTarget"), condition("Ignore", "DisruptionTarget")],
            EVICTED,
            PolicyMatch(counts=False, action="Ignore"),
        ),
        "unknown operator": (
            [codes("Ignore", "Unknown", 1, 2), codes("FailJob", "In", 2, 3)],
            EXIT_2,
            fails("Container main for pod default/p failed with exit code 2 matching FailJob rule at index 1"),
        ),
        "containers that succeeded are passed over": (
            [codes("FailJob", "NotIn", 111)],
            pod(
                "p",
                "Failed",
                containers=(ended("main", 111), ended("support", 0)),
                init_containers=(ended("init", 0),),
            ),
            NO_RULE,
        ),
        "NotIn 0": (
            [codes("FailJob", "NotIn", 0)],
            pod("p", "Failed", containers=(ended("main", 1), ended("support", 0))),
            fails("Container main for pod default/p failed with exit code 1 matching FailJob rule at index 0"),
        ),
        "second rule matches": (
            [codes("Count", "In", 1, 2, 3), codes("FailJob", "In", 4, 5, 6)],
            pod("p", "Failed", containers=(ended("main", 6),)),
            fails("Container main for pod default/p failed with exit code 6 matching FailJob rule at index 1"),
        ),
        "a container that has not ended is passed over": (
            [codes("Count", "In", 1, 2, 3)],
            pod("p", "Failed", containers=(ContainerStatus(name="foo"), ended("bar", 2))),
            PolicyMatch(action="Count"),
        ),
        "condition status Unknown": (
            [condition("Ignore", "DisruptionTarget", "Unknown")],
            pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="Unknown"),)),
            PolicyMatch(counts=False, action="Ignore"),
        ),
        "condition status False": (
            [condition("Ignore", "DisruptionTarget", "False")],
            pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="False"),)),
            PolicyMatch(counts=False, action="Ignore"),
        ),
        "condition status False, True required": (
            [condition("Ignore", "DisruptionTarget")],
            pod("p", "Failed", conditions=(PodCondition(type="DisruptionTarget", status="False"),)),
            NO_RULE,
        ),
        "first of several matching rules": (
            [
                codes("Count", "NotIn", 8),
                codes("Ignore", "In", 1, 2, 3),
                codes("FailJob", "NotIn", 5, 6, 7),
                condition("Count", "ResourceLimitExceeded"),
                condition("Ignore", "DisruptionTarget"),
            ],
            pod("p", "Failed", containers=(ended("main", 32),)),
            PolicyMatch(action="Count"),
        ),
    },
)
def test_match_pod_failure_policy(rules: list[PodFailurePolicyRule], failed: Pod, expected: PolicyMatch) -> None:
    """TestMatchPodFailurePolicy."""
    assert match_pod_failure_policy(PodFailurePolicy(rules=tuple(rules)), failed) == expected


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("rule", [codes("FailIndex", "In", 2), condition("FailIndex", "DisruptionTarget")])
def test_fail_index_rule_ends_the_matching(rule: PodFailurePolicyRule, limit: int | None) -> None:
    """``matchPodFailurePolicy``, also of a Job that has no limit per index, and so no indexes that can fail."""
    failed = pod("p", "Failed", containers=EXIT_2.status.container_statuses, conditions=EVICTED.status.conditions)
    policy = PodFailurePolicy(rules=(rule, codes("Ignore", "In", 2), codes("FailJob", "In", 2)))
    assert match_pod_failure_policy(policy, failed) == PolicyMatch(action="FailIndex")
    assert match_pod_failure_policy(None, failed) == NO_RULE
    state = observed(job(**INDEXED, backoff_limit_per_index=limit, pod_failure_policy=policy), [failed])
    census = take_census(state)
    assert failure_counts(state.job, failed)
    assert decide_ending(state, census, None) is None


@cases(
    "rules, succeeded, expected",
    {
        "none succeeded": ([("0-2", None)], "", None),
        "some of succeededIndexes": ([("0-2", None)], "0,1", None),
        "all of succeededIndexes and others": ([("0-2", None)], "0-4", 0),
        "enough of them": ([("0-5", 2)], "1,4", 0),
        "other indexes are not counted": ([("0-5", 3)], "1,4,8,9", None),
        "enough of all": ([(None, 3)], "1,4,8", 0),
        "succeededCount not reached": ([(None, 4)], "1,4,8", None),
        "the second rule": ([("0,2", None), ("4", None)], "4", 1),
        "invalid rule is skipped": ([("a", None), (None, 1)], "4", 1),
        "across intervals": ([("1-3,5-9", None)], "0-6,7-9", 0),
        "no rules": ([], "0", None),
        "invalid succeededIndexes": ([("invalid-form", None)], "0", None),
        "an interval of two": ([("0-2", None)], "0-2,4-7", 0),
        "other index succeeded": ([("3", None)], "0-2", None),
        "second rule matches": ([("9", None), ("4,6", None)], "0-2,4-7", 1),
        "both rules match: the first": ([("0,1", None), ("5", None)], "0-2,4-7", 0),
        "succeededCount of an interval": ([("3-6", 2)], "0-2,4-7", 0),
        "succeededCount of an interval not reached": ([("3-6", 2)], "0-2,6,7", None),
        "succeededCount, none succeeded": ([(None, 4)], "", None),
        "a subset": ([("2-4,6-8", None)], "1-9", 0),
        "equal intervals": ([("2-4,6-9", None)], "2-4,6-9", 0),
        "an empty list": ([("", None)], "1-3", None),
        "empty succeededIndexes, none succeeded": ([("", None)], "", None),
        "beyond succeededIndexes": ([("10-12,14-16", None)], "1-3,5-7", None),
        "overlapping in front": ([("1-3,5-7", None)], "2-4,6-8", None),
        "overlapping in front, enough of them": ([("1-3,5-7", 4)], "2-4,6-8", 0),
        "overlapping behind": ([("2-4,6-9", None)], "1-3,5-7", None),
        "overlapping behind, enough of them": ([("2-4,6-9", 4)], "1-3,5-7", 0),
        "around": ([("0-4,6-9", None)], "1-3,7,8", None),
        "around, enough of them": ([("0-4,6-9", 5)], "1-3,7,8", 0),
        "overlapping two behind": ([("0-6,8-9", None)], "1-3,5-9", None),
        "overlapping two behind, enough of them": ([("0-6,8-9", 7)], "1-3,5-9", 0),
        "overlapping in front, the same behind": ([("0-5,7-9", None)], "1-5,7-9", None),
        "overlapping in front, the same behind, enough of them": ([("0-5,7-9", 8)], "1-5,7-9", 0),
        "two intervals in one, the first overlapping": ([("0-3,6-9", None)], "1-9", None),
        "two intervals in one, the first overlapping, succeededCount reached": ([("0-3,6-9", 7)], "1-9", 0),
    },
)
def test_match_success_policy(rules: list[tuple[str | None, int | None]], succeeded: str, expected: int | None) -> None:
    """TestMatchSuccessPolicy."""
    policy = SuccessPolicy(
        rules=tuple(SuccessPolicyRule(succeeded_indexes=indexes, succeeded_count=count) for indexes, count in rules)
    )
    assert match_success_policy(policy, 10, Indexes.parse(succeeded, 10)) == expected


@cases(
    "before, succeeded, failed, expected",
    {
        "no new pods": (BackoffRecord(2, at(5)), [], [], BackoffRecord(2, at(5))),
        "several failures": (NONE, [], [10, 12, 11], BackoffRecord(3, at(12))),
        "additional failure": (BackoffRecord(1, at(5)), [], [10], BackoffRecord(2, at(10))),
        "a success ends the row": (BackoffRecord(3, at(5)), [10], [], NONE),
        "only those after the success": (BackoffRecord(3, at(5)), [10], [9, 11, 12], BackoffRecord(2, at(12))),
        "failures before the success": (BackoffRecord(3, at(5)), [10], [9], NONE),
        "the first failure": (NONE, [], [10], BackoffRecord(1, at(10))),
        "earlier failures without time": (BackoffRecord(2), [], [10], BackoffRecord(3, at(10))),
        "failures, a success, failures": (NONE, [8], [10, 6, 7, 9], BackoffRecord(2, at(10))),
        "success and failure at once": (NONE, [10], [10], NONE),
        "a success": (NONE, [10], [], NONE),
        "no pods": (NONE, [], [], NONE),
    },
)
def test_backoff_record(
    before: BackoffRecord, succeeded: list[int], failed: list[int], expected: BackoffRecord
) -> None:
    """TestNewBackoffRecord."""
    good = [pod(f"s{second}", "Succeeded", finished=second) for second in succeeded]
    bad = [pod(f"f{second}", "Failed", finished=second) for second in failed]
    assert new_backoff_record(before, good, bad) == expected


@cases(
    "ended_pod, expected",
    {
        "last": (pod("p", "Failed", containers=(ended("a", 1, seconds=5), ended("b", 1, seconds=9))), at(9)),
        "Ready transition time": (
            pod("p", "Failed", containers=(ended("a", 1, seconds=5), ended("b", 1)), ready=False),
            T0,
        ),
        "deletionTimestamp": (pod("p", "Failed", deleted=30), at(30)),
        "deletionTimestamp minus the grace period": (pod("p", "Failed", deleted=30, grace=30), at(0)),
        "one container running: deletionTimestamp": (
            pod("p", "Failed", containers=(ended("a", 1, seconds=5), ContainerStatus(name="b")), deleted=7),
            at(7),
        ),
        "ready since is no end": (pod("p", "Failed", containers=(ended("a", 1),), ready=True, deleted=7), at(7)),
        "sidecar ends last": (
            pod(
                "p",
                "Failed",
                containers=(ended("a", 1, seconds=5),),
                init_containers=(ended("i", 0, seconds=9), ended("s", 0, seconds=8)),
                sidecars=("s",),
            ),
            at(8),
        ),
        "a container runs on, all sidecars have ended: the last of them": (
            pod(
                "p",
                "Failed",
                containers=(ended("a", 1, seconds=5), ContainerStatus(name="b")),
                init_containers=(ended("s", 0, seconds=8),),
                sidecars=("s",),
                deleted=30,
            ),
            at(8),
        ),
        "a sidecar runs on: to be deleted": (
            pod(
                "p",
                "Failed",
                containers=(ended("a", 1, seconds=5),),
                init_containers=(ContainerStatus(name="s"),),
                sidecars=("s",),
                deleted=30,
            ),
            at(30),
        ),
        "creationTimestamp": (pod("p", "Failed"), T0),
    },
)
def test_finished_time(ended_pod: Pod, expected: datetime.datetime) -> None:
    """TestGetFinishedTime."""
    assert get_finished_time(ended_pod) == expected


@cases(
    "failures, second, expected",
    {
        "no failures": (NONE, 0, 0.0),
        "the first": (BackoffRecord(1, T0), 0, 10.0),
        "the second, some time ago": (BackoffRecord(2, T0), 5, 15.0),
        "the third": (BackoffRecord(3, T0), 0, 40.0),
        "long enough ago": (BackoffRecord(1, T0), 11, 0.0),
        "the first, a second ago": (BackoffRecord(1, T0), 1, 9.0),
        "exactly long enough ago": (BackoffRecord(1, T0), 10, 0.0),
        "the sixth, still below ten minutes": (BackoffRecord(6, T0), 0, 320.0),
        "at most ten minutes": (BackoffRecord(7, T0), 0, 600.0),
        "very many failures": (BackoffRecord(1000, T0), 0, 600.0),
    },
)
def test_remaining_backoff_time(failures: BackoffRecord, second: int, expected: float) -> None:
    """TestGetRemainingBackoffTime."""
    assert get_remaining_time(failures, at(second)) == expected
