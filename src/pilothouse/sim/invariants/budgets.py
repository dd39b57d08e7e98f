"""Invariants of evictions: PodDisruptionBudgets are respected."""

import asyncio

from pilothouse.api.core import Pod
from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.semantics.pods import is_ready
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change


class Budgets(Invariant):
    """A PodDisruptionBudget for all pods, of which ``least`` must be healthy.

    Checked at each eviction of a healthy pod: ``least`` pods must remain. Pods that were removed otherwise within
    ``lag`` seconds count as remaining, because a manager may not have observed that yet.
    """

    def __init__(self, *, least: int, lag: float = 60.0) -> None:
        self._least = least
        self._lag = lag
        self._pods = Objects("/pods/", Pod)
        self._budgets = Objects("policy/poddisruptionbudgets/", PodDisruptionBudget)
        self._lost: list[float] = []
        self.evicted = 0
        """The number of evicted healthy pods."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self._budgets.follow(change) and (update := self._pods.follow(change)):
            _key, old, new = update
            if old is None or not _is_healthy(old) or (new is not None and _is_healthy(new)):
                return
            now = asyncio.get_running_loop().time()
            if origin is None or origin.call.subresource != "eviction":
                self._lost.append(now)
                return
            self.evicted += 1
            self._lost = [lost_at for lost_at in self._lost if lost_at > now - self._lag]
            healthy = sum(1 for pod in self._pods.values() if _is_healthy(pod))
            if healthy + len(self._lost) < self._least:
                raise Violation(
                    f"{change.key} is evicted, {healthy} healthy pods are left, {self._least} must be: {origin}"
                )

    def check_final_state(self) -> None:
        """At the end the status of the budget is correct, with no disrupted pods."""
        healthy = sum(1 for pod in self._pods.values() if _is_healthy(pod))
        for key, budget in self._budgets.items():
            status = budget.status
            reported = (status.current_healthy, status.desired_healthy, status.disruptions_allowed)
            if reported != (healthy, self._least, max(0, healthy - self._least)):
                raise Violation(f"{key} reports {reported}, and {healthy} pods are healthy")
            if status.disrupted_pods or status.observed_generation != budget.metadata.generation:
                raise Violation(f"{key} is not up to date: {status}")


def _is_healthy(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and is_ready(pod)
