"""Invariants of pod garbage collection: each deletion is confirmed by a live read of the node, and has the uid as
precondition."""

from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import Node, Pod
from pilothouse.client.interceptor import Observation
from pilothouse.semantics.nodes import is_node_ready
from pilothouse.semantics.pods import is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.invariants.live_reads import LiveReads
from pilothouse.sim.story import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

COLLECTOR = "pod-garbage-collector"
MAX_AGE = 8.0
"""A read is used for a second; patch and deletion may each take three seconds."""


class PodGarbage(Invariant):
    """Checked at each deletion, and each pod that is set to Failed, by the garbage collector.

    With fewer finished pods than the threshold: none is collected because of it.
    """

    def __init__(self) -> None:
        self._reads = LiveReads()
        self._nodes = Objects("/nodes/", Node)
        self._pods = Objects("/pods/", Pod)
        self.collected = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self._nodes.follow(change) and (update := self._pods.follow(change)):
            _key, before, _now = update
            if origin is not None and origin.controller == COLLECTOR and before is not None:
                self._check(change.key, before, origin)

    def _check(self, key: str, pod: Pod, origin: Origin) -> None:
        if _meant(origin) != pod.metadata.uid:
            raise Violation(f"{key}: {origin} does not mean the uid {pod.metadata.uid}, but {_meant(origin)!r}")
        self.collected += origin.call.verb == "delete"
        name = pod.spec.node_name
        leaving = pod.metadata.deletion_timestamp is not None
        if not name:
            if not leaving:
                raise Violation(f"{key} was never bound and is not deleted; {origin}")
            return
        read = self._reads.newest(origin, name, max_age=MAX_AGE)
        if read is None:
            raise Violation(f"{key}: {origin}, and node {name} was not read live before that")
        _at, node = read
        if node is not None and not (leaving and is_out_of_service(node)):
            raise Violation(f"{key}: {origin}, but node {name} is there, and when last read it was not out of service")

    def observed(self, process: "Process", seen: Observation) -> None:
        self._reads.observe(process, seen)

    def settled(self) -> None:
        """No garbage remains, except objects with finalizers."""
        for key, pod in self._pods.items():
            if pod.metadata.finalizers and is_terminal(pod):
                continue
            name, leaving = pod.spec.node_name, pod.metadata.deletion_timestamp is not None
            if name and name not in self._nodes:
                raise Violation(f"{key} is left of node {name}, which is gone")
            if leaving and not name:
                raise Violation(f"{key} was never bound, is being deleted, and is left")
            if leaving and name and is_out_of_service(self._nodes[name]):
                raise Violation(f"{key} is left on node {name}, which is out of service")


def is_out_of_service(node: Node) -> bool:
    """Tainted as out of service, and not ready."""
    return not is_node_ready(node) and any(t.key == "node.kubernetes.io/out-of-service" for t in node.spec.taints)


def _meant(origin: Origin) -> str:
    """The uid that a deletion or patch names, or nothing."""
    body: dict[str, Any] = msgspec.json.decode(origin.body) if origin.body else {}
    part: dict[str, Any] = body.get("preconditions" if origin.call.verb == "delete" else "metadata") or {}
    uid: str = part.get("uid", "")
    return uid
