"""Stabilization windows, scaling policies and bounds.

The rows mirror v1.36 ``pkg/controller/podautoscaler/horizontal_test.go`` (``TestConvertDesiredReplicasWithRules``,
``TestNormalizeDesiredReplicas``, ``TestScalingWithRules``, ``TestStoreScaleEvents``,
``TestNormalizeDesiredReplicasWithBehavior``).
"""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.horizontal_pod_autoscaler.builders import behavior, recent, rules, spread
from tests.tables import cases

from pilothouse.api.autoscaling import HPAScalingRules
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.limits import (
    NormalizationArg,
    calculate_scale_down_limit_with_behaviors,
    calculate_scale_up_limit_with_scaling_rules,
    convert_desired_replicas_with_behavior_rate,
    convert_desired_replicas_with_rules,
    limit,
    stabilize_recommendation,
    stabilize_recommendation_with_behaviors,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.recent import Change, RecentScaling

NOW = 10_000.0
MINUTE = 60.0


def arg(current: int, desired: int, least: int = 1, most: int = 1000) -> NormalizationArg:
    return NormalizationArg(current=current, desired=desired, min_replicas=least, max_replicas=most)


@cases(
    "desired, replicas, reason",
    {
        "within the range": (arg(5, 7, 3, 8), 7, "DesiredWithinRange"),
        "below the minimum": (arg(3, 1, 2, 8), 2, "TooFewReplicas"),
        "minReplicas 0": (arg(1, 0, 0, 10), 0, "DesiredWithinRange"),
        "above the maximum": (arg(20, 1000, 1, 10), 10, "TooManyReplicas"),
        "scale-up limit: double": (arg(3, 1000, 1, 2000), 6, "ScaleUpLimit"),
        "scale-up limit: four": (arg(1, 1000, 1, 2000), 4, "ScaleUpLimit"),
    },
)
def test_convert_desired_replicas_with_rules(desired: NormalizationArg, replicas: int, reason: str) -> None:
    result = convert_desired_replicas_with_rules(desired)
    assert (result.replicas, result.reason) == (replicas, reason)


@cases(
    "known, desired, replicas, left",
    {
        "empty log": ([], 5, 5, 1),
        "the highest of the window": ([(4, 120), (5, 60)], 3, 5, 3),
        "lower recommendations are ignored": ([(1, 120), (2, 60)], 3, 3, 3),
        "expired recommendation is replaced": ([(10, 600), (9, 540)], 3, 3, 2),
        "older and newer ones, in any order": ([(10, 600), (4, 60), (5, 120), (9, 540)], 3, 5, 4),
    },
)
def test_stabilization_window_without_behavior(
    known: list[tuple[int, float]], desired: int, replicas: int, left: int
) -> None:
    memory = recent(*known, now=NOW)
    result = stabilize_recommendation(arg(100, desired), memory, 300.0, NOW)
    assert result.replicas == replicas
    assert result.reason == ("ReadyForNewScale" if replicas == desired else "ScaleDownStabilized")
    assert len(memory.recommendations) == left


UP_15, DOWN_15 = [1, 5, 9], [1, 5, 9]
FORTY = [8, 12, 9, 11]


def case(
    current: int,
    desired: int,
    replicas: int,
    reason: str,
    *,
    least: int = 1,
    most: int = 1000,
    up: HPAScalingRules | None = None,
    down: HPAScalingRules | None = None,
    ups: list[int] | None = None,
    downs: list[int] | None = None,
    id: str,  # noqa: A002  # as pytest.param has it
) -> Any:
    memory = recent(ups=spread(ups or [], 120, NOW), downs=spread(downs or [], 120, NOW))
    return pytest.param(arg(current, desired, least, most), up, down, memory, replicas, reason, id=id)


@pytest.mark.parametrize(
    ("desired", "up", "down", "memory", "replicas", "reason"),
    [
        case(5, 7, 7, "DesiredWithinRange", least=3, most=8, id="within the range"),
        case(3, 1, 2, "TooFewReplicas", least=2, most=8, id="below the minimum"),
        case(1, 0, 0, "DesiredWithinRange", least=0, most=10, id="minReplicas 0"),
        case(20, 1000, 10, "TooManyReplicas", most=10, id="above the maximum, which is less than the policies allow"),
        case(100, 1000, 150, "TooManyReplicas", least=100, most=150, id="above the maximum"),
        case(3, 1000, 4, "ScaleUpLimit", most=2000, up=rules(None, (1, 60)), id="a percent of three is one"),
        case(1000, 3, 980, "ScaleDownLimit", least=3, most=2000, down=rules((20, 60)), id="twenty at a time, down"),
        case(10, 50, 20, "ScaleUpLimit", id="up by default: twice"),
        case(10, 500, 110, "ScaleUpLimit", up=rules((100, 60), (100, 60)), id="up: the larger policy, of pods"),
        case(10, 500, 20, "ScaleUpLimit", up=rules((2, 60), (100, 60)), id="up: the larger policy, of percent"),
        case(10, 50, 50, "DesiredWithinRange", up=rules((100, 60)), id="up: a large policy of pods"),
        case(10, 50, 50, "DesiredWithinRange", up=rules((10000, 60)), id="up: a huge policy of pods"),
        case(10, 50, 40, "ScaleUpLimit", up=rules((30, 60)), id="up: thirty at a time"),
        case(10, 50, 30, "ScaleUpLimit", up=rules(None, (200, 60)), id="up: to three times"),
        case(100, 2, 80, "ScaleDownLimit", down=rules((20, 60), (1, 60)), id="down: the larger policy, of pods"),
        case(100, 2, 98, "ScaleDownLimit", down=rules((2, 60), (1, 60)), id="down: the larger policy, by one pod"),
        case(10, 0, 1, "TooFewReplicas", down=rules((100, 60)), id="down: a large policy of pods"),
        case(10, 2, 5, "TooFewReplicas", least=5, down=rules(None, (100, 60)), id="down: all, to the minimum"),
        case(10, 2, 5, "ScaleDownLimit", down=rules((5, 60)), id="down: five at a time"),
        case(10, 5, 5, "DesiredWithinRange", down=rules(None, (50, 60)), id="down: 50 % allowed"),
        case(
            100, 500, 200, "TooManyReplicas", most=200, up=rules((300, 60)), ups=UP_15, id="up, after rises: the most"
        ),
        case(
            100,
            500,
            200,
            "TooManyReplicas",
            most=200,
            up=rules(None, (10000, 60)),
            ups=UP_15,
            id="up after scale-up events: percent policy",
        ),
        case(100, 500, 100, "ScaleUpLimit", up=rules((5, 120)), ups=UP_15, id="up: events above the policy"),
        case(100, 500, 235, "ScaleUpLimit", up=rules((150, 120)), ups=UP_15, id="up: from where the period began"),
        case(100, 500, 255, "ScaleUpLimit", up=rules(None, (200, 120)), ups=UP_15, id="up: percent of that"),
        case(6, 24, 16, "ScaleUpLimit", up=rules(None, (300, 300)), ups=[4], downs=[2], id="up, after both"),
        case(10, 5, 5, "DesiredWithinRange", downs=DOWN_15, id="down by default, after falls"),
        case(100, 0, 1, "TooFewReplicas", down=rules((115, 120)), downs=DOWN_15, id="down, after falls: the least"),
        case(100, 0, 5, "TooFewReplicas", least=5, down=rules((130, 120)), downs=DOWN_15, id="the least is five"),
        case(
            100, 2, 5, "TooFewReplicas", least=5, down=rules(None, (100, 120)), downs=DOWN_15, id="down to minReplicas"
        ),
        case(100, 2, 100, "ScaleDownLimit", down=rules((5, 120)), downs=DOWN_15, id="down: events above the policy"),
        case(
            100,
            0,
            56,
            "ScaleDownLimit",
            down=rules(None, (50, 120)),
            downs=[2, 4, 6],
            id="down: 50 % of the replicas at the start of the period",
        ),
        case(10, 1, 6, "ScaleDownLimit", down=rules(None, (50, 180)), ups=[2], downs=[4], id="down, after both"),
        case(
            100,
            0,
            100,
            "ScaleDownLimit",
            down=rules(None, (10, 120)),
            downs=[10] * 3,
            id="down: more events than replicas",
        ),
        case(10, 5, 5, "DesiredWithinRange", down=rules(None, (1000, 120)), downs=[10] * 3, id="negative is zero"),
        case(100, 200, 200, "DesiredWithinRange", up=rules((1000, 60)), ups=FORTY, id="up: expired events"),
        case(100, 200, 200, "DesiredWithinRange", up=rules((1000, 120), (100, 60)), ups=FORTY, id="up: two periods"),
        case(100, 200, 200, "DesiredWithinRange", up=rules((1000, 30), (100, 60)), ups=FORTY, id="shorter ones, up"),
        case(100, 5, 5, "DesiredWithinRange", down=rules((1000, 60)), downs=FORTY, id="down: expired events"),
        case(100, 5, 5, "DesiredWithinRange", down=rules((1000, 120), (100, 60)), downs=FORTY, id="down: two periods"),
        case(100, 5, 5, "DesiredWithinRange", down=rules((1000, 30), (100, 60)), downs=FORTY, id="shorter ones, down"),
        case(10, 20, 10, "ScaleUpLimit", up=rules((9, 60), select_policy="Disabled"), id="up is switched off"),
        case(10, 2, 10, "ScaleDownLimit", down=rules((9, 60), select_policy="Disabled"), id="down is switched off"),
    ],
)
def test_scaling_policies(
    desired: NormalizationArg,
    up: HPAScalingRules | None,
    down: HPAScalingRules | None,
    memory: RecentScaling,
    replicas: int,
    reason: str,
) -> None:
    result = convert_desired_replicas_with_behavior_rate(desired, behavior(up, down), memory, NOW)
    assert (result.replicas, result.reason) == (replicas, reason)


def test_select_policy_min() -> None:
    """TestCalculateScaleUpLimitWithScalingRules, TestCalculateScaleDownLimitWithBehaviors."""
    slow = rules((2, 60), (50, 60), select_policy="Min")
    assert calculate_scale_up_limit_with_scaling_rules(1, slow, recent(), NOW) == 2
    assert calculate_scale_down_limit_with_behaviors(5, slow, recent(), NOW) == 3


BOTH = rules((10, 60), (100, 60))


@cases(
    "known, by, counted, left",
    {
        "no policies, no events": ([], None, 0, []),
        "the first": ([], BOTH, 0, [5]),
        "no policies: events are kept": ([(7, 61)], None, 0, [7]),
        "expired event is replaced": ([(7, 61)], BOTH, 0, [5]),
        "current event is kept": ([(7, 58)], BOTH, 7, [7, 5]),
        "one of two expired": ([(7, 61), (6, 59)], rules((10, 60)), 6, [5, 6]),
        "the longest period decides, and the last slot is used": (
            [(8, 29), (6, 59), (7, 61), (9, 61)],
            rules((10, 60), (100, 30)),
            14,
            [8, 6, 7, 5],
        ),
        "two current events": ([(7, 58), (6, 59)], rules((10, 120), (100, 30)), 13, [7, 6, 5]),
    },
)
@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
def test_store_scale_events(
    known: list[tuple[int, float]], by: HPAScalingRules | None, counted: int, left: list[int], up: bool
) -> None:
    changes = [Change(event, NOW - seconds) for event, seconds in known]
    memory = recent(ups=changes) if up else recent(downs=changes)
    assert memory.replicas_before(100, 60, NOW) == 100 - counted * (1 if up else -1)
    rule = None if by is None else behavior(by, by)
    memory.store_scale_event(rule, 10, 15 if up else 5, NOW)
    assert [item.by for item in (memory.ups if up else memory.downs)] == left


def windows(up: int = 0, down: int = 0) -> Any:
    return behavior(
        rules((4, 15), stabilization_window_seconds=up), rules(None, (100, 15), stabilization_window_seconds=down)
    )


@cases(
    "known, current, desired, window, replicas, left",
    {
        "empty": ([], 100, 5, windows(), 5, [5]),
        "down: the highest": ([(4, 120), (5, 60)], 100, 3, windows(down=180), 5, [4, 5, 3]),
        "up: the lowest": ([(4, 120), (5, 60)], 1, 7, windows(up=300), 4, [4, 5, 7]),
        "down: no scale-up window": ([(1, 120), (2, 60)], 100, 3, windows(up=300), 3, [1, 2, 3]),
        "up: no scale-down window": ([(4, 120), (5, 60)], 1, 3, windows(down=300), 3, [4, 5, 3]),
        "down: a slot is used again": ([(10, 600), (9, 540)], 100, 3, windows(), 3, [10, 3]),
        "up: a slot is used again": ([(10, 600), (9, 540)], 1, 100, windows(), 100, [10, 100]),
        "down, in any order": ([(10, 600), (4, 60), (5, 120), (9, 540)], 100, 3, windows(down=180), 5, [10, 4, 5, 3]),
        "up, in any order": ([(10, 6000), (6, 60), (5, 120), (9, 180)], 1, 100, windows(up=300), 5, [100, 6, 5, 9]),
        "both windows: not above the current replicas": ([(2, 6000), (3, 180)], 2, 1, windows(300, 300), 2, [1, 3]),
        "both windows: not below the current replicas": ([(2, 6000), (1, 180)], 2, 3, windows(300, 300), 2, [3, 1]),
    },
)
def test_stabilization_windows_with_behavior(
    known: list[tuple[int, float]], current: int, desired: int, window: Any, replicas: int, left: list[int]
) -> None:
    memory = recent(*known, now=NOW)
    result = stabilize_recommendation_with_behaviors(arg(current, desired), window, memory, 300.0, NOW)
    assert result.replicas == replicas
    assert [recommendation.replicas for recommendation in memory.recommendations] == left
    if replicas != desired:
        assert result.reason == ("ScaleUpStabilized" if desired >= current else "ScaleDownStabilized")


def test_scale_down_window_defaults_to_the_flag() -> None:
    """``maybeInitScaleDownStabilizationWindow``."""
    memory = recent((9, 299), now=NOW)
    assert stabilize_recommendation_with_behaviors(arg(9, 2), behavior(), memory, 300.0, NOW).replicas == 9
    assert (
        stabilize_recommendation_with_behaviors(arg(9, 2), behavior(), recent((9, 299), now=NOW), 100.0, NOW).replicas
        == 2
    )


def test_bounds_are_compared_with_the_stabilized_recommendation() -> None:
    """Upstream compares with the stabilized recommendation, so a delayed scale down is not reported as limited."""
    result = limit(arg(4, 1), None, recent((4, 60), now=NOW), 300.0, NOW)
    assert (result.replicas, result.stabilized.reason, result.is_bounded) == (4, "ScaleDownStabilized", False)
    assert result.bounded.reason == "DesiredWithinRange"


_sizes = st.integers(0, 40)
_rules = st.builds(
    lambda pods, percent, select, window: rules(
        pods, percent, select_policy=select, stabilization_window_seconds=window
    ),
    st.tuples(st.integers(1, 20), st.integers(1, 120)),
    st.one_of(st.none(), st.tuples(st.integers(1, 200), st.integers(1, 120))),
    st.sampled_from(["Max", "Min", "Disabled"]),
    st.integers(0, 120),
)


@given(
    bounds=st.tuples(st.integers(1, 20), st.integers(0, 20)),
    wishes=st.lists(st.tuples(_sizes, st.integers(1, 60)), min_size=1, max_size=30),
    by=st.one_of(st.none(), st.tuples(_rules, _rules)),
)
def test_bounds_and_policies_hold_for_any_recommendations(
    bounds: tuple[int, int], wishes: list[tuple[int, int]], by: tuple[HPAScalingRules, HPAScalingRules] | None
) -> None:
    """Never out of bounds once within them, and never faster than the policies, checked afterwards."""
    least, most = bounds[0], sum(bounds)
    memory, now, current = recent(), 0.0, least
    chosen = None if by is None else behavior(*by)
    sizes = [(now, current)]
    memory.record_initial_recommendation(current, now)
    for desired, pause in wishes:
        now += pause
        result = limit(arg(current, desired, least, most), chosen, memory, 300.0, now).replicas
        assert least <= result <= most
        if result != current:
            memory.store_scale_event(chosen, current, result, now)
            if chosen is None:
                assert result <= max(2 * current, 4)
            elif result > current:
                assert result <= max(_reach(sizes, now, chosen.scale_up, 1), current)
            else:
                assert result >= min(_reach(sizes, now, chosen.scale_down, -1), current)
        current = result
        sizes.append((now, current))


def _reach(sizes: list[tuple[float, int]], now: float, rule: HPAScalingRules | None, direction: int) -> float:
    """The limit by policies, from the actual sizes."""
    assert rule is not None, "both directions have rules"
    assert rule.select_policy != "Disabled", "it did not stay where it was"
    reaches = []
    for policy in rule.policies:
        before = [size for at, size in sizes if at <= now - policy.period_seconds]
        start = before[-1] if before else sizes[0][1]
        step = policy.value if policy.type == "Pods" else start * policy.value / 100
        end = start + direction * step
        reaches.append(math.ceil(end) if direction > 0 else math.trunc(end))
    widest = (max if direction > 0 else min)(reaches)
    narrowest = (min if direction > 0 else max)(reaches)
    return narrowest if rule.select_policy == "Min" else widest
