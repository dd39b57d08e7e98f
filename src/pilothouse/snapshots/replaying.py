"""Replays a recording into a store.

Clients that watch an API server over that store receive the recorded events in the same order, at any speed: in real
time, or immediately on a virtual loop.
"""

import asyncio
import functools
import math
import os
from collections.abc import Callable

import msgspec

from pilothouse.apiserver.objects import encode_object
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.snapshots.file_format import SnapshotError
from pilothouse.snapshots.reading import RecordedChange, SnapshotFile, decoded
from pilothouse.snapshots.restoring import Restored, Restoring
from pilothouse.storage import Store


class Position(msgspec.Struct, frozen=True):
    """The position of a replay."""

    seconds: float
    """Seconds since the start of the recording."""
    changes: int


class Replay:
    """A recording, read and checked like a snapshot. ``restored`` is the cluster at its start. Raises
    ``SnapshotError``, and ``OSError`` if the file can't be read."""

    def __init__(self, path: str | os.PathLike[str], *, gates: tuple[str, ...] = ()) -> None:
        self.file = SnapshotFile(path)
        if not self.file.header.recording:
            raise self.file.error("this is a snapshot and no recording: there is nothing to replay in it")
        self._restoring = Restoring(self.file, ResourceTable(gates))
        for entry in self.file.entries():
            self._restoring.add(entry)
        self.restored: Restored = self._restoring.done()
        self.position = Position(0.0, 0)

    async def run(
        self,
        store: Store,
        *,
        speed: float = 1.0,
        from_start: bool = False,
        observe: Callable[[RecordedChange], None] | None = None,
    ) -> None:
        """Apply the changes to a store, ``speed`` recorded seconds in one second; with infinity without waiting. The
        store must contain the records of ``restored``, unless ``from_start`` is set, which adds them. Raises
        ``SnapshotError`` for an invalid file."""
        if not speed > 0:
            raise ValueError(f"the speed of a replay is positive, got {speed:g}")
        if from_start:
            for record in self.restored.records:
                await store.commit(store.stage(record.key, functools.partial(_with_version, record.value)))
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number, change in enumerate(self.file.changes(), 1):
            if math.isinf(speed):
                await asyncio.sleep(0)
            else:
                await asyncio.sleep(max(0.0, started + change.at / speed - loop.time()))
            await self._apply(store, change)
            self.position = Position(change.at, number)
            if observe is not None:
                observe(change)

    async def _apply(self, store: Store, change: RecordedChange) -> None:
        if change.type == "DELETED":
            key = self._key_of(change)
            record = store.staged(key) if key else None
            if record is not None:
                last = functools.partial(_with_version, record.value)
                await store.commit(store.stage(key, None, last=last))
            return
        converted = self._restoring.convert(change.entry)
        if converted is None:
            return
        obj, info = converted
        meta = obj["metadata"]
        self._restoring.check_names(change.entry, meta)
        key = info.key(meta.get("namespace") or "", meta["name"])

        def make(revision: int) -> bytes:
            meta["resourceVersion"] = str(revision)
            return encode_object(info, obj)

        await store.commit(store.stage(key, make))

    def _key_of(self, change: RecordedChange) -> str:
        """The storage key of a deleted object; an unobserved deletion only has its name."""
        info = self._restoring.info_of(change.entry.resource)
        if info is None:
            return ""
        meta = decoded(self.file, change.entry)["metadata"]
        self._restoring.check_names(change.entry, meta)
        return info.key(meta.get("namespace") or "", meta.get("name") or "")


def _with_version(value: bytes, revision: int) -> bytes:
    """A stored object with another resourceVersion."""
    start = value.index(b'"resourceVersion":"') + len(b'"resourceVersion":"')
    return value[:start] + str(revision).encode() + value[value.index(b'"', start) :]


__all__ = ["Position", "Replay", "SnapshotError"]
