"""The keys of an etcd as a snapshot has them.

The bucket ``key`` has every change that was not compacted, sorted by revision (etcd
``server/storage/mvcc/revision.go``, v3.6): eight bytes of the revision, ``_``, eight bytes with the number of the
change within it, and ``t`` if the key was deleted. The value is a ``KeyValue`` (``api/mvccpb/kv.proto``); that of a
deletion only has the key. The last change of a key is its state; leases only end while etcd runs, and are ignored here.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from pilothouse.storage.etcd_snapshot.bolt import BoltSnapshot

_BUCKET = b"key"
_REVISION, _MARKED = 17, 18
MAX_KEYS = 1_000_000
MAX_BYTES = 2 * 1024 * 1024 * 1024
"""Maximum bytes of all keys and values: a cluster is kept in memory."""


class KeyValue(NamedTuple):
    """The newest state of a key."""

    value: bytes
    revision: int
    """Of its last change."""


class Keyspace(msgspec.Struct, frozen=True):
    """The keys under a prefix in etcd."""

    keys: dict[bytes, KeyValue]
    """In the order of their last changes."""
    revision: int
    """Of the whole etcd."""
    others: int
    """How many changes are of other keys."""
    example: bytes
    """One of the other keys, if there are any."""


def read_keyspace(
    path: str | os.PathLike[str], prefix: bytes, *, max_keys: int = MAX_KEYS, max_bytes: int = MAX_BYTES
) -> Keyspace:
    """Read a whole snapshot. Raises ``SnapshotFileError``, and ``OSError`` if the file cannot be read."""
    keys: dict[bytes, KeyValue] = {}
    store_revision = other_changes = total_bytes = 0
    example = b""
    with BoltSnapshot(path) as snapshot:
        for name, data in snapshot.pairs(_BUCKET):
            revision, deleted = _revision(name)
            if revision < 0:
                raise snapshot.error(f"the database is damaged: {name[:40].hex()} is no revision of etcd")
            store_revision = revision
            try:
                key, value, modified = _key_value(data)
            except (ValueError, IndexError):
                raise snapshot.error(f"the database is damaged: revision {revision} is no KeyValue") from None
            if not key or (not deleted and modified != revision):
                raise snapshot.error(
                    f"the database is damaged: revision {revision} has the key {key[:100]!r} of revision {modified}"
                )
            if not key.startswith(prefix):
                other_changes, example = other_changes + 1, example or key
                continue
            old = keys.pop(key, None)
            if old is not None:
                total_bytes -= len(key) + len(old.value)
            if deleted:
                continue
            keys[key] = KeyValue(value, revision)
            total_bytes += len(key) + len(value)
            if len(keys) > max_keys:
                raise snapshot.error(f"there are more than {max_keys:,} keys")
            if total_bytes > max_bytes:
                raise snapshot.error(f"the keys and values are of more than {max_bytes:,} bytes")
    return Keyspace(keys, store_revision, other_changes, example)


def _revision(name: bytes) -> tuple[int, bool]:
    """The revision, -1 if it is invalid, and whether it is that of a deletion."""
    size = len(name)
    if size not in (_REVISION, _MARKED) or name[8] != 0x5F or (size == _MARKED and name[17] != 0x74) or name[0] > 0x7F:
        return -1, False
    return int.from_bytes(name[:8], "big"), size == _MARKED


def _key_value(data: bytes) -> tuple[bytes, bytes, int]:
    """Key, value and mod_revision. Raises ``ValueError`` or ``IndexError`` for an invalid message."""
    key = value = b""
    revision = 0
    for number, field_value in _fields(data):
        if number == 1 and type(field_value) is bytes:
            key = field_value
        elif number == 5 and type(field_value) is bytes:
            value = field_value
        elif number == 3 and type(field_value) is int:
            revision = field_value
    return key, value, revision


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, by their numbers; etcd has integers and bytes only."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        number, position = _varint(data, position)
        if kind == 0:
            yield tag >> 3, number
        elif kind == 2 and number <= end - position:
            yield tag >> 3, data[position : position + number]
            position += number
        else:
            raise ValueError("no field")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    if byte < 0x80:
        return byte, position
    result, shift = byte & 0x7F, 7
    while shift < 70:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
    raise ValueError("no number")
