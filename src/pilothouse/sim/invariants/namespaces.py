"""Invariants of the namespace controller: deleted namespaces are removed, others are not changed."""

import msgspec

from pilothouse.api.meta import Object
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

CONTROLLER = "namespace-controller"
_object = msgspec.json.Decoder(Object).decode


class Namespaces(Invariant):
    """The controller only writes to terminating namespaces and their content; a namespace is only removed when it is
    empty; at the end none is terminating."""

    def __init__(self) -> None:
        self._terminating: dict[str, Object] = {}
        """The terminating namespaces, by name."""
        self._content: dict[str, set[str]] = {}
        """Keys by namespace."""
        self.ended = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if change.key.startswith("/namespaces/"):
            name = change.key.rpartition("/")[2]
            self._check(change, name, origin)
            self._namespace_changed(change, name)
            return
        parts = change.key.split("/")
        if len(parts) < 4:
            if origin is not None and origin.controller == CONTROLLER:
                raise Violation(f"{change.key} is cluster-scoped, and was written by {origin}")
            return
        self._check(change, parts[2], origin)
        content = self._content.setdefault(parts[2], set())
        if change.type == "DELETED":
            content.discard(change.key)
        else:
            content.add(change.key)

    def _check(self, change: Change, namespace: str, origin: Origin | None) -> None:
        if origin is not None and origin.controller == CONTROLLER and namespace not in self._terminating:
            raise Violation(f"{change.key} is not in a namespace that is being deleted, and was written by {origin}")

    def _namespace_changed(self, change: Change, name: str) -> None:
        if change.type == "DELETED":
            self.ended += 1
            self._terminating.pop(name, None)
            remaining = sorted(self._content.get(name, ()))
            if remaining:
                raise Violation(f"namespace {name} was removed before its content: {remaining}")
            return
        namespace = _object(change.value)
        if namespace.metadata.deletion_timestamp is not None:
            self._terminating[name] = namespace

    def check_final_state(self) -> None:
        """At the end no namespace is terminating."""
        if self._terminating:
            raise Violation(f"namespaces are still being deleted: {sorted(self._terminating)}")
