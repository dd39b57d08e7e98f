"""How long one pod has waited to be ready, as results, reports and budgets show it."""

import msgspec

from pilothouse.simulate.scenario.scalars import shown_seconds


class PodWait(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long a pod has waited to be ready for the first time, and for what."""

    pod: str
    """``NAMESPACE/NAME``."""
    node: str
    """Empty if it had none."""
    seconds: float
    outcome: str
    """How the wait ended: ``ready``, ``marked for deletion``, ``failed``, ``removed``, or ``the end`` of the run."""
    waited_for: str

    @property
    def ended(self) -> str:
        """Whether it became ready, and if not how that ended."""
        if self.outcome == "ready":
            return "ready"
        how = {"the end": "the end of the run", "failed": "it failed"}.get(self.outcome, f"it was {self.outcome}")
        return f"not ready until {how}"

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        return f"{self.pod}{where}: {self.ended}, after {shown_seconds(round(self.seconds, 2))}: {self.waited_for}"
