"""How the parts of the simulator record events."""

from typing import Protocol

from pilothouse.api.core import ObjectReference


class RecordEvent(Protocol):
    """Records events as the kubelet of a node."""

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
        """Record an event. With ``always`` also where events of kubelets are not recorded."""
        ...
