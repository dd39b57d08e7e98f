"""The current tables of the web page, maintained while there are readers.

Commits only record the changed keys. Every tenth of a second the rows of those keys are computed again, in slices, and
rows that differ are encoded once and sent to every reader. So the work grows with the number of changed objects, a
burst of changes of one object is one row, and an idle cluster costs nothing. Without readers nothing is recorded.

A reader has a bounded buffer. A slow reader loses its queue and gets all rows again.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec

from pilothouse.env import Env, Log
from pilothouse.machinery.times import format_time
from pilothouse.storage import Change, Record, Store
from pilothouse.storage.watchers import resource_end
from pilothouse.ui.rows import TABLE_OF, TABLES, Row, Table
from pilothouse.ui.slices import Slices

TICK_SECONDS = 0.1
GRACE_SECONDS = 20.0
"""How long the rows are maintained after the last reader has disconnected, so that a reloaded page is shown
immediately."""
FRAME_ROWS = 500
_PAGE = 5000
MAX_READERS = 16
_PENDING_BYTES = 2 * 1024 * 1024
_PENDING_FRAMES = 100

_log = Log("ui")
_encode = msgspec.json.Encoder().encode


class Rows:
    """The rows of one table by key, with the revision of the record that each was computed from."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows: dict[str, tuple[int, Row]] = {}

    def current(self) -> list[Row]:
        """All rows."""
        return [row for _revision, row in self.rows.values()]


class Delta(msgspec.Struct):
    """The changes of one table."""

    name: str
    rows: list[Row]
    gone: list[str]


class Reader:
    """One stream of frames. Iterate ``frames``; ``close`` ends it."""

    def __init__(self, live: "Live") -> None:
        self._live = live
        self._pending: list[bytes] = []
        self._size = 0
        self._ready = asyncio.Event()
        self._closed = False
        self.resyncs = -1
        """How often its queue was dropped and all rows were sent again."""
        self._needs_snapshot = True

    def offer(self, frame: bytes) -> None:
        """Queue a frame; if the buffer is full, drop it and send all rows again."""
        if self._needs_snapshot:
            return
        self._pending.append(frame)
        self._size += len(frame)
        if self._size > _PENDING_BYTES or len(self._pending) > _PENDING_FRAMES:
            self._pending, self._size, self._needs_snapshot = [], 0, True
        self._ready.set()

    def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._ready.set()

    async def frames(self) -> AsyncIterator[bytes]:
        """First all rows, then the changes."""
        await self._live.wait_built()
        while not self._closed:
            if self._needs_snapshot:
                self._needs_snapshot = False
                self.resyncs += 1
                async for frame in self._live.snapshot():
                    yield frame
                continue
            if not self._pending:
                self._ready.clear()
                await self._ready.wait()
                continue
            frames, self._pending, self._size = self._pending, [], 0
            yield b"".join(frames)


class Live:
    """The tables of one store. ``add_frames`` returns further frames for each tick."""

    def __init__(self, env: Env, store: Store) -> None:
        self._env = env
        self._store = store
        self._tables = {table.name: Rows(table) for table in TABLES}
        self._dirty: dict[str, None] = {}
        self._changed = asyncio.Event()
        self._built = asyncio.Event()
        self._readers: dict[Reader, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self.first_frames: Callable[[], Iterable[bytes]] = tuple
        """Further frames for a new reader."""
        for prefix in TABLE_OF:
            store.follow(prefix, self._record_changes)

    @property
    def readers(self) -> int:
        """The number of open readers."""
        return len(self._readers)

    def _record_changes(self, changes: list[Change]) -> None:
        if self._task is None:
            return
        for change in changes:
            self._dirty[change.key] = None
        self._changed.set()

    # Readers

    def open(self) -> Reader | None:
        """A new reader, to be closed with ``close``; None if there are too many."""
        if len(self._readers) >= MAX_READERS:
            return None
        reader = Reader(self)
        self._readers[reader] = None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rows of the page")
        return reader

    def close(self, reader: Reader) -> None:
        """Remove a reader."""
        reader.close()
        self._readers.pop(reader, None)
        if not self._readers and self._task is not None and self._idle is None:
            self._idle = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._reset)

    def _reset(self) -> None:
        """Drop all rows after the last reader."""
        self._idle = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._built.set()  # wakes readers that wait; they have been closed
        self._built.clear()
        self._dirty.clear()
        for rows in self._tables.values():
            rows.rows.clear()

    async def stop(self) -> None:
        """End all streams and the update task."""
        for reader in list(self._readers):
            self.close(reader)
        if self._idle is not None:
            self._idle.cancel()
        task = self._task
        self._reset()
        if task is not None:
            await asyncio.wait([task])

    async def wait_built(self) -> None:
        """Wait until all rows are built."""
        await self._built.wait()

    def publish(self, frame: bytes) -> None:
        """Send a frame to every reader."""
        for reader in self._readers:
            reader.offer(frame)

    # Rows

    async def _run(self) -> None:
        try:
            await self._build()
            self._built.set()
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._tick()
                await asyncio.sleep(TICK_SECONDS)
        except Exception as error:  # noqa: BLE001  # only the page fails, not the API server
            _log.exception("Updating the rows of the web page failed", error)
            # Readers are disconnected; when they reconnect, everything is rebuilt.
            for reader in list(self._readers):
                reader.close()
            self._task = None
            self._reset()

    async def _build(self) -> None:
        slices = Slices(self._env.perf_counter)
        for rows in self._tables.values():
            for record in await self._records(rows.table, 0, slices):
                self._refresh(rows, record.key, record)
                await slices.turn()

    async def _records(self, table: Table, revision: int, slices: Slices) -> list[Record]:
        """The records of a table, now or at a revision, oldest first; of a table with a limit only the newest."""
        records: list[Record] = []
        for prefix in table.prefixes:
            # Past revisions are read without paging, since each page would cost as much as the whole list.
            after, limit = prefix, 0 if revision else _PAGE
            while True:
                page = self._store.list(prefix, after=after, limit=limit, revision=revision)
                records += page.records
                await slices.rest()
                if table.most and len(records) > table.most:
                    records = await self._newest_of(records, table.most, slices)
                if not page.more:
                    break
                after = page.records[-1].key
        return records

    async def _newest_of(self, records: list[Record], limit: int, slices: Slices) -> list[Record]:
        newest: list[Record] = []
        for start in range(0, len(records), _PAGE):
            newest = heapq.nlargest(limit, newest + records[start : start + _PAGE], key=lambda record: record.revision)
            await slices.turn()
        newest.reverse()
        return newest

    def _refresh(self, rows: Rows, key: str, record: Record | None) -> Row | None:
        """Recompute the row of a key. Returns the row if it differs, a row of only the key if it was removed, otherwise
        None."""
        current = rows.rows.get(key)
        if record is None:
            return (key,) if rows.rows.pop(key, None) is not None else None
        if current is not None and current[0] == record.revision:
            return None
        row = rows.table.row(key, record.value)
        if rows.table.most:
            rows.rows.pop(key, None)  # the newest are last
        rows.rows[key] = (record.revision, row)
        return None if current is not None and current[1] == row else row

    async def _tick(self) -> None:
        dirty, self._dirty = self._dirty, {}
        by_table: dict[str, list[str]] = {}
        for key in dirty:
            by_table.setdefault(TABLE_OF[key[: resource_end(key)]].name, []).append(key)
        slices = Slices(self._env.perf_counter)
        deltas = []
        for name, keys in by_table.items():
            rows = self._tables[name]
            keys = self._newest(rows.table, keys)
            delta = Delta(name, [], [])
            for key in keys:
                changed = self._refresh(rows, key, self._store.get(key))
                if changed is not None:
                    delta.gone.append(key) if len(changed) == 1 else delta.rows.append(changed)
                await slices.turn()
            delta.gone += _drop_oldest(rows)
            if delta.rows or delta.gone:
                deltas.append(delta)
        if not self._readers:
            return
        for delta in deltas:
            for frame in delta_frames(delta):
                self.publish(frame)
                await slices.turn()
        self.publish(self._time_mark())

    def _newest(self, table: Table, keys: list[str]) -> list[str]:
        """The changed keys whose rows may be shown: in a table with a limit, only the newest and deleted ones."""
        if not table.most or len(keys) <= table.most:
            return keys
        changed = [(record.revision, key) for key in keys if (record := self._store.get(key)) is not None]
        newest = [key for _revision, key in sorted(changed)[-table.most :]]
        current_rows = self._tables[table.name].rows
        return [*(key for key in keys if key in current_rows and self._store.get(key) is None), *newest]

    def _time_mark(self) -> bytes:
        now = self._env.now()
        return frame({"revision": str(self._store.revision), "time": now.timestamp(), "at": format_time(now)})

    async def snapshot(self) -> AsyncIterator[bytes]:
        """All rows as frames. Rows are never changed in place, so concurrent changes only appear in later frames."""
        tables = [(rows.table, rows.current()) for rows in self._tables.values()]
        mark = self._time_mark()
        async for frame_ in table_frames(tables, self._env):
            yield frame_
        for frame_ in self.first_frames():
            yield frame_
        yield mark
        yield frame({"complete": True})

    async def past(self, revision: int) -> AsyncIterator[bytes]:
        """All rows at an earlier revision. Raises ``Compacted`` and ``FutureRevision`` before the first frame."""
        slices = Slices(self._env.perf_counter)
        tables = []
        for rows in self._tables.values():
            past_rows = []
            for record in await self._records(rows.table, revision, slices):
                previous = rows.rows.get(record.key)
                unchanged = previous is not None and previous[0] == record.revision
                past_rows.append(
                    previous[1] if previous is not None and unchanged else rows.table.row(record.key, record.value)
                )
                await slices.turn()
            tables.append((rows.table, past_rows))
        async for frame_ in table_frames(tables, self._env):
            yield frame_


def _drop_oldest(rows: Rows) -> list[str]:
    """Drop the oldest rows beyond the limit of the table. Returns their keys."""
    limit, removed = rows.table.most, list[str]()
    while limit and len(rows.rows) > limit:
        removed.append(next(iter(rows.rows)))
        del rows.rows[removed[-1]]
    return removed


async def table_frames(tables: Iterable[tuple[Table, list[Row]]], env: Env) -> AsyncIterator[bytes]:
    """All rows in frames of a few hundred rows. The first frame resets the page and has the column names."""
    tables = list(tables)
    slices = Slices(env.perf_counter)
    yield frame({"reset": {table.name: table.columns for table, _rows in tables}})
    for table, rows in tables:
        for start in range(0, len(rows), FRAME_ROWS):
            yield frame({"table": table.name, "rows": rows[start : start + FRAME_ROWS]})
            await slices.rest()


def delta_frames(delta: Delta) -> Iterable[bytes]:
    """One table's changes in frames of a few hundred rows."""
    if delta.gone:
        yield frame({"table": delta.name, "gone": delta.gone})
    for start in range(0, len(delta.rows), FRAME_ROWS):
        yield frame({"table": delta.name, "rows": delta.rows[start : start + FRAME_ROWS]})


def frame(value: dict[str, Any]) -> bytes:
    """Encode one line."""
    return _encode(value) + b"\n"
