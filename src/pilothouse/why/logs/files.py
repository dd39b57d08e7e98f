"""Reads the lines of log files with their offsets in bounded memory, plain files from the end. A gzip file can only be
read forwards; checkpoints of the decompressor allow to read a line again without decompressing everything before it."""

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
_MAX_CHECKPOINTS = 512
"""Checkpoints of one gzip file, about 45 KiB each."""


class LogFileError(Exception):
    """A file that cannot be read. Its text names the file and the reason."""


class LogFile(Protocol):
    """One file. ``damage`` counts invalid lines by error."""

    path: str
    damage: dict[str, int]

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        """All lines with their offsets, in blocks."""
        ...

    def line_at(self, offset: int) -> bytes:
        """The line at an offset; empty if it can't be read any more."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


def open_log(path: str) -> LogFile:
    """Open a plain or gzip file. Raises ``LogFileError``."""
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
        # The parts of a line that begins in an earlier block, the last first.
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
            lines = _lines(text, start + first)
            lines.reverse()
            yield lines
            rest, size = [block[:first]], first
            if start == 0:
                return

    def line_at(self, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.readline(MAX_LINE)


class _Checkpoint:
    """The state of the decompressor at an offset of the content and a position in the file."""

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
        self._checkpoints: list[_Checkpoint] = [_Checkpoint(0, 0, _new_inflate())]
        self._spacing = 4 * BLOCK

    def close(self) -> None:
        self._file.close()

    def blocks(self) -> Iterator[list[tuple[int, bytes]]]:
        rest, begin, skipping = b"", 0, False
        for at, block in self._content(self._checkpoints[0], save=True):
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
        checkpoint = next(checkpoint for checkpoint in reversed(self._checkpoints) if checkpoint.offset <= offset)
        line = b""
        for at, block in self._content(checkpoint, save=False):
            if at + len(block) <= offset:
                continue
            line += block[max(0, offset - at) :]
            end = line.find(b"\n")
            if end >= 0 or len(line) > MAX_LINE:
                return line[: end + 1] if end >= 0 else b""
        return line

    def _content(self, checkpoint: _Checkpoint, *, save: bool) -> Iterator[tuple[int, bytes]]:
        """The content from a checkpoint on, with offsets. ``save``: add further checkpoints."""
        offset, position, inflate = checkpoint.offset, checkpoint.position, checkpoint.inflate.copy()
        at_start = False  # of a member of the file
        while True:
            self._file.seek(position)
            compressed = self._file.read(BLOCK // 8)
            if not compressed:
                if content := inflate.flush():
                    yield offset, content
                if save and not inflate.eof and offset > 0 and not at_start:
                    _count(self.damage, "the compressed file ends in the middle")
                return
            position += len(compressed)
            while compressed:
                try:
                    content = inflate.decompress(compressed, BLOCK)
                except zlib.error:
                    if save:
                        _count(self.damage, "what follows can't be decompressed")
                    return
                if content:
                    yield offset, content
                    offset += len(content)
                compressed, at_start = inflate.unconsumed_tail, False
                if inflate.eof:  # the next member: rotated files are put together with cat
                    compressed, inflate = inflate.unused_data.lstrip(b"\0"), _new_inflate()
                    at_start = not compressed
            if save and offset >= self._checkpoints[-1].offset + self._spacing:
                self._add_checkpoint(_Checkpoint(offset, position, inflate.copy()))

    def _add_checkpoint(self, checkpoint: _Checkpoint) -> None:
        self._checkpoints.append(checkpoint)
        if len(self._checkpoints) > _MAX_CHECKPOINTS:
            self._checkpoints = self._checkpoints[::2]
            self._spacing *= 2


def _new_inflate() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=31)


def _lines(text: bytes, offset: int) -> list[tuple[int, bytes]]:
    lines = []
    for line in text.splitlines(keepends=True) if b"\r" not in text else text.split(b"\n"):
        size = len(line) if line.endswith(b"\n") else len(line) + 1
        if line.strip():
            lines.append((offset, line))
        offset += size
    return lines


def _count(damage: dict[str, int], description: str) -> None:
    damage[description] = damage.get(description, 0) + 1
