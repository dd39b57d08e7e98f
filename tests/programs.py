"""Processes for tests: started, observed through their log, stopped.

``Program`` is one process. ``pilothouse(...)`` and ``kube_controller_manager(...)`` start the common ones. The process
ends with its ``with`` block.
"""

import contextlib
import ctypes
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.real_cluster import GOGC, RealCluster, without_insecure_port

ROOT = Path(__file__).resolve().parent.parent
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Program:
    """A process and its output (standard output and error in one file)."""

    def __init__(self, directory: Path, name: str, command: Sequence[str], *, environment: dict[str, str]) -> None:
        self.name = name
        self.path = directory / f"{name}-{time.monotonic_ns()}.log"
        with self.path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=environment,
                # A test run that is killed must not leave programs behind.
                preexec_fn=_die_with_parent if _LIBC is not None else None,  # noqa: PLW1509  # one call, no locks
            )

    @property
    def log(self) -> str:
        """Everything printed so far."""
        return self.path.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self.process.poll()

    def until(self, pattern: str, seconds: float = 60.0) -> str:
        """Wait until the regular expression matches the output, and return the match."""
        deadline = time.monotonic() + seconds
        searched_size = -1
        while True:
            ended = self.code is not None
            # The log can be long: it is searched again only after it has grown.
            size = self.path.stat().st_size
            if size != searched_size or ended:
                match = re.search(pattern, self.log)
                if match is not None:
                    return match[0]
                searched_size = size
            assert not ended, f"{self.name} exited with {self.code} before {pattern!r}:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"{self.name} never printed {pattern!r}:\n{self.log[-4000:]}"
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, seconds: float = 30.0) -> int:
        """Wait for the exit, and return the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s:\n{self.log[-4000:]}") from None

    def stop(self, seconds: float = 15.0) -> int:
        """Send SIGTERM and return the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # pytest shows this with the failure.
            print(f"--- log of {self.name} (exit code {self.code}) ---\n{self.log[-6000:]}")
        if self.code is None:
            self.send(signal.SIGTERM)
            with contextlib.suppress(AssertionError):
                self.wait(10)
                return
            self.kill()


def environment(home: Path, **more: str) -> dict[str, str]:
    """Environment variables of a program as in a shell, without this machine's kubeconfigs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "KUBEBUILDER_ASSETS") if name in os.environ}
    own = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "GOGC": GOGC}
    return {**kept, **own, **more}


def pilothouse(directory: Path, *words: str, name: str = "", **more: str) -> Program:
    """Start ``pilothouse WORDS`` in the directory. Keyword arguments are environment variables."""
    command = [sys.executable, "-m", "pilothouse", *words]
    return Program(directory, name or f"pilothouse-{words[0]}", command, environment=environment(directory, **more))


def run_pilothouse(
    directory: Path, *words: str, stdin: str | None = None, seconds: float = 30.0, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``pilothouse WORDS`` until it exits."""
    return subprocess.run(
        [sys.executable, "-m", "pilothouse", *words],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment(directory, **more),
        timeout=seconds,
        check=False,
    )


def kube_controller_manager(cluster: RealCluster, directory: Path, *flags: str) -> Program:
    """Start kube-controller-manager as administrator, with the ReplicaSet controller only."""
    kubeconfig = str(cluster.kubeconfig)
    command = [
        str(cluster.assets / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--controllers=replicaset",
        *without_insecure_port("kube-controller-manager"),
        f"--secure-port={free_port()}",
        f"--cert-dir={directory}",
        "--leader-elect-resource-lock=leases",
        *flags,
    ]
    return Program(directory, "kube-controller-manager", command, environment=environment(directory))


def free_port() -> int:
    """A currently unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_port_range(count: int) -> int:
    """The first of so many currently unused ports, none of which the system gives to others in the meantime."""
    while True:
        first = random.randrange(10_000, 30_000)  # below Linux's ip_local_port_range
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first


def until(condition: Callable[[], object], description: str, seconds: float = 60.0) -> None:
    """Wait until the condition is true. ``description`` describes it in the failure.

    The pause between two evaluations is as long as an evaluation, which may run a program and compete for the
    processors.
    """
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < deadline, f"never true within {seconds} s: {description}"
        time.sleep(min(max(0.03, now - began), 0.3))
        began = time.monotonic()


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
