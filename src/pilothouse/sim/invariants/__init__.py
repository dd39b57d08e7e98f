"""The invariants of a simulated cluster, which are checked after every write.

An ``Invariant`` observes each committed change with its origin, and all traffic between a manager process and the API
server; it raises ``Violation`` as soon as it is violated, which ends the run. Each module has the invariants of one
controller.
"""

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pilothouse.client.interceptor import Observation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process


T = TypeVar("T")


class Violation(AssertionError):
    """Something that must never be the case is the case."""


class Invariant:
    """Raises ``Violation``. All methods are optional."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "settled" in vars(cls):
            raise TypeError(f"{cls.__name__}.settled is never called: rename it to check_final_state")

    def committed(self, change: Change, origin: Origin | None) -> None:
        """A write has become visible. ``origin`` is None for writes of the API server itself."""

    def started(self, process: "Process") -> None:
        """A manager process was started, and has not sent a request yet."""

    def observed(self, process: "Process", observation: Observation) -> None:
        """A request, response or watch event was exchanged between this process and the server."""

    def check_final_state(self) -> None:
        """Called once at the end, when all faults have ended and nothing has been written for some time."""


class Objects(dict[str, T]):
    """The stored objects of one resource, by the key behind ``prefix``."""

    def __init__(self, prefix: str, type_: type[T]) -> None:
        super().__init__()
        self._prefix = prefix
        self._decode = msgspec.json.Decoder(type_).decode

    def follow(self, change: Change) -> tuple[str, T | None, T | None] | None:
        """Apply the change. Returns key, previous object and current object, or None for another resource."""
        if not change.key.startswith(self._prefix):
            return None
        key = change.key.removeprefix(self._prefix)
        old = self.pop(key, None)
        if change.type == "DELETED":
            return key, old, None
        new = self[key] = self._decode(change.value)
        return key, old, new


__all__ = ["Invariant", "Objects", "Violation"]
