"""ReplicaSet status.

Rows marked "upstream" are those of v1.36 ``pkg/controller/replicaset/replica_set_utils_test.go``.
"""

import msgspec
from tests.controllers.replicaset.builders import NOW, ago, pod, replica_set
from tests.tables import cases

from pilothouse.api.apps import ReplicaSetCondition, ReplicaSetStatus
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.replicaset.status import Failure, StatusCounts, count, encode, next_status

FULL = {"app": "web", "type": "production"}


@cases(
    "pods, min_ready_seconds, expected",
    {
        "no pods": ([], 0, StatusCounts()),
        "upstream: 1 fully labelled pod": (
            [pod("a", labels=FULL)],
            0,
            StatusCounts(active=1, fully_labeled=1, ready=1, available=1),
        ),
        "upstream: 2 not fully labelled pods": ([pod("a"), pod("b")], 0, StatusCounts(active=2, ready=2, available=2)),
        "upstream: 1 not fully labelled pod, 1 fully labelled (and more)": (
            [pod("a"), pod("b", labels={**FULL, "more": "yes"})],
            0,
            StatusCounts(active=2, fully_labeled=1, ready=2, available=2),
        ),
        "upstream: 1 non-ready pod": ([pod("a", labels=FULL, ready=False)], 0, StatusCounts(active=1, fully_labeled=1)),
        "upstream: 1 ready but non-available pod": (
            [pod("a", labels=FULL, ready_since=ago(seconds=3599))],
            3600,
            StatusCounts(active=1, fully_labeled=1, ready=1),
        ),
        "available from the very second on": (
            [pod("a", labels=FULL, ready_since=ago(seconds=3600))],
            3600,
            StatusCounts(active=1, fully_labeled=1, ready=1, available=1),
        ),
        "Ready without a transition time is not available": ([pod("a")], 1, StatusCounts(active=1, ready=1)),
    },
)
def test_count(pods: list[Pod], min_ready_seconds: int, expected: StatusCounts) -> None:
    counted = count(pods, terminating=0, template_labels=FULL, min_ready_seconds=min_ready_seconds, now=NOW)
    assert counted == expected


OTHER = ReplicaSetCondition(type="Other", status="True", reason="Whatever")
OLD_FAILURE = ReplicaSetCondition(
    type="ReplicaFailure", status="True", reason="FailedCreate", message="first", last_transition_time=ago(hours=1)
)


def failure(reason: str) -> ReplicaSetCondition:
    return ReplicaSetCondition(
        type="ReplicaFailure", status="True", reason=reason, message="oh", last_transition_time=NOW
    )


@cases(
    "conditions, failed, expected",
    {
        "upstream: no failure, no condition": ((), None, ()),
        "upstream: failed while pods were missing": ((OTHER,), Failure("oh", -1), (OTHER, failure("FailedCreate"))),
        "upstream: failed with too many pods": ((), Failure("oh", 1), (failure("FailedDelete"),)),
        "failed at the desired replicas: no reason": ((), Failure("oh", 0), (failure(""),)),
        "upstream: no failure: the condition is removed": ((OLD_FAILURE, OTHER), None, (OTHER,)),
        "upstream: fails again: message and time of the first": ((OLD_FAILURE,), Failure("oh", -1), (OLD_FAILURE,)),
    },
)
def test_conditions(
    conditions: tuple[ReplicaSetCondition, ...], failed: Failure | None, expected: tuple[ReplicaSetCondition, ...]
) -> None:
    owner = replica_set(2, conditions=conditions)
    assert next_status(owner, StatusCounts(), failed, NOW.replace(microsecond=999)).conditions == expected


def test_observed_generation_is_the_synced_one() -> None:
    owner = replica_set(3, generation=7)
    counts = StatusCounts(active=3, fully_labeled=2, ready=2, available=1, terminating=4)
    assert next_status(owner, counts, None, NOW) == ReplicaSetStatus(
        replicas=3,
        fully_labeled_replicas=2,
        ready_replicas=2,
        available_replicas=1,
        terminating_replicas=4,
        observed_generation=7,
    )


@cases(
    "status, expected",
    {
        # traces/01: the first status of a ReplicaSet without pods
        "zeros are omitted, except replicas and terminatingReplicas": (
            ReplicaSetStatus(terminating_replicas=0, observed_generation=1),
            {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1},
        ),
        "terminating pods that are not reported are not sent": (
            ReplicaSetStatus(replicas=2, observed_generation=1),
            {"replicas": 2, "observedGeneration": 1},
        ),
        "times are in whole seconds": (
            ReplicaSetStatus(conditions=(failure("FailedCreate"),)),
            {
                "replicas": 0,
                "conditions": [
                    {
                        "type": "ReplicaFailure",
                        "status": "True",
                        "reason": "FailedCreate",
                        "message": "oh",
                        "lastTransitionTime": "2026-01-01T12:00:00Z",
                    }
                ],
            },
        ),
    },
)
def test_encode(status: ReplicaSetStatus, expected: object) -> None:
    assert msgspec.json.decode(encode(status)) == expected
