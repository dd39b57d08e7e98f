"""Standard streams that are closed, full, not read, or in an encoding with few characters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tables import cases

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
NO_FILE = "get pods --kubeconfig=nothing"
"""It starts an event loop, which libuv ends with an assertion if a standard stream is among its descriptors."""


EXITED = "mkfifo pipe; : <pipe & exec 3>pipe; wait;"
"""Descriptor 3 is a pipe whose reader has exited for certain, as that of ``| :`` has soon."""


def run(command: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a shell, in which ``pilothouse`` is this one."""
    here = f'pilothouse() {{ "{sys.executable}" -m pilothouse "$@"; }}\n'
    return subprocess.run(
        ["sh", "-c", here + command], cwd=directory, timeout=60, check=False, capture_output=True, text=True,
        env={**os.environ, "XDG_STATE_HOME": str(directory), "KUBECONFIG": "", **environment},
    )  # fmt: skip


@posix
@cases(
    "command, code, errors",
    {
        "closed standard input": (f"pilothouse {NO_FILE} <&-", 1, "no such kubeconfig file"),
        "closed standard output": (f"pilothouse {NO_FILE} >&-", 1, "no such kubeconfig file"),
        "closed standard error": (f"pilothouse {NO_FILE} 2>&-", 1, ""),
        "all closed": ("pilothouse list <&- >&- 2>&-", 0, ""),
        "a reader that has exited": (f"{EXITED} pilothouse --help >&3; echo $? >&2", 0, "141"),
    },
)
def test_closed_streams(command: str, code: int, errors: str, tmp_path: Path) -> None:
    done = run(command, tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert errors in done.stderr
    assert done.stderr.count("\n") <= 1


COMMAND = """
import asyncio, sys
from pilothouse.cli import standard_streams
from pilothouse.cli.program import UserError, serve
from pilothouse.env import TaskGroup

standard_streams.prepare()

async def show():
    try:
        print("text", flush=True)
    except OSError as error:
        raise UserError(f"FILE: {error.strerror}")

async def work():
    async with TaskGroup("commands") as group:
        group.start(show(), name="show")
    return 0

async def in_thread():
    return await asyncio.to_thread(lambda: asyncio.run(work()))

sys.exit(standard_streams.written(lambda: serve("pilothouse", WORK(), v=0, waits=True)))
"""


@posix
@cases("unbuffered", {"buffered": "", "unbuffered": "1"})
@cases("work", {"in a task": "work", "in a thread": "in_thread"})
def test_a_reader_that_has_exited_is_no_error_of_what_a_command_reads(
    work: str, unbuffered: str, tmp_path: Path
) -> None:
    """A broken pipe is not reported as an error of a file or a connection, whose errors have the same type."""
    command = f"{EXITED} '{sys.executable}' -c '{COMMAND.replace('WORK', work)}' >&3; echo $? >&2"
    done = run(command, tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert done.stderr == "141\n"


@posix
@FULL
def test_a_full_disk_is_no_error_of_what_a_command_reads(tmp_path: Path) -> None:
    done = run(f"'{sys.executable}' -c '{COMMAND.replace('WORK', 'work')}' >/dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (1, "Error: unable to write the output: No space left on device\n")


@posix
@FULL
@cases("unbuffered", {"buffered": "", "unbuffered": "1"})
def test_output_on_a_full_disk(unbuffered: str, tmp_path: Path) -> None:
    done = run("pilothouse list -o json >/dev/full", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    assert done.stderr == "Error: unable to write the output: No space left on device\n"


@posix
@cases(
    "environment",
    {
        "an encoding of Python": {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        "the C locale, which writes undecodable bytes unchanged": {
            "LC_ALL": "C",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONUTF8": "0",
        },
    },
)
def test_output_in_an_encoding_with_few_characters(environment: dict[str, str], tmp_path: Path) -> None:
    code = (
        "import json, sys; from pilothouse.cli import standard_streams, get; standard_streams.prepare();"
        r"value = {'a': '\xfc \U0001F642'}; print(json.dumps(value, ensure_ascii=False)); print(get.yaml_text(value))"
    )
    done = run(f'"{sys.executable}" -c "{code}"', tmp_path, **environment)
    first, second = done.stdout.strip().split("\n")
    assert json.loads(first) == {"a": "ü 🙂"}
    assert second == r'a: "\xFC \U0001F642"'
