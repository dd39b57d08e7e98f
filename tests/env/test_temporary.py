"""Temporary files: those of processes that were killed are removed, those of others are not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.env import temporary

HOLDS = """
import sys
from pilothouse.env import temporary
with temporary.directory() as path:
    (path / "secret").write_text("x")
    print(path, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def others(parent: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes that have a directory each."""
    programs = [
        subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _number in range(2)
    ]
    yield programs
    for program in programs:
        program.kill()
        program.communicate()


def path_of(program: "subprocess.Popen[str]") -> Path:
    assert program.stdout is not None
    return Path(program.stdout.readline().strip())


def test_directories_of_killed_processes_are_removed(parent: Path, others: "list[subprocess.Popen[str]]") -> None:
    killed, live = others
    left, held = path_of(killed), path_of(live)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    foreign = parent / "pilothouse-someone"  # has no lock, and is not ours
    foreign.mkdir()
    link = parent / "pilothouse-link"
    link.symlink_to(held)
    assert (left / "secret").exists(), "a killed process leaves it"
    with temporary.directory() as own:
        assert {path.name for path in parent.iterdir()} == {own.name, held.name, foreign.name, link.name}
    assert (held / "secret").exists()
    assert not own.exists()


def test_directories_of_other_users_stay(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = parent / "pilothouse-other"
    left.mkdir()
    (left / ".lock").touch()
    monkeypatch.setattr(os, "getuid", lambda: left.stat().st_uid + 1)
    with temporary.directory():
        assert left.exists()


def test_files_are_in_memory_where_possible(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary.files(key=b"secret", certificate=b"public") as paths:
        assert {name: path.read_bytes() for name, path in paths.items()} == {"key": b"secret", "certificate": b"public"}
        assert not list(parent.iterdir()) or not sys.platform.startswith("linux")
    monkeypatch.setattr(temporary, "_has_memory_files", lambda: False)
    with temporary.files(key=b"secret") as paths:
        assert paths["key"].read_bytes() == b"secret"
        assert paths["key"].stat().st_mode & 0o777 == 0o600
    assert not list(parent.iterdir())
