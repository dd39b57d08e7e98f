"""Recent recommendations and scale events of an autoscaler. In memory only, as upstream.

Times are monotonic. The slot of an outdated entry is used again, so there are never more slots than syncs within the
longest window. Upstream: v1.36 ``pkg/controller/podautoscaler/horizontal.go``
(``timestampedRecommendation``, ``storeScaleEvent``).
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from pilothouse.api.autoscaling import HorizontalPodAutoscalerBehavior, HPAScalingRules


class Recommendation(msgspec.Struct, frozen=True):
    """A recommendation computed from the metrics, before stabilization and limits."""

    replicas: int
    at: float


class Change(msgspec.Struct, frozen=True):
    """A change of the size by this controller; ``replica_change`` is positive in both directions."""

    by: int
    at: float


class RecentScaling(msgspec.Struct, kw_only=True):
    """The recommendations and scale events of one autoscaler."""

    uid: str = ""
    recommendations: list[Recommendation] = []
    ups: list[Change] = []
    downs: list[Change] = []

    def record_initial_recommendation(self, replicas: int, now: float) -> None:
        """Record the current size before the first sync, so that a restart scales nothing down
        (kubernetes#68826)."""
        if not self.recommendations:
            self.recommendations.append(Recommendation(replicas, now))

    def recommend(self, replicas: int, now: float, outdated: float) -> None:
        """Record a recommendation. Entries older than ``outdated`` may be replaced."""
        _store(self.recommendations, Recommendation(replicas, now), outdated)

    def store_scale_event(
        self, behavior: HorizontalPodAutoscalerBehavior | None, old: int, new: int, now: float
    ) -> None:
        """Record a change of the size; without ``behavior`` it is not needed."""
        if behavior is None:
            return
        up = new > old
        rules = behavior.scale_up if up else behavior.scale_down
        _store(self.ups if up else self.downs, Change(abs(new - old), now), now - longest_policy_period(rules))

    def replicas_before(self, current: int, seconds: int, now: float) -> int:
        """The size ``seconds`` ago, if only this controller has changed it (``getReplicasChangePerPeriod``)."""
        since = now - seconds
        return current - _sum_since(self.ups, since) + _sum_since(self.downs, since)


def longest_policy_period(rules: HPAScalingRules | None) -> int:
    return max((policy.period_seconds for policy in rules.policies), default=0) if rules is not None else 0


def _sum_since(changes: Sequence[Change], since: float) -> int:
    return sum(change.by for change in changes if change.at > since)


E = TypeVar("E", Recommendation, Change)


def _store(entries: list[E], entry: E, outdated: float) -> None:
    slot = None
    for index, recorded in enumerate(entries):
        if recorded.at < outdated:
            slot = index
    if slot is None:
        entries.append(entry)
    else:
        entries[slot] = entry
