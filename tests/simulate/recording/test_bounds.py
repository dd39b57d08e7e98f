"""How many pods have to be ready."""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.policy import PodDisruptionBudgetSpec
from pilothouse.simulate.recording import views
from pilothouse.simulate.recording.bounds import Demand, budget_demand, strategy_demand


def _owner(spec: dict[str, Any]) -> views.Owner:
    return msgspec.convert({"metadata": {}, "spec": spec}, views.Owner)


def _rolling(**bounds: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": bounds}


@cases(
    "kind, strategy, desired, expected",
    {
        "a Deployment rounds down": (
            *("Deployment", _rolling(maxUnavailable="25%", maxSurge="25%"), 10),
            Demand("maxUnavailable 25%", 8),
        ),
        "a DaemonSet rounds up": ("DaemonSet", _rolling(maxUnavailable="25%"), 10, Demand("maxUnavailable 25%", 7)),
        "maxUnavailable 0": (
            *("Deployment", _rolling(maxUnavailable=0, maxSurge=1), 3),
            Demand("maxUnavailable 0", 3),
        ),
        "maxUnavailable rounds to 0": (
            *("Deployment", _rolling(maxUnavailable="10%", maxSurge=0), 3),
            Demand("maxUnavailable 10%", 2),
        ),
        "StatefulSet: maxUnavailable 1": ("StatefulSet", _rolling(partition=0), 3, Demand("maxUnavailable 1", 2)),
        "maxUnavailable above replicas": ("Deployment", _rolling(maxUnavailable=5), 2, Demand("maxUnavailable 5", 0)),
        "Recreate": ("Deployment", {"type": "Recreate"}, 3, None),
        "OnDelete": ("DaemonSet", {"type": "OnDelete"}, 3, None),
        "a ReplicaSet has no strategy": ("ReplicaSet", _rolling(maxUnavailable=1), 3, None),
        "invalid percentage": ("Deployment", _rolling(maxUnavailable="many"), 3, None),
    },
)
def test_strategies(kind: str, strategy: dict[str, Any], desired: int, expected: Demand | None) -> None:
    field = "strategy" if kind == "Deployment" else "updateStrategy"
    assert strategy_demand(kind, _owner({field: strategy}), desired) == expected


@cases(
    "spec, expected",
    {
        "a number": (PodDisruptionBudgetSpec(min_available=2), Demand("PodDisruptionBudget a", 2)),
        "a share is rounded up": (PodDisruptionBudgetSpec(min_available="50%"), Demand("PodDisruptionBudget a", 4)),
        "maxUnavailable": (PodDisruptionBudgetSpec(max_unavailable=1), Demand("PodDisruptionBudget a", 6)),
        "neither minAvailable nor maxUnavailable": (PodDisruptionBudgetSpec(), None),
        "invalid percentage": (PodDisruptionBudgetSpec(min_available="most"), None),
    },
)
def test_budgets(spec: PodDisruptionBudgetSpec, expected: Demand | None) -> None:
    assert budget_demand("a", spec, 7) == expected
