"""The example project in JavaScript passes its own tests, with @kubernetes/client-node from npm."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on the PATH")
def test_javascript_suite_passes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples/javascript", project, ignore=shutil.ignore_patterns("node_modules"))
    program = tmp_path / "pilothouse"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilothouse "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PILOTHOUSE": str(program), "npm_config_cache": str(tmp_path / "cache")}

    def npm(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["npm", *words], cwd=project, env=environment, capture_output=True, text=True, timeout=150, check=False
        )

    if npm("ci", "--silent", "--no-audit", "--no-fund").returncode:
        pytest.skip("npm cannot install the client: its registry is not reached")
    done = npm("test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"pass 3\b", done.stdout)
