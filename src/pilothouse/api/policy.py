"""``policy/v1``: PodDisruptionBudgets."""

import datetime

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, LabelSelector, ObjectMeta, View


class PodDisruptionBudgetSpec(View, frozen=True):
    """The pods of the budget, and how many of them must be available or may be unavailable: a number, or a
    percentage as text. At most one of the two is set."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(View, frozen=True):
    """The number of allowed disruptions. ``disrupted_pods``, by name, were evicted but are not deleted yet."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, datetime.datetime] = {}
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, PodDisruptionBudget)
