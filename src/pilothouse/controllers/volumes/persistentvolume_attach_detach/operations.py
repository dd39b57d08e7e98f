"""Pending operations, one at a time for each volume (for multi-attach volumes for each volume and node), and backoff
after failures.

Upstream: v1.36 ``pkg/volume/util/nestedpendingoperations`` with ``pkg/util/goroutinemap/exponentialbackoff``.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.volumes.persistentvolume_attach_detach.desired_state_of_world import Pair
from pilothouse.env import Env
from pilothouse.semantics.attachments import Disk

ATTACH, DETACH = "volume_attach", "volume_detach"
FIRST_SECONDS, LONGEST_SECONDS = 0.5, 122.0


class Operation(msgspec.Struct, eq=False):
    """A pending operation. ``pods`` get its events. ``verify``: check the live node first. ``deadline`` is when the
    driver's response is overdue, after the request was sent."""

    kind: str
    pair: Pair
    disk: Disk | None
    exclusive: bool
    begun: float
    pods: Sequence[Pod] = ()
    verify: bool = True
    deadline: float | None = None
    version: str = ""
    """The version at which the attachment was created, read or deleted: older caches are ignored."""


class RetryBackoff(msgspec.Struct):
    """The backoff after a failed operation: its kind, duration and start."""

    kind: str
    seconds: float
    since: float


class Operations:
    def __init__(self, env: Env) -> None:
        self._env = env
        self._running: dict[str, dict[str, Operation]] = {}
        """By volume and node; the node is empty for single-attach volumes."""
        self._backoff: dict[Pair, RetryBackoff] = {}

    def is_operation_pending(self, pair: Pair, *, exclusive: bool) -> bool:
        """Whether a pending operation affects the volume on that node."""
        volume, node = pair
        running = self._running.get(volume)
        return running is not None and (exclusive or node in running or "" in running)

    def can_start(self, kind: str, pair: Pair, *, exclusive: bool) -> bool:
        """Whether no operation is pending, and this kind is not in backoff."""
        if self.is_operation_pending(pair, exclusive=exclusive):
            return False
        backoff = self._backoff.get(_key(pair, exclusive))
        return backoff is None or backoff.kind != kind or self._env.monotonic() >= backoff.since + backoff.seconds

    def start(self, operation: Operation) -> None:
        """Start an operation. Another kind resets the backoff."""
        volume, node = key = _key(operation.pair, operation.exclusive)
        backoff = self._backoff.get(key)
        if backoff is not None and backoff.kind != operation.kind:
            del self._backoff[key]
        self._running.setdefault(volume, {})[node] = operation

    def end(self, operation: Operation, *, failed: bool) -> None:
        volume, node = key = _key(operation.pair, operation.exclusive)
        running = self._running[volume]
        assert running.pop(node) is operation, "operations on the same volume exclude each other"
        if not running:
            del self._running[volume]
        if not failed:
            self._backoff.pop(key, None)
            return
        backoff = self._backoff.get(key)
        seconds = FIRST_SECONDS if backoff is None else min(backoff.seconds * 2.0, LONGEST_SECONDS)
        self._backoff[key] = RetryBackoff(operation.kind, seconds, self._env.monotonic())

    def backoff_until(self, pair: Pair, *, exclusive: bool) -> float | None:
        """The end of the backoff, if there is one."""
        backoff = self._backoff.get(_key(pair, exclusive))
        return None if backoff is None else backoff.since + backoff.seconds


def _key(pair: Pair, exclusive: bool) -> Pair:
    volume, node = pair
    return (volume, "") if exclusive else (volume, node)
