"""Causes of writes: the component, its key, its decision, and the events that had enqueued the key.

Kubernetes' audit records the client of a write. For a controller the cause is kept in context variables: a worker calls
``begin_sync`` when it gets a key, the controller calls ``record_decision`` before it writes, and the client or server
reads ``current_cause``. Tasks that a sync creates inherit both. An API server in the same process reads the context
variables, which one in another process of the same plane adopts; others get the header ``Pilothouse-Cause``, which
kube-apiserver ignores.

The header is as trustworthy as a User-Agent: any client may send any cause.
"""

import json
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

import msgspec

HEADER = "pilothouse-cause"
ANNOTATION = "pilothouse.io/cause"
"""The annotation of audit events."""

MAX_TRIGGERS = 8
"""The maximum number of events of a key; the others are only counted."""
_FIRST_TRIGGERS = 2
"""The number of first events that are kept besides the last ones: a key that waits for long collects many, and the last
is often a new event."""
MAX_DECISION = 500
"""The maximum length of a decision."""
_MAX_NAME = 320
"""The maximum length of every other text: a namespace, a slash and a name of 253."""
_MAX_HEADER = 8 * 1024
_MAX_MORE = 2**31 - 1

SYNC = "SYNC"
"""The object was in the initial list, or is repeated by a resync."""
RETRY = "RETRY"
"""The previous sync has failed. Its triggers follow."""
TIMER = "TIMER"
"""The controller has requeued the key after this time."""


class Trigger(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An event that enqueued a key. ``type`` is that of the watch event, or SYNC, RETRY or TIMER.

    ``resource`` is the group resource (``replicasets.apps``), ``resource_version`` that of the object in the event: the
    write of that version has a cause of its own.
    """

    type: str
    resource: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""


class Cause(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The cause of a write of a component."""

    component: str
    """The name of the controller, or ``default-scheduler``, ``kubelet``."""
    key: str = ""
    """The key in its queue."""
    decision: str = ""
    """One sentence, with the numbers that it depends on."""
    triggers: tuple[Trigger, ...] = ()
    """Oldest first."""
    more: int = 0
    """The number of omitted triggers."""


NO_TIME = 0.0


class Origin(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The request and cause of a write, as an API server records it. All changes of one request share it."""

    user: str = ""
    user_agent: str = ""
    verb: str = ""
    """The verb of the request, as in authorization and audit: ``create``, ``deletecollection``."""
    subresource: str = ""
    field_manager: str = ""
    audit_id: str = msgspec.field(default="", name="auditID")
    cause: Cause | None = None
    command: str = ""
    """The kubectl command, from the header ``Kubectl-Command``: ``kubectl scale``."""
    time: float = NO_TIME
    """When the handling of the request began, in seconds since the epoch. ``NO_TIME``, that very object, is omitted."""
    impersonator: str = ""
    """The authenticated user, if the request was sent on behalf of ``user`` (``kubectl --as``)."""

    @property
    def sender(self) -> str:
        """Who sent the request: the impersonator, otherwise the user."""
        return self.impersonator or self.user

    @property
    def shown_user(self) -> str:
        """The user, and who impersonated them: ``jane (impersonated by kubernetes-admin)``."""
        return f"{self.user} (impersonated by {self.impersonator})" if self.impersonator else self.user


class InvalidCause(ValueError):
    """An invalid cause header."""


class Triggers:
    """The events that enqueued a key, while it waits: the first and the last ones, and the number of the others.

    Each is kept in its source form, since most syncs write nothing.
    """

    __slots__ = ("_built", "_events", "_more")

    def __init__(self) -> None:
        self._events: list[tuple[str, str, Any]] = []
        self._more = 0
        self._built: tuple[Trigger, ...] | None = None

    def add(self, type_: str, resource: str = "", metadata: Any = None) -> None:
        """Add an event. ``metadata`` is that of the object, and must not be changed later."""
        events = self._events
        if len(events) == MAX_TRIGGERS:
            del events[_FIRST_TRIGGERS]
            self._more += 1
        events.append((type_, resource, metadata))

    def inherit(self, other: "Triggers") -> None:
        """Add the events of the sync that adds the key, each once."""
        events = self._events
        for event in other._events:
            if not any(own[2] is event[2] and own[0] == event[0] and own[1] == event[1] for own in events):
                self.add(*event)
        self._more += other._more

    def retried(self) -> "Triggers":
        """The triggers of the next attempt of the same sync."""
        triggers = Triggers()
        triggers._events = self._events[:MAX_TRIGGERS]
        if not triggers._events or triggers._events[0][0] != RETRY:
            triggers._events = [(RETRY, "", None), *triggers._events[: MAX_TRIGGERS - 1]]
        triggers._more = self._more
        return triggers

    @property
    def more(self) -> int:
        """The number of omitted events."""
        return self._more

    def built(self) -> tuple[Trigger, ...]:
        """The triggers as values."""
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
        """The cause of the last write, shared by all following ones until the next decision."""
        self.decision: str | None = None
        """The decision of that cause."""


_sync: ContextVar[_Sync | None] = ContextVar("pilothouse sync", default=None)
_decision: ContextVar[str] = ContextVar("pilothouse decision", default="")


def begin_sync(component: str, key: object, triggers: Triggers | None = None) -> None:
    """From now on this task, and every task that it creates, works on ``key`` of ``component``, without a decision
    yet."""
    _sync.set(_Sync(component, key, triggers))
    if _decision.get():
        _decision.set("")


def current_triggers() -> Triggers | None:
    """The triggers of the current sync; None outside of a sync, or without events."""
    sync = _sync.get()
    return None if sync is None else sync.triggers


def record_decision(sentence: str) -> None:
    """Set the reason of the following writes of this task: one sentence with the numbers that it depends on.

    It is valid until the next decision or sync. A task that writes concurrently has its own decision, which others
    don't see.
    """
    _decision.set(sentence)


class Moment(NamedTuple):
    """The sync of a task and its decision, for a write that another task makes later."""

    sync: _Sync | None
    decision: str


def current_moment() -> Moment:
    """The moment of this task."""
    return Moment(_sync.get(), _decision.get())


def return_to(moment: Moment) -> None:
    """The following writes of this task were decided at that moment."""
    _sync.set(moment.sync)
    _decision.set(moment.decision)


def adopt_cause(cause: Cause) -> None:
    """The following writes of this task have this cause, which was determined in another process."""
    sync = _Sync(cause.component, cause.key, None)
    sync.cause, sync.decision = cause, cause.decision
    _sync.set(sync)
    _decision.set(cause.decision)


def current_cause() -> Cause | None:
    """The cause of this task's writes; None outside of a sync."""
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
    """The header line for a write of this task, with its line end; empty outside of a sync. It is ASCII."""
    cause = current_cause()
    if cause is None:
        return b""
    text = encode_cause(cause)
    if not text.isascii():
        text = json.dumps(msgspec.json.decode(text), separators=(",", ":")).encode()  # escapes what is not ASCII
    return b"Pilothouse-Cause: " + text + b"\r\n"


def read_cause(headers: Mapping[str, str]) -> Cause | None:
    """The cause in a request's header, None without one. Raises ``InvalidCause``."""
    text = headers.get(HEADER)
    if not text:
        return None
    if len(text) > _MAX_HEADER:
        raise InvalidCause(f"{len(text)} characters, at most {_MAX_HEADER} are read")
    try:
        cause = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidCause(str(error)) from error
    texts = [
        cause.component,
        cause.key,
        *(name for trigger in cause.triggers for name in msgspec.structs.astuple(trigger)),
    ]
    if not 0 <= cause.more <= _MAX_MORE:
        raise InvalidCause(f"more must be between 0 and {_MAX_MORE}")
    if len(cause.triggers) > MAX_TRIGGERS or len(cause.decision) > MAX_DECISION or max(map(len, texts)) > _MAX_NAME:
        raise InvalidCause(
            f"at most {MAX_TRIGGERS} triggers, {MAX_DECISION} characters of a decision and {_MAX_NAME} of every other "
            "text are accepted"
        )
    return cause
