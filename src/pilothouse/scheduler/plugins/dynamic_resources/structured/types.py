"""What the allocator reads, and how its steps are bounded."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol

import msgspec

from pilothouse.api.resource import Device, DeviceClass, ResourceSlice
from pilothouse.machinery.quantities import Quantity

DeviceID = tuple[str, str, str]
"""Driver, pool and name."""


class AllocationError(Exception):
    """There is something wrong with a claim or a class; no other node is tried. Also raised when the search takes too
    long."""


class FailedAllocationOnNode(Exception):  # not an error: other nodes are tried
    """The devices of the node cannot be allocated."""


class Evaluation(msgspec.Struct, frozen=True):
    """A selector that may take long; to be evaluated off the event loop."""

    program: Any
    variables: Mapping[str, Any]


class Compilation(msgspec.Struct, frozen=True):
    """An expression that must be compiled first."""

    expression: str


SelectorResult = bool | str
"""Whether the selector matches, or the error."""


class SliceLister(Protocol):
    """The ResourceSlices of the cluster."""

    def on_node(self, node_name: str) -> Sequence[ResourceSlice]:
        """Those of one node, without those that have shared counters."""
        ...

    def shared(self) -> Sequence[ResourceSlice]:
        """Those of no particular node, and those that have shared counters."""
        ...

    def in_pool(self, driver: str, pool: str) -> Sequence[ResourceSlice]: ...


class AllocatedState(Protocol):
    """What is allocated already, also by pods that are not bound yet."""

    @property
    def devices(self) -> Set[DeviceID]:
        """The devices that are allocated to one claim."""
        ...

    @property
    def shared_devices(self) -> Set[DeviceID]:
        """The devices that are allocated to several claims at most."""
        ...

    @property
    def capacities(self) -> Mapping[DeviceID, Mapping[str, Quantity]]:
        """What is consumed of the capacities of those."""
        ...


class Selectors(Protocol):
    """Evaluates selectors."""

    def matches(
        self, expression: str, device: Device, driver: str, work: "Work"
    ) -> SelectorResult | Evaluation | Compilation:
        """The result; or what must be done before. The work of all of these is charged."""
        ...


GetClass = Callable[[str], DeviceClass | None]


class Work:
    """Counts what is done, so that the search can pause and be stopped. A unit is about half a microsecond.

    Counted instead of measured, so that a simulation gives the same result on every machine.
    """

    __slots__ = ("_pause_at", "limit", "spent")

    def __init__(self, limit: int) -> None:
        self.spent = 0
        self.limit = limit
        self._pause_at = 0

    def resume(self, units: int) -> None:
        """Run for this many units until the next pause."""
        self._pause_at = self.spent + units

    def charge(self, units: int) -> bool:
        """Count units. Returns whether to pause."""
        self.spent += units
        return self.spent >= self._pause_at

    @property
    def is_pause_due(self) -> bool:
        return self.spent >= self._pause_at

    @property
    def exhausted(self) -> bool:
        return self.spent >= self.limit
