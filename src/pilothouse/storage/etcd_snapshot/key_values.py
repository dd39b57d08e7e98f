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
    found: dict[bytes, KeyValue] = {}
    newest = others = held = 0
    example = b""
    with BoltSnapshot(path) as snapshot:
        for name, data in snapshot.pairs(_BUCKET):
            revision, deleted = _revision(name)
            if revision < 0:
                raise snapshot.error(f"the database is damaged: {name[:40].hex()} is no revision of etcd")
            newest = revision
            try:
                key, value, modified = _key_value(data)
            except (ValueError, IndexError):
                raise snapshot.error(f"the database is damaged: revision {revision} is no KeyValue") from None
            if not key or (not deleted and modified != revision):
                raise snapshot.error(
                    f"the database is damaged: revision {revision} has the key {key[:100]!r} of revision {modified}"
                )
            if not key.startswith(prefix):
                others, example = others + 1, example or key
                continue
            before = found.pop(key, None)
            if before is not None:
                held -= len(key) + len(before.value)
            if deleted:
                continue
            found[key] = KeyValue(value, revision)
            held += len(key) + len(value)
            if len(found) > max_keys:
                raise snapshot.error(f"there are more than {max_keys:,} keys")
            if held > max_bytes:
                raise snapshot.error(f"the keys and values are of more than {max_bytes:,} bytes")
    return Keyspace(found, newest, others, example)


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
    for number, found in _fields(data):
        if number == 1 and type(found) is bytes:
            key = found
        elif number == 5 and type(found) is bytes:
            value = found
        elif number == 3 and type(found) is int:
            revision = found
    return key, value, revision


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message, by their numbers; etcd has integers and bytes only."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        number, at = _varint(data, at)
        if kind == 0:
            yield tag >> 3, number
        elif kind == 2 and number <= end - at:
            yield tag >> 3, data[at : at + number]
            at += number
        else:
            raise ValueError("no field")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    found, shift = byte & 0x7F, 7
    while shift < 70:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
    raise ValueError("no number")
