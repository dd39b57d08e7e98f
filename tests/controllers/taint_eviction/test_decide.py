"""What tolerations come to. Rows mirror ``pkg/controller/tainteviction/taint_eviction_test.go`` of v1.36."""

import datetime

import msgspec
import pytest

from pilothouse.api.core import Node, NodeSpec, Taint, Toleration
from pilothouse.controllers.node.taint_eviction.decide import (
    Decision,
    EvictAfter,
    EvictNow,
    Stay,
    began_anew,
    decide_eviction,
    no_execute_taints,
)


def taint(number: int, effect: str = "NoExecute") -> Taint:
    return Taint(key=f"taint-{number}", value=f"value-{number}", effect=effect)


def tolerates(number: int, seconds: int | None = None) -> Toleration:
    return Toleration(key=f"taint-{number}", value=f"value-{number}", effect="NoExecute", toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param((), (), Stay(), id="no taints (TestCreatePod 'scheduled on untainted Node')"),
        pytest.param((1,), (), EvictNow(), id="not tolerated (TestCreatePod 'schedule on tainted Node')"),
        pytest.param(
            (1,), (tolerates(1, 100),), EvictAfter(100), id="for a time (TestCreatePod 'with finite toleration')"
        ),
        pytest.param((1,), (tolerates(1),), Stay(), id="for ever (TestCreatePod 'with infinite toleration')"),
        pytest.param(
            (1,), (tolerates(2),), EvictNow(), id="another is tolerated (TestCreatePod 'infinite invalid toleration')"
        ),
        pytest.param(
            (1, 2), (tolerates(1, 100),), EvictNow(), id="one of two (TestUpdateNode 'Only one added taint tolerated')"
        ),
        pytest.param(
            (1, 2),
            (tolerates(1, 1), tolerates(2, 100)),
            EvictAfter(1),
            id="the first that runs out counts (TestUpdateNode 'Pod with multiple tolerations…')",
        ),
        pytest.param(
            (1, 2),
            (tolerates(1), tolerates(2, 60)),
            EvictAfter(60),
            id="one for ever, one for a time (TestUpdateNodeWithMultipleTaints)",
        ),
        pytest.param(
            (1,), (tolerates(1, 2), tolerates(1, 1)), EvictAfter(2), id="the first that covers a taint counts"
        ),
        pytest.param((1,), (tolerates(1), tolerates(1, 1)), Stay(), id="also when it is for ever"),
        pytest.param((1,), (tolerates(1, 1), tolerates(1)), EvictAfter(1), id="and a later one for ever does not help"),
        pytest.param(
            (1, 2), (tolerates(1, 1), tolerates(2, 2)), EvictAfter(1), id="1 s and 2 s: 1 s (TestGetMinTolerationTime)"
        ),
        pytest.param(
            (1, 2), (tolerates(1, 1), tolerates(2)), EvictAfter(1), id="1 s, ever: 1 s (TestGetMinTolerationTime)"
        ),
        pytest.param(
            (1, 2), (tolerates(1), tolerates(2, 1)), EvictAfter(1), id="ever, 1 s: 1 s (TestGetMinTolerationTime)"
        ),
        pytest.param((1,), (tolerates(1, 0),), EvictAfter(0), id="zero seconds are over"),
        pytest.param((1,), (tolerates(1, -5),), EvictAfter(0), id="so are negative ones"),
        pytest.param((1, 2), (Toleration(operator="Exists"),), Stay(), id="whoever tolerates everything stays"),
    ],
)
def test_decision_for_a_pod(taints: tuple[int, ...], tolerations: tuple[Toleration, ...], expected: Decision) -> None:
    assert decide_eviction([taint(number) for number in taints], tolerations) == expected


def test_comparing_operators_are_behind_a_gate() -> None:
    """TestFilterNoExecuteTaints' neighbours for ``TaintTolerationComparisonOperators``."""
    tolerations = (Toleration(key="sla", operator="Gt", value="950", effect="NoExecute", toleration_seconds=60),)
    for value, expected in (("970", EvictAfter(60)), ("900", EvictNow())):
        taints = [Taint(key="sla", value=value, effect="NoExecute")]
        assert decide_eviction(taints, tolerations, comparison_operators=True) == expected
        assert decide_eviction(taints, tolerations) == EvictNow()


def test_only_no_execute_makes_pods_leave() -> None:
    """TestFilterNoExecuteTaints."""
    node = Node(spec=NodeSpec(taints=(taint(1), taint(2, "NoSchedule"), taint(3, "PreferNoSchedule"))))
    assert no_execute_taints(node) == (taint(1),)


def since(number: int, seconds: int | None) -> Taint:
    """A taint that says since when it is there, or not."""
    at = None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return msgspec.structs.replace(taint(number), time_added=at)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param((since(1, 0),), (since(1, 0),), False, id="there all along"),
        pytest.param((since(1, 0),), (since(1, 9),), True, id="off and on again"),
        pytest.param((since(1, 0), since(2, 0)), (since(1, 9), since(2, 0)), False, id="another has stayed"),
        pytest.param((since(1, 0),), (since(2, 9),), False, id="swapped for another: nothing says that it was off"),
        pytest.param((since(1, 0),), (since(2, 9), since(1, 9)), True, id="off, and on again with another"),
        pytest.param((since(1, None),), (since(1, None),), False, id="without times nobody knows"),
        pytest.param((since(1, None),), (since(1, 9),), False, id="nor with only one"),
        pytest.param((), (since(1, 9),), False, id="new"),
    ],
)
def test_whether_taints_began_anew(before: tuple[Taint, ...], now: tuple[Taint, ...], expected: bool) -> None:
    assert began_anew(before, now) is expected
