"""StatefulSet status.

Mirrors ``completeRollingUpdate`` and ``inconsistentStatus`` of v1.36 ``stateful_set_utils.go``, which have no tests of
their own, and what ``stateful_set_control_test.go`` counts.
"""

from typing import Any

import msgspec
import pytest
from tests.controllers.statefulset.builders import NEW, NOW, OLD, pod, pods, stateful_set
from tests.tables import cases

from pilothouse.controllers.workloads.statefulset.replicas import Rules, Tally, rules_of, split_replicas, tally
from pilothouse.controllers.workloads.statefulset.status import encode, next_status

RULES = Rules(name="web", desired=3)
SAME: dict[str, Any] = {
    "observedGeneration": 1,
    "replicas": 3,
    "readyReplicas": 3,
    "availableReplicas": 3,
    "currentReplicas": 2,
    "updatedReplicas": 1,
    "currentRevision": OLD,
    "updateRevision": NEW,
    "collisionCount": 0,
}
SEEN = Tally(replicas=3, ready=3, available=3, current=2, updated=1)


@cases(
    "states, counted",
    {
        "no pods": ([], Tally()),
        "one of each revision": (["+", "+o"], Tally(replicas=2, ready=2, available=2, current=1, updated=1)),
        "terminating pods have no revision": (["x", "xo"], Tally(replicas=2, ready=2, available=2)),
        "not ready": (["-", "p"], Tally(replicas=2, updated=2)),
        "a failed pod is counted": (["f"], Tally(replicas=1, updated=1)),
    },
)
def test_pods_are_counted(states: list[str], counted: Tally) -> None:
    assert tally(pods(*states), RULES, OLD, NEW, NOW) == counted


def test_available_replicas_respect_min_ready_seconds() -> None:
    result = [pod("web-0", since=5), pod("web-1", since=50)]
    counted = tally(result, Rules(name="web", min_ready_seconds=10), OLD, NEW, NOW)
    assert (counted.ready, counted.available) == (2, 1)


def test_ready_pod_that_is_not_running_is_not_counted() -> None:
    assert tally([pod("web-0", phase="Pending", ready=True)], RULES, OLD, NEW, NOW).ready == 0


def report(counts: Tally = SEEN, *, status: dict[str, Any] | None = None, rules: Rules = RULES, **more: Any) -> Any:
    owner = stateful_set(status=SAME if status is None else status)
    return next_status(owner, rules, counts, current=OLD, update=NEW, **{"collision_count": 0, **more})


def test_unchanged_status_is_not_written() -> None:
    assert report() is None
    assert report(collision_count=7) is None, "a collision alone is not told"
    assert report(status={**SAME, "observedGeneration": 2}) is None, "somebody has reported on a newer generation"


@pytest.mark.parametrize(
    "changed",
    ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"],
)
def test_changed_count_is_written(changed: str) -> None:
    assert report(status={**SAME, changed: 9}) is not None


@pytest.mark.parametrize("changed", ["currentRevision", "updateRevision"])
def test_changed_revision_is_written(changed: str) -> None:
    assert report(status={**SAME, changed: "other"}) is not None


def test_changed_generation_is_written() -> None:
    assert report(status={**SAME, "observedGeneration": 0}).observed_generation == 1


def test_fields_dropped_by_the_server_are_no_change() -> None:
    dropped = {name: value for name, value in SAME.items() if name != "availableReplicas"}
    assert report(status=dropped) is not None
    assert report(status=dropped, report_available=False) is None


DONE = Tally(replicas=3, ready=3, available=0, current=0, updated=3)


@cases(
    "counts, rules, current",
    {
        "all ready and updated": (DONE, RULES, NEW),
        "one not ready": (Tally(replicas=3, ready=2, updated=3), RULES, OLD),
        "one not updated": (Tally(replicas=3, ready=3, updated=2, current=1), RULES, OLD),
        "one too many": (Tally(replicas=4, ready=4, updated=4), RULES, OLD),
        "one missing": (Tally(replicas=2, ready=2, updated=2), RULES, OLD),
        "OnDelete is never complete": (DONE, Rules(name="web", desired=3, strategy="OnDelete"), OLD),
        "zero replicas: complete": (Tally(), Rules(name="web", desired=0), NEW),
    },
)
def test_complete_rolling_update(counts: Tally, rules: Rules, current: str) -> None:
    result = report(counts, rules=rules)
    assert result.current_revision == current
    assert result.current_replicas == (counts.updated if current == NEW else counts.current)


def test_deleted_current_pods_are_not_counted() -> None:
    assert report(replaced=1).current_replicas == 1


def test_other_status_fields_are_kept() -> None:
    before = b'{"replicas":9,"conditions":[{"type":"Mine"}],"newerThanUs":1.50,"currentReplicas":4}'
    body = encode(report(Tally(), collision_count=2), before)
    assert b'"newerThanUs":1.50' in body
    assert msgspec.json.decode(body) == {
        "conditions": [{"type": "Mine"}],
        "newerThanUs": 1.5,
        "observedGeneration": 1,
        "replicas": 0,
        "availableReplicas": 0,
        "currentRevision": OLD,
        "updateRevision": NEW,
        "collisionCount": 2,
    }


# Rules and places


@pytest.mark.parametrize(
    ("bound", "desired", "expected"),
    [(None, 10, 1), (3, 10, 3), ("25%", 10, 2), ("5%", 10, 1), ("100%", 10, 10), ("33%", 3, 1), ("10%", 0, 1)],
)
def test_max_unavailable_is_rounded_down_to_at_least_one(bound: int | str | None, desired: int, expected: int) -> None:
    """TestGetStatefulSetMaxUnavailable."""
    rolling = {"partition": 0} | ({} if bound is None else {"maxUnavailable": bound})
    owner = stateful_set(
        spec={"replicas": desired, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    )
    assert rules_of(owner, use_max_unavailable=True).max_unavailable == expected
    assert rules_of(owner, use_max_unavailable=False).max_unavailable is None


def test_rules_from_the_spec() -> None:
    assert rules_of(stateful_set(), use_max_unavailable=False) == Rules(name="web", strategy="", partition=None)
    spec = {
        "replicas": 4,
        "ordinals": {"start": 2},
        "podManagementPolicy": "Parallel",
        "minReadySeconds": 5,
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 3}},
    }
    assert rules_of(stateful_set(spec=spec), use_max_unavailable=True) == Rules(
        name="web",
        desired=4,
        start=2,
        ordered=False,
        min_ready_seconds=5,
        strategy="OnDelete",
        partition=3,
        max_unavailable=1,
    )


def test_replicas_and_condemned_pods() -> None:
    """TestAscendingOrdinal; the order of condemned pods."""
    result = [pod(name) for name in ("web-1", "web-10", "web-9", "web-01", "web-99999999999", "web-0")]
    replicas = split_replicas(result, Rules(name="web", desired=2), NOW)
    assert [slot.pod.metadata.name for slot in replicas.slots if slot.pod is not None] == ["web-0", "web-1"]
    assert [item.metadata.name for item in replicas.condemned] == ["web-10", "web-9"]
    assert replicas.first_unavailable == ""


def test_first_unavailable_pod() -> None:
    rules = Rules(name="web", desired=2)
    assert split_replicas(pods("+", "+", "-", "-"), rules, NOW).first_unavailable == "web-2"
    assert split_replicas(pods("+", ".", "-"), rules, NOW).first_unavailable == "web-1"
    assert split_replicas(pods("x", "-"), rules, NOW).first_unavailable == "web-0"
