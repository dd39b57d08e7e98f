"""What must hold after every write of a simulated cluster.

An ``Invariant`` sees each committed change together with its origin, and everything that passes between a manager
process and the API server; it raises ``Violation`` the moment something is wrong, and that ends the run. Each module
holds the invariants of one controller.
"""

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pilothouse.client.interceptor import Observation
from pilothouse.sim.story import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process


T = TypeVar("T")


class Violation(AssertionError):
    """Something that must never be the case is the case."""


class Invariant:
    """Raises ``Violation`` when something is wrong. Every method may be left out."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        """A write has just become visible. ``origin`` is None for what the API server does by itself."""

    def started(self, process: "Process") -> None:
        """A manager process was started. It has asked for nothing yet."""

    def observed(self, process: "Process", seen: Observation) -> None:
        """A request, an answer or a watch event has just passed between this process and the server."""

    def settled(self) -> None:
        """Faults are over and nothing has been written for a while: this is the end state."""


class Objects(dict[str, T]):
    """The stored objects of one resource, by the key behind ``prefix``."""

    def __init__(self, prefix: str, type_: type[T]) -> None:
        super().__init__()
        self._prefix = prefix
        self._decode = msgspec.json.Decoder(type_).decode

    def follow(self, change: Change) -> tuple[str, T | None, T | None] | None:
        """Keep up. Returns key, object before and object now, or None if the change is to another resource."""
        if not change.key.startswith(self._prefix):
            return None
        key = change.key.removeprefix(self._prefix)
        before = self.pop(key, None)
        if change.type == "DELETED":
            return key, before, None
        now = self[key] = self._decode(change.value)
        return key, before, now


__all__ = ["Invariant", "Objects", "Violation"]
