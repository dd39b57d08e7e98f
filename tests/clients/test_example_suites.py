"""The example projects in Go, Java and Rust pass their own tests, where their tools and dependencies are installed.

Nothing is downloaded: offline each tool says whether it has all dependencies, which is then why a test is skipped.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.programs import ROOT, pilothouse, run_pilothouse, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Suite(NamedTuple):
    """How a project is tested without a network."""

    finds: tuple[str, ...]
    """Fails when a dependency, or the tool in the version that the project needs, is not installed."""
    missing: str
    """The output line about missing dependencies. Any other failure is an error of the project."""
    tests: tuple[str, ...]
    passed: str
    """A line of what the tests print."""
    environment: tuple[tuple[str, str], ...] = ()


GO = Suite(
    ("go", "list", "-deps", "-test", "./..."),
    r".*(errors parsing go.mod:\n|go.mod requires go|no required module|missing go.sum|module lookup disabled).*",
    ("go", "test", "-count=1", "-v", "./..."),
    "--- PASS: TestServiceIsDeletedWithTheDeployment",
    (("GOPROXY", "off"), ("GOSUMDB", "off"), ("GOTOOLCHAIN", "local")),
)
JAVA = Suite(
    ("mvn", "--offline", "--batch-mode", "-DskipTests", "test"),
    r".*(Could not resolve dependencies|could not be resolved).*",
    ("mvn", "--offline", "--batch-mode", "test"),
    "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0",
)
RUST = Suite(
    ("cargo", "fetch", "--offline"),
    r"error: .*",
    ("cargo", "test", "--offline"),
    "test result: ok. 3 passed",
)


def project_of(language: str, directory: Path) -> Path:
    """A writable copy of the project. Rust build output, which takes minutes, is shared."""
    source, project = ROOT / "examples" / language, directory / "project"
    shutil.copytree(source, project, symlinks=True, ignore=shutil.ignore_patterns("target"))
    if language == "rust":
        (source / "target").mkdir(exist_ok=True)
        (project / "target").symlink_to(source / "target")
    return project


def environment_of(directory: Path) -> dict[str, str]:
    program = directory / "pilothouse"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilothouse "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {**os.environ, "PILOTHOUSE": str(program), "PYTHONPATH": str(ROOT / "src")}


def run(words: tuple[str, ...], project: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, timeout=800, check=False)


def prepared(language: str, suite: Suite, directory: Path) -> tuple[Path, dict[str, str]]:
    """The project and its environment. Skips the test where something is not installed."""
    tool = suite.finds[0]
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} on the PATH")
    project = project_of(language, directory)
    environment = {**environment_of(directory), **dict(suite.environment)}
    if language == "go" and not (project / "vendor").is_dir():
        environment["GOFLAGS"] = "-mod=mod"  # go.sum is generated from the module cache
    done = run(suite.finds, project, environment)
    match = re.search(suite.missing, done.stdout + done.stderr)
    if done.returncode and match:
        pytest.skip(f"{' '.join(suite.finds)}: {match[0].strip()[:300]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return project, environment


def assert_passes(suite: Suite, project: Path, environment: dict[str, str], passed: str = "") -> None:
    done = run(suite.tests, project, environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert (passed or suite.passed) in done.stdout


def test_go_on_the_assets_and_on_a_cluster(tmp_path: Path) -> None:
    project, environment = prepared("go", GO, tmp_path)
    assets = run_pilothouse(tmp_path, "envtest-assets", "--controllers", "--dir", "assets").stdout.strip()
    assert_passes(GO, project, {**environment, "KUBEBUILDER_ASSETS": assets})
    kubeconfig = tmp_path / "kubeconfig"
    cluster = pilothouse(tmp_path, "up", "--port=0", "--nodes=2", f"--kubeconfig={kubeconfig}")
    try:
        cluster.until("pilothouse is ready")
        existing = {**environment, "USE_EXISTING_CLUSTER": "true", "KUBECONFIG": str(kubeconfig)}
        assert_passes(GO, project, existing, "--- PASS: TestServiceHasTheEndpointsOfARolledOutDeployment")
    finally:
        cluster.kill()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH, which kube-api-test needs")
def test_java(tmp_path: Path) -> None:
    project, environment = prepared("java", JAVA, tmp_path)
    folder = tmp_path / "kubeapitest/k8s/1.36.2-linux-amd64"
    run_pilothouse(tmp_path, "envtest-assets", "--dir", str(folder), PATH=os.environ["PATH"])
    assert_passes(JAVA, project, {**environment, "KUBE_API_TEST_DIR": str(tmp_path / "kubeapitest")})


WAITS = """
package com.example;
class Waits {
  public static void main(String[] words) throws Exception {
    var cluster = new Cluster("--nodes=0");
    System.out.println(cluster.kubeconfig());
    Thread.sleep(60_000);
  }
}
"""


@pytest.mark.skipif(shutil.which("javac") is None, reason="no javac on the PATH")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_suite_in_java_that_is_ended_ends_its_cluster(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "Waits.java").write_text(WAITS)
    cluster = ROOT / "examples/java/src/test/java/com/example/Cluster.java"
    subprocess.run(["javac", "-d", "classes", "Waits.java", cluster], cwd=tmp_path, check=True, timeout=100)
    with subprocess.Popen(
        ["java", "-cp", "classes", f"-Djava.io.tmpdir={tmp_path}", "com.example.Waits"],
        cwd=tmp_path,
        env=environment_of(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    ) as suite:
        assert suite.stdout is not None
        kubeconfig = suite.stdout.readline().strip()
        suite.send_signal(number)
    until(lambda: not processes_with(kubeconfig), "the cluster has ended")
    assert not Path(kubeconfig).exists()


def processes_with(word: str) -> list[int]:
    """The processes that have an argument with this word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_rust(tmp_path: Path) -> None:
    assert_passes(RUST, *prepared("rust", RUST, tmp_path))
