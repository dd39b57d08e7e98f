"""Why something was written: the component, its key, its decision, and the events that had enqueued the key.

Kubernetes' API server records who sent a write. A write of a controller has more behind it, which only the controller
knows. It is kept in context variables: a worker calls ``begin_sync`` when it takes a key, the code of the controller
calls ``record_decision`` before it writes, and the client or server asks for ``current_cause``. Tasks that
a sync creates inherit both. An API server in the same process reads the context variables; others get the header
``Pilothouse-Cause``, which kube-apiserver ignores.

What comes in a header says as little as a User-Agent does: any client may claim anything.
"""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec

HEADER = "pilothouse-cause"
ANNOTATION = "pilothouse.io/cause"
"""Of audit events."""

MAX_TRIGGERS = 8
"""So many events of one key are kept; the number of the others is."""
_FIRST_TRIGGERS = 2
"""The first ones that are kept beside the last: a key that waits for long collects many, and the last is often news."""
MAX_DECISION = 500
"""Characters of a decision."""
_MAX_NAME = 320
"""Characters of each other text: a namespace, a slash and a name of 253."""
_MAX_HEADER = 8 * 1024
_MOST_MORE = 2**31 - 1

SYNC = "SYNC"
"""The object was in the first list, or is shown again by a resync."""
RETRY = "RETRY"
"""The sync before had failed. The triggers of that one follow."""
TIMER = "TIMER"
"""The controller had asked to be called at this time."""


class Trigger(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An event that had a key enqueued. ``type`` is that of the watch event, or SYNC, RETRY or TIMER.

    ``resource`` is the group resource (``replicasets.apps``), ``resource_version`` that of the object which the event
    showed: the write that had it has a cause of its own.
    """

    type: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class Cause(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Why a component wrote."""

    component: str
    """The name of the controller, or ``default-scheduler``, ``kubelet``."""
    key: str = ""
    """What it was working on: the key in its queue."""
    decision: str = ""
    """One sentence, with the numbers that it follows from."""
    triggers: tuple[Trigger, ...] = ()
    """Oldest first."""
    more: int = 0
    """Triggers that are left out."""


NO_TIME = 0.0


class Origin(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Who made a write, and why: what an API server knew of the request. All changes of one request share it."""

    user: str = ""
    user_agent: str = ""
    verb: str = ""
    """Of the request, as authorization and audit name it: ``create``, ``deletecollection``."""
    subresource: str = ""
    field_manager: str = ""
    audit_id: str = msgspec.field(default="", name="auditID")
    cause: Cause | None = None
    command: str = ""
    """The command of kubectl, as its header ``Kubectl-Command`` says: ``kubectl scale``."""
    time: float = NO_TIME
    """Seconds since the epoch, when the request began to be handled. ``NO_TIME``, that very object, is left out."""


class InvalidCause(ValueError):
    """A header that holds no cause."""


class Triggers:
    """The events that a key was enqueued for, while it waits: the first and the last of them, and how many more there
    were.

    Each is kept as what it is read from, since most syncs write nothing.
    """

    __slots__ = ("_built", "_events", "_more")

    def __init__(self) -> None:
        self._events: list[tuple[str, str, Any]] = []
        self._more = 0
        self._built: tuple[Trigger, ...] | None = None

    def add(self, type_: str, resource: str = "", metadata: Any = None) -> None:
        """Note one. ``metadata`` is that of the object, which is not changed later."""
        events = self._events
        if len(events) == MAX_TRIGGERS:
            del events[_FIRST_TRIGGERS]
            self._more += 1
        events.append((type_, resource, metadata))

    def inherit(self, others: "Triggers") -> None:
        """Also note those of the sync that adds the key, each once."""
        events = self._events
        for event in others._events:
            if not any(each[2] is event[2] and each[0] == event[0] and each[1] == event[1] for each in events):
                self.add(*event)
        self._more += others._more

    def retried(self) -> "Triggers":
        """Those of the next attempt of the same sync."""
        again = Triggers()
        again._events = self._events[:MAX_TRIGGERS]
        if not again._events or again._events[0][0] != RETRY:
            again._events = [(RETRY, "", None), *again._events[: MAX_TRIGGERS - 1]]
        again._more = self._more
        return again

    @property
    def more(self) -> int:
        """How many are left out."""
        return self._more

    def built(self) -> tuple[Trigger, ...]:
        """As values."""
        if self._built is None:
            self._built = tuple(map(_trigger, self._events))
        return self._built


def _trigger(event: tuple[str, str, Any]) -> Trigger:
    type_, resource, metadata = event
    if metadata is None:
        return Trigger(type_, resource)
    return Trigger(type_, resource, metadata.namespace, metadata.name, metadata.resource_version)


class _Sync:
    __slots__ = ("cause", "component", "decision", "key", "triggers")

    def __init__(self, component: str, key: object, triggers: Triggers | None) -> None:
        self.component = component
        self.key = key
        self.triggers = triggers
        self.cause: Cause | None = None
        """Of the last write, and all that follow until another decision is made: they share it."""
        self.decision: str | None = None
        """That this cause has."""


_sync: ContextVar[_Sync | None] = ContextVar("pilothouse sync", default=None)
_decision: ContextVar[str] = ContextVar("pilothouse decision", default="")


def begin_sync(component: str, key: object, triggers: Triggers | None = None) -> None:
    """What this task, and every task that it creates, does from now on is work of ``component`` on ``key``. No decision
    is made yet."""
    _sync.set(_Sync(component, key, triggers))
    if _decision.get():
        _decision.set("")


def current_triggers() -> Triggers | None:
    """The triggers of the sync that this task works on; None outside of a sync, or if no event had led to it."""
    sync = _sync.get()
    return None if sync is None else sync.triggers


def record_decision(sentence: str) -> None:
    """Give the reason of the writes that follow in this task: one sentence with the numbers that it rests on.

    It holds until the next decision or sync. A task that writes beside others records its own, which they don't see.
    """
    _decision.set(sentence)


class Moment(NamedTuple):
    """What a task is at work on, and its decision, for a write that another task makes later."""

    sync: _Sync | None
    decision: str


def current_moment() -> Moment:
    """Of this task."""
    return Moment(_sync.get(), _decision.get())


def return_to(moment: Moment) -> None:
    """What this task writes from now on was decided at that moment."""
    _sync.set(moment.sync)
    _decision.set(moment.decision)


def current_cause() -> Cause | None:
    """Why this task writes; None outside of a sync."""
    sync = _sync.get()
    if sync is None:
        return None
    decision = _decision.get()
    if sync.cause is not None and sync.decision is decision:
        return sync.cause
    triggers = sync.triggers
    sync.decision = decision
    sync.cause = cause = Cause(
        sync.component,
        _short(key if isinstance(key := sync.key, str) else _joined(key)),
        decision if len(decision) <= MAX_DECISION else f"{decision[: MAX_DECISION - 1]}…",
        triggers.built() if triggers is not None else (),
        triggers.more if triggers is not None else 0,
    )
    return cause


def _joined(key: object) -> str:
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"


# The header

encode_cause = msgspec.json.Encoder().encode
"""A cause as JSON."""
_decoder = msgspec.json.Decoder(Cause)


def cause_header() -> bytes:
    """The line of the header for a write of this task, with its end; empty outside of a sync. All of it is ASCII."""
    cause = current_cause()
    if cause is None:
        return b""
    text = encode_cause(cause)
    if not text.isascii():
        text = json.dumps(msgspec.json.decode(text), separators=(",", ":")).encode()  # escapes what is not ASCII
    return b"Pilothouse-Cause: " + text + b"\r\n"


def read_cause(headers: Mapping[str, str]) -> Cause | None:
    """The cause that a client claims, None if it claims none. Raises ``InvalidCause``."""
    text = headers.get(HEADER)
    if not text:
        return None
    if len(text) > _MAX_HEADER:
        raise InvalidCause(f"{len(text)} characters, at most {_MAX_HEADER} are read")
    try:
        cause = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidCause(str(error)) from error
    texts = [cause.component, cause.key, *(part for each in cause.triggers for part in msgspec.structs.astuple(each))]
    if not 0 <= cause.more <= _MOST_MORE:
        raise InvalidCause(f"more must be between 0 and {_MOST_MORE}")
    if len(cause.triggers) > MAX_TRIGGERS or len(cause.decision) > MAX_DECISION or max(map(len, texts)) > _MAX_NAME:
        raise InvalidCause(
            f"at most {MAX_TRIGGERS} triggers, {MAX_DECISION} characters of a decision and {_MAX_NAME} of every other "
            "text are taken"
        )
    return cause
