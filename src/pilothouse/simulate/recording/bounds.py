"""The number of pods of a workload that have to be ready, by its update strategy and by PodDisruptionBudgets. Pure."""

from typing import NamedTuple

from pilothouse.api.policy import PodDisruptionBudgetSpec
from pilothouse.controllers.policy.disruption import decide
from pilothouse.machinery.int_or_percent import InvalidBound, scaled
from pilothouse.simulate.recording.views import Owner


class Demand(NamedTuple):
    """A minimum number of ready pods and its origin."""

    name: str
    least: int


def strategy_demand(kind: str, owner: Owner, desired: int) -> Demand | None:
    """The minimum that the update strategy of a Deployment, DaemonSet or StatefulSet guarantees during a rollout; None
    if there is none.

    With 10 replicas and ``maxUnavailable`` 25 % it is 8 for a Deployment and 7 for a DaemonSet, because they round
    differently upstream.
    """
    strategy = owner.spec.strategy if kind == "Deployment" else owner.spec.update_strategy
    if kind not in ("Deployment", "DaemonSet", "StatefulSet") or strategy is None or strategy.type != "RollingUpdate":
        return None
    rolling = strategy.rolling_update
    unavailable = rolling.max_unavailable if rolling is not None else None
    surge = rolling.max_surge if rolling is not None else None
    try:
        most = scaled(unavailable, desired, up=kind == "DaemonSet")
        if kind == "StatefulSet":
            most = max(1, most)
        elif most == 0 and scaled(surge, desired, up=True) == 0:
            most = 1
    except InvalidBound:
        return None
    limit = unavailable if isinstance(unavailable, str) else most
    return Demand(f"maxUnavailable {limit}", max(0, desired - most))


def budget_demand(name: str, spec: PodDisruptionBudgetSpec, desired: int) -> Demand | None:
    """The minimum that a PodDisruptionBudget requires of a workload of this size; None if it has no limit."""
    if spec.min_available is None and spec.max_unavailable is None:
        return None
    try:
        least = decide.expected_pod_count(spec, desired, desired).desired
    except InvalidBound:
        return None
    return Demand(f"PodDisruptionBudget {name}", least)
