"""Eviction decisions by tolerations. Rows mirror ``pkg/controller/tainteviction/taint_eviction_test.go`` of v1.36."""

import datetime

import msgspec
from tests.tables import cases

from pilothouse.api.core import Node, NodeSpec, Taint, Toleration
from pilothouse.controllers.node.taint_eviction.decide import (
    Decision,
    EvictAfter,
    EvictNow,
    Stay,
    decide_eviction,
    no_execute_taints,
    taints_readded,
)


def taint(number: int, effect: str = "NoExecute") -> Taint:
    return Taint(key=f"taint-{number}", value=f"value-{number}", effect=effect)


def tolerates(number: int, seconds: int | None = None) -> Toleration:
    return Toleration(key=f"taint-{number}", value=f"value-{number}", effect="NoExecute", toleration_seconds=seconds)


@cases(
    "taints, tolerations, expected",
    {
        "no taints (TestCreatePod 'scheduled on untainted Node')": ((), (), Stay()),
        "not tolerated (TestCreatePod 'schedule on tainted Node')": ((1,), (), EvictNow()),
        "finite toleration (TestCreatePod 'with finite toleration')": ((1,), (tolerates(1, 100),), EvictAfter(100)),
        "infinite toleration (TestCreatePod 'with infinite toleration')": ((1,), (tolerates(1),), Stay()),
        "other toleration (TestCreatePod 'infinite invalid toleration')": ((1,), (tolerates(2),), EvictNow()),
        "one of two tolerated (TestUpdateNode 'Only one added taint tolerated')": (
            (1, 2),
            (tolerates(1, 100),),
            EvictNow(),
        ),
        "shortest toleration (TestUpdateNode 'Pod with multiple tolerations…')": (
            (1, 2),
            (tolerates(1, 1), tolerates(2, 100)),
            EvictAfter(1),
        ),
        "infinite and finite toleration (TestUpdateNodeWithMultipleTaints)": (
            (1, 2),
            (tolerates(1), tolerates(2, 60)),
            EvictAfter(60),
        ),
        "first matching toleration": ((1,), (tolerates(1, 2), tolerates(1, 1)), EvictAfter(2)),
        "first matching toleration is infinite": ((1,), (tolerates(1), tolerates(1, 1)), Stay()),
        "later infinite toleration is ignored": ((1,), (tolerates(1, 1), tolerates(1)), EvictAfter(1)),
        "1 s and 2 s: 1 s (TestGetMinTolerationTime)": ((1, 2), (tolerates(1, 1), tolerates(2, 2)), EvictAfter(1)),
        "1 s and infinite: 1 s (TestGetMinTolerationTime)": ((1, 2), (tolerates(1, 1), tolerates(2)), EvictAfter(1)),
        "infinite and 1 s: 1 s (TestGetMinTolerationTime)": ((1, 2), (tolerates(1), tolerates(2, 1)), EvictAfter(1)),
        "zero seconds": ((1,), (tolerates(1, 0),), EvictAfter(0)),
        "negative seconds": ((1,), (tolerates(1, -5),), EvictAfter(0)),
        "toleration of everything": ((1, 2), (Toleration(operator="Exists"),), Stay()),
    },
)
def test_eviction_decision(taints: tuple[int, ...], tolerations: tuple[Toleration, ...], expected: Decision) -> None:
    assert decide_eviction([taint(number) for number in taints], tolerations) == expected


def test_taint_toleration_comparison_operators_gate_in_decisions() -> None:
    """TestFilterNoExecuteTaints' neighbours for ``TaintTolerationComparisonOperators``."""
    tolerations = (Toleration(key="sla", operator="Gt", value="950", effect="NoExecute", toleration_seconds=60),)
    for value, expected in (("970", EvictAfter(60)), ("900", EvictNow())):
        taints = [Taint(key="sla", value=value, effect="NoExecute")]
        assert decide_eviction(taints, tolerations, comparison_operators=True) == expected
        assert decide_eviction(taints, tolerations) == EvictNow()


def test_only_no_execute_taints_evict() -> None:
    """TestFilterNoExecuteTaints."""
    node = Node(spec=NodeSpec(taints=(taint(1), taint(2, "NoSchedule"), taint(3, "PreferNoSchedule"))))
    assert no_execute_taints(node) == (taint(1),)


def since(number: int, seconds: int | None) -> Taint:
    """A taint with or without timeAdded."""
    at = None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return msgspec.structs.replace(taint(number), time_added=at)


@cases(
    "before, now, expected",
    {
        "no change": ((since(1, 0),), (since(1, 0),), False),
        "removed and re-added": ((since(1, 0),), (since(1, 9),), True),
        "another taint unchanged": ((since(1, 0), since(2, 0)), (since(1, 9), since(2, 0)), False),
        "another taint instead": ((since(1, 0),), (since(2, 9),), False),
        "removed and re-added with another": ((since(1, 0),), (since(2, 9), since(1, 9)), True),
        "no timeAdded": ((since(1, None),), (since(1, None),), False),
        "one without timeAdded": ((since(1, None),), (since(1, 9),), False),
        "new": ((), (since(1, 9),), False),
    },
)
def test_taints_were_readded(before: tuple[Taint, ...], now: tuple[Taint, ...], expected: bool) -> None:
    assert taints_readded(before, now) is expected
