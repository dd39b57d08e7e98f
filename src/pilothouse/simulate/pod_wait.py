"""The wait of a pod to be ready, as in results, reports and budgets."""

import msgspec

from pilothouse.simulate.scenario.scalars import shown_seconds


class PodWait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long a pod waited to be ready for the first time, and the causes."""

    pod: str
    """``NAMESPACE/NAME``."""
    node: str
    """Empty if it was not scheduled."""
    seconds: float
    outcome: str
    """How the wait ended: ``ready``, ``marked for deletion``, ``failed``, ``removed``, or ``the end`` of the run."""
    waited_for: str

    @property
    def ended(self) -> str:
        """Whether it became ready, or else how the wait ended."""
        if self.outcome == "ready":
            return "ready"
        outcome_text = {"the end": "the end of the run", "failed": "it failed"}.get(
            self.outcome, f"it was {self.outcome}"
        )
        return f"not ready until {outcome_text}"

    def __str__(self) -> str:
        node_text = f" on {self.node}" if self.node else ""
        return f"{self.pod}{node_text}: {self.ended}, after {shown_seconds(round(self.seconds, 2))}: {self.waited_for}"
