"""Preparation of a clone by ``make up``."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.programs import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on the PATH")


def make(directory: Path, *words: str) -> str:
    # Without the flags and variables of a make that runs these tests.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "VENV"))}
    environment = {**inherited, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["make", "-f", str(ROOT / "Makefile"), *words],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with a module and a ready environment: this test's, whose ``pilothouse`` does nothing."""
    for name in ("pyproject.toml", "requirements.txt", "requirements-build.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "module.py").write_text("A = 1\n")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(shutil.which("python3") or "python3")
    (programs / "pilothouse").write_text("#!/bin/sh\n")
    (programs / "pilothouse").chmod(0o755)
    (tmp_path / ".venv" / ".installed").write_text("")
    return tmp_path


def compiled(clone: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in (clone / "src").rglob("*.pyc"))


def test_up_compiles_with_pythondontwritebytecode(clone: Path) -> None:
    make(clone, "up")
    assert compiled(clone) == ["module"]


def test_up_compiles_only_changed_files(clone: Path) -> None:
    make(clone, "up")
    assert "compileall" not in make(clone, "up")
    (clone / "src" / "other.py").write_text("B = 2\n")
    os.utime(clone / "src" / "other.py", (2_000_000_000, 2_000_000_000))
    assert "compileall" in make(clone, "up")
    assert compiled(clone) == ["module", "other"]


def test_up_installs_no_development_tools(clone: Path) -> None:
    (clone / ".venv" / ".installed").unlink()
    planned = make(clone, "--dry-run", "up")
    assert "requirements.txt" in planned
    assert "requirements-dev.txt" not in planned
