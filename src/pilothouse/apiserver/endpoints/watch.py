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
from pilothouse.storage.unreadable import why_unreadable

T = TypeVar("T")
_log = Log("apiserver")

_LAST_BOOKMARK_SECONDS = 2.0
_BATCH_BYTES = 256 * 1024
"""Initial events are encoded in batches of about this size, because a reader may be slow or disconnect."""


async def watch(core: Core, call: Call) -> "Watch":
    """Start a watch. Later errors are ERROR events, not status codes."""
    options = read_list_options(call.request_info.query, watch=True)
    selection = selection_of(core, call)
    resource_version = options.resource_version
    revision = parse_revision(resource_version) if resource_version else 0
    if not resource_version:
        await core.catch_up(call.info.prefix)
    watching = Watch(core, call, selection, options, revision)
    if watching.converts:
        try:
            await watching.convert_first()
        except StatusError as error:
            watching.stop()
            # As upstream while its watch cache cannot be initialized (``cacher.Watch``, v1.36).
            raise errors.too_many_requests(f"storage is (re)initializing: {error.message}") from None
        except BaseException:
            watching.stop()
            raise
    return watching


def _converted(change: Change, converted_values: Mapping[bytes, bytes], *, needs_old: bool) -> Change:
    """The change with converted objects; ``converted_values`` maps stored bytes to them."""
    old = change.old
    if old is not None and (needs_old or change.type == "DELETED"):
        old = Record(old.key, converted_values[old.value], old.revision, old.created)
    else:
        old = None
    if change.type == "DELETED":
        assert old is not None, "a deletion has an old object"
        value = with_revision(old.value, old.revision, change.revision)
    else:
        value = converted_values[change.value]
    return Change(change.revision, change.key, change.type, value, old)


class Watch:
    """An active watch.

    Nothing is read before the iteration starts, except that the history since the start is retained if possible. Events
    are in the order of revisions. Consecutive bookmarks differ, except the last one of the watch. The watch ends at its
    timeout, when ``close`` is called, when its reader is too slow, when the store is closed, or when its resource is no
    longer served. If a webhook converts, it also ends when a change cannot be converted, without an ERROR event, as
    upstream's: the client resumes after the last event.
    """

    def __init__(self, core: Core, call: Call, selection: Selection, options: ListOptions, revision: int) -> None:
        self.info: ResourceInfo = call.info
        self.warnings: tuple[str, ...] = tuple(call.warnings)
        self._core = core
        self._store = core.store.store_for(call.info.prefix)
        self._call = call
        self._selection = selection
        self._options = options
        self._revision = revision
        initial = options.send_initial_events
        self._initial = initial if initial is not None else not revision
        self._watcher: Watcher | None = None
        self._closed = False
        self._prefix = self._narrow_prefix()
        self._initial_events: list[WatchEvent | Record] | None = None
        """The initial events; None until they are determined. Records are encoded when they are sent."""
        self._sent_initial_events = 0
        """How many of them were sent."""
        self.converts = call.info.custom is not None and call.info.custom.converter is not None
        """Whether a webhook may be needed to convert objects."""
        self._initial_records: list[Record] = []
        """Initial changes that have to be converted."""
        self._converting: asyncio.Timeout | None = None
        now = core.env.monotonic()
        seconds = options.timeout_seconds
        if not seconds:
            min_seconds = core.options.min_watch_seconds
            seconds = core.env.stream("apiserver watch timeouts").randrange(min_seconds, 2 * min_seconds)
        self._started_at = now
        self._deadline = now + seconds
        self._bookmarked = -1
        """The revision in the last bookmark."""
        self._last_bookmark = self._deadline - _LAST_BOOKMARK_SECONDS
        self._bookmark_at = self._deadline
        self._alarm_at = -1.0
        if options.bookmarks:
            self._schedule_bookmark(now)
        core.watches[self] = self.info
        self.bookmark_handler: Callable[[int], bool] | None = None
        """Delivers the revision of a bookmark to a reader in the same process without waking its task; false if the
        reader is not waiting."""
        self._receive_events: Callable[[list[WatchEvent]], bool] | None = None
        metrics = core.metrics
        self.event_sizes = metrics.requests.event_sizes(call.info) if metrics is not None else None
        """Observes the size of each event in bytes."""
        if revision <= self._store.revision or not self._initial:
            self._start()

    def _narrow_prefix(self) -> str:
        call, name = self._call, self._selection.name
        if name and (call.namespace or not call.info.namespaced):
            return call.info.key(call.namespace, name)
        return call.info.list_prefix(call.namespace)

    def _start(self) -> None:
        """Take the current state, and follow the history from the same revision."""
        store, info = self._store, self.info
        after = self._revision
        if self._initial or not after:
            after = store.revision
        try:
            self._watcher = store.watch(self._prefix, after)
        except Compacted as error:
            self._fail(errors.expired(f"too old resource version: {after} ({error.oldest})"))
            return
        self._initial_events = []
        metrics = self._core.metrics
        if self._initial:
            if self.converts:
                self._initial_records = self._current_records()
            else:
                records = self._current_selected_records()
                if store.has_unreadable:
                    unreadable = next((record for record in records if why_unreadable(record.value)), None)
                    if unreadable is not None:
                        self._fail(errors.unreadable(unreadable.value, "", ""))
                        return
                self._initial_events += records
            if metrics is not None:
                metrics.storage.watch_began(info, len(self._initial_events) + len(self._initial_records))
            if self._options.bookmarks:
                self._bookmarked = after
                self._initial_events.append(self._bookmark(after, initial_end=True))

    def _fail(self, error: StatusError) -> None:
        self._initial_events = [WatchEvent("ERROR", error.body)]
        self._deadline = self._core.env.monotonic()

    async def convert_first(self) -> None:
        """Convert the initial events and the changes since. Raises ``StatusError``. Does nothing until they are
        determined."""
        if self._initial_events is None or self._watcher is None:
            return
        records, self._initial_records = self._initial_records, []
        values = await self._core.list_from_storage(self.info, [record.value for record in records])
        read = self._call.strategy.attributes.read
        selection = self._selection
        initial = [WatchEvent("ADDED", value) for value in values if selection.empty or selection.matches(read(value))]
        changes = await self._convert(self._watcher.take())
        self._initial_events = [*initial, *self._initial_events, *self._events(changes)]

    async def _convert(self, changes: list[Change]) -> list[Change]:
        """The changes in the version of the watch. Watches of the same version share them."""
        needs_old = not self._selection.empty
        key = (self.info, "converted", needs_old)
        values: list[bytes] = []
        for change in changes:
            if change.memo is not None and key in change.memo:
                continue
            if change.type != "DELETED":
                values.append(change.value)
            if change.old is not None and (needs_old or change.type == "DELETED"):
                values.append(change.old.value)
        converted_values = dict(zip(values, await self._core.list_from_storage(self.info, values), strict=True))
        converted = []
        for change in changes:
            memo = change.memo
            if memo is None:
                memo = change.memo = {}
            if key not in memo:
                memo[key] = _converted(change, converted_values, needs_old=needs_old)
            converted.append(memo[key])
        return converted

    async def _until_watch_ends(self, converting: Coroutine[Any, Any, T]) -> T | None:
        """The result of a conversion; None if the watch ends: by timeout, ``close``, or a failure of the conversion."""
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
            _log.warning("A watch ends because a change could not be converted", error=error.message)
            self.stop()
        return None

    def _current_records(self) -> list[Record]:
        """The records that may be selected, without decoding them."""
        core, call, selection = self._core, self._call, self._selection
        store = core.store
        keys = None if selection.empty else keys_selected(core, call, selection)
        prefix = call.info.list_prefix(call.namespace)
        if keys is None:
            return store.list(prefix).records
        return [record for key in keys if key.startswith(prefix) and (record := store.get(key)) is not None]

    def _current_selected_records(self) -> list[Record]:
        core, call, selection = self._core, self._call, self._selection
        records = self._current_records()
        if selection.empty:
            return records
        attributes_of, resource, reader = core.attributes.current, call.info.prefix, call.strategy.attributes
        return [record for record in records if selection.matches(attributes_of(resource, reader, record))]

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> list[WatchEvent]:
        if self._initial_events is None and not self._closed:
            # A watch waits for a future resource version; with initial events it must not.
            try:
                await wait_for(self._core, self.info.prefix, self._revision)
            except StatusError as error:
                self._fail(error)
            else:
                self._start()
                if self.converts:
                    await self._until_watch_ends(self.convert_first())
        if self._initial_events:
            if self._sent_initial_events:
                await asyncio.sleep(0)  # let other tasks run between batches
            try:
                return self._next_initial_events(self._initial_events)
            except StatusError as error:
                self._initial_events = []
                self.stop()
                return [WatchEvent("ERROR", error.body)]
        watcher = self._watcher
        while not self._closed and watcher is not None:
            changes = watcher.take()
            if changes:
                if self.converts:
                    changes = await self._until_watch_ends(self._convert(changes)) or []
                try:
                    events = self._events(changes)
                except StatusError as error:  # undecodable objects of another program
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
                needs_bookmark = self._needs_bookmark
                self._schedule_bookmark(now)
                if needs_bookmark:
                    self._bookmarked = self._store.revision
                    return [self._bookmark(self._bookmarked)]
            self._set_alarm(self._bookmark_at)
            await watcher.changed()
        self.stop()
        raise StopAsyncIteration

    def _next_initial_events(self, initial_events: list[WatchEvent | Record]) -> list[WatchEvent]:
        end, size = self._sent_initial_events, 0
        batch: list[WatchEvent] = []
        while end < len(initial_events) and size < _BATCH_BYTES:
            item = initial_events[end]
            event = (
                WatchEvent("ADDED", self._core.from_storage_nowait(self.info, item.value))
                if isinstance(item, Record)
                else item
            )
            batch.append(event)
            size += len(event.value)
            end += 1
        self._sent_initial_events = end
        if end == len(initial_events):
            self._initial_events = []
            if self._options.send_initial_events and self._core.metrics is not None:
                seconds = self._core.env.monotonic() - self._started_at
                self._core.metrics.requests.watch_listed(self._call.request_info, seconds)
        return batch

    # Bookmarks

    @property
    def _needs_bookmark(self) -> bool:
        """Whether a bookmark is to be sent: it differs from the previous one, or is the last of this watch."""
        revision = self._store.revision
        return revision >= self._revision and (revision != self._bookmarked or self._bookmark_at >= self._last_bookmark)

    def _schedule_bookmark(self, now: float) -> None:
        """The next bookmark is due at a multiple of the interval since the start, the last one shortly before the
        end."""
        last = self._last_bookmark
        if now >= last:
            self._bookmark_at = self._deadline
        else:
            started_at, interval = self._started_at, self._core.options.bookmark_seconds
            due_at = started_at + ((now - started_at) // interval + 1) * interval
            self._bookmark_at = due_at if due_at < last else last

    def _set_alarm(self, due_at: float) -> None:
        """One alarm per watch, not one per wait: most waits end with a change."""
        if due_at == self._alarm_at:
            return
        alarms = self._core.alarms
        if self._alarm_at >= 0:
            alarms.cancel(self._alarm_at, self)
        self._alarm_at = due_at
        alarms.set(due_at, self)

    def on_alarm(self, now: float) -> None:
        """A bookmark or the end is due."""
        self._alarm_at = -1.0
        watcher, bookmark_handler = self._watcher, self.bookmark_handler
        if (
            bookmark_handler is not None
            and watcher is not None
            and watcher.idle
            and self._bookmark_at <= now < self._deadline
            and not (self._closed or self.converts)
        ):
            # There is nothing else to send. A reader in the same process gets the bookmark without being woken.
            revision = self._store.revision
            is_last = self._bookmark_at >= self._last_bookmark
            if revision >= self._revision and (revision != self._bookmarked or is_last) and bookmark_handler(revision):
                self._bookmarked = revision
                self._schedule_bookmark(now)
                due_at = self._alarm_at = self._bookmark_at
                self._core.alarms.set(due_at, self)
                return
        if now < self._deadline and not self._needs_bookmark:
            # The store is idle. Until the next write there is no bookmark to send each minute.
            self._core.idle_watches[self.notify_written] = None
            # A watch that waits for a future revision sends no last bookmark, and just ends.
            self._bookmark_at = self._last_bookmark if now < self._last_bookmark else self._deadline
            self._set_alarm(self._bookmark_at)
        elif watcher is not None:
            watcher.nudge()

    def deliver_events_to(self, handler: Callable[[list[WatchEvent]], bool]) -> None:
        """``Watching.deliver_events_to``."""
        if self._watcher is not None and not self.converts:
            self._receive_events = handler
            self._watcher.handler = self._handle_changes

    def _handle_changes(self, changes: list[Change]) -> bool:
        try:
            events = self._events(changes)
        except StatusError:  # reported when the reader resumes
            return False
        receive = self._receive_events
        assert receive is not None, "set by deliver_events_to"
        return not events or receive(events)

    def notify_written(self) -> None:
        """Called for the first write after an idle time: bookmarks are due again."""
        if self._bookmark_at < self._deadline:
            self._schedule_bookmark(self._core.env.monotonic())
            self._set_alarm(self._bookmark_at)

    def _events(self, changes: list[Change]) -> list[WatchEvent]:
        selection = self._selection
        if selection.empty:
            if len(changes) == 1:
                return [self._shared_event(changes[0])]
            return [self._shared_event(change) for change in changes]
        events = []
        for change in changes:
            event = self._filtered_event(change, selection)
            if event is not None:
                events.append(event)
        return events

    def _shared_event(self, change: Change, type_: str = "") -> WatchEvent:
        """The event for watches whose selection of the object is unchanged; encoded once for all of them."""
        memo = change.memo
        if memo is None:
            memo = change.memo = {}
        type_ = type_ or change.type
        info = self.info
        key = (info, type_)
        event: WatchEvent | None = memo.get(key)
        if event is None:
            value = change.value
            if info.custom is not None or not value.startswith(info.head):
                value = self._served_object(value)
            event = memo[key] = WatchEvent(type_, value, {})
        return event

    def _filtered_event(self, change: Change, selection: Selection) -> WatchEvent | None:
        """The event for a watch with selectors: an object is added or deleted when it begins or ceases to match."""
        matched_before = change.old is not None and selection.matches(self._attributes(change, old=True))
        if change.type == "DELETED":
            return self._shared_event(change) if matched_before else None
        if selection.matches(self._attributes(change, old=False)):
            return self._shared_event(change, "MODIFIED" if matched_before else "ADDED")
        if not matched_before:
            return None
        memo = change.memo
        assert memo is not None, "the attributes have been read"
        assert change.old is not None, "it matched before"
        key = (self.info, "left")
        event: WatchEvent | None = memo.get(key)
        if event is None:
            value = with_revision(change.old.value, change.old.revision, change.revision)
            event = memo[key] = WatchEvent("DELETED", self._served_object(value), {})
        return event

    def _served_object(self, value: bytes) -> bytes:
        return value if self.converts else self._core.from_storage_nowait(self.info, value)

    def _attributes(self, change: Change, *, old: bool) -> Attributes:
        memo = change.memo
        if memo is None:
            memo = change.memo = {}
        # Groups and versions of one stored resource have different selectable fields.
        reader = self._call.strategy.attributes
        key = (reader, old)
        attributes: Attributes | None = memo.get(key)
        if attributes is None:
            revision, value = change.revision, change.value
            if old:
                assert change.old is not None, "the caller checks that there is an old object"
                revision, value = change.old.revision, change.old.value
            attributes = memo[key] = self._core.attributes.at_revision(reader, change.key, revision, value)
        return attributes

    def bookmark(self, revision: int) -> WatchEvent:
        """The bookmark event of a revision."""
        return self._bookmark(revision)

    def _bookmark(self, revision: int, *, initial_end: bool = False) -> WatchEvent:
        annotations = b',"annotations":{"k8s.io/initial-events-end":"true"}' if initial_end else b""
        value = self.info.head + b'"metadata":{"resourceVersion":"%d"%s}}' % (revision, annotations)
        return WatchEvent("BOOKMARK", value)

    async def close(self) -> None:
        """End the watch; the iteration ends at its next step."""
        self.stop()

    def finish(self) -> None:
        """End the watch after the pending events were read."""
        if self._watcher is None or self._watcher.idle:
            self.stop()
        else:
            self._deadline = self._core.env.monotonic()

    def stop(self) -> None:
        """``close`` for callers that do not wait."""
        self._closed = True
        if self._converting is not None and not self._converting.expired():
            self._converting.reschedule(self._core.env.monotonic())
        self._core.watches.pop(self, None)
        self._core.idle_watches.pop(self.notify_written, None)
        if self._alarm_at >= 0:
            self._core.alarms.cancel(self._alarm_at, self)
            self._alarm_at = -1.0
        if self._watcher is not None:
            self._watcher.close()
