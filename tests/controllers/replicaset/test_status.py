"""What a ReplicaSet reports.

Rows marked "upstream" are those of v1.36 ``pkg/controller/replicaset/replica_set_utils_test.go``.
"""

import msgspec
import pytest
from tests.controllers.replicaset.builders import NOW, ago, pod, replica_set

from pilothouse.api.apps import ReplicaSetCondition, ReplicaSetStatus
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.replicaset.status import Failure, StatusCounts, count, encode, next_status

FULL = {"app": "web", "type": "production"}


@pytest.mark.parametrize(
    ("pods", "min_ready_seconds", "expected"),
    [
        pytest.param([], 0, StatusCounts(), id="no pods"),
        pytest.param(
            [pod("a", labels=FULL)],
            0,
            StatusCounts(active=1, fully_labeled=1, ready=1, available=1),
            id="upstream: 1 fully labelled pod",
        ),
        pytest.param(
            [pod("a"), pod("b")],
            0,
            StatusCounts(active=2, ready=2, available=2),
            id="upstream: 2 not fully labelled pods",
        ),
        pytest.param(
            [pod("a"), pod("b", labels={**FULL, "more": "yes"})],
            0,
            StatusCounts(active=2, fully_labeled=1, ready=2, available=2),
            id="upstream: 1 not fully labelled pod, 1 fully labelled (and more)",
        ),
        pytest.param(
            [pod("a", labels=FULL, ready=False)],
            0,
            StatusCounts(active=1, fully_labeled=1),
            id="upstream: 1 non-ready pod",
        ),
        pytest.param(
            [pod("a", labels=FULL, ready_since=ago(seconds=3599))],
            3600,
            StatusCounts(active=1, fully_labeled=1, ready=1),
            id="upstream: 1 ready but non-available pod",
        ),
        pytest.param(
            [pod("a", labels=FULL, ready_since=ago(seconds=3600))],
            3600,
            StatusCounts(active=1, fully_labeled=1, ready=1, available=1),
            id="available from the very second on",
        ),
        pytest.param(
            [pod("a")], 1, StatusCounts(active=1, ready=1), id="ready since nobody knows when is not available"
        ),
    ],
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


@pytest.mark.parametrize(
    ("conditions", "failed", "expected"),
    [
        pytest.param((), None, (), id="upstream: no failure, no condition"),
        pytest.param(
            (OTHER,), Failure("oh", -1), (OTHER, failure("FailedCreate")), id="upstream: failed while pods were missing"
        ),
        pytest.param((), Failure("oh", 1), (failure("FailedDelete"),), id="upstream: failed with too many pods"),
        pytest.param((), Failure("oh", 0), (failure(""),), id="failed at the right number: no reason"),
        pytest.param((OLD_FAILURE, OTHER), None, (OTHER,), id="upstream: no failure any more: the condition goes"),
        pytest.param(
            (OLD_FAILURE,), Failure("oh", -1), (OLD_FAILURE,), id="upstream: fails again: message and time of the first"
        ),
    ],
)
def test_conditions(
    conditions: tuple[ReplicaSetCondition, ...], failed: Failure | None, expected: tuple[ReplicaSetCondition, ...]
) -> None:
    owner = replica_set(2, conditions=conditions)
    assert next_status(owner, StatusCounts(), failed, NOW.replace(microsecond=999)).conditions == expected


def test_the_status_is_about_the_synced_generation() -> None:
    owner = replica_set(3, generation=7)
    seen = StatusCounts(active=3, fully_labeled=2, ready=2, available=1, terminating=4)
    assert next_status(owner, seen, None, NOW) == ReplicaSetStatus(
        replicas=3,
        fully_labeled_replicas=2,
        ready_replicas=2,
        available_replicas=1,
        terminating_replicas=4,
        observed_generation=7,
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        # traces/01: the first status of a ReplicaSet without pods
        pytest.param(
            ReplicaSetStatus(terminating_replicas=0, observed_generation=1),
            {"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1},
            id="zeros are left out, but not replicas and terminatingReplicas",
        ),
        pytest.param(
            ReplicaSetStatus(replicas=2, observed_generation=1),
            {"replicas": 2, "observedGeneration": 1},
            id="terminating pods that are not reported are not sent",
        ),
        pytest.param(
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
            id="times have whole seconds",
        ),
    ],
)
def test_encode(status: ReplicaSetStatus, expected: object) -> None:
    assert msgspec.json.decode(encode(status)) == expected
