"""Whether a history of one object is linearizable: whether there is an order of its operations, each at one moment
between its call and its return, in which every answer is right.

The search is Wing and Gong's with Lowe's memory of what was tried ("Testing for linearizability", 2017), as porcupine
has it. An operation whose outcome nobody knows may have happened at any time after its call, or never.

``Register`` is the object: created, read, updated and deleted by resourceVersion, as an API server promises it.
"""

from collections.abc import Sequence
from enum import Enum

import msgspec


class Verb(Enum):
    """The kind of a request."""

    CREATE = "create"
    GET = "get"
    UPDATE = "update"
    DELETE = "delete"


class Outcome(Enum):
    """The outcome. ``CONFLICT`` is AlreadyExists for a create."""

    OK = "ok"
    CONFLICT = "conflict"
    NOT_FOUND = "not found"
    UNKNOWN = "unknown"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its outcome. All clients use one clock."""

    verb: Verb
    outcome: Outcome
    call: int
    """The time it was sent."""
    end: int
    """The time of the response, or when it was known to be lost."""
    value: str = ""
    """The written or read value."""
    expected: int = 0
    """The resourceVersion precondition of an update or delete; 0 for none."""
    revision: int = 0
    """The resulting or read revision of the object; 0 if unknown."""
    client: int = 0


class State(msgspec.Struct, frozen=True):
    """An existing object. ``revision`` is 0 if unknown."""

    value: str
    revision: int


class NotPossible(msgspec.Struct, frozen=True):
    """The outcome is impossible in that state."""


_NOT_POSSIBLE = NotPossible()


def step(state: State | None, operation: Operation) -> State | NotPossible | None:
    """The object after an operation with this outcome; None if deleted. An unknown outcome counts as executed."""
    verb, outcome = operation.verb, operation.outcome
    after: State | NotPossible | None = _NOT_POSSIBLE
    written = State(operation.value, operation.revision)
    meets = state is not None and operation.expected in (0, state.revision)
    is_done = outcome in (Outcome.OK, Outcome.UNKNOWN)
    if outcome is Outcome.NOT_FOUND and verb is not Verb.CREATE:
        after = None if state is None else _NOT_POSSIBLE
    elif verb is Verb.GET:
        if outcome is Outcome.OK and state == written:
            after = state
    elif verb is Verb.CREATE:
        if is_done and state is None:
            after = written
        elif outcome is Outcome.CONFLICT and state is not None:
            after = state
    elif is_done and meets:
        after = written if verb is Verb.UPDATE else None
    elif outcome is Outcome.CONFLICT and state is not None and not meets:
        after = state
    return after


class _Entry:
    """A call or a return in a list sorted by time, from which linearized operations are removed."""

    __slots__ = ("before", "following", "number", "operation", "returns")

    def __init__(self, operation: Operation | None, number: int, returns: "_Entry | None") -> None:
        self.operation = operation
        """None for a return."""
        self.number = number
        self.returns = returns
        """The entry of a call's return; None for a return."""
        self.before: _Entry = self
        self.following: _Entry | None = None

    def lift(self) -> None:
        """Remove a call and its return."""
        for entry in (self, self.returns):
            if entry is not None:
                entry.before.following = entry.following
                if entry.following is not None:
                    entry.following.before = entry.before

    def unlift(self) -> None:
        """Reinsert them, in reverse order."""
        for entry in (self.returns, self):
            if entry is not None:
                entry.before.following = entry
                if entry.following is not None:
                    entry.following.before = entry


def _listed(history: Sequence[Operation]) -> _Entry:
    """The entries of a history behind a head. Calls come before returns of the same time, so that they overlap."""
    entries: list[tuple[int, int, _Entry]] = []
    for number, operation in enumerate(history):
        returns = None
        if operation.outcome is not Outcome.UNKNOWN:
            returns = _Entry(None, number, None)
            entries.append((operation.end, 1, returns))
        entries.append((operation.call, 0, _Entry(operation, number, returns)))
    entries.sort(key=lambda entry: entry[:2])
    head = last = _Entry(None, -1, None)
    for _time, _kind, entry in entries:
        last.following, entry.before = entry, last
        last = entry
    return head


class Undecided(Exception):
    """The search is too long: too many concurrent operations have an unknown outcome."""


def linearized(history: Sequence[Operation], *, most_steps: int = 1_000_000) -> tuple[bool, list[Operation]]:
    """Whether a history is linearizable, and the longest order that was found. Raises ``Undecided``."""
    head = _listed(history)
    missing = sum(operation.outcome is not Outcome.UNKNOWN for operation in history)
    state: State | None = None
    done = 0
    tried: set[tuple[int, State | None]] = set()
    received: list[tuple[_Entry, State | None]] = []
    longest: list[Operation] = []
    entry = head.following
    while missing:
        if entry is not None and entry.operation is not None:
            after = step(state, entry.operation)
            reached = done | 1 << entry.number
            if isinstance(after, NotPossible) or (reached, after) in tried:
                entry = entry.following
                continue
            tried.add((reached, after))
            if len(tried) > most_steps:
                raise Undecided(f"{len(history)} operations, {most_steps} states")
            received.append((entry, state))
            state, done = after, reached
            missing -= entry.returns is not None
            entry.lift()
            if len(received) > len(longest):
                longest = [
                    received_operation.operation
                    for received_operation, _state in received
                    if received_operation.operation is not None
                ]
            entry = head.following
            continue
        # A return, whose call must precede it, so the last choice was wrong.
        if not received:
            return False, longest
        entry, state = received.pop()
        done ^= 1 << entry.number
        missing += entry.returns is not None
        entry.unlift()
        entry = entry.following
    return True, longest


def with_revisions(history: Sequence[Operation]) -> list[Operation]:
    """A history in which a write without an answer has the revision that somebody has read with its value.

    Values are unique: each is written by one request.
    """
    revisions = {item.value: item.revision for item in history if item.verb is Verb.GET and item.outcome is Outcome.OK}
    return [
        msgspec.structs.replace(item, revision=revisions[item.value])
        if item.outcome is Outcome.UNKNOWN and item.value in revisions
        else item
        for item in history
    ]
