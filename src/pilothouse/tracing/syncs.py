"""Spans of syncs: the events that had a key enqueued are their cause.

The parent is the span of the commit that first enqueued the key, with a span between them for the delivery of the
event; the commits of further events are links. A sync that the previous sync scheduled (``AddAfter``) continues its
trace, for a limited time. A sync without a known cause starts a new trace.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext

from pilothouse.machinery.causes import RETRY, SYNC, Trigger, Triggers
from pilothouse.tracing.commits import Commit
from pilothouse.tracing.provider import MAX_TEXT, Tracing, child_of

K = TypeVar("K", bound=Hashable)

LONGEST_DELAY = 60 * 1_000_000_000
"""Nanoseconds after the commit within which a list, or a sync that was scheduled for later, still belongs to its trace.
Periodic syncs have no cause, and one trace of all of them would have no end."""
MAX_COMING_BACK = 4096
"""The maximum number of keys of a pool whose causes are kept."""
_NANOSECONDS = 1_000_000_000
_UPSTREAM_NAMES = {"node pods": "syncPod"}
"""The spans that upstream has, too, by the name of the pool (``pkg/kubelet/kubelet.go``, v1.36)."""


class Queue(Protocol):
    """The part of a work queue that is used here."""

    @property
    def waited(self) -> float:
        """Seconds for which the key that was taken last had been due."""
        ...

    def triggers(self, key: Any) -> Triggers | None:
        """The events that a key, which is being worked on, was added for."""
        ...

    def seconds_until_due(self, key: Any) -> float | None:
        """When a key is due; None if it is not scheduled."""
        ...


class Pool(Protocol):
    """The part of the workers that is used here."""

    name: str
    component: str

    @property
    def queue(self) -> Queue:
        """The queue that they process."""
        ...


class Requeue:
    """The result of a sync, as far as it schedules the next one of its key."""

    __slots__ = ("_span", "asked")

    def __init__(self, span: Span) -> None:
        self._span = span
        self.asked = False

    def note(self, after: float | None) -> None:
        """Seconds until the next sync, None if there is none."""
        if after is not None:
            self.asked = True
            self._span.set_attribute("requeue_after_seconds", after)


class Origin(NamedTuple):
    """The causes of a sync."""

    parent: SpanContext | None
    links: tuple[SpanContext, ...]
    began: int
    """When the trace was started, if known."""
    event: tuple[Trigger, Commit] | None
    """The event whose commit the parent is."""


def commits_of(triggers: Triggers | None, tracing: Tracing) -> list[tuple[Trigger, Commit]]:
    """The events whose commits are known, oldest first."""
    if triggers is None:
        return []
    commits, now = [], tracing.now()
    for trigger in triggers.built():
        commit = tracing.commits.get(trigger.resource_version) if trigger.resource_version else None
        if commit is not None and (trigger.type != SYNC or now - commit.at < LONGEST_DELAY):
            commits.append((trigger, commit))
    return commits


class TracedSyncs:
    """The syncs of one pool, or one scheduler. ``seconds_until_due`` returns when a key is due."""

    def __init__(self, tracing: Tracing, seconds_until_due: Callable[[Any], float | None]) -> None:
        self._tracing = tracing
        self._seconds_until_due = seconds_until_due
        self._coming_back: dict[Any, tuple[SpanContext, int]] = {}
        """The last syncs of keys that are scheduled for later, and when their traces were started."""

    @contextmanager
    def sync(
        self, name: str, component: str, key: Any, triggers: Triggers | None, waited: float | None
    ) -> "Iterator[Requeue]":
        """A block that is the sync of a key. An exception ends the span, and is raised again."""
        tracing = self._tracing
        origin = self._origin(key, triggers)
        started = tracing.now()
        added = started - int((waited or 0.0) * _NANOSECONDS)
        parent = None if origin.parent is None else child_of(origin.parent)
        if origin.event is not None and (triggers is None or not _is_retry(triggers)):
            parent = self._delivered(*origin.event, added)
        attributes: dict[str, str | float] = {"controller": component, "key": _text(key)}
        if waited is not None:
            attributes["queue_latency_seconds"] = round(waited, 6)
        span = tracing.start(
            name, attributes, parent=parent or Context(), links=[Link(link) for link in origin.links], at=started
        )
        comes_back = True
        try:
            with tracing.within(span):
                requeue = Requeue(span)
                yield requeue
                comes_back = requeue.asked or self._seconds_until_due(key) is not None
        finally:
            if comes_back:
                if len(self._coming_back) >= MAX_COMING_BACK:
                    del self._coming_back[next(iter(self._coming_back))]
                self._coming_back[key] = span.get_span_context(), origin.began

    def _origin(self, key: Any, triggers: Triggers | None) -> Origin:
        handed_back = self._coming_back.pop(key, None)
        commits = commits_of(triggers, self._tracing)
        if commits:
            first = commits[0][1]
            links = {commit.context.span_id: commit.context for _trigger, commit in commits[1:]}
            links.pop(first.context.span_id, None)
            return Origin(first.context, tuple(links.values()), first.at, commits[0])
        now = self._tracing.now()
        if handed_back is None:
            return Origin(None, (), now, None)
        parent, began = handed_back
        if now - began < LONGEST_DELAY:
            return Origin(parent, (), began, None)
        return Origin(None, (parent,), now, None)

    def _delivered(self, trigger: Trigger, commit: Commit, added: int) -> Context:
        """From the commit until the key was due."""
        attributes = {
            "type": trigger.type,
            "resource": trigger.resource,
            "namespace": trigger.namespace,
            "name": trigger.name,
            "resource_version": trigger.resource_version,
        }
        watch = self._tracing.start(
            f"watch {trigger.resource}", attributes, parent=child_of(commit.context), at=min(commit.at, added)
        )
        watch.end(max(commit.at, added))
        return child_of(watch.get_span_context())


def traced(pool: Pool, reconcile: Callable[[K], Awaitable[Any]], tracing: Tracing) -> Callable[[K], Awaitable[Any]]:
    """The same function, with a span for each call."""
    queue = pool.queue
    syncs = TracedSyncs(tracing, queue.seconds_until_due)

    async def sync(key: K) -> Any:
        name = _UPSTREAM_NAMES.get(pool.name) or f"{pool.component} sync"
        with syncs.sync(name, pool.component, key, queue.triggers(key), queue.waited) as requeue:
            result = await reconcile(key)
            requeue.note(getattr(result, "after", None))
            return result

    return sync


def _is_retry(triggers: Triggers) -> bool:
    built = triggers.built()
    return bool(built) and built[0].type == RETRY


def _text(key: object) -> str:
    return (" ".join(map(str, key)) if isinstance(key, tuple) else str(key))[:MAX_TEXT]
