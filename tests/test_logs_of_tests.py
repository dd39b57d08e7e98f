"""Log handlers are restored after each test, in a nested pytest."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]

_SOURCE = """
import logging
from pilothouse.env import Log
from pilothouse.env.logging import configure

def test_a_program_logs(capsys):
    configure(v=9)
    Log("x").info("Told", v=9)
    assert "Told" in capsys.readouterr().err

def test_the_next_one_does_not_log_to_the_stream_of_the_first(capfd):
    Log("x").info("Silent", v=9)
    Log("x").error("Told again")
    assert not logging.getLogger("pilothouse").handlers
    assert "closed file" not in capfd.readouterr().err
"""


def test_log_handlers_are_restored_after_each_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_SOURCE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.logs_of_tests", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
