"""``Tell``: how the parts of the simulator send events."""

from typing import Protocol

from pilothouse.api.core import ObjectReference


class Tell(Protocol):
    """Sends events as the kubelet of a node."""

    def __call__(
        self,
        node: str,
        about: ObjectReference,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        always: bool = False,
    ) -> None:
        """Tell of something. ``always``: also where a kubelet's own events are not sent."""
        ...
