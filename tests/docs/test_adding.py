"""The controller of ``docs/controllers/adding.md`` works as written."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = re.findall(
    r"<!-- file: ([\w.]+) -->\n```python\n(.*?)```", (ROOT / "docs/controllers/adding.md").read_text("utf-8"), re.DOTALL
)
_CONFTEST = """
from tests.controllers.conftest import world
from tests.coroutines import env, pytest_fixture_setup, pytest_pyfunc_call

import pilothouse.controllers.cleanup

pilothouse.controllers.cleanup.__path__.append({!r})
"""


def test_controller_of_the_page_works(tmp_path: Path) -> None:
    package = tmp_path / "configmap_count"
    package.mkdir()
    for name, text in FILES:
        (tmp_path / name if name.startswith("test_") else package / name).write_text(text, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(_CONFTEST.format(str(tmp_path)), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # else one of a folder above would count
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
