"""Invariants of pod garbage collection: each deletion follows a live read of the node, and has the uid as
precondition."""

from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import Node, Pod
from pilothouse.client.interceptor import Observation
from pilothouse.semantics.nodes import is_node_ready
from pilothouse.semantics.pods import is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.invariants.live_reads import LiveReads
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

COLLECTOR = "pod-garbage-collector"
MAX_AGE = 8.0
"""Maximum age of a live read: it is used for a second; patch and deletion may each take three seconds."""


class PodGarbage(Invariant):
    """Checks each deletion, and each pod that is set to Failed, by the garbage collector.

    With fewer finished pods than the threshold: none is collected because of it.
    """

    def __init__(self) -> None:
        self._reads = LiveReads()
        self._nodes = Objects("/nodes/", Node)
        self._pods = Objects("/pods/", Pod)
        self.collected = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self._nodes.follow(change) and (update := self._pods.follow(change)):
            _key, old, _new = update
            if origin is not None and origin.controller == COLLECTOR and old is not None:
                self._check(change.key, old, origin)

    def _check(self, key: str, pod: Pod, origin: Origin) -> None:
        if _uid_precondition(origin) != pod.metadata.uid:
            raise Violation(
                f"{key}: {origin} has the uid precondition {_uid_precondition(origin)!r}, not {pod.metadata.uid}"
            )
        self.collected += origin.call.verb == "delete"
        name = pod.spec.node_name
        terminating = pod.metadata.deletion_timestamp is not None
        if not name:
            if not terminating:
                raise Violation(f"{key} was never bound and is not deleted; {origin}")
            return
        read = self._reads.newest(origin, name, max_age=MAX_AGE)
        if read is None:
            raise Violation(f"{key}: {origin}, and node {name} was not read live before that")
        _at, node = read
        if node is not None and not (terminating and is_out_of_service(node)):
            raise Violation(f"{key}: {origin}, but node {name} exists, and when last read it was not out of service")

    def observed(self, process: "Process", observation: Observation) -> None:
        self._reads.observe(process, observation)

    def check_final_state(self) -> None:
        """At the end no garbage remains, except objects with finalizers."""
        for key, pod in self._pods.items():
            if pod.metadata.finalizers and is_terminal(pod):
                continue
            name, terminating = pod.spec.node_name, pod.metadata.deletion_timestamp is not None
            if name and name not in self._nodes:
                raise Violation(f"{key} remains of node {name}, which was removed")
            if terminating and not name:
                raise Violation(f"{key} was never bound, is being deleted, and still exists")
            if terminating and name and is_out_of_service(self._nodes[name]):
                raise Violation(f"{key} remains on node {name}, which is out of service")


def is_out_of_service(node: Node) -> bool:
    """Whether the node is tainted as out of service, and not ready."""
    return not is_node_ready(node) and any(t.key == "node.kubernetes.io/out-of-service" for t in node.spec.taints)


def _uid_precondition(origin: Origin) -> str:
    """The uid in the preconditions of a deletion or patch, or empty."""
    body: dict[str, Any] = msgspec.json.decode(origin.body) if origin.body else {}
    fields: dict[str, Any] = body.get("preconditions" if origin.call.verb == "delete" else "metadata") or {}
    uid: str = fields.get("uid", "")
    return uid
