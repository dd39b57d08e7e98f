"""Systematic faults: one at each point of a run without faults.

The three patterns are those of Sieve (Sun et al., "Automatic Reliability Testing for Cluster Management Controllers",
OSDI 2022). A reference run is recorded; each of its changes and writes gives runs with one fault at exactly that point:

``intermediate``
    The process is killed after one of its writes, or never gets the response to a write.
``stale``
    The cache does not receive a change by the program; or the program is restarted, and starts with the state before a
    change that it had already acted on.
``unobserved``
    A change is never observed, because the next one of the same object happens first; or it happens while the program
    is down.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from pilothouse.client.interceptor import Observation, Sent
from pilothouse.sim.faults import (
    Crash,
    DownDuringChange,
    FailWrite,
    Fault,
    MissedChange,
    StaleCache,
    StaleRestart,
)
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.process import Process
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change
from pilothouse.storage.store import resource_prefix

Pattern = Literal["stale", "intermediate", "unobserved"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
SIEVE = "sieve"
"""All patterns."""
STALE_SECONDS = 30.0
"""How long a cache is stale."""
RESTART_SECONDS = 5.0
"""How long a program runs after a change before it is restarted with the previous state."""
DOWN_SECONDS = 1.0
_UNCOUNTED = ("events", "leases")


def patterns_of(text: str | Iterable[str]) -> tuple[Pattern, ...]:
    """The patterns that a caller requests: ``sieve``, one of them, or several. Raises ``ValueError``."""
    names = text.split(",") if isinstance(text, str) else list(text)
    if names == [SIEVE]:
        return PATTERNS
    unknown = [name for name in names if name not in PATTERNS]
    if unknown or not names:
        raise ValueError(
            f"faults is a number, {SIEVE!r}, or some of {', '.join(PATTERNS)}; got {', '.join(map(str, names))!r}"
        )
    return tuple(pattern for pattern in PATTERNS if pattern in names)


class Seen(msgspec.Struct, frozen=True):
    """A change of the reference run: the ``nth`` one of an object."""

    key: str
    nth: int
    deleted: bool
    by_program: bool


class Reference(Invariant):
    """Records a run. Counts from ``begin``, as the faults do."""

    def __init__(self) -> None:
        self.changes: list[Seen] = []
        self.writes = 0
        """Requests of the program that may change something, Events and Leases aside: as ``Crash`` counts them."""
        self.written: set[str] = set()
        """Prefixes of the resources that the program has changed."""
        self._watched: set[str] = set()
        self._program = ""
        self._counts: Counter[str] = Counter()
        self._counting = False

    def begin(self) -> None:
        """Faults would start now."""
        self._counting = True

    def started(self, process: Process) -> None:
        """Record the names of the program's processes."""
        self._program = process.name.partition("#")[0]

    def observed(self, _process: Process, observation: Observation) -> None:
        """A request of the program."""
        if not isinstance(observation, Sent):
            return
        if observation.call.verb == "watch":
            self._watched.add(f"{observation.call.group}/{observation.call.resource}/")
        elif observation.call.is_write and observation.call.resource not in _UNCOUNTED and self._counting:
            self.writes += 1

    def committed(self, change: Change, origin: Origin | None) -> None:
        """A change by any client."""
        by_program = origin is not None and origin.program.partition("#")[0] == self._program
        prefix = resource_prefix(change.key)
        if by_program and prefix.split("/")[1] not in _UNCOUNTED:
            self.written.add(prefix)
        if self._counting:
            self._counts[change.key] += 1
            self.changes.append(Seen(change.key, self._counts[change.key], change.type == "DELETED", by_program))

    def observable(self) -> list[Seen]:
        """The changes that the program has learned of."""
        return [
            change
            for change in self.changes
            if resource_prefix(change.key) in self._watched and change.key.split("/")[1] not in _UNCOUNTED
        ]


def perturbations(reference: Reference, patterns: Iterable[Pattern]) -> tuple[Fault, ...]:
    """One fault per run, in the order in which they would start, pattern by pattern."""
    faults: list[Fault] = []
    changes = reference.observable()
    for pattern in patterns:
        match pattern:
            case "intermediate":
                for number in range(1, reference.writes + 1):
                    faults.append(Crash(at=0.0, nth=number, when="after", down=DOWN_SECONDS, stale=False))
                    faults.append(FailWrite(at=0.0, failure="answer lost", nth=number))
            case "stale":
                faults += _stale(changes)
            case "unobserved":
                faults += _unobserved(changes)
    return tuple(faults)


def _stale(changes: list[Seen]) -> list[Fault]:
    faults: list[Fault] = []
    for observation in changes:
        if observation.by_program:
            faults.append(StaleCache(key=observation.key, nth=observation.nth, seconds=STALE_SECONDS))
        # Before its first change the object was not there, or was as it had been all the time.
        faults.append(StaleRestart(key=observation.key, nth=observation.nth, seconds=RESTART_SECONDS))
    return faults


def _unobserved(changes: list[Seen]) -> list[Fault]:
    """Changes by the program itself are known to it; changes caused by its observation would never happen."""
    faults: list[Fault] = []
    foreign = {(change.key, change.nth) for change in changes if not change.by_program}
    for observation in changes:
        if (observation.key, observation.nth + 1) in foreign:
            faults.append(MissedChange(key=observation.key, nth=observation.nth, until=observation.nth + 1))
        if not observation.by_program:
            faults.append(DownDuringChange(key=observation.key, nth=observation.nth, down=DOWN_SECONDS))
    return faults
