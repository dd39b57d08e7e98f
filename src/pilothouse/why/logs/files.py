"""Log files as lines with offsets, the newest first where the file allows it, in memory that does not grow with them.

A plain file is read backwards, block by block. A gzip file can only be read forwards; the state of its decompressor is
kept at some places, so that a line can be read again without decompressing all that comes before.
"""

import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

BLOCK = 1024 * 1024
MAX_LINE = 16 * 1024 * 1024
"""Longer lines are not read: the API server itself records at most 10 MiB of an object."""
_GZIP = b"\x1f\x8b"
_MOST_ENTRANCES = 512
"""Places where a gzip file can be entered; each holds some 45 KiB."""


class LogFileError(Exception):
    """A file that cannot be read. Its text names the file and the reason."""


class LogFile(Protocol):
    """One file. ``damage`` counts what is no line, by what is the matter with it."""

    path: str
    damage: dict[str, int]

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        """All lines with their offsets, some at a time."""
        ...

    def line_at(self, offset: int) -> bytes:
        """The line that begins there; empty if it can't be read any more."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


def open_log(path: str) -> LogFile:
    """A file, decompressed if it is compressed with gzip. Raises ``LogFileError``."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise LogFileError(f"{path} is no regular file: lines are read from it more than once")
        file = Path(path).open("rb")  # noqa: SIM115  # the object returned closes it
    except OSError as error:
        raise LogFileError(f"{path} can't be read: {error.strerror or error}") from error
    is_gzip = file.read(2) == _GZIP
    return _GzipFile(path, file) if is_gzip else _PlainFile(path, file)


class _PlainFile:
    def __init__(self, path: str, file: io.BufferedReader) -> None:
        self.path = path
        self.damage: dict[str, int] = {}
        self._file = file

    def close(self) -> None:
        self._file.close()

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        file = self._file
        end = file.seek(0, os.SEEK_END)
        # What is read already and begins in an earlier block: the pieces of one line, the last first.
        rest: list[bytes] = []
        size = 0
        while end > 0:
            start = max(0, end - BLOCK)
            file.seek(start)
            block = file.read(end - start)
            if len(block) < end - start:
                _count(self.damage, "it has become shorter while it was read")
                return
            end = start
            first = 0 if start == 0 else block.find(b"\n") + 1
            if start > 0 and first == 0:
                size += len(block)
                rest = [*rest, block] if size <= MAX_LINE else []
                continue
            if size > MAX_LINE:
                _count(self.damage, "too long")
                cut = block.rfind(b"\n") + 1
                text = block[first:cut]
            else:
                text = b"".join([block[first:], *reversed(rest)])
            found = _lines(text, start + first)
            found.reverse()
            yield found
            rest, size = [block[:first]], first
            if start == 0:
                return

    def line_at(self, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.readline(MAX_LINE)


class _Entrance:
    """Where a gzip file can be entered: at this offset of the content, with these bytes of the file to come."""

    __slots__ = ("inflate", "offset", "position")

    def __init__(self, offset: int, position: int, inflate: "zlib._Decompress") -> None:
        self.offset = offset
        self.position = position
        self.inflate = inflate


class _GzipFile:
    def __init__(self, path: str, file: io.BufferedReader) -> None:
        self.path = path
        self.damage: dict[str, int] = {}
        self._file = file
        self._entrances: list[_Entrance] = [_Entrance(0, 0, _new_inflate())]
        self._spacing = 4 * BLOCK

    def close(self) -> None:
        self._file.close()

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        rest, begin, skipping = b"", 0, False
        for at, block in self._content(self._entrances[0], notes=True):
            text = rest + block
            begin = at - len(rest)
            cut = text.rfind(b"\n") + 1
            if cut == 0:
                skipping = skipping or len(text) > MAX_LINE
                rest = b"" if skipping else text
                continue
            if skipping:
                _count(self.damage, "too long")
                first = text.find(b"\n") + 1
                begin, text, cut, skipping = begin + first, text[first:], cut - first, False
            yield _lines(text[:cut], begin)
            rest, begin = text[cut:], begin + cut
        if skipping:
            _count(self.damage, "too long")
        elif rest:
            yield _lines(rest, begin)

    def line_at(self, offset: int) -> bytes:
        place = next(entrance for entrance in reversed(self._entrances) if entrance.offset <= offset)
        found = b""
        for at, block in self._content(place, notes=False):
            if at + len(block) <= offset:
                continue
            found += block[max(0, offset - at) :]
            end = found.find(b"\n")
            if end >= 0 or len(found) > MAX_LINE:
                return found[: end + 1] if end >= 0 else b""
        return found

    def _content(self, place: _Entrance, *, notes: bool) -> Iterator[tuple[int, bytes]]:
        """The content from a place on, with offsets. ``notes``: remember further places."""
        offset, position, inflate = place.offset, place.position, place.inflate.copy()
        at_start = False  # of a member of the file
        while True:
            self._file.seek(position)
            taken = self._file.read(BLOCK // 8)
            if not taken:
                if content := inflate.flush():
                    yield offset, content
                if notes and not inflate.eof and offset > 0 and not at_start:
                    _count(self.damage, "the compressed file ends in the middle")
                return
            position += len(taken)
            while taken:
                try:
                    content = inflate.decompress(taken, BLOCK)
                except zlib.error:
                    if notes:
                        _count(self.damage, "what follows can't be decompressed")
                    return
                if content:
                    yield offset, content
                    offset += len(content)
                taken, at_start = inflate.unconsumed_tail, False
                if inflate.eof:  # the next member: rotated files are put together with cat
                    taken, inflate = inflate.unused_data.lstrip(b"\0"), _new_inflate()
                    at_start = not taken
            if notes and offset >= self._entrances[-1].offset + self._spacing:
                self._remember(_Entrance(offset, position, inflate.copy()))

    def _remember(self, place: _Entrance) -> None:
        self._entrances.append(place)
        if len(self._entrances) > _MOST_ENTRANCES:
            self._entrances = self._entrances[::2]
            self._spacing *= 2


def _new_inflate() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=31)


def _lines(text: bytes, offset: int) -> list[tuple[int, bytes]]:
    found = []
    for line in text.splitlines(keepends=True) if b"\r" not in text else text.split(b"\n"):
        size = len(line) if line.endswith(b"\n") else len(line) + 1
        if line.strip():
            found.append((offset, line))
        offset += size
    return found


def _count(damage: dict[str, int], what: str) -> None:
    damage[what] = damage.get(what, 0) + 1
