"""Measured processes: start, wait for a line of output, CPU time, resident memory, stop. Linux only."""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BYTECODE = Path(tempfile.gettempdir()) / f"pilothouse-bench-{os.getuid()}"


def environment() -> Mapping[str, str]:
    """What a user's process has: this tree on the path, and compiled modules, as an installed package has them."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT / "src"), "PYTHONPYCACHEPREFIX": str(_BYTECODE)}


def pilothouse(*words: str) -> list[str]:
    """The command line of a pilothouse program."""
    return [sys.executable, "-m", "pilothouse", *words]


@contextlib.contextmanager
def started(
    command: Sequence[str], log: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """Run a program, its standard output as a pipe and its errors in ``log``; end it politely. ``env``: instead of what
    ``environment`` gives."""
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=cwd, env=dict(env or environment())
        )
    with process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for_line(process: "subprocess.Popen[str]", text: str, log: Path) -> None:
    """Read standard output up to the line that has the text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise RuntimeError(f"the program ended before it said {text!r}:\n{log.read_text()[-2000:]}")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, to the nanosecond (Linux gives every process a clock of its own)."""
    return time.clock_gettime(((~pid) << 3) | 2)


def resident_bytes(pid: int) -> int:
    """What a process has in memory, shared libraries included."""
    return _of_status(pid, "VmRSS")


def peak_bytes_of(pid: int) -> int:
    """The most that a process has ever had in memory."""
    return _of_status(pid, "VmHWM")


def with_children(pid: int) -> list[int]:
    """A process and all processes that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [pid, *(each for child in children for each in with_children(int(child)))]


def cpu_seconds_of_all(pid: int) -> float:
    """User and system time of a process and of those that it has started."""
    return sum(map(cpu_seconds, with_children(pid)))


def resident_bytes_of_all(pid: int) -> int:
    """What a process and those that it has started have in memory."""
    return sum(map(resident_bytes, with_children(pid)))


def _of_status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} for {pid}")


def peak_resident_bytes() -> int:
    """The most that this process has ever had in memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
