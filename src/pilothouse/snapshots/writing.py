"""``SnapshotWriter``: writes a snapshot file atomically, readable only by its owner."""

import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

from pilothouse.snapshots.file_format import End, Header, ResourceLine, Totals, encode, gzip_compressor


class SnapshotWriter:
    """Writes lines to a temporary file; ``finish`` renames it. As a context manager it removes an unfinished file.
    Raises ``OSError``."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(self._draft, flags, 0o600)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        self._raw = os.fdopen(descriptor, "wb")
        self._compressor = gzip_compressor()
        self._finished = False
        self.size = 0
        """Bytes of all lines, uncompressed."""
        self._write(encode(header))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            try:
                self._raw.close()
            except OSError:
                if error is None:  # else the disk is full, as ``error`` says
                    raise
            finally:
                self._draft.unlink(missing_ok=True)

    def resource(self, line: ResourceLine) -> None:
        """Write the line before the objects of a resource."""
        self._write(encode(line))

    def object(self, raw: bytes) -> None:
        """Write an object of the resource, as JSON in one line."""
        self._write(raw)

    def finish(self, totals: Totals) -> int:
        """Write the end, sync the file and rename it. Returns its size."""
        self._write(encode(End(totals)))
        self._raw.write(self._compressor.flush())
        self._raw.flush()
        os.fsync(self._raw.fileno())
        size = self._raw.tell()
        self._raw.close()
        self._draft.replace(self._path)
        self._finished = True
        return size

    def _write(self, line: bytes) -> None:
        self.size += len(line) + 1
        self._raw.write(self._compressor.compress(line))
        self._raw.write(self._compressor.compress(b"\n"))
