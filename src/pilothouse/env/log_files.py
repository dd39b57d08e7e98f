"""Files of the audit log and the decision log: an append-only file, a rotated file, or standard output.

A rotated file follows gopkg.in/natefinch/lumberjack.v2 (v2.2.1), which upstream uses for the audit log: a full file is
renamed to ``audit-2026-01-31T09-30-00.000.log``, in UTC, and old ones are removed by number and age, or compressed. All
functions block, and are called by one thread (``log_writer``).
"""

import contextlib
import datetime
import gzip
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from pilothouse.env.logging import Log

_log = Log("logs")
MEGABYTE = 1024 * 1024
STANDARD_OUTPUT = "-"
_DAY = datetime.timedelta(days=1)
_FORMAT = "%Y-%m-%dT%H-%M-%S"
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}").fullmatch
_COMPRESSED = ".gz"


class Sink(Protocol):
    """The destination of lines."""

    def write(self, line: bytes) -> None:
        """Write a whole line. Raises ``OSError``, and then removes what was written of it, if possible."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class Rotation(msgspec.Struct, frozen=True):
    """When a file is rotated, and which backups are kept. 0 means no limit."""

    max_megabytes: int = 100
    max_age_days: int = 366
    max_backups: int = 100
    compress: bool = False


def open_sink(path: str, rotation: Rotation, now: Callable[[], datetime.datetime]) -> Sink:
    """Open the log, so that errors are raised at startup. Raises ``OSError``."""
    if path == STANDARD_OUTPUT:
        return _Descriptor(1, owned=False)
    Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    if not rotation.max_megabytes:
        return _Descriptor(descriptor, owned=True)
    os.close(descriptor)
    return RotatedFile(Path(path), rotation, now)


class _Descriptor:
    """An open file. Partial lines of failed writes are truncated."""

    def __init__(self, descriptor: int, *, owned: bool) -> None:
        self._descriptor = descriptor
        self._owned = owned

    def write(self, line: bytes) -> None:
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:] if written else line)
        except OSError:
            if written and self._owned:
                # Else the next line would be appended to the partial one, and both would be unreadable.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
            raise

    def close(self) -> None:
        if self._owned:
            os.close(self._descriptor)


class RotatedFile:
    """The current file of a log, and its backups in the same directory."""

    def __init__(self, path: Path, rotation: Rotation, now: Callable[[], datetime.datetime]) -> None:
        self._path = path
        self._rotation = rotation
        self._now = now
        self._file: _Descriptor | None = None
        self._size = 0
        self._limit = rotation.max_megabytes * MEGABYTE
        self._lock = threading.Lock()
        self._due = False
        self._cleaner: threading.Thread | None = None

    def write(self, line: bytes) -> None:
        if len(line) > self._limit:
            raise OSError(f"write length {len(line)} exceeds maximum file size {self._limit}")
        if self._file is None:
            self._open(len(line))
        elif self._size + len(line) > self._limit:
            self._rotate()
        assert self._file is not None, "it was opened, or that failed"
        self._file.write(line)
        self._size += len(line)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _open(self, coming: int) -> None:
        """Continue the existing file, unless it is full."""
        self._remove_old()
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            self._open_new()
            return
        if size + coming >= self._limit:
            self._rotate()
            return
        self._file = _Descriptor(os.open(self._path, os.O_APPEND | os.O_WRONLY), owned=True)
        self._size = size

    def _rotate(self) -> None:
        self.close()
        self._open_new()
        self._remove_old()

    def _open_new(self) -> None:
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        known = self._path.stat() if self._path.exists() else None
        mode = 0o600
        if known is not None:
            mode = known.st_mode & 0o7777
            self._path.rename(self._backup_path())
        descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, mode)
        if known is not None:
            with contextlib.suppress(PermissionError):  # only root can change the owner
                os.fchown(descriptor, known.st_uid, known.st_gid)
        self._file, self._size = _Descriptor(descriptor, owned=True), 0

    def _backup_path(self) -> Path:
        """An unused name: unlike lumberjack's, two backups of one millisecond are both kept."""
        at = self._now().astimezone(datetime.UTC)
        while True:
            stamp = f"{at.strftime(_FORMAT)}.{at.microsecond // 1000:03}"
            path = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
            if not path.exists() and not path.with_name(path.name + _COMPRESSED).exists():
                return path
            at += datetime.timedelta(milliseconds=1)

    def _remove_old(self) -> None:
        """Remove and compress backups in a separate thread: a hundred megabytes take seconds."""
        with self._lock:
            self._due = True
            if self._cleaner is None:
                self._cleaner = threading.Thread(target=self._clean, name="pilothouse-log-backups", daemon=True)
                self._cleaner.start()

    def wait(self) -> None:
        """Wait until the backups were removed or compressed."""
        cleaner = self._cleaner
        if cleaner is not None:
            cleaner.join()

    def _clean(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._cleaner = None
                    return
                self._due = False
            try:
                self._remove_old_files()
            except OSError as error:
                # It is retried after the next rotation. The log itself continues.
                _log.warning("Old log files could not be removed or compressed", log=str(self._path), error=error)

    def _remove_old_files(self) -> None:
        rotation = self._rotation
        if not (rotation.max_backups or rotation.max_age_days or rotation.compress):
            return
        oldest = None
        if rotation.max_age_days:
            oldest = self._now().astimezone(datetime.UTC) - _DAY * min(rotation.max_age_days, 366_000)
        names: set[str] = set()
        for at, path in sorted(self._backups(), reverse=True):
            names.add(path.name.removesuffix(_COMPRESSED))
            if (rotation.max_backups and len(names) > rotation.max_backups) or (oldest is not None and at < oldest):
                path.unlink()
            elif rotation.compress and path.suffix != _COMPRESSED:
                _compress(path)

    def _backups(self) -> Iterator[tuple[datetime.datetime, Path]]:
        prefix, suffix = f"{self._path.stem}-", self._path.suffix
        for path in self._path.parent.iterdir():
            name = path.name.removesuffix(_COMPRESSED)
            if not name.startswith(prefix) or not name.endswith(suffix):
                continue
            stamp = name[len(prefix) : len(name) - len(suffix)]
            if _STAMP(stamp) is None:
                continue
            with contextlib.suppress(ValueError):  # the 31st of February: no backup of ours
                yield datetime.datetime.strptime(f"{stamp}+0000", f"{_FORMAT}.%f%z"), path


def _compress(path: Path) -> None:
    target = path.with_name(path.name + _COMPRESSED)
    known = path.stat()
    try:
        descriptor = os.open(target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, known.st_mode & 0o7777)
        with path.open("rb") as source, open(descriptor, "wb") as raw, gzip.open(raw, "wb") as compressed:
            shutil.copyfileobj(source, compressed)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    path.unlink()
