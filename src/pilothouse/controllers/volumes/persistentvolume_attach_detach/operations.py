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
    """The version in which the attachment was created, found or deleted: an older cache proves nothing."""


class RetryBackoff(msgspec.Struct):
    """The backoff after a failure of this kind: how long, and since when."""

    kind: str
    seconds: float
    since: float


class Operations:
    def __init__(self, env: Env) -> None:
        self._env = env
        self._running: dict[str, dict[str, Operation]] = {}
        """By volume and node; the node is empty for volumes that one node may have at a time."""
        self._rests: dict[Pair, RetryBackoff] = {}

    def is_running(self, pair: Pair, *, exclusive: bool) -> bool:
        """Whether a pending operation affects the volume on that node."""
        volume, node = pair
        running = self._running.get(volume)
        return running is not None and (exclusive or node in running or "" in running)

    def may_begin(self, kind: str, pair: Pair, *, exclusive: bool) -> bool:
        """Whether no operation is pending, and this kind is not in backoff."""
        if self.is_running(pair, exclusive=exclusive):
            return False
        rest = self._rests.get(_key(pair, exclusive))
        return rest is None or rest.kind != kind or self._env.monotonic() >= rest.since + rest.seconds

    def begin(self, operation: Operation) -> None:
        """Start an operation. Another kind resets the backoff."""
        volume, node = key = _key(operation.pair, operation.exclusive)
        rest = self._rests.get(key)
        if rest is not None and rest.kind != operation.kind:
            del self._rests[key]
        self._running.setdefault(volume, {})[node] = operation

    def end(self, operation: Operation, *, failed: bool) -> None:
        volume, node = key = _key(operation.pair, operation.exclusive)
        running = self._running[volume]
        assert running.pop(node) is operation, "one thing at a time"
        if not running:
            del self._running[volume]
        if not failed:
            self._rests.pop(key, None)
            return
        rest = self._rests.get(key)
        seconds = FIRST_SECONDS if rest is None else min(rest.seconds * 2.0, LONGEST_SECONDS)
        self._rests[key] = RetryBackoff(operation.kind, seconds, self._env.monotonic())

    def rests_until(self, pair: Pair, *, exclusive: bool) -> float | None:
        """Until when the backoff lasts, if there is one."""
        rest = self._rests.get(_key(pair, exclusive))
        return None if rest is None else rest.since + rest.seconds


def _key(pair: Pair, exclusive: bool) -> Pair:
    volume, node = pair
    return (volume, "") if exclusive else (volume, node)
