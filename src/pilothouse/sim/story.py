"""The log of a run: every request and every committed write, in order, with its origin.

Transports (``connection``) and the store write to a ``Story``. It keeps the last lines, for the report of a failed run,
and a digest of all writes, to compare two runs.
"""

import contextvars
import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from pilothouse.client.request_info import RequestInfo
from pilothouse.env import Env
from pilothouse.storage import Change

KEPT_LINES = 400
TOO_MANY_AT_ONCE = 5000
"""Requests take no time in a simulation that does not slow them. Loops that feed on each other stay in one instant."""
_FOR_EACH_NODE = 20
_FOR_EACH_OBJECT = 10
"""So many more writes are usual in one instant of a large cluster: all nodes register, or all of a zone are lost."""

_HEARTBEAT = re.compile(rb'"(?:lastHeartbeatTime|resourceVersion|time)":"[^"]*"')
"""What is different in a node after its kubelet has reported it unchanged."""
_DIFFERENCES = {"ADDED": 1, "MODIFIED": 0, "DELETED": -1}


class Origin(msgspec.Struct, frozen=True):
    """Who sent a request: the program (``manager#2``, ``nodes``), the controller if it was one, and what it asked."""

    program: str
    controller: str
    call: RequestInfo
    body: bytes = b""

    def __str__(self) -> str:
        who = f"{self.program} {self.controller}" if self.controller else self.program
        return f"{who}: {self.call}"


CURRENT: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("current request", default=None)
"""The request that is being handled. Commits in memory happen inside of it, so that each knows its origin."""


class Story:
    """What happened so far."""

    def __init__(self, env: Env, nodes: int = 0) -> None:
        """``nodes``: how many the cluster begins with."""
        self._env = env
        self._usual = TOO_MANY_AT_ONCE + _FOR_EACH_NODE * nodes
        self._objects = 0
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._digest = hashlib.blake2b(digest_size=16)
        self._instant = -1.0
        self._at_once = 0
        self._most_at_once = self._usual
        self.writes = 0
        """How many changes were committed."""
        self.written_by: Counter[str] = Counter()
        """Committed changes by program and resource, as ``manager pods``."""
        self.on_request: list[Callable[[Origin], None]] = []
        """Called with each request that reaches a server; of a watch, when it is opened. They must change nothing."""

    def requested(self, origin: Origin) -> None:
        """A request has reached a server."""
        for observe in self.on_request:
            observe(origin)

    def record(self, line: str) -> None:
        """Add a line."""
        self._lines.append(f"{self._env.monotonic():10.3f}  {line}")

    def committed(self, change: Change, origin: Origin | None) -> None:
        """A write became visible."""
        self.writes += 1
        now = self._env.monotonic()
        if now != self._instant:
            self._instant, self._at_once = now, 0
            self._most_at_once = self._usual + _FOR_EACH_OBJECT * self._objects
        self._at_once += 1
        self._objects += _DIFFERENCES[change.type]
        program = origin.program.partition("#")[0] if origin is not None else "server"
        assert self._at_once < self._most_at_once, (
            f"{self._at_once} writes in one instant: something runs in circles; the last one is {change.key} "
            f"by {program}"
        )
        self.written_by[f"{program} {change.key.split('/', 2)[1]}"] += 1
        self._digest.update(
            f"{self._env.monotonic()!r} {change.revision} {change.type} {change.key} {origin}\n".encode()
        )
        self._digest.update(change.value)
        expired = origin is None and change.type == "DELETED" and change.key.startswith("/events/")
        if not expired and "/leases/" not in change.key and not _is_heartbeat(change, origin):
            self.record(f"  {change.revision} {change.type} {change.key}  [{origin or 'server'}]")

    @property
    def digest(self) -> str:
        """Differs when any write, its time or its origin differs."""
        return self._digest.hexdigest()

    def last(self, lines: int = 60) -> str:
        """The last lines."""
        return "\n".join(list(self._lines)[-lines:])


def _is_heartbeat(change: Change, origin: Origin | None) -> bool:
    """A kubelet's report of a node on which nothing has changed: there are so many that they would be all that the
    last lines have."""
    if not change.key.startswith("/nodes/") or origin is None or origin.program != "nodes":
        return False
    before = change.previous
    return before is not None and _HEARTBEAT.sub(b"", before) == _HEARTBEAT.sub(b"", change.value)
