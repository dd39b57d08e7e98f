"""Output files on a full disk: the error names the requested file, and no incomplete file remains."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.cli import output_files
from pilothouse.snapshots.file_format import FORMAT, Header
from pilothouse.snapshots.writing import SnapshotWriter

resource = pytest.importorskip("resource")

HEADER = Header(format=FORMAT)


def fails_on_a_full_disk(code: str, *words: str) -> str:
    """What the program prints of its ``OSError`` if it can write nothing to files: SIGXFSZ is ignored by Python."""
    limited = (
        f"import resource, sys\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        f"try:\n    {code}\nexcept OSError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", limited, *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_no_unfinished_snapshot_is_left(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from tests.cli.test_output_files import HEADER, SnapshotWriter\n"
        "    from pilothouse.snapshots.file_format import Totals\n"
        "    with SnapshotWriter(Path(sys.argv[1]), HEADER) as writer:\n"
        "        writer.finish(Totals(objects=0, oldest=0, newest=0))"
    )
    assert fails_on_a_full_disk(code, str(tmp_path / "x.snapshot")) == "[Errno 27] File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_error_names_the_snapshot(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        SnapshotWriter(tmp_path / "missing" / "x.snapshot", HEADER)
    assert raised.value.filename == str(tmp_path / "missing" / "x.snapshot")


@cases("existing", {"a new file": "", "an older one": "of the last run", "a link": "link"})
def test_no_unfinished_report_is_left(tmp_path: Path, existing: str) -> None:
    path, target = tmp_path / "r.html", tmp_path / "elsewhere"
    if existing == "link":
        target.write_text("old")
        path.symlink_to(target)
    elif existing:
        path.write_text(existing)
    code = "from pilothouse.cli import output_files; output_files.write(sys.argv[1], b'<html>')"
    assert "File too large" in fails_on_a_full_disk(code, str(path))
    assert not path.exists()
    assert not target.exists()
    output_files.write(str(path), b"<html>")
    assert path.read_bytes() == b"<html>"


def test_a_file_that_cannot_be_opened_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.html"
    path.write_text("of the last run")

    def denied(path: str, _mode: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(PermissionError):
        output_files.write(str(path), b"<html>")
    monkeypatch.undo()
    assert path.read_text() == "of the last run"


def test_a_device_is_not_removed() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(OSError, match="No space left on device"):
        output_files.write("/dev/full", b"<html>")
    assert os.path.exists("/dev/full")
