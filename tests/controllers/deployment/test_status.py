"""Deployment status and conditions.

Cases of ``TestSyncRolloutStatus``, ``TestRequeueStuckDeployment``, v1.36 ``progress_test.go``;
``TestDeploymentComplete``, ``TestDeploymentProgressing``, ``TestDeploymentTimedOut``, ``TestSetCondition``,
``TestRemoveCondition``, ``TestGetTerminatingReplicaCount…``, ``util/deployment_util_test.go``.
"""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.deployment.builders import at, deployment, progressing, replica_set
from tests.tables import cases

from pilothouse.api.apps import DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetCondition
from pilothouse.controllers.workloads.deployment.progress import (
    check_paused_conditions,
    deployment_complete,
    deployment_progressing,
    deployment_timed_out,
    seconds_to_deadline,
    with_condition,
)
from pilothouse.controllers.workloads.deployment.status import calculate_status, rollout_status, terminating
from pilothouse.machinery.conditions import find_condition


def counts(replicas: int, updated: int, ready: int, available: int) -> DeploymentStatus:
    return DeploymentStatus(
        replicas=replicas, updated_replicas=updated, ready_replicas=ready, available_replicas=available
    )


@cases(
    "desired_replicas, status, surge, unavailable, expected",
    {
        "not complete: one unavailable": (5, counts(5, 5, 4, 4), 0, 1, False),
        "complete": (5, counts(5, 5, 5, 5), 0, 1, True),
        "not complete: an old replica remains": (5, counts(6, 5, 5, 5), 1, 0, False),
        "not complete: one not updated": (5, counts(5, 4, 5, 5), 0, 1, False),
        "not complete: no replicas": (1, counts(0, 0, 0, 0), 1, 0, False),
        "complete: zero replicas": (0, counts(0, 0, 0, 0), 1, 0, True),
    },
)
def test_deployment_complete(
    desired_replicas: int, status: DeploymentStatus, surge: int, unavailable: int, expected: bool
) -> None:
    assert deployment_complete(deployment(desired_replicas, surge, unavailable), status) is expected


def test_older_observed_generation_is_not_complete() -> None:
    assert not deployment_complete(deployment(1, generation=2), replace(counts(1, 1, 1, 1), observed_generation=1))


@cases(
    "before, now, expected",
    {
        "more updated replicas": (counts(10, 4, 10, 10), counts(10, 6, 10, 10), True),
        "fewer old ones": (counts(10, 4, 10, 10), counts(9, 4, 10, 10), True),
        "more ready replicas": (counts(10, 4, 9, 9), counts(10, 4, 10, 9), True),
        "more available replicas": (counts(10, 4, 9, 8), counts(10, 4, 9, 9), True),
        "no change": (counts(10, 4, 9, 9), counts(10, 4, 9, 9), False),
        "fewer new ones, more old ones": (counts(10, 7, 9, 9), counts(10, 4, 9, 9), False),
        "fewer updated replicas": (counts(10, 4, 9, 9), counts(8, 2, 9, 9), False),
        "fewer ready and available": (counts(10, 4, 9, 9), counts(10, 4, 8, 8), False),
    },
)
def test_deployment_progressing(before: DeploymentStatus, now: DeploymentStatus, expected: bool) -> None:
    assert deployment_progressing(before, now) is expected


@cases(
    "condition, deadline, elapsed, expected",
    {
        "no condition": (None, 10, 100.0, False),
        "no deadline": (progressing("ReplicaSetUpdated"), None, 100.0, False),
        "deadline of MaxInt32": (progressing("ReplicaSetUpdated"), 2**31 - 1, 100.0, False),
        "within the deadline": (progressing("ReplicaSetUpdated"), 10, 9.0, False),
        "exactly at the deadline": (progressing("ReplicaSetUpdated"), 10, 10.0, False),
        "late": (progressing("ReplicaSetUpdated"), 10, 11.0, True),
        "complete": (progressing("NewReplicaSetAvailable"), 10, 100.0, False),
        "late once, late for good": (progressing("ProgressDeadlineExceeded", "False"), 10, 0.0, True),
        "late after a pause": (progressing("DeploymentResumed", "Unknown"), 10, 11.0, True),
    },
)
def test_deployment_timed_out(
    condition: DeploymentCondition | None, deadline: int | None, elapsed: float, expected: bool
) -> None:
    owner = deployment(progress_deadline_seconds=deadline)
    assert deployment_timed_out(owner, () if condition is None else (condition,), at(elapsed)) is expected


@cases(
    "condition, deadline, status, elapsed, expected",
    {
        "no condition": (None, 10, counts(3, 3, 0, 0), 0.0, None),
        "no deadline": (progressing("ReplicaSetUpdated"), None, counts(3, 3, 0, 0), 0.0, None),
        "complete": (progressing("ReplicaSetUpdated"), 10, counts(3, 3, 3, 3), 0.0, None),
        "late already": (progressing("ProgressDeadlineExceeded"), 10, counts(3, 3, 0, 0), 0.0, None),
        "the rest, and a second": (progressing("ReplicaSetUpdated"), 10, counts(3, 3, 0, 0), 4.0, 7.0),
        "below a second": (progressing("ReplicaSetUpdated"), 10, counts(3, 3, 0, 0), 9.6, 1.4),
        "complete: no timeout": (
            progressing("NewReplicaSetAvailable"),
            10,
            counts(3, 3, 0, 0),
            99.0,
            None,
        ),
    },
)
def test_requeue_stuck_deployment(
    condition: DeploymentCondition | None,
    deadline: int | None,
    status: DeploymentStatus,
    elapsed: float,
    expected: float | None,
) -> None:
    status = replace(status, conditions=() if condition is None else (condition,))
    owner = deployment(3, status=status, progress_deadline_seconds=deadline)
    result = seconds_to_deadline(owner, at(elapsed))
    assert result == (None if expected is None else pytest.approx(expected))


def test_unchanged_condition_is_kept() -> None:
    old = progressing("ReplicaSetUpdated", message="first")
    assert with_condition((old,), progressing("ReplicaSetUpdated", updated=9, message="second")) == (old,)


def test_changed_reason_keeps_the_transition_time() -> None:
    (condition,) = with_condition((progressing("A", since=1),), progressing("B", updated=9, since=9))
    assert (condition.reason, condition.last_update_time, condition.last_transition_time) == ("B", at(9), at(1))


def test_changed_status_sets_the_transition_time_and_moves_last() -> None:
    other = DeploymentCondition(type="Available", status="True")
    result = with_condition((progressing("A"), other), progressing("B", "False", updated=9, since=9))
    assert [item.type for item in result] == ["Available", "Progressing"]
    assert result[1].last_transition_time == at(9)


@cases(
    "paused, before, expected",
    {
        "paused": (True, progressing("ReplicaSetUpdated"), "DeploymentPaused"),
        "paused from the start": (True, None, "DeploymentPaused"),
        "paused still": (True, progressing("DeploymentPaused", "Unknown"), None),
        "resumed": (False, progressing("DeploymentPaused", "Unknown"), "DeploymentResumed"),
        "not paused": (False, progressing("ReplicaSetUpdated"), None),
        "exceeded: unchanged": (True, progressing("ProgressDeadlineExceeded", "False"), None),
    },
)
def test_paused_condition(paused: bool, before: DeploymentCondition | None, expected: str | None) -> None:
    status = DeploymentStatus(conditions=() if before is None else (before,))
    result = check_paused_conditions(deployment(paused=paused, progress_deadline_seconds=10, status=status), at(5))
    assert (None if result is None else result.reason) == expected
    assert result is None or result.status == "Unknown"


def test_no_paused_condition_without_a_progress_deadline() -> None:
    assert check_paused_conditions(deployment(paused=True), at(0)) is None


def report(*sets: ReplicaSet, new: ReplicaSet | None = None, elapsed: float = 0.0, **owner: Any) -> DeploymentStatus:
    everyone = [*sets, *([] if new is None else [new])]
    return rollout_status(deployment(**{"progress_deadline_seconds": 10, **owner}), new, everyone, at(elapsed))


def reason(status: DeploymentStatus, type_: str = "Progressing") -> str | None:
    condition = find_condition(status.conditions, type_)
    return None if condition is None else condition.reason


def full(name: str, size: int, **more: Any) -> ReplicaSet:
    """A ReplicaSet whose pods all exist and are available."""
    return replica_set(name, size, available=size, replicas=size, ready_replicas=size, **more)


def test_no_progressing_condition_without_a_progress_deadline() -> None:
    before = DeploymentStatus(conditions=(progressing("ReplicaSetUpdated"),))
    assert reason(report(new=full("a", 3), replicas=3, status=before, progress_deadline_seconds=None)) is None


def test_progressing_condition() -> None:
    before = DeploymentStatus(conditions=(progressing("ReplicaSetUpdated", since=-5),))
    status = report(replica_set("old", 1, replicas=1), new=full("a", 1), replicas=3, status=before, elapsed=7)
    condition = find_condition(status.conditions, "Progressing")
    assert condition is not None
    assert condition.message == 'ReplicaSet "a" is progressing.'
    assert (condition.last_update_time, condition.last_transition_time) == (at(7), at(-5))


def test_progressing_condition_without_a_new_replica_set() -> None:
    status = report(full("old", 1), replicas=3)
    condition = find_condition(status.conditions, "Progressing")
    assert condition is not None
    assert condition.message == 'Deployment "web" is progressing.'


def test_progressing_condition_after_the_deadline_was_exceeded() -> None:
    before = DeploymentStatus(conditions=(progressing("ProgressDeadlineExceeded", "False"),))
    status = report(new=full("a", 1), replicas=3, status=before, elapsed=70)
    condition = find_condition(status.conditions, "Progressing")
    assert condition is not None
    assert (condition.reason, condition.status, condition.last_transition_time) == ("ReplicaSetUpdated", "True", at(70))


def test_complete_condition() -> None:
    before = DeploymentStatus(conditions=(progressing("ReplicaSetUpdated"),))
    status = report(new=full("a", 3), replicas=3, status=before)
    condition = find_condition(status.conditions, "Progressing")
    assert condition is not None
    assert (condition.reason, condition.message) == (
        "NewReplicaSetAvailable",
        'ReplicaSet "a" has successfully progressed.',
    )


def test_deadline_exceeded_condition() -> None:
    before = replace(counts(1, 1, 0, 0), conditions=(progressing("ReplicaSetUpdated"),))
    status = report(new=replica_set("a", 1, replicas=1), replicas=3, status=before, elapsed=11)
    condition = find_condition(status.conditions, "Progressing")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "ProgressDeadlineExceeded")
    assert condition.message == 'ReplicaSet "a" has timed out progressing.'


def test_no_deadline_exceeded_without_a_rollout() -> None:
    before = replace(counts(3, 3, 3, 3), conditions=(progressing("NewReplicaSetAvailable"),))
    status = report(new=replica_set("a", 3, replicas=3), replicas=3, status=before, elapsed=11)
    assert find_condition(status.conditions, "Progressing") == before.conditions[0]
    assert reason(status, "Available") == "MinimumReplicasUnavailable"


def failing(name: str, message: str) -> ReplicaSet:
    failure = ReplicaSetCondition(
        type="ReplicaFailure", status="True", reason="FailedCreate", message=message, last_transition_time=at(3)
    )
    return replica_set(name, 1, conditions=(failure,))


def test_replica_failure_of_the_new_replica_set_comes_first() -> None:
    condition = find_condition(report(failing("old", "1"), new=failing("new", "2")).conditions, "ReplicaFailure")
    assert condition is not None
    assert (condition.message, condition.last_update_time, condition.last_transition_time) == ("2", at(3), at(3))


def test_replica_failure_of_an_old_replica_set_is_reported_and_removed() -> None:
    status = report(failing("old", "1"), new=full("new", 1))
    assert reason(status, "ReplicaFailure") == "FailedCreate"
    assert reason(report(new=full("new", 1), status=status), "ReplicaFailure") is None


@cases(
    "sets, expected",
    {
        "no ReplicaSets": ([], 0),
        "sum": ([replica_set("a", terminating_replicas=2), replica_set("b", terminating_replicas=1)], 3),
        "a new ReplicaSet has none": ([replica_set("a"), replica_set("b", terminating_replicas=1)], 1),
        "a ReplicaSet without the count: unknown": ([replica_set("a", observed_generation=1)], None),
    },
)
def test_terminating_replicas(sets: list[ReplicaSet], expected: int | None) -> None:
    assert terminating(sets) == expected


def test_status_replica_counts() -> None:
    owner = deployment(4, 1, 1, generation=7, status=DeploymentStatus(collision_count=2))
    new = replica_set("new", 3, available=1, replicas=2, ready_replicas=2)
    old = replica_set("old", 2, available=2, replicas=2, ready_replicas=2)
    status = calculate_status(owner, new, [old, new], at(0))
    assert replace(status, conditions=()) == DeploymentStatus(
        observed_generation=7,
        replicas=4,
        updated_replicas=2,
        ready_replicas=4,
        available_replicas=3,
        unavailable_replicas=2,
        terminating_replicas=0,
        collision_count=2,
    )
    assert reason(status, "Available") == "MinimumReplicasAvailable"
    assert calculate_status(owner, new, [old, new], at(0), report_terminating=False).terminating_replicas is None
