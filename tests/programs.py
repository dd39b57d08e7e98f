"""Programs of this project, and others, as processes for tests: started, watched through their log, ended.

``Program`` is one process. ``pilothouse(...)`` and ``go_manager(...)`` make the ones that tests need. Leave a ``with``
block and the process is gone.
"""

import contextlib
import ctypes
import os
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

from tests.real_cluster import GOGC, RealCluster

ROOT = Path(__file__).resolve().parent.parent
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Program:
    """A running process and what it printed (standard output and error in one file, as they came)."""

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
        """Wait for a line that the regular expression is found in, and return the match."""
        deadline = time.monotonic() + seconds
        looked_at = -1
        while True:
            ended = self.code is not None
            # A talkative log is long, and is read only when there is more of it.
            size = self.path.stat().st_size
            if size != looked_at or ended:
                found = re.search(pattern, self.log)
                if found is not None:
                    return found[0]
                looked_at = size
            assert not ended, f"{self.name} exited with {self.code} before {pattern!r}:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"{self.name} never printed {pattern!r}:\n{self.log[-4000:]}"
            time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, seconds: float = 30.0) -> int:
        """Wait for its end, and return the exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds} s:\n{self.log[-4000:]}") from None

    def stop(self, seconds: float = 15.0) -> int:
        """SIGTERM, and the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """SIGKILL."""
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
    """What a program started by hand would see, without this machine's kubeconfigs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "KUBEBUILDER_ASSETS") if name in os.environ}
    own = {"PYTHONPATH": str(ROOT / "src"), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", "GOGC": GOGC}
    return {**kept, **own, **more}


def pilothouse(directory: Path, *words: str, name: str = "", **more: str) -> Program:
    """Start ``pilothouse WORDS`` in that directory. Further keywords are environment variables."""
    command = [sys.executable, "-m", "pilothouse", *words]
    return Program(directory, name or f"pilothouse-{words[0]}", command, environment=environment(directory, **more))


def run_pilothouse(
    directory: Path, *words: str, stdin: str | None = None, seconds: float = 30.0, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ``pilothouse WORDS`` to its end."""
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


def go_manager(cluster: RealCluster, directory: Path, *flags: str) -> Program:
    """Start the real kube-controller-manager (v1.20) as administrator, with the ReplicaSet controller only."""
    kubeconfig = str(cluster.kubeconfig)
    command = [
        str(cluster.assets / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--controllers=replicaset",
        "--port=0",
        f"--secure-port={free_port()}",
        f"--cert-dir={directory}",
        "--leader-elect-resource-lock=leases",
        *flags,
    ]
    return Program(directory, "kube-controller-manager", command, environment=environment(directory))


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait until it holds. ``what`` names it in the failure.

    Between two looks it rests as long as one takes: to find out may be a program, and what is waited for needs the
    processors, too.
    """
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < deadline, f"never true within {seconds} s: {what}"
        time.sleep(min(max(0.03, now - began), 0.3))
        began = time.monotonic()


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
