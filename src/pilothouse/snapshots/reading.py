"""Reads a snapshot file line by line, as untrusted input.

Every line is bounded in bytes, depth and number of values before it is decoded, which also stops decompression bombs.
Errors are ``SnapshotError`` with the line number.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

import msgspec

from pilothouse.machinery.json_bounds import exceeded
from pilothouse.snapshots.file_format import (
    CHANGE_START,
    END_START,
    FORMAT,
    HEADER_START,
    MAX_BYTES,
    MAX_LINE,
    MAX_OBJECTS,
    RESOURCE_START,
    Header,
    ResourceLine,
    SnapshotError,
    Totals,
    decode_change,
    decode_end,
    decode_header,
    decode_resource,
)

_TRUNCATED = "the file ends here, in the middle of the snapshot: it was cut off, or is still being written"
_MAX_SECONDS = 10 * 366 * 86400.0
_GZIP = b"\x1f\x8b"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An object, not yet decoded."""

    line: int
    resource: ResourceLine
    raw: bytes


class RecordedChange(msgspec.Struct, frozen=True, gc=False):
    """A change of a recording, with its object not yet decoded."""

    at: float
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    entry: Entry


class SnapshotFile:
    """One snapshot. The header is read immediately, the objects by ``entries``. Raises ``SnapshotError``, and
    ``OSError`` if the file can't be read."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_line: int = MAX_LINE,
        max_objects: int = MAX_OBJECTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.path = Path(path)
        self._max_line = max_line
        self._max_objects = max_objects
        self._max_bytes = max_bytes
        self.complete = True
        """False after reading a recording that is cut off."""
        self.totals: Totals | None = None
        """The totals of the end line; None until all entries are read."""
        with self._open() as file:
            self.header = self._header(_Lines(self, file))

    def error(self, reason: str, line: int = 0) -> SnapshotError:
        """An error for this file."""
        return SnapshotError(self.path, reason, line=line)

    def entries(self) -> Iterator[Entry]:
        """All objects in the order of the file. Each call starts from the beginning."""
        with self._open() as file:
            lines = _Lines(self, file)
            self._header(lines)
            yield from self._entries(lines)

    def changes(self) -> Iterator[RecordedChange]:
        """The changes of a recording in their order. A recording that is cut off ends with its last complete change,
        and ``complete`` is set to False."""
        with self._open() as file:
            lines = _Lines(self, file)
            self._header(lines)
            for _entry in self._entries(lines):
                pass
            resource: ResourceLine | None = None
            while self.header.recording:
                try:
                    line = lines.next_or_end()
                except SnapshotError as error:
                    if error.reason != _TRUNCATED:
                        raise
                    self.complete = False
                    return
                if not line:
                    return
                if line.startswith(RESOURCE_START):
                    resource = self._resource(line, lines.number)
                elif resource is None or not line.startswith(CHANGE_START):
                    raise self.error("expected a change, after the line that says of what resource it is", lines.number)
                else:
                    yield self._change(line, resource, lines.number)

    def _change(self, line: bytes, resource: ResourceLine, number: int) -> RecordedChange:
        if wrong := exceeded(line):
            raise self.error(f"the change can't be taken: {wrong}", number)
        try:
            decoded_line = decode_change(line)
        except msgspec.MsgspecError as error:
            raise self.error(f"the change can't be read: {error}", number) from None
        if not 0 <= decoded_line.at < _MAX_SECONDS:
            raise self.error(f"the change is {decoded_line.at} seconds after the start", number)
        return RecordedChange(decoded_line.at, decoded_line.change, Entry(number, resource, bytes(decoded_line.object)))

    def _open(self) -> BinaryIO:
        with self.path.open("rb") as file:
            start = file.read(2)
        if not start:
            raise self.error("this is no snapshot: the file is empty")
        if start != _GZIP:
            raise self.error("this is no snapshot: it is not compressed by gzip")
        return cast(BinaryIO, gzip.open(self.path, "rb"))

    def _header(self, lines: "_Lines") -> Header:
        line = lines.next()
        if not line.startswith(HEADER_START):
            raise self.error("this is no snapshot of pilothouse: the first line is no header", 1)
        try:
            header = decode_header(line)
        except msgspec.MsgspecError as error:
            raise self.error(f"the header can't be read: {error}", 1) from None
        if header.format != FORMAT:
            adjective = "a newer" if header.format > FORMAT else "no"
            written = f" (written by {header.written_by[:100]})" if header.written_by else ""
            raise self.error(
                f"the snapshot has format {header.format}{written}, and this pilothouse reads format {FORMAT}; "
                f"that is {adjective} format of it: use the pilothouse that wrote the file"
                if header.format > FORMAT
                else f"the snapshot says that it has format {header.format}, and there is no such format",
                1,
            )
        return header

    def _entries(self, lines: "_Lines") -> Iterator[Entry]:
        resource: ResourceLine | None = None
        count, max_objects = 0, self._max_objects
        while True:
            line = lines.next()
            if line.startswith(RESOURCE_START):
                resource = self._resource(line, lines.number)
            elif line.startswith(END_START):
                self._end(line, lines, count)
                return
            elif resource is None:
                raise self.error("an object comes before the line that says of what resource it is", lines.number)
            else:
                count += 1
                if count > max_objects:
                    raise self.error(f"there are more than {max_objects:,} objects", lines.number)
                wrong = exceeded(line)
                if wrong:
                    raise self.error(f"the object can't be taken: {wrong}", lines.number)
                yield Entry(lines.number, resource, line)

    def _resource(self, line: bytes, number: int) -> ResourceLine:
        try:
            decoded_line = decode_resource(line)
        except msgspec.MsgspecError as error:
            raise self.error(f"the line that names a resource can't be read: {error}", number) from None
        for text in (decoded_line.resource, decoded_line.group, decoded_line.version, decoded_line.kind):
            if len(text) > 253 or (not text.replace(".", "").replace("-", "").isalnum() and text):
                raise self.error(f"the line that names a resource has {text[:80]!r} in it", number)
        if not decoded_line.resource or not decoded_line.version or not decoded_line.kind:
            raise self.error("the line that names a resource lacks a resource, version or kind", number)
        return decoded_line

    def _end(self, line: bytes, lines: "_Lines", count: int) -> None:
        number = lines.number
        try:
            totals = decode_end(line).end
        except msgspec.MsgspecError as error:
            raise self.error(f"the end can't be read: {error}", number) from None
        if totals.objects != count:
            raise self.error(f"the end says that there are {totals.objects} objects, and there are {count}", number)
        if not self.header.recording and lines.rest():
            raise self.error("something comes after the end", number + 1)
        self.totals = totals


class _Lines:
    """The lines of an open file, with bounded length."""

    def __init__(self, snapshot: SnapshotFile, file: BinaryIO) -> None:
        self._snapshot = snapshot
        self._file = file
        self._left = snapshot._max_bytes
        self.number = 0

    def next(self) -> bytes:
        """The next line without the newline."""
        snapshot, most = self._snapshot, self._snapshot._max_line
        self.number += 1
        line = self._read(most + 1)
        self._left -= len(line)
        if line[-1:] == b"\n":
            if self._left < 0:
                raise snapshot.error(f"it is larger than {snapshot._max_bytes:,} bytes, uncompressed", self.number)
            return line[:-1]
        if len(line) > most:
            raise snapshot.error(f"the line is longer than {most:,} bytes", self.number)
        raise snapshot.error(_TRUNCATED, self.number)

    def next_or_end(self) -> bytes:
        """The next line; empty at the end of the file."""
        start = self._read(1)
        return start if not start or start == b"\n" else start + self.next()

    def rest(self) -> bytes:
        """The rest of the file, or its beginning; verifies the checksum."""
        return self._read(100)

    def _read(self, size: int) -> bytes:
        try:
            return self._file.readline(size)
        except EOFError:
            raise self._snapshot.error(_TRUNCATED, self.number) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._snapshot.error(f"the compressed data is damaged: {error}", self.number) from None


def load(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All objects of a snapshot, decoded; CustomResourceDefinitions first. Raises ``SnapshotError`` and ``OSError``."""
    file = SnapshotFile(path)
    return [decoded(file, entry) for entry in file.entries()]


_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Errors(Protocol):
    """Creates errors for one file."""

    def error(self, reason: str, line: int = 0) -> SnapshotError:
        """An error for the file."""
        ...


def decoded(file: Errors, entry: Entry) -> dict[str, Any]:
    """Decode the object of an entry, which must belong to its resource. Raises ``SnapshotError``."""
    try:
        obj = _decode(entry.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise file.error(f"the object is no JSON object: {error}", entry.line) from None
    resource = entry.resource
    if obj.get("kind") != resource.kind or obj.get("apiVersion") != resource.api_version:
        actual = f"{obj.get('apiVersion')} {obj.get('kind')}"[:100]
        raise file.error(
            f"expected a {resource.kind} of {resource.api_version} ({resource.group_resource}), got {actual}",
            entry.line,
        )
    if not isinstance(obj.get("metadata"), dict):
        raise file.error(f"the {resource.kind} has no metadata", entry.line)
    return obj
