"""Log files: every line once, in bounded memory, and again by its offset."""

import contextlib
import gzip
import itertools
import random
from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.why.logs import files
from pilothouse.why.logs.files import LogFileError, open_log


def _content(lines: int, seed: int) -> bytes:
    rng = random.Random(seed)
    return b"".join(b"%d %s\n" % (number, b"x" * rng.choice([0, 1, 30, 200, 5000])) for number in range(lines))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 1024)
    monkeypatch.setattr(files, "MAX_LINE", 20_000)


@pytest.mark.parametrize("seed", range(5))
@cases(
    "form",
    {
        "plain": "plain",
        "gzip": "gzip",
        "concatenated gzip files": "members",
        "missing final newline": "open",
        "line breaks of Windows": "crlf",
    },
)
def test_every_line_once(tmp_path: Path, seed: int, form: str) -> None:
    content = _content(400, seed)
    if form == "open":
        content = content[:-1]
    if form == "crlf":
        content = content.replace(b"\n", b"\r\n")
    stored = content
    if form == "gzip":
        stored = gzip.compress(content)
    if form == "members":
        half = len(content) // 2
        stored = gzip.compress(content[:half]) + gzip.compress(content[half:])
    path = tmp_path / "log"
    path.write_bytes(stored)
    file = open_log(str(path))
    result = list(itertools.chain.from_iterable(file.blocks()))
    assert [line.rstrip() for _at, line in sorted(result)] == [line.rstrip() for line in content.splitlines()]
    assert file.damage == {}
    for offset, line in result[::7]:
        assert file.line_at(offset).rstrip() == line.rstrip()
    file.close()


def test_newest_lines_first(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(_content(300, 1))
    with contextlib.closing(open_log(str(path))) as file:
        numbers = [int(line.split()[0]) for _at, line in itertools.chain.from_iterable(file.blocks())]
    assert numbers == list(range(299, -1, -1))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_too_long_line_is_skipped(tmp_path: Path, compressed: bool, place: str) -> None:
    long = b"y" * 100_000 + b"\n"
    content = {"first": long + b"a\nb\n", "middle": b"a\n" + long + b"b\n", "last": b"a\nb\n" + long}[place]
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(content) if compressed else content)
    with contextlib.closing(open_log(str(path))) as file:
        result = sorted(line for _at, line in itertools.chain.from_iterable(file.blocks()))
    assert result == [b"a\n", b"b\n"]
    assert file.damage == {"too long": 1}


@cases(
    "tail, message",
    {
        "cut off": (slice(0, -20), "the compressed file ends in the middle"),
        "trailing garbage": (slice(0, None), "what follows can't be decompressed"),
    },
)
def test_damaged_gzip_file_is_read_up_to_the_damage(tmp_path: Path, tail: slice, message: str) -> None:
    stored = gzip.compress(_content(200, 3))[tail]
    path = tmp_path / "log.gz"
    path.write_bytes(stored if tail.stop else stored + b"garbage garbage")
    with contextlib.closing(open_log(str(path))) as file:
        result = list(itertools.chain.from_iterable(file.blocks()))
    assert len(result) > 100
    assert list(file.damage) == [message]


def test_decompression_bomb_uses_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"\0" * 30_000_000))
    with contextlib.closing(open_log(str(path))) as file:
        assert list(file.blocks()) == []
    assert file.damage == {"too long": 1}


def test_invalid_files(tmp_path: Path) -> None:
    with pytest.raises(LogFileError, match="is no regular file"):
        open_log(str(tmp_path))
    with pytest.raises(LogFileError, match="none can't be read: No such file or directory"):
        open_log(str(tmp_path / "none"))
