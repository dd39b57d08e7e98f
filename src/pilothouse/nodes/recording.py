"""The events that the kubelets of simulated nodes record."""

from collections.abc import Mapping

from pilothouse.api.core import ObjectReference
from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup
from pilothouse.nodes.outages import Outages
from pilothouse.runtime import EventRecorder


class NodeEventRecorder:
    """Records events as the kubelet of a node, through that node's client. Nothing is sent before ``start``."""

    def __init__(self, env: Env, clients: Mapping[str, Client], outages: Outages, *, enabled: bool) -> None:
        self._env = env
        self._clients = clients
        self._outages = outages
        self._enabled = enabled
        self._recorders: dict[str, EventRecorder] = {}
        self._group: TaskGroup | None = None

    def start(self, group: TaskGroup) -> None:
        """Send events until the group ends."""
        self._group = group
        for node, recorder in self._recorders.items():
            group.start(recorder.run(), name=f"events of {node}")

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
        """Record an event. ``always``: also if events are disabled, and while the node is down."""
        if not always and (not self._enabled or self._outages.is_down(node)):
            return
        recorder = self._recorders.get(node)
        if recorder is None:
            # Created at the first use: most nodes of a large cluster never record an event.
            recorder = self._recorders[node] = EventRecorder(self._clients[node], self._env, "kubelet", host=node)
            if self._group is not None:
                self._group.start(recorder.run(), name=f"events of {node}")
        recorder.event(about, "Warning" if warning else "Normal", reason, message)
