"""``policy/v1``: how many pods of an application may be missing at once."""

import datetime

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class PodDisruptionBudgetSpec(View, frozen=True):
    """Which pods it is about."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(View, frozen=True):
    """How many of them may go now. ``disrupted_pods`` are on their way out already, by name."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, datetime.datetime] = {}


class PodDisruptionBudget(View, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


POD_DISRUPTION_BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, PodDisruptionBudget)
