"""What must hold after every write of a simulated cluster.

An ``Invariant`` sees each committed change together with its origin, and everything that passes between a manager
process and the API server; it raises ``Violation`` the moment something is wrong, and that ends the run. Each module
holds the invariants of one controller.
"""

from typing import TYPE_CHECKING

from pilothouse.client.interceptor import Observation
from pilothouse.sim.story import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process


class Violation(AssertionError):
    """Something that must never be the case is the case."""


class Invariant:
    """Looks, and says nothing as long as all is well. Every method may be left out."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        """A write has just become visible. ``origin`` is None for what the API server does by itself."""

    def started(self, process: "Process") -> None:
        """A manager process was started. It has asked for nothing yet."""

    def observed(self, process: "Process", seen: Observation) -> None:
        """A request, an answer or a watch event has just passed between this process and the server."""

    def settled(self) -> None:
        """Faults are over and nothing has been written for a while: this is the end state."""


__all__ = ["Invariant", "Violation"]
