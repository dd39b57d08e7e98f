"""The log of a run: all requests and committed writes, in order, with their origin.

Transports (``connection``) and the store write to a ``RunLog``. It keeps the last lines for the report of a failed run,
and a digest of all writes for comparisons.
"""

import contextvars
import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from pilothouse.api.wire import Request
from pilothouse.client.request_info import RequestInfo, describe
from pilothouse.env import Env
from pilothouse.storage import Change

MAX_LINES = 400
MAX_EVENTS = 40
"""Faults, and starts and ends of processes, that are kept, however old."""
MAX_WRITES_PER_INSTANT = 5000
"""Maximum number of writes in one instant. Requests take no time unless they are delayed, so controllers that trigger
each other endlessly stay in one instant."""
_WRITES_PER_NODE = 20
_WRITES_PER_OBJECT = 10
"""Additional writes of one instant in a large cluster: all nodes register, or a whole zone fails."""

_HEARTBEAT = re.compile(rb'"(?:lastHeartbeatTime|resourceVersion|time)":"[^"]*"')
"""The fields of a Node that a kubelet's heartbeat changes."""
_EVENTS = "/events/"
_DIFFERENCES = {"ADDED": 1, "MODIFIED": 0, "DELETED": -1}


class Origin(msgspec.Struct, frozen=True):
    """The origin of a request: the program (``manager#2``, ``nodes``), the controller if it was one, and the request
    itself."""

    program: str
    controller: str
    call: RequestInfo
    body: bytes = b""

    def __str__(self) -> str:
        client = f"{self.program} {self.controller}" if self.controller else self.program
        return f"{client}: {self.call}"


CURRENT: contextvars.ContextVar[Origin | None] = contextvars.ContextVar("current request", default=None)
"""The current request. Commits in memory happen within it, which gives each commit its origin."""


class ScheduledWork(Protocol):
    """Recognizes work that is repeated on a schedule, and may fill the last lines of a log."""

    def includes(self, change: Change) -> bool:
        """Whether a write is part of it."""
        ...

    def includes_request(self, call: RequestInfo, body: bytes) -> bool:
        """Whether a request concerns an object of it."""
        ...


class RunLog:
    """The log of one run."""

    def __init__(self, env: Env, nodes: int = 0) -> None:
        """``nodes``: the initial number of nodes."""
        self._env = env
        self._base_limit = MAX_WRITES_PER_INSTANT + _WRITES_PER_NODE * nodes
        self._objects = 0
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._other_lines: deque[str] = deque(maxlen=MAX_LINES)
        """The last lines that are not about repeated work."""
        self._events: deque[tuple[int, str]] = deque(maxlen=MAX_EVENTS)
        """With their numbers among all lines."""
        self._count = 0
        self._readers: list[Callable[[str], None]] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._instant = -1.0
        self._writes_in_instant = 0
        self._limit = self._base_limit
        self.writes = 0
        """The number of committed changes."""
        self.written_by: Counter[str] = Counter()
        """Committed changes by program and resource, as ``manager pods``."""
        self.scheduled: ScheduledWork | None = None
        """Recognizes scheduled work, which is repeated work. So are Events that are counted up."""
        self.on_request: list[Callable[[Origin], None]] = []
        """Called with each request that reaches a server, for a watch when it is opened. Observers must not change
        anything."""

    def requested(self, origin: Origin) -> None:
        """Log a request that reached a server."""
        for observe in self.on_request:
            observe(origin)

    def record(self, line: str, *, is_repeated: bool = False) -> None:
        """Append a line to the log. ``is_repeated``: it is about repeated work."""
        timed = f"{self._env.monotonic():10.3f}  {line}"
        self._lines.append(timed)
        if not is_repeated:
            self._other_lines.append(timed)
        self._count += 1
        for read in self._readers:
            read(timed)

    def record_request(self, program: str, controller: str, request: Request, outcome: str) -> None:
        """Append a line about a request of a program, with its outcome."""
        call, scheduled = describe(request), self.scheduled
        is_repeated = scheduled is not None and scheduled.includes_request(call, request.body)
        is_repeated = is_repeated or (call.resource == "events" and call.verb == "patch")
        self.record(f"{program} {controller}: {call} -> {outcome}", is_repeated=is_repeated)

    def record_event(self, line: str) -> None:
        """Append a line about a fault or a process: ``excerpt`` has it, however old it is."""
        self._events.append((self._count, f"{self._env.monotonic():10.3f}  {line}"))
        self.record(line)

    def follow(self, read: Callable[[str], None]) -> None:
        """Call a function with each line so far, and from now on with each new one."""
        for line in self._lines:
            read(line)
        self._readers.append(read)

    def committed(self, change: Change, origin: Origin | None) -> None:
        """Log a committed write."""
        self.writes += 1
        now = self._env.monotonic()
        if now != self._instant:
            self._instant, self._writes_in_instant = now, 0
            self._limit = self._base_limit + _WRITES_PER_OBJECT * self._objects
        self._writes_in_instant += 1
        self._objects += _DIFFERENCES[change.type]
        program = origin.program.partition("#")[0] if origin is not None else "server"
        assert self._writes_in_instant < self._limit, (
            f"{self._writes_in_instant} writes in one instant: there is an endless loop; "
            f"the last write is {change.key} by {program}"
        )
        self.written_by[f"{program} {change.key.split('/', 2)[1]}"] += 1
        self._digest.update(
            f"{self._env.monotonic()!r} {change.revision} {change.type} {change.key} {origin}\n".encode()
        )
        self._digest.update(change.value)
        expired = origin is None and change.type == "DELETED" and change.key.startswith(_EVENTS)
        # What every API server creates when it starts would fill the log of a short run.
        initial = origin is None and change.type == "ADDED" and not now
        if not (expired or initial) and "/leases/" not in change.key and not _is_heartbeat(change, origin):
            line = f"  {change.revision} {change.type} {change.key}  [{origin or 'server'}]"
            self.record(line, is_repeated=self._is_repeated(change))

    def _is_repeated(self, change: Change) -> bool:
        is_scheduled = self.scheduled is not None and self.scheduled.includes(change)
        return is_scheduled or (change.type == "MODIFIED" and change.key.startswith(_EVENTS))

    @property
    def digest(self) -> str:
        """A digest of all writes with their times and origins."""
        return self._digest.hexdigest()

    def last(self, lines: int = 60, *, repeated: bool = True) -> str:
        """The last lines, with or without those about repeated work."""
        return "\n".join(list(self._lines if repeated else self._other_lines)[-lines:])

    def excerpt(self, lines: int = 60) -> str:
        """The last lines, after those before them about faults and processes: a run may end long after its faults."""
        first = self._count - min(lines, len(self._lines))
        earlier = [line for number, line in self._events if number < first]
        return "\n".join([*earlier, *([f"{'…':>10}"] if earlier else []), self.last(lines)])


def _is_heartbeat(change: Change, origin: Origin | None) -> bool:
    """Whether the change is a heartbeat of an unchanged node. Heartbeats are not logged: they would fill the last
    lines."""
    if not change.key.startswith("/nodes/") or origin is None or origin.program != "nodes":
        return False
    old = change.old_value
    return old is not None and _HEARTBEAT.sub(b"", old) == _HEARTBEAT.sub(b"", change.value)
