"""The thread that ends hanging tests, in a nested pytest."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]

_SOURCE = """
import time
import pytest

def test_passes():
    pass

@pytest.mark.timeout(1)
def test_hangs():
    print("printed before")
    time.sleep(60)
"""


def test_hanging_test_ends_the_process_with_its_stack(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_SOURCE)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 300\ntimeout_method = thread\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "tests.timeouts", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_passes PASSED" in done.stdout
    assert "printed before" in done.stdout
    assert "in test_hangs\n    time.sleep(60)" in done.stdout + done.stderr
