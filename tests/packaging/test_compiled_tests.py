"""``scripts/compile_tests.py``: tests compiled with assertion rewriting, where pytest looks for them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.programs import ROOT

_SOURCE = "from helper import A\ndef test_it():\n    assert A == 1\n"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_pytest_uses_compiled_tests_with_assertion_rewriting(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {tests}\n")
    module = tests / "test_it.py"
    (tests / "helper.py").write_text("A = 2\n")
    module.write_text(_SOURCE)
    done = run(str(ROOT / "scripts/compile_tests.py"), str(tests))
    assert done.returncode == 0, done.stderr
    kept = sorted(path.name.partition(".")[0] for path in tests.rglob("*.pyc"))
    assert kept == ["helper", "test_it"]

    # Of the same size and time: what was compiled from the file before counts, and fails.
    times = (module.stat().st_atime_ns, module.stat().st_mtime_ns)
    module.write_text(_SOURCE.replace("1", "2"))
    os.utime(module, ns=times)
    again = run("-m", "pytest", "-p", "no:cacheprovider", str(tests))
    assert "assert 2 == 1" in again.stdout, again.stdout

    # A later time: the compiled file is outdated.
    os.utime(module, (2_000_000_000, 2_000_000_000))
    assert run("-m", "pytest", "-p", "no:cacheprovider", str(tests)).returncode == 0
