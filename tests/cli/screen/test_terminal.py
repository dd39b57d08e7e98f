"""``pilothouse top`` as a process in a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import Program, environment, pilothouse, run_pilothouse

pytestmark = pytest.mark.slow
_CONTROL = re.compile(r"\x1b(?:\[[0-9;?<=>]*[a-zA-Z]|\][^\x07]*\x07|P[^\x1b]*\x1b\\|[()][A-Z0-9]|[=>])")


class Terminal:
    """``pilothouse WORDS`` in a terminal of 40 lines."""

    def __init__(self, directory: Path, *words: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pilothouse", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=directory,
            env={**environment(directory), "TERM": "xterm-256color"},
            start_new_session=True,
        )

    def read(self, seconds: float = 0.1) -> None:
        """Read the pending output."""
        while select.select([self._master], [], [], seconds)[0]:
            self.output += os.read(self._master, 65536).decode(errors="replace")
            seconds = 0.0

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def until(self, text: str, seconds: float = 40.0) -> None:
        """Wait until something has been drawn."""
        deadline = time.monotonic() + seconds
        while text not in _CONTROL.sub("", self.output):
            assert self.process.poll() is None, self.output[-3000:]
            assert time.monotonic() < deadline, f"{text} not in {_CONTROL.sub('', self.output)[-3000:]}"
            self.read()

    def end(self) -> int:
        """Wait for the end; the exit code."""
        deadline = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
        self.read()
        return self.process.wait(timeout=1)

    def close(self) -> None:
        """Kill what still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)
        os.close(self._master)
        os.close(self.slave)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("up")
    program: Program
    with pilothouse(directory, "up", "--port=0") as program:
        program.until("pilothouse is ready")
        yield directory


def test_in_a_terminal(up: Path) -> None:
    terminal = Terminal(up, "top", "--kubeconfig", ".pilothouse/kubeconfig")
    try:
        terminal.until("node-0")
        terminal.press("4")
        terminal.until("node_lifecycle_controller")
        terminal.press("5")
        terminal.until("All pods have a node")
        terminal.press("q")
        assert terminal.end() == 0
        assert "\x1b[?1049l" in terminal.output, "the terminal has its own screen back"
        assert termios.tcgetattr(terminal.slave) == terminal.before
    finally:
        terminal.close()


def test_a_signal_leaves_the_terminal_as_it_was(up: Path) -> None:
    terminal = Terminal(up, "top", "--kubeconfig", ".pilothouse/kubeconfig")
    try:
        terminal.until("node-0")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 0
        assert "\x1b[?1049l" in terminal.output
        assert termios.tcgetattr(terminal.slave) == terminal.before
    finally:
        terminal.close()


def test_without_a_terminal(tmp_path: Path) -> None:
    ended = run_pilothouse(tmp_path, "top")
    assert (ended.returncode, ended.stderr) == (
        1,
        "Error: pilothouse top needs a terminal; pilothouse get prints objects\n",
    )


def test_without_textual(tmp_path: Path) -> None:
    code = "import sys; sys.modules['textual'] = None; from pilothouse.cli import main; sys.exit(main(['top']))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (
        1,
        "Error: pilothouse top needs Textual: pip install 'pilothouse[top]'\n",
    )
