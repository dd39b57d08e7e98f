"""Programs that a test suite starts end with it, also when it is killed."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_processes import is_running
from tests.programs import ROOT, environment, free_port, run_pilothouse, until
from tests.tables import cases

FLAG = "--exit-on-stdin-close"
UP = [sys.executable, "-m", "pilothouse", "up", "--port=0", "--nodes=0", "--kubeconfig=k"]

SUITE = """
import signal, subprocess, sys, time
signal.signal(signal.SIGHUP, signal.{hangup})  # the tests may themselves have been started with nohup
child = subprocess.Popen({command!r}, **{options!r}, stdout={stdout}, stderr=subprocess.DEVNULL)
print(child.pid, flush=True)
if child.stdout is not None:
    print(child.stdout.readline().decode(), flush=True)
time.sleep({seconds!r})
"""


class Suite:
    """A process that starts a program and waits."""

    def __init__(
        self, directory: Path, command: list[str], *, waits: bool = True, ignores: bool = False, **options: Any
    ) -> None:
        stdout = "subprocess.PIPE" if waits else "subprocess.DEVNULL"
        code = textwrap.dedent(
            SUITE.format(
                command=command,
                options=options,
                stdout=stdout,
                seconds=60 if waits else 0,
                hangup="SIG_IGN" if ignores else "SIG_DFL",
            )
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=directory,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.child = int(self.process.stdout.readline())

    def until_ready(self) -> None:
        assert self.process.stdout is not None
        assert "pilothouse is ready" in self.process.stdout.readline()

    def end(self) -> None:
        for process in (self.process.pid, self.child):
            if is_running(process):
                os.kill(process, signal.SIGKILL)
        self.process.communicate(timeout=20)


@pytest.fixture
def suites() -> Iterator[list[Suite]]:
    started: list[Suite] = []
    yield started
    for suite in started:
        suite.end()


PIPE = subprocess.PIPE


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_up_ends_with_its_parent(tmp_path: Path, suites: list[Suite], number: signal.Signals) -> None:
    suite = Suite(tmp_path, [*UP, FLAG], stdin=PIPE)
    suites.append(suite)
    suite.until_ready()
    assert (tmp_path / "k").exists()
    suite.process.send_signal(number)
    until(lambda: not is_running(suite.child), "up has ended")
    assert not (tmp_path / "k").exists()


def test_up_ends_with_its_parent_while_it_starts(tmp_path: Path, suites: list[Suite]) -> None:
    suite = Suite(tmp_path, [*UP, FLAG], stdin=PIPE)
    suites.append(suite)
    suite.process.kill()
    until(lambda: not is_running(suite.child), "up has ended")
    assert not (tmp_path / "k").exists()


def test_the_documented_program(tmp_path: Path) -> None:
    page = (ROOT / "docs/up.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- tested: started by a program -->\n```python\n(.*?)```", page, re.DOTALL)
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(tmp_path), check=True, timeout=60)
    assert not (tmp_path / "suite.kubeconfig").exists()


def test_closing_the_pipe_is_reported_and_a_success(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*UP, FLAG], cwd=tmp_path, env=environment(tmp_path), stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True
    ) as up:
        assert up.stdout is not None
        assert up.stdin is not None
        assert "pilothouse is ready" in up.stdout.readline()
        up.stdin.write("data is ignored\n")
        up.stdin.flush()
        time.sleep(0.2)
        assert up.poll() is None
        printed, errors = up.communicate(timeout=20)
    assert up.returncode == 0
    assert "pilothouse has stopped" in printed
    assert errors == f"Standard input was closed: pilothouse up ends ({FLAG})\n"


def test_with_wait_a_closed_pipe_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}"
    )
    done = run_pilothouse(tmp_path, *UP[3:], FLAG, "-f", "pod.yaml", "--wait", stdin="")
    assert done.returncode == 143, done.stderr


@cases(
    "flags, error",
    {
        "no pipe": ([], f"{FLAG} needs a pipe as standard input, whose other end the parent process holds open"),
        "manifests": (["-f", "-"], f"{FLAG} and -f - can't be used together: both are about standard input"),
    },
)
def test_mistakes(tmp_path: Path, flags: list[str], error: str) -> None:
    done = subprocess.run(
        [*UP, FLAG, *flags],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 2
    assert error in done.stderr


def test_a_cluster_in_the_background_has_no_parent(tmp_path: Path) -> None:
    done = run_pilothouse(tmp_path, "create", "cluster", FLAG)
    assert done.returncode == 2
    assert f"unknown flag: {FLAG}" in done.stderr


# The programs of envtest-assets


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("assets")
    return Path(run_pilothouse(directory, "envtest-assets", "--dir", "bin").stdout.strip())


def etcd(assets: Path, directory: Path) -> list[str]:
    return [
        str(assets / "etcd"),
        f"--data-dir={directory / 'data'}",
        f"--listen-client-urls=http://127.0.0.1:{free_port()}",
    ]


def api_server(assets: Path, directory: Path) -> list[str]:
    """It waits for its etcd first."""
    key = directory / "key"
    return [
        str(assets / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{free_port()}",
        "--service-account-issuer=x",
        f"--service-account-signing-key-file={key}",
    ]


@cases(
    "options",
    {
        "Go's envtest: a process group of its own": {"process_group": 0, "stdin": subprocess.DEVNULL},
        "Java's ProcessBuilder: a pipe": {"stdin": PIPE},
    },
)
@pytest.mark.parametrize("program", [etcd, api_server])
def test_programs_of_a_suite_end_with_it(
    assets: Path, tmp_path: Path, suites: list[Suite], program: object, options: dict[str, Any]
) -> None:
    assert callable(program)
    suite = Suite(tmp_path, program(assets, tmp_path), waits=False, **options)
    suites.append(suite)
    suite.process.wait(20)
    until(lambda: not is_running(suite.child), "it has ended")


@pytest.mark.parametrize("program", [etcd, api_server])
def test_a_suite_that_ends_before_its_program_has_begun(
    assets: Path, tmp_path: Path, suites: list[Suite], program: object
) -> None:
    assert callable(program)
    begun = tmp_path / "begun"
    script = f'while [ ! -e "{begun}" ]; do sleep 0.01; done; exec "$@"'
    suite = Suite(tmp_path, ["sh", "-c", script, "sh", *program(assets, tmp_path)], waits=False, process_group=0)
    suites.append(suite)
    suite.process.wait(20)
    begun.touch()
    until(lambda: not is_running(suite.child), "it has ended")


def test_a_suite_that_was_started_with_nohup_passes_that_on(assets: Path, tmp_path: Path, suites: list[Suite]) -> None:
    suite = Suite(tmp_path, etcd(assets, tmp_path), ignores=True, process_group=0)
    suites.append(suite)
    time.sleep(2)
    assert is_running(suite.child)
    suite.process.kill()
    until(lambda: not is_running(suite.child), "it has ended")


@cases(
    "options, command",
    {
        "a session of its own": ({"start_new_session": True, "stdin": PIPE}, []),
        "nohup": ({"process_group": 0}, ["nohup"]),
        "a job of a script": ({"process_group": 0}, ["sh", "-c", '"$@" & echo', "sh"]),
        "inherited standard input": ({}, []),
    },
)
def test_programs_that_others_start_stay(
    assets: Path, tmp_path: Path, options: dict[str, Any], command: list[str]
) -> None:
    port = free_port()
    words = [*command, str(assets / "etcd"), f"--data-dir={tmp_path / 'data'}"]
    words.append(f"--listen-client-urls=http://127.0.0.1:{port}")
    suite = Suite(tmp_path, words, waits=False, **options)
    suite.process.wait(20)
    try:
        until(lambda: processes_with(str(port)) != [], "it runs")
        time.sleep(2.5)
        assert processes_with(str(port)) != []
    finally:
        for process in processes_with(str(port)):
            os.kill(process, signal.SIGKILL)
        suite.end()


def processes_with(word: str) -> list[int]:
    """The processes whose command line contains the word, apart from shells and this one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if word.encode() in line and b"stand_in" in line:
            found.append(int(path.parent.name))
    return found
