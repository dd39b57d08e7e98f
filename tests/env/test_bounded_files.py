"""Files that a user names are read up to a number of bytes."""

import os
import threading
from pathlib import Path

import pytest

from pilothouse.env.bounded_files import read_bytes, read_text


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("äbc")
    assert read_text(path, 4) == "äbc"
    with pytest.raises(OSError, match=r"it has more than 3 bytes"):
        read_bytes(path, 3)


def test_devices_without_an_end_are_an_error() -> None:
    with pytest.raises(OSError, match=r"it has more than 1,000,000 bytes"):
        read_bytes("/dev/zero", 1_000_000)


def test_large_files_are_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match=r"it has more than"):
        read_bytes(path)


def test_pipes_are_read_until_they_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("x" * 100_000,))
    writer.start()
    assert len(read_text(path)) == 100_000
    writer.join()
