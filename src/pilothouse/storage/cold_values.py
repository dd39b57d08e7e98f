"""Compresses the values of objects that have not been written for a while.

Most of an object's JSON is the same in all objects of its resource: names of fields, defaults, managedFields. A value
is compressed with another one as the dictionary: a pod of 4.6 kB takes 0.5 kB, and is read in a few microseconds.

A value is cold once the history has dropped its last change, minutes after it was written, or immediately in a burst of
changes of the same resource. Compressing one takes as long as a twentieth of a write; each commit compresses a few.
"""

import zlib
from collections import deque

from pilothouse.storage.records import Change, Record

_SMALLEST = 768
"""Smaller values, such as Leases and Namespaces, are read or written often, and save little."""
_LARGEST = 32 * 1024
"""Larger values would be compressed, and read each time, in milliseconds."""
_WINDOW_BITS = -14
"""Raw deflate with 16 KiB: a dictionary and a value of the usual size."""
_MEMORY_LEVEL = 5
_LEVEL = 1
_PER_COMMIT = 4
_DICTIONARY_RATIO = 4
"""How much larger than a value its dictionary may be. A value keeps its dictionary in memory, after the object with
that value was deleted, too: without a limit, objects of 1 kB could keep 32 kB each, which no quota counts."""

_packed_value = Record.value


class PackedRecord(Record, frozen=True, gc=False, kw_only=True):
    """A record whose value is compressed in memory."""

    dictionary: bytes
    length: int
    """Of the value."""

    @property
    def size(self) -> int:
        return self.length

    @property  # type: ignore[misc]  # read-only in the base, too: it is frozen
    def value(self) -> bytes:
        """The value, decompressed at each access."""
        packed: bytes = _packed_value.__get__(self)  # type: ignore[attr-defined]  # the descriptor of the field
        return zlib.decompressobj(_WINDOW_BITS, self.dictionary).decompress(packed)

    @property
    def bytes_in_memory(self) -> int:
        """The size of the compressed value, and of its dictionary, which this may be the last record to use: history
        is limited by what it may keep in memory."""
        packed: bytes = _packed_value.__get__(self)  # type: ignore[attr-defined]  # as above
        return len(packed) + len(self.dictionary)


class ColdValues:
    """The records of a store that are to be compressed, in ``records``, which is the store's own."""

    __slots__ = ("_dictionaries", "_records", "pending")

    def __init__(self, records: dict[str, Record]) -> None:
        self._records = records
        self._dictionaries: dict[str, bytes] = {}
        """By prefix of the resource: a value that is still in use, or was."""
        self.pending: deque[tuple[str, str, int]] = deque()
        """Prefix, key and revision."""

    def dropped(self, prefix: str, change: Change) -> None:
        """The history no longer has this change."""
        if change.type != "DELETED":
            record = self._records.get(change.key)
            if record is not None and record.revision == change.revision:
                self.add(prefix, record)

    def add(self, prefix: str, record: Record) -> None:
        """The value of this current record is cold."""
        if _SMALLEST <= record.bytes_in_memory <= _LARGEST:
            self.pending.append((prefix, record.key, record.revision))

    def compress_some(self) -> None:
        """Compress a few of the pending values."""
        pending, records = self.pending, self._records
        for _ in range(min(_PER_COMMIT, len(pending))):
            prefix, key, revision = pending.popleft()
            record = records.get(key)
            if record is not None and record.revision == revision and type(record) is Record:
                packed = self._packed(prefix, record)
                if packed is not None:
                    records[key] = packed

    def _packed(self, prefix: str, record: Record) -> PackedRecord | None:
        value, dictionary = record.value, self._dictionaries.get(prefix)
        if dictionary is not None and len(dictionary) <= len(value) * _DICTIONARY_RATIO:
            compressor = zlib.compressobj(
                _LEVEL, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, dictionary
            )
            packed = compressor.compress(value) + compressor.flush()
            if len(packed) * 2 <= len(value):
                return PackedRecord(
                    record.key, packed, record.revision, record.created, dictionary=dictionary, length=len(value)
                )
        # It stays as it is: the next values may be like it.
        self._dictionaries[prefix] = value
        return None
