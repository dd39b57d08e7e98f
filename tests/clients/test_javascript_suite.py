"""The example project in JavaScript passes its own tests, with @kubernetes/client-node from npm."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.programs import ROOT
from tests.tables import cases

pytestmark = pytest.mark.slow


def program(directory: Path) -> str:
    """A program that runs the pilothouse under test."""
    path = directory / "pilothouse"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilothouse "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on the PATH")
def test_javascript_suite_passes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples/javascript", project, ignore=shutil.ignore_patterns("node_modules"))
    environment = {**os.environ, "PILOTHOUSE": program(tmp_path), "npm_config_cache": str(tmp_path / "cache")}

    def npm(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["npm", *words], cwd=project, env=environment, capture_output=True, text=True, timeout=150, check=False
        )

    if npm("ci", "--silent", "--no-audit", "--no-fund").returncode:
        pytest.skip("npm cannot install the client: its registry is not reached")
    done = npm("test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"pass 3\b", done.stdout)


STARTS = """
import { startCluster } from "CLUSTER";
import { test } from "node:test";
test("waits", async () => {
  const cluster = await startCluster("--nodes=0");
  process.stderr.write(`started ${cluster.pid}\\n`);
  await new Promise((resolve) => setTimeout(resolve, 60_000));
});
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on the PATH")
@cases(
    "words, number, left",
    {
        "node --test": (("--test",), signal.SIGTERM, []),
        "node": ((), signal.SIGTERM, []),
        "Ctrl-C": ((), signal.SIGINT, []),
        "SIGKILL, which leaves the directory": ((), signal.SIGKILL, [[]]),
    },
)
def test_a_suite_that_is_ended_ends_its_cluster(
    tmp_path: Path, words: tuple[str, ...], number: signal.Signals, left: list[list[Path]]
) -> None:
    """As by a CI service after a timeout."""
    (tmp_path / "waits.test.mjs").write_text(STARTS.replace("CLUSTER", str(ROOT / "examples/javascript/cluster.js")))
    directory = tmp_path / "temporary"
    directory.mkdir()
    environment = {**os.environ, "PILOTHOUSE": program(tmp_path), "TMPDIR": str(directory)}
    with subprocess.Popen(
        ["node", *words, "waits.test.mjs"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as suite:
        try:
            assert suite.stdout is not None
            started = next(found for line in suite.stdout if (found := re.search(r"started (\d+)", line)))
            suite.send_signal(number)
            suite.wait(20)
            deadline = time.monotonic() + 20
            while Path(f"/proc/{started[1]}").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not Path(f"/proc/{started[1]}").exists()
            assert [list(path.iterdir()) for path in directory.iterdir()] == left
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(suite.pid, signal.SIGKILL)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on the PATH")
def test_a_cluster_that_does_not_start_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "waits.test.mjs").write_text(STARTS.replace("CLUSTER", str(ROOT / "examples/javascript/cluster.js")))
    directory = tmp_path / "temporary"
    directory.mkdir()
    for path, error in ((str(tmp_path / "none"), "ENOENT"), ("/bin/false", "pilothouse ended with 1")):
        done = subprocess.run(
            ["node", "--test", "waits.test.mjs"],
            cwd=tmp_path,
            env={**os.environ, "PILOTHOUSE": path, "TMPDIR": str(directory)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert error in done.stdout
        assert list(directory.iterdir()) == []
