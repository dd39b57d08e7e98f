"""The log of a manager in two streams: targets and buffering."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.programs import environment, until

WARNING = "--allow-untagged-cloud has been deprecated"


class Split:
    """A running manager that waits for an unreachable API server, and has logged all its flags."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self._out, self._error = directory / "out", directory / "error"
        gate = "--feature-gates=LoggingAlphaOptions=true"
        words = ["manager", "--master=http://127.0.0.1:1", "--secure-port=0", "-v=1", gate, "--allow-untagged-cloud"]
        with self._out.open("wb") as out, self._error.open("wb") as error:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pilothouse", *words, *flags],
                stdout=out,
                stderr=error,
                cwd=directory,
                env=environment(directory),
            )

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def error(self) -> str:
        """Standard error so far."""
        return self._error.read_text(encoding="utf-8")


@contextmanager
def manager(directory: Path, *flags: str) -> Iterator[Split]:
    split = Split(directory, *flags)
    try:
        yield split
    finally:
        split.process.terminate()
        split.process.wait(20)


@pytest.mark.parametrize("form", ["text", "json"])
def test_info_stream_is_buffered_and_flushed_at_the_end(tmp_path: Path, form: str) -> None:
    flags = [f"--logging-format={form}", f"--log-{form}-split-stream", f"--log-{form}-info-buffer-size=4Mi"]
    for seconds in (2, 10, 30):
        with manager(tmp_path, *flags, "--log-flush-frequency=1h", "--tls-min-version=VersionTLS10") as split:
            if form == "text":
                until(lambda: WARNING in split.error, "a warning is written at once")  # called immediately
            else:
                # To JSON a warning is no error, so that nothing tells when it is time to look. Where other programs
                # run, it may be ended before it has logged anything, and then has longer.
                with pytest.raises(subprocess.TimeoutExpired):
                    split.process.wait(seconds)
            assert split.out == ""
        if split.out:
            break
    assert '"FLAG"' in split.out
    assert "FLAG" not in split.error
    assert (WARNING in split.out, WARNING in split.error) == (form == "json", form == "text")


def test_info_stream_is_flushed_periodically(tmp_path: Path) -> None:
    flags = ["--log-text-split-stream", "--log-text-info-buffer-size=4Mi", "--log-flush-frequency=100ms"]
    with manager(tmp_path, *flags) as split:
        until(lambda: '"FLAG"' in split.out, "the buffer is written")
        assert split.process.poll() is None


def test_info_stream_without_a_buffer_is_written_at_once(tmp_path: Path) -> None:
    with manager(tmp_path, "--log-text-split-stream", "--log-flush-frequency=1h") as split:
        until(lambda: '"FLAG"' in split.out, "lines are written")
        until(lambda: WARNING in split.error, "warnings are too")
        assert split.process.poll() is None
