"""watch: initial events, changes, bookmarks, timeouts, and 410 for compacted versions."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.get import keys_selected, parse_revision, selection_of, wait_for
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import with_revision
from pilothouse.apiserver.options import ListOptions, read_list_options
from pilothouse.apiserver.registry.generic.selection_predicate import Attributes, Selection
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.results import WatchEvent
from pilothouse.env import Log
from pilothouse.storage import Change, Compacted, Record, Watcher

T = TypeVar("T")
_log = Log("apiserver")

_LAST_BOOKMARK_SECONDS = 2.0
_BATCH_BYTES = 256 * 1024
"""Of what there is at the beginning, about so much is shown at a time: a reader may be slow, or gone soon."""


async def watch(core: Core, call: Call) -> "Watch":
    """Begin a watch. What goes wrong from here on is an ERROR event, not a status code."""
    options = read_list_options(call.request_info.query, watch=True)
    selection = selection_of(core, call)
    wanted = options.resource_version
    revision = parse_revision(wanted) if wanted else 0
    if not wanted:
        await core.catch_up()
    watching = Watch(core, call, selection, options, revision)
    if watching.converts:
        try:
            await watching.convert_first()
        except StatusError as error:
            watching.stop()
            # As while upstream's cache of the version cannot be filled (``cacher.Watch``, v1.36).
            raise errors.too_many_requests(f"storage is (re)initializing: {error.message}") from None
        except BaseException:
            watching.stop()
            raise
    return watching


def _converted(change: Change, shown: Mapping[bytes, bytes], *, needs_before: bool) -> Change:
    """A change whose objects are in another version; ``shown`` has them by how they are stored."""
    before = change.before
    if before is not None and (needs_before or change.type == "DELETED"):
        before = Record(before.key, shown[before.value], before.revision, before.created)
    else:
        before = None
    if change.type == "DELETED":
        assert before is not None, "what is deleted was there"
        value = with_revision(before.value, before.revision, change.revision)
    else:
        value = shown[change.value]
    return Change(change.revision, change.key, change.type, value, before)


class Watch:
    """One watch under way.

    Nothing is read before the iteration begins, except that history from then on is reserved when the start allows it.
    Events come in revision order. No bookmark is the same as the one before, but for the last of the watch. It ends at
    its time limit, when ``close`` is called, when its reader falls behind, when the store closes, or when its resource
    is no longer served. Where a webhook converts, it also ends when a change cannot be converted, without an event that
    says so, as upstream's do: its client goes on from the last event.
    """

    def __init__(self, core: Core, call: Call, selection: Selection, options: ListOptions, revision: int) -> None:
        self.info: ResourceInfo = call.info
        self.warnings: tuple[str, ...] = tuple(call.warnings)
        self._core = core
        self._call = call
        self._selection = selection
        self._options = options
        self._revision = revision
        initial = options.send_initial_events
        self._initial = initial if initial is not None else not revision
        self._watcher: Watcher | None = None
        self._closed = False
        self._prefix = self._narrow_prefix()
        self._first: list[WatchEvent] | None = None
        """What is sent before anything is followed; None until it is known."""
        self._sent = 0
        """How much of it is sent."""
        self.converts = call.info.custom is not None and call.info.custom.converter is not None
        """Whether a webhook may have to convert what is sent."""
        self._initial_records: list[Record] = []
        """What is to be converted and sent before anything is followed."""
        self._converting: asyncio.Timeout | None = None
        now = core.env.monotonic()
        seconds = options.timeout_seconds
        if not seconds:
            least = core.options.min_watch_seconds
            seconds = core.env.stream("apiserver watch timeouts").randrange(least, 2 * least)
        self._began = now
        self._deadline = now + seconds
        self._bookmarked = -1
        """The revision in the last bookmark."""
        self._last_bookmark = self._deadline - _LAST_BOOKMARK_SECONDS
        self._bookmark_at = self._deadline
        self._alarm_at = -1.0
        if options.bookmarks:
            self._plan_bookmark(now)
        core.watches[self] = self.info
        self.hand_over: Callable[[int], bool] | None = None
        """Gives the version of a bookmark to a reader in the same process without waking its task; false: it does not
        wait for anything just now."""
        self._take_events: Callable[[list[WatchEvent]], bool] | None = None
        metrics = core.metrics
        self.event_sizes = metrics.requests.event_sizes(call.info) if metrics is not None else None
        """Counts what is sent, by its bytes."""
        if revision <= core.store.revision or not self._initial:
            self._begin()

    def _narrow_prefix(self) -> str:
        call, name = self._call, self._selection.name
        if name and (call.namespace or not call.info.namespaced):
            return call.info.key(call.namespace, name)
        return call.info.list_prefix(call.namespace)

    def _begin(self) -> None:
        """Take the state of now, and history from there on; both at one instant."""
        store, info = self._core.store, self.info
        after = self._revision
        if self._initial or not after:
            after = store.revision
        try:
            self._watcher = store.watch(self._prefix, after)
        except Compacted as gone:
            self._fail(errors.expired(f"too old resource version: {after} ({gone.oldest})"))
            return
        self._first = []
        metrics = self._core.metrics
        if self._initial:
            if self.converts:
                self._initial_records = self._current_records()
            else:
                view = self._core.view
                try:
                    self._first += [WatchEvent("ADDED", view(info, record.value)) for record in self._now()]
                except StatusError as error:
                    self._fail(error)
                    return
            if metrics is not None:
                metrics.storage.watch_began(info, len(self._first) + len(self._initial_records))
            if self._options.bookmarks:
                self._bookmarked = after
                self._first.append(self._bookmark(after, initial_end=True))

    def _fail(self, error: StatusError) -> None:
        self._first = [WatchEvent("ERROR", error.body)]
        self._deadline = self._core.env.monotonic()

    async def convert_first(self) -> None:
        """Convert what is sent first, and what has been written since then. Raises ``StatusError``. Does nothing while
        that is not known yet."""
        if self._first is None or self._watcher is None:
            return
        records, self._initial_records = self._initial_records, []
        values = await self._core.shown_all(self.info, [record.value for record in records])
        read = self._call.strategy.attributes.read
        selection = self._selection
        initial = [WatchEvent("ADDED", value) for value in values if selection.empty or selection.matches(read(value))]
        changes = await self._convert(self._watcher.take())
        self._first = [*initial, *self._first, *self._events(changes)]

    async def _convert(self, changes: list[Change]) -> list[Change]:
        """The changes in the version of the watch. All who watch it share them."""
        needs_before = not self._selection.empty
        key = (self.info, "converted", needs_before)
        values: list[bytes] = []
        for change in changes:
            if change.memo is not None and key in change.memo:
                continue
            if change.type != "DELETED":
                values.append(change.value)
            if change.before is not None and (needs_before or change.type == "DELETED"):
                values.append(change.before.value)
        shown = dict(zip(values, await self._core.shown_all(self.info, values), strict=True))
        converted = []
        for change in changes:
            memo = change.memo
            if memo is None:
                memo = change.memo = {}
            if key not in memo:
                memo[key] = _converted(change, shown, needs_before=needs_before)
            converted.append(memo[key])
        return converted

    async def _within_watch(self, converting: Coroutine[Any, Any, T]) -> T | None:
        """What is converted; None when the watch ends: because it is time, it is closed, or that is not possible."""
        try:
            async with asyncio.timeout_at(self._deadline) as limit:
                self._converting = limit
                try:
                    return await converting
                finally:
                    self._converting = None
        except TimeoutError:
            self.stop()
        except StatusError as error:
            _log.warning("A watch ends, for a change could not be converted", error=error.message)
            self.stop()
        return None

    def _current_records(self) -> list[Record]:
        """The records that the watch may be about, as far as that can be said without looking into them."""
        core, call, selection = self._core, self._call, self._selection
        store = core.store
        keys = None if selection.empty else keys_selected(core, call, selection)
        prefix = call.info.list_prefix(call.namespace)
        if keys is None:
            return store.list(prefix).records
        return [record for key in keys if key.startswith(prefix) and (record := store.get(key)) is not None]

    def _now(self) -> list[Record]:
        core, call, selection = self._core, self._call, self._selection
        records = self._current_records()
        if selection.empty:
            return records
        attributes_of, resource, reader = core.attributes.of, call.info.prefix, call.strategy.attributes
        return [record for record in records if selection.matches(attributes_of(resource, reader, record))]

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> list[WatchEvent]:
        if self._first is None and not self._closed:
            # A plain watch from the future waits for it; one that wants the state first may not.
            try:
                await wait_for(self._core, self._revision)
            except StatusError as error:
                self._fail(error)
            else:
                self._begin()
                if self.converts:
                    await self._within_watch(self.convert_first())
        if self._first:
            return self._next_of(self._first)
        watcher = self._watcher
        while not self._closed and watcher is not None:
            changes = watcher.take()
            if changes:
                if self.converts:
                    changes = await self._within_watch(self._convert(changes)) or []
                try:
                    events = self._events(changes)
                except StatusError as error:  # what another program has stored and nobody can read
                    self.stop()
                    return [WatchEvent("ERROR", error.body)]
                if events:
                    return events
                continue
            now = self._core.env.monotonic()
            if watcher.ended or now >= self._deadline:
                if watcher.overrun and self._core.metrics is not None:
                    self._core.metrics.storage.watch_overrun(self.info)
                break
            if now >= self._bookmark_at:
                due = self._has_news
                self._plan_bookmark(now)
                if due:
                    self._bookmarked = self._core.store.revision
                    return [self._bookmark(self._bookmarked)]
            self._set_alarm(self._bookmark_at)
            await watcher.changed()
        self.stop()
        raise StopAsyncIteration

    def _next_of(self, first: list[WatchEvent]) -> list[WatchEvent]:
        begin = end = self._sent
        size = 0
        while end < len(first) and size < _BATCH_BYTES:
            size += len(first[end].value)
            end += 1
        self._sent = end
        if end == len(first):
            self._first = []
            if self._options.send_initial_events and self._core.metrics is not None:
                seconds = self._core.env.monotonic() - self._began
                self._core.metrics.requests.watch_listed(self._call.request_info, seconds)
        return first[begin:end]

    # Bookmarks

    @property
    def _has_news(self) -> bool:
        """Whether a bookmark is worth sending: it differs from the one before, or is the last of this watch."""
        revision = self._core.store.revision
        return revision >= self._revision and (revision != self._bookmarked or self._bookmark_at >= self._last_bookmark)

    def _plan_bookmark(self, now: float) -> None:
        """The next one is due a whole number of intervals after the beginning, the last one just before the end."""
        interval = self._core.options.bookmark_seconds
        if now >= self._last_bookmark:
            self._bookmark_at = self._deadline
        else:
            passed = (now - self._began) // interval + 1
            self._bookmark_at = min(self._began + passed * interval, self._last_bookmark)

    def _set_alarm(self, at: float) -> None:
        """One alarm per watch, not one per wait: most waits end with a change."""
        if at == self._alarm_at:
            return
        alarms = self._core.alarms
        if self._alarm_at >= 0:
            alarms.cancel(self._alarm_at, self)
        self._alarm_at = at
        alarms.set(at, self)

    def ring(self) -> None:
        """A bookmark is due, or the end."""
        self._alarm_at = -1.0
        now = self._core.env.monotonic()
        if now < self._deadline and not self._has_news:
            # Nothing is written anywhere. Until that changes there is no need to wake up each minute just to see it.
            self._core.quiet[self.notify_written] = None
            # One that waits for a revision of the future has no news at the last bookmark either, and just ends.
            self._bookmark_at = self._last_bookmark if now < self._last_bookmark else self._deadline
            self._set_alarm(self._bookmark_at)
        elif self._watcher is not None and not self._hands_over(now):
            self._watcher.nudge()

    def _hands_over(self, now: float) -> bool:
        """Whether the reader has taken the bookmark that is due, as the only thing there is."""
        watcher, hand_over = self._watcher, self.hand_over
        if hand_over is None or watcher is None or not watcher.idle or watcher.ended or self._closed or self.converts:
            return False
        if now >= self._deadline or now < self._bookmark_at:
            return False
        revision = self._core.store.revision
        if not hand_over(revision):
            return False
        self._bookmarked = revision
        self._plan_bookmark(now)
        self._set_alarm(self._bookmark_at)
        return True

    def hand_events_to(self, take: Callable[[list[WatchEvent]], bool]) -> None:
        """``Watching.hand_events_to``."""
        if self._watcher is not None and not self.converts:
            self._take_events = take
            self._watcher.take_at_once = self._hand_over_changes

    def _hand_over_changes(self, changes: list[Change]) -> bool:
        try:
            events = self._events(changes)
        except StatusError:  # reported when the reader is woken
            return False
        assert self._take_events is not None, "there is who takes them"
        return not events or self._take_events(events)

    def notify_written(self) -> None:
        """Something was written after a time without: bookmarks are due again."""
        if self._bookmark_at < self._deadline:
            self._plan_bookmark(self._core.env.monotonic())
            self._set_alarm(self._bookmark_at)

    def _events(self, changes: list[Change]) -> list[WatchEvent]:
        selection = self._selection
        if selection.empty:
            return [self._plain(change) for change in changes]
        events = []
        for change in changes:
            event = self._selected(change, selection)
            if event is not None:
                events.append(event)
        return events

    def _plain(self, change: Change, type_: str = "") -> WatchEvent:
        """The event for all watches that saw the object before and still do; made once for all of them."""
        memo = change.memo
        if memo is None:
            memo = change.memo = {}
        type_ = type_ or change.type
        key = (self.info, type_)
        event: WatchEvent | None = memo.get(key)
        if event is None:
            event = memo[key] = WatchEvent(type_, self._show(change.value), {})
        return event

    def _selected(self, change: Change, selection: Selection) -> WatchEvent | None:
        """The event as a watch with selectors sees it: objects come and go as they begin and cease to match."""
        before = change.before is not None and selection.matches(self._attributes(change, before=True))
        if change.type == "DELETED":
            return self._plain(change) if before else None
        if selection.matches(self._attributes(change, before=False)):
            return self._plain(change, "MODIFIED" if before else "ADDED")
        if not before:
            return None
        memo = change.memo
        assert memo is not None, "the attributes have been read"
        assert change.before is not None, "it matched before"
        key = (self.info, "left")
        event: WatchEvent | None = memo.get(key)
        if event is None:
            value = with_revision(change.before.value, change.before.revision, change.revision)
            event = memo[key] = WatchEvent("DELETED", self._show(value), {})
        return event

    def _show(self, value: bytes) -> bytes:
        return value if self.converts else self._core.view(self.info, value)

    def _attributes(self, change: Change, *, before: bool) -> Attributes:
        memo = change.memo
        if memo is None:
            memo = change.memo = {}
        # Groups and versions of one stored resource select by different fields, and have readers of their own.
        reader = self._call.strategy.attributes
        key = (reader, before)
        attributes: Attributes | None = memo.get(key)
        if attributes is None:
            revision, value = change.revision, change.value
            if before:
                assert change.before is not None, "only asked for when there was something before"
                revision, value = change.before.revision, change.before.value
            attributes = memo[key] = self._core.attributes.at(reader, change.key, revision, value)
        return attributes

    def bookmark(self, revision: int) -> WatchEvent:
        """The event that says that there is nothing else up to a revision."""
        return self._bookmark(revision)

    def _bookmark(self, revision: int, *, initial_end: bool = False) -> WatchEvent:
        notes = b',"annotations":{"k8s.io/initial-events-end":"true"}' if initial_end else b""
        value = self.info.head + b'"metadata":{"resourceVersion":"%d"%s}}' % (revision, notes)
        return WatchEvent("BOOKMARK", value)

    async def close(self) -> None:
        """End the watch; the iteration ends at its next step."""
        self.stop()

    def finish(self) -> None:
        """End the watch once its reader has what is there already."""
        if self._watcher is None or self._watcher.idle:
            self.stop()
        else:
            self._deadline = self._core.env.monotonic()

    def stop(self) -> None:
        """``close`` for callers that don't wait."""
        self._closed = True
        if self._converting is not None and not self._converting.expired():
            self._converting.reschedule(self._core.env.monotonic())
        self._core.watches.pop(self, None)
        self._core.quiet.pop(self.notify_written, None)
        if self._alarm_at >= 0:
            self._core.alarms.cancel(self._alarm_at, self)
            self._alarm_at = -1.0
        if self._watcher is not None:
            self._watcher.close()
