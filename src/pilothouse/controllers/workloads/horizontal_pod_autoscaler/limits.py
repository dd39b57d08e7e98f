"""Limits the recommended size: stabilization windows, policies, bounds. Pure but for ``RecentScaling``.

Upstream: ``normalizeDesiredReplicas`` and ``normalizeDesiredReplicasWithBehaviors`` of v1.36
``pkg/controller/podautoscaler/horizontal.go``.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.api.autoscaling import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.recent import RecentScaling

SCALE_UP_FACTOR = 2
SCALE_UP_MINIMUM = 4
"""Without ``spec.behavior`` one sync scales up to twice the size or to this, whichever is more (kubernetes#32304)."""

DISABLED, MIN = "Disabled", "Min"


class NormalizationArg(msgspec.Struct, frozen=True, kw_only=True):
    """Current and desired size, and the bounds."""

    current: int
    desired: int
    min_replicas: int
    max_replicas: int


class Normalized(msgspec.Struct, frozen=True):
    """A size, with the reason and message of its condition."""

    replicas: int
    reason: str
    message: str


class Limited(msgspec.Struct, frozen=True):
    """The size to set, with the conditions AbleToScale and ScalingLimited."""

    replicas: int
    stabilized: Normalized
    bounded: Normalized
    is_bounded: bool


_READY = ("ReadyForNewScale", "recommended size matches current size")
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_UP_LIMIT = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_DOWN_LIMIT = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")


def limit(
    arg: NormalizationArg,
    behavior: HorizontalPodAutoscalerBehavior | None,
    recent: RecentScaling,
    window: float,
    now: float,
) -> Limited:
    """The size to set. Records the recommendation. ``window`` is the default for scaling down."""
    if behavior is None:
        stabilized = stabilize_recommendation(arg, recent, window, now)
        bounded = convert_desired_replicas_with_rules(msgspec.structs.replace(arg, desired=stabilized.replicas))
    else:
        stabilized = stabilize_recommendation_with_behaviors(arg, behavior, recent, window, now)
        bounded = convert_desired_replicas_with_behavior_rate(
            msgspec.structs.replace(arg, desired=stabilized.replicas), behavior, recent, now
        )
    return Limited(bounded.replicas, stabilized, bounded, bounded.replicas != stabilized.replicas)


# Without a behavior


def stabilize_recommendation(arg: NormalizationArg, recent: RecentScaling, window: float, now: float) -> Normalized:
    """The highest recommendation of the window."""
    since = now - window
    highest = max(
        [
            arg.desired,
            *(recommendation.replicas for recommendation in recent.recommendations if recommendation.at >= since),
        ]
    )
    recent.recommend(arg.desired, now, since)
    return Normalized(highest, *(_READY if highest == arg.desired else _DOWN_STABILIZED))


def convert_desired_replicas_with_rules(arg: NormalizationArg) -> Normalized:
    """Within the bounds, and not more than doubled."""
    fastest = max(SCALE_UP_FACTOR * arg.current, SCALE_UP_MINIMUM)
    if arg.desired < arg.min_replicas:
        return Normalized(arg.min_replicas, *_TOO_FEW)
    if arg.desired > min(arg.max_replicas, fastest):
        return (
            Normalized(fastest, *_UP_LIMIT) if arg.max_replicas > fastest else Normalized(arg.max_replicas, *_TOO_MANY)
        )
    return Normalized(arg.desired, *_WITHIN)


# With a behavior


def stabilize_recommendation_with_behaviors(
    arg: NormalizationArg, behavior: HorizontalPodAutoscalerBehavior, recent: RecentScaling, window: float, now: float
) -> Normalized:
    """The current size, raised to the lowest recommendation of one window, lowered to the highest of the other."""
    up_since = now - _window(behavior.scale_up, 0.0)
    down_since = now - _window(behavior.scale_down, window)
    recommendations = recent.recommendations
    lowest = min(
        [arg.desired, *(recommendation.replicas for recommendation in recommendations if recommendation.at > up_since)]
    )
    highest = max(
        [
            arg.desired,
            *(recommendation.replicas for recommendation in recommendations if recommendation.at > down_since),
        ]
    )
    replicas = min(max(arg.current, lowest), highest)
    recent.recommend(arg.desired, now, min(up_since, down_since))
    if replicas == arg.desired:
        return Normalized(replicas, *_READY)
    return Normalized(replicas, *(_UP_STABILIZED if arg.desired >= arg.current else _DOWN_STABILIZED))


def _window(rules: HPAScalingRules | None, default: float) -> float:
    seconds = rules.stabilization_window_seconds if rules is not None else None
    return default if seconds is None else float(seconds)


def convert_desired_replicas_with_behavior_rate(
    arg: NormalizationArg, behavior: HorizontalPodAutoscalerBehavior, recent: RecentScaling, now: float
) -> Normalized:
    """The size within minReplicas, maxReplicas and the policies."""
    current = arg.current
    if arg.desired > current:
        # Policies that were changed after scaling up may allow less than the current size: then it stays.
        fastest = max(calculate_scale_up_limit_with_scaling_rules(current, behavior.scale_up, recent, now), current)
        if arg.desired > min(arg.max_replicas, fastest):
            return (
                Normalized(fastest, *_UP_LIMIT)
                if arg.max_replicas > fastest
                else Normalized(arg.max_replicas, *_TOO_MANY)
            )
    elif arg.desired < current:
        fastest = min(calculate_scale_down_limit_with_behaviors(current, behavior.scale_down, recent, now), current)
        if arg.desired < max(arg.min_replicas, fastest):
            return (
                Normalized(fastest, *_DOWN_LIMIT)
                if arg.min_replicas < fastest
                else Normalized(arg.min_replicas, *_TOO_FEW)
            )
    return Normalized(arg.desired, *_WITHIN)


def calculate_scale_up_limit_with_scaling_rules(
    current: int, rules: HPAScalingRules | None, recent: RecentScaling, now: float
) -> int:
    """The highest size that the policies allow. Example: six now, after four were added and two removed in the period:
    it started with four, and 300 % more are sixteen."""

    def reach(policy: HPAScalingPolicy) -> int:
        start = recent.replicas_before(current, policy.period_seconds, now)
        if policy.type == "Pods":
            return start + policy.value
        # Rounded up, so that a small workload can grow.
        return math.ceil(start * (1 + policy.value / 100))

    return _reach(current, rules, reach, widest=max, minimum_of=min)


def calculate_scale_down_limit_with_behaviors(
    current: int, rules: HPAScalingRules | None, recent: RecentScaling, now: float
) -> int:
    """The lowest size that the policies allow."""

    def reach(policy: HPAScalingPolicy) -> int:
        start = recent.replicas_before(current, policy.period_seconds, now)
        if policy.type == "Pods":
            return start - policy.value
        return int(start * (1 - policy.value / 100))

    return _reach(current, rules, reach, widest=min, minimum_of=max)


def _reach(
    current: int,
    rules: HPAScalingRules | None,
    reach: Callable[[HPAScalingPolicy], int],
    *,
    widest: Callable[[Sequence[int]], int],
    minimum_of: Callable[[Sequence[int]], int],
) -> int:
    if rules is None or rules.select_policy == DISABLED or not rules.policies:
        return current
    choose = minimum_of if rules.select_policy == MIN else widest
    return choose([reach(policy) for policy in rules.policies])
