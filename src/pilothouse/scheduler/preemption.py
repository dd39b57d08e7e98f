"""Whom a pod may push aside, and on which node that hurts least. Decides; nothing is written here.

As kube-scheduler v1.36 (``pkg/scheduler/framework/preemption/preemption.go`` and
``plugins/defaultpreemption/default_preemption.go``): on every node where fewer pods would help, all pods of lower
priority are taken away in thought, and as many as possible put back, the most important first, those protected by a
PodDisruptionBudget before the others. Budgets are asked for, not obeyed: if there is no other way they are broken.
"""

import datetime
import random
from collections.abc import Mapping, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.controllers.shared.disruption import DISRUPTION_TARGET
from pilothouse.machinery.conditions import find_condition
from pilothouse.scheduler.placement import Placement, Placer
from pilothouse.scheduler.refusals import NO_VICTIMS, NOT_HELPFUL, Refusal, explain, tally
from pilothouse.scheduler.snapshot import NodeInfo, Placed
from pilothouse.scheduler.terms import understood
from pilothouse.scheduler.wish import Wish

BY_SCHEDULER = "PreemptionByScheduler"
_MIN_CANDIDATES = 100
_MIN_PERCENTAGE = 10
_PRIORITY_OFFSET = 1 << 31
"""Makes every priority positive when they are added up: many pods of negative priority are not better than few."""


class Victims(msgspec.Struct, frozen=True):
    """A node on which the pod would fit without these, the most important first."""

    info: NodeInfo
    pods: tuple[Placed, ...]
    violations: int


class Outcome(msgspec.Struct, frozen=True):
    """The best choice; or why there is none. ``keeps_nomination``: what the pod was promised earlier still stands."""

    victims: Victims | None = None
    message: str = ""
    keeps_nomination: bool = False


def preempt(
    placer: Placer,
    wish: Wish,
    placement: Placement,
    budgets: Sequence[PodDisruptionBudget],
    now: datetime.datetime,
    chance: random.Random,
) -> Outcome:
    """Whether the pod, for which there was no node, may push others aside."""
    why = _not_eligible(placer, wish, placement)
    if why:
        return Outcome(message=f"preemption: {why}", keeps_nomination=True)
    helpful = [info for info, refusal in zip(placement.infos, placement.refusals, strict=True) if not refusal.final]
    refusals: list[Refusal] = []
    candidates: list[Victims] = []
    if helpful:
        candidates, refusals = _candidates(placer, wish, helpful, budgets, now, chance)
    if candidates:
        return Outcome(victims=_least_harmful(candidates, now))
    counts = dict(tally(refusals))
    if placement.nodes > len(refusals):
        counts[NOT_HELPFUL] = placement.nodes - len(refusals)
    return Outcome(message=f"preemption: {explain(placement.nodes, counts)}")


def _not_eligible(placer: Placer, wish: Wish, placement: Placement) -> str:
    if wish.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    info = placer.snapshot.nodes.get(placer.snapshot.nomination(wish.key))
    if info is None:
        return ""
    judged = zip(placement.infos, placement.refusals, strict=True)
    if any(other is info and refusal.final for other, refusal in judged):
        return ""
    for placed in info.placed.values():
        if placed.wish.priority < wish.priority and leaves_for_another(placed.pod):
            # Its room comes anyway; pushing more pods aside meanwhile would be wanton.
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def leaves_for_another(pod: Pod) -> bool:
    """Whether the pod is being deleted to make room for another one."""
    if pod.metadata.deletion_timestamp is None:
        return False
    condition = find_condition(pod.status.conditions, DISRUPTION_TARGET)
    return condition is not None and condition.status == "True" and condition.reason == BY_SCHEDULER


def candidate_limit(nodes: int) -> int:
    """How many nodes to consider: a tenth, at least a hundred."""
    return min(nodes, max(nodes * _MIN_PERCENTAGE // 100, _MIN_CANDIDATES))


def _candidates(
    placer: Placer,
    wish: Wish,
    helpful: Sequence[NodeInfo],
    budgets: Sequence[PodDisruptionBudget],
    now: datetime.datetime,
    chance: random.Random,
) -> tuple[list[Victims], list[Refusal]]:
    """Nodes with their victims, those that break no budget first, and what spoke against the others.

    The search starts anywhere and ends with enough nodes, once one of them breaks no budget.
    """
    limit = candidate_limit(len(helpful))
    start = chance.randrange(len(helpful))
    kind: list[Victims] = []
    harsh: list[Victims] = []
    refusals: list[Refusal] = []
    guards = _Guards(budgets)
    for info in (*helpful[start:], *helpful[:start]):
        found = _victims_on(placer, wish, info, guards, now)
        if isinstance(found, Refusal):
            refusals.append(found)
            continue
        (harsh if found.violations else kind).append(found)
        if kind and len(kind) + len(harsh) >= limit:
            break
    return kind + harsh, refusals


def _victims_on(
    placer: Placer, wish: Wish, info: NodeInfo, guards: "_Guards", now: datetime.datetime
) -> Victims | Refusal:
    if min(info.priorities, default=wish.priority) >= wish.priority:
        return NO_VICTIMS
    lower = [placed for placed in info.placed.values() if placed.wish.priority < wish.priority]
    lower.sort(key=lambda placed: _importance(placed, now))
    gone = dict.fromkeys(lower)
    for placed in lower:
        placer.without(placed, info)
    try:
        refusal = placer.refusal(wish, info)
        if refusal is not None:
            return refusal
        protected, others = guards.split(lower)
        violations = 0
        for placed in (*protected, *others):
            placer.with_again(placed, info)
            if placer.refusal(wish, info) is None:
                del gone[placed]
            else:
                placer.without(placed, info)
                violations += placed in protected
    finally:
        victims = tuple(gone)
        for placed in victims:
            placer.with_again(placed, info)
    if not victims:
        return NO_VICTIMS
    return Victims(info, tuple(sorted(victims, key=lambda placed: _importance(placed, now))), violations)


def _importance(placed: Placed, now: datetime.datetime) -> tuple[int, datetime.datetime, str]:
    """Higher priority first, then who has run longer (``MoreImportantPod``); names make it certain."""
    return -placed.wish.priority, placed.pod.status.start_time or now, placed.key


class _Guards:
    """The budgets, and whom they protect."""

    def __init__(self, budgets: Sequence[PodDisruptionBudget]) -> None:
        self._budgets = [
            (budget, selector)
            for budget in budgets
            if not (selector := understood(budget.spec.selector)).empty and not selector.selects_nothing
        ]

    def split(self, pods: Sequence[Placed]) -> tuple[list[Placed], list[Placed]]:
        """Those that no budget would let go any more, and the others. Both keep their order."""
        if not self._budgets:
            return [], list(pods)
        allowed = [budget.status.disruptions_allowed for budget, _selector in self._budgets]
        protected: list[Placed] = []
        others: list[Placed] = []
        for placed in pods:
            labels, meta = placed.pod.metadata.labels, placed.pod.metadata
            violated = False
            for position, (budget, selector) in enumerate(self._budgets):
                if budget.metadata.namespace != meta.namespace or not labels or not selector.matches(labels):
                    continue
                # The API server has let it go already, and counted that.
                if meta.name in budget.status.disrupted_pods:
                    continue
                allowed[position] -= 1
                violated = violated or allowed[position] < 0
            (protected if violated else others).append(placed)
        return protected, others


def _least_harmful(candidates: Sequence[Victims], now: datetime.datetime) -> Victims:
    """The fewest broken budgets; then the lowest highest priority; the lowest sum; the fewest pods; those that began
    last (``pickOneNodeForPreemption``); then the first."""

    def harm(found: Victims) -> tuple[int, int, int, int, float]:
        priorities = [placed.wish.priority for placed in found.pods]
        highest = priorities[0]
        began = min(placed.pod.status.start_time or now for placed in found.pods if placed.wish.priority == highest)
        total = sum(priority + _PRIORITY_OFFSET for priority in priorities)
        return found.violations, highest, total, len(priorities), -began.timestamp()

    return min(candidates, key=harm)


def by_lower_priority(waiting: Mapping[str, Wish], wish: Wish) -> list[Wish]:
    """Those who wait for the same node and matter less: it is not theirs now (``getLowerPriorityNominatedPods``)."""
    return [other for other in waiting.values() if other.priority < wish.priority]
