"""Files with credentials: private modes, and no files planted by others."""

import os
import stat
from pathlib import Path

import pytest

from pilothouse.env import private_files
from pilothouse.env.private_files import UnsafePath, check_private_files, make_private_directory, write_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_private_file_is_replaced_atomically_with_private_mode(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="token"):
        write_private(tmp_path / "absent" / "token", b"")


def test_symlinks_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at the path of the file, nor at that of the temporary file."""
    victim, path = tmp_path / "victim", tmp_path / "token"
    victim.write_text("precious")
    path.symlink_to(victim)
    for old in (f".token.{os.getpid()}", ".token.guessed"):
        (tmp_path / old).symlink_to(victim)
    write_private(path, b"secret")
    assert (path.is_symlink(), path.read_bytes()) == (False, b"secret")
    monkeypatch.setattr("secrets.token_hex", lambda _size: "guessed")
    with pytest.raises(FileExistsError):
        write_private(path, b"another")
    assert (victim.read_text(), path.read_bytes()) == ("precious", b"secret")


def test_new_directory_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert mode(tmp_path / "a" / "b") == 0o700


@pytest.mark.parametrize("bits", [0o775, 0o777, 0o1777])
def test_own_empty_directory_is_made_private(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "data"
    path.mkdir()
    path.chmod(bits)
    make_private_directory(path)
    assert mode(path) == 0o700


@pytest.mark.parametrize("bits", [0o775, 0o777, 0o1777])
def test_directory_writable_by_others_is_rejected(tmp_path: Path, bits: int) -> None:
    path = tmp_path / "data"
    path.mkdir()
    (path / "admin.token").write_text("mine, says who put it there")
    path.chmod(bits)
    with pytest.raises(UnsafePath, match=rf"others may write into it \(mode {bits:04o}\).* chmod go-w {path}"):
        make_private_directory(path)
    path.chmod(0o755)
    make_private_directory(path)
    assert mode(path) == 0o755


def test_symlinked_directories_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin.token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath, match=r"admin\.token in it is a symbolic link"):
        check_private_files(tmp_path / "data", (".token",))


def test_readable_files_are_made_private(tmp_path: Path) -> None:
    for name in ("ca.key", "ca.crt"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o644)
    check_private_files(tmp_path, (".key",))
    assert (mode(tmp_path / "ca.key"), mode(tmp_path / "ca.crt")) == (0o600, 0o644)


def test_foreign_owner_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:
        (tmp_path / "ca.key").write_text("x")
        os.chown(tmp_path / "ca.key", 4711, 4711)
        os.chown(tmp_path, 4711, 4711)
    else:
        (tmp_path / "ca.key").write_text("x")
    monkeypatch.setattr(private_files, "_uid", lambda: 4712)
    with pytest.raises(UnsafePath, match="it belongs to another user"):
        make_private_directory(tmp_path)
    with pytest.raises(UnsafePath, match=r"ca\.key in it belongs to another user"):
        check_private_files(tmp_path, ())
