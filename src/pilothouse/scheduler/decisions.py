"""The last decisions of the scheduler, for the web page. Bounded; older ones are dropped."""

from collections import deque
from collections.abc import Iterator

import msgspec

MAX_DECISIONS = 500


class Decision(msgspec.Struct, frozen=True, gc=False):
    """One scheduling cycle."""

    number: int
    """Counts up from 1."""
    at: float
    """Seconds since the epoch."""
    pod: str
    """Namespace and name."""
    node: str
    """The node that was chosen; empty if none fits."""
    feasible_nodes: int
    message: str
    """Why no node fits, as in the event; empty if one does."""
    nominated_node: str
    """The node on which pods are preempted for it."""
    victims: int
    """How many those are."""


class Decisions:
    """The last ``MAX_DECISIONS`` of them."""

    def __init__(self) -> None:
        self.count = 0
        """How many there have been."""
        self._last: deque[Decision] = deque(maxlen=MAX_DECISIONS)

    def add(
        self,
        at: float,
        pod: str,
        *,
        node: str = "",
        feasible_nodes: int = 0,
        message: str = "",
        nominated_node: str = "",
        victims: int = 0,
    ) -> None:
        """Record one."""
        self.count += 1
        self._last.append(Decision(self.count, at, pod, node, feasible_nodes, message, nominated_node, victims))

    def __iter__(self) -> Iterator[Decision]:
        """Oldest first."""
        return iter(self._last)

    def since(self, number: int) -> list[Decision]:
        """Those after that number, oldest first. The cost is their number."""
        decisions = []
        for decision in reversed(self._last):
            if decision.number <= number:
                break
            decisions.append(decision)
        decisions.reverse()
        return decisions
