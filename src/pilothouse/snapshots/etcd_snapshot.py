"""Converts a file of ``etcdctl snapshot save`` to the records of a store, as ``restoring`` does for other snapshots.

``storage.etcd_snapshot`` reads the keys of the file, ``apiserver.storage_codec`` decodes the objects. A damaged file is
an error. Invalid and encrypted values are left out and reported.
"""

import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pilothouse.apiserver.objects import read_head
from pilothouse.apiserver.registry.core.services import range_allocations
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.serializers import protobuf
from pilothouse.apiserver.storage_codec import CodecError, KeyLayout, ObjectCodec
from pilothouse.apiserver.storage_codec.keys import DEFAULT_PREFIX, MASTER_LEASES
from pilothouse.machinery.json_bounds import exceeded
from pilothouse.snapshots.file_format import (
    FORMAT,
    MAX_LINE,
    MAX_OBJECTS,
    Header,
    ResourceLine,
    Skipped,
    SnapshotError,
    Totals,
)
from pilothouse.snapshots.reading import Entry
from pilothouse.snapshots.resource_order import DEFINITIONS
from pilothouse.snapshots.restoring import Restored, Restoring
from pilothouse.storage.encryption.identity import ENCRYPTED
from pilothouse.storage.encryption.transformer import TransformError
from pilothouse.storage.etcd_snapshot import KeyValue, SnapshotFileError, read_keyspace

if TYPE_CHECKING:
    from pilothouse.storage.encryption.at_rest import EncryptionAtRest

_MAGIC = (b"\xed\x0c\xda\xed", b"\xed\xda\x0c\xed")
"""bbolt's magic number in both byte orders, after the page header of 16 bytes."""
_ADDRESSES = tuple(f"{range_allocations.PREFIX}{name}" for name in ("serviceips", "secondaryserviceips"))
"""Where servers up to v1.30 store the allocated cluster IPs with their range."""


_LONGEST_NAME, _LONGEST_REASON = 253, 500
"""Limits of reported names and errors in characters: keys of etcd may have megabytes."""


class _Head(msgspec.Struct, rename="camel"):
    """apiVersion and kind of a custom resource."""

    api_version: str = ""
    kind: str = ""


class _Range(msgspec.Struct):
    range: str = ""


_read_kind = msgspec.json.Decoder(_Head).decode
_read_range = msgspec.json.Decoder(_Range).decode


def is_etcd_snapshot(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins like an etcd snapshot. Raises ``OSError``."""
    with Path(path).open("rb") as file:
        return file.read(20)[16:] in _MAGIC


def restored_from_etcd(
    path: str | os.PathLike[str],
    *,
    prefix: str = DEFAULT_PREFIX,
    gates: tuple[str, ...] = (),
    encryption: "EncryptionAtRest | None" = None,
) -> Restored:
    """Read and check a whole snapshot of etcd. ``prefix`` is kube-apiserver's ``--etcd-prefix``; ``gates`` are the
    feature gates of the API server that will serve the cluster. ``encryption`` decrypts values encrypted at rest;
    without it they are left out. Raises ``SnapshotError``, or ``OSError`` if the file can't be read."""
    layout = KeyLayout(prefix)
    try:
        keyspace = read_keyspace(path, layout.root.encode(), max_keys=MAX_OBJECTS)
    except SnapshotFileError as error:
        raise SnapshotError(path, error.reason) from None
    if not keyspace.keys:
        others = (
            f": it has other keys, such as {keyspace.example[:100].decode(errors='replace')}" if keyspace.others else ""
        )
        raise SnapshotError(path, f"there are no keys below {layout.root}{others}; --etcd-prefix names another prefix")
    return _Reading(Path(path), layout, gates, encryption).restored(keyspace.keys)


class _Reading:
    """Converts the keys of one snapshot. A ``Source`` of ``Restoring``."""

    def __init__(
        self, path: Path, layout: KeyLayout, gates: tuple[str, ...], encryption: "EncryptionAtRest | None"
    ) -> None:
        self.header = Header(format=FORMAT)
        self.totals: Totals | None = None
        self._path = path
        self._layout = layout
        self._encryption = encryption
        self._codec = ObjectCodec()
        self._restoring = Restoring(self, ResourceTable(gates))
        self._lines: dict[tuple[str, str], ResourceLine | None] = {}
        self._skipped: dict[tuple[str, str], int] = {}
        self._ranges: dict[str, str] = {}

    def error(self, reason: str, line: int = 0) -> SnapshotError:
        """An error for this file."""
        return SnapshotError(self._path, reason)

    def restored(self, keys: dict[bytes, KeyValue]) -> Restored:
        """Convert all keys."""
        definitions: list[tuple[str, KeyValue]] = []
        others: list[tuple[str, KeyValue]] = []
        first = "/".join((*DEFINITIONS, ""))
        for name, pair in keys.items():
            key = self._key(name)
            if key is not None:
                (definitions if key.startswith(first) else others).append((key, pair))
        keys.clear()
        for groups in definitions, others:
            for key, pair in groups:
                self._add_key(key, pair)
        ranges = [self._ranges[key] for key in _ADDRESSES if key in self._ranges]
        if ranges:
            self._restoring.assume_service_range(ranges)
        skipped = tuple(
            Skipped(name, f"{count} {'object' if count == 1 else 'objects'}: {reason}")
            for (name, reason), count in self._skipped.items()
        )
        self.totals = Totals(objects=len(definitions) + len(others), oldest=0, newest=0, skipped=skipped)
        return self._restoring.done()

    def _key(self, name: bytes) -> str | None:
        """The store's key for a key of etcd; None for keys that are not restored."""
        try:
            text = name.decode()
        except UnicodeDecodeError:
            self._skip("keys", "a key that is no UTF-8")
            return None
        key = self._layout.key(text)
        if key is None:
            self._skip(text[len(self._layout.root) :].partition("/")[0], "this API server has no such resource")
        return key

    def _skip(self, name: str, reason: str) -> None:
        entry = name[:_LONGEST_NAME], reason[:_LONGEST_REASON]
        self._skipped[entry] = self._skipped.get(entry, 0) + 1

    def _add_key(self, key: str, pair: KeyValue) -> None:
        if key.startswith(MASTER_LEASES):
            return  # endpoints of API servers that no longer exist
        group, resource, rest = key.split("/", 2)
        name = f"{resource}.{group}" if group else resource
        try:
            self._add(key, (group, resource), rest, pair._replace(value=self._decrypted(key, pair.value)))
        except TransformError as error:
            self._skip(name, str(error))
        except SnapshotError as error:
            self._skip(name, error.reason)
        except ValueError as error:
            self._skip(name, str(error))

    def _decrypted(self, key: str, value: bytes) -> bytes:
        """Decrypt a value. Raises ``TransformError``."""
        if self._encryption is not None:
            return self._encryption.read_blocking(key, self._layout.etcd_key(key).encode(), value)[0]
        if value.startswith(ENCRYPTED):
            raise TransformError("encrypted at rest, which can't be read without the keys of its API server")
        return value

    def _add(self, key: str, file_position: tuple[str, str], rest: str, pair: KeyValue) -> None:
        """Add an object. Raises ``ValueError`` if it is not an object of its resource."""
        in_protobuf = pair.value.startswith(protobuf.MAGIC)
        if len(pair.value) > MAX_LINE:
            raise CodecError(f"{rest} has {len(pair.value):,} bytes, and at most {MAX_LINE:,} are read")
        if not in_protobuf and (wrong := exceeded(pair.value)):
            raise CodecError(f"{rest} can't be taken: {wrong}")
        value = self._codec.decode(key, pair.value, pair.revision)
        if key.startswith(range_allocations.PREFIX):
            self._record_range(key, value)
            return
        meta = read_head(value).metadata
        if rest != (f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name):
            raise CodecError(f"{rest} has the metadata of another object")
        line = self._line(file_position)
        if line is not None:
            entry = Entry(0, line, value)
            (self._restoring.add_stored if in_protobuf else self._restoring.add)(entry)
            return
        head = _read_kind(value)
        group, _, version = head.api_version.rpartition("/")
        if group != file_position[0]:
            raise CodecError(f"{rest} is of {head.api_version[:100]}")
        self._restoring.add(
            Entry(0, ResourceLine(resource=file_position[1], group=group, version=version, kind=head.kind), value)
        )

    def _line(self, file_position: tuple[str, str]) -> ResourceLine | None:
        """The storage version of a built-in resource; None for custom ones."""
        if file_position not in self._lines:
            info = self._restoring.stored_line(*file_position)
            self._lines[file_position] = info
        return self._lines[file_position]

    def _record_range(self, key: str, value: bytes) -> None:
        service_range = _read_range(value).range
        if key in _ADDRESSES and service_range:
            self._ranges[key] = str(ipaddress.ip_network(service_range, strict=False))
