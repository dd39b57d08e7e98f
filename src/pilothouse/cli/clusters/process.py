"""The process of a cluster: started in the background, waited for, stopped."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time  # noqa: TID251  # processes are waited for
import urllib.parse
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pilothouse.cli import kubeconfig_text
from pilothouse.cli.clusters.cluster import CLUSTER_VARIABLE, Cluster, Clusters, Missing
from pilothouse.cli.kubeconfig_text import NoKubeconfig
from pilothouse.cli.program import UserError

READY = "pilothouse is ready:"
"""The start of the line that ``pilothouse up`` prints when it is ready."""
_NODES = re.compile(r", (\d+ nodes?), stored ")
"""The number of nodes in that line."""
START_SECONDS = 60.0
STOP_SECONDS = 20.0
"""Seconds until a process that does not stop is killed."""
_CHECK_SECONDS = 0.02
_RECORD_SECONDS = 2.0
"""Seconds in which a command that has ended the process records or deletes it."""
_PORTS = range(20000, 30000)
"""Below the ephemeral ports of Linux, macOS and the BSDs, and the node ports of Services."""
_PORTS_TRIED = 100
_TAIL_LINES = 20
_READ_BYTES = 1024 * 1024


class Started(NamedTuple):
    """A cluster that is ready."""

    url: str
    """The address of its API server."""
    nodes: str
    """How many it has, such as ``3 nodes``: those of a snapshot or a data directory are not in the flags."""


_INFO_LINE = re.compile(r"I\d{4} \d\d:")


def start(cluster: Cluster, say: Callable[[str], None]) -> Started:
    """Start the process, and return once it is ready.

    Its output until then, usually warnings, is passed to ``say``. After an error the process is stopped. A process that
    runs already is waited for: the command that has started it was killed. To be called within ``Cluster.starting``.
    Raises ``UserError``.
    """
    process = None
    try:
        with contextlib.ExitStack() as stack:
            try:
                lock = stack.enter_context(cluster.locked())
            except BlockingIOError:
                pass  # it runs
            else:
                process = _spawn(cluster, lock)
                cluster.write_pid(process.pid)
        nodes = _wait_ready(cluster, process, say)
        url = _server_of(cluster.kubeconfig)
        cluster.update(started=True, port=urllib.parse.urlsplit(url).port or 443)
    except BaseException as error:
        if process is not None:
            _end(process)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise UserError(f'unable to start cluster "{cluster.name}": {error.strerror or error}') from error
        raise
    return Started(url, nodes)


def _spawn(cluster: Cluster, lock: int) -> subprocess.Popen[bytes]:
    record = cluster.record
    stored = ["--in-memory"] if record.in_memory else [f"--data-dir={cluster.data}"]
    port = [] if _names_port(record.flags) else [f"--port={_port(cluster)}"]
    # -P: files of the directory must not take the place of modules.
    program = [sys.executable, "-P", "-m", "pilothouse", "up"]
    words = [*program, *record.flags, *stored, f"--kubeconfig={cluster.kubeconfig}"]
    directory = Path(record.directory)
    if not directory.is_dir():
        raise UserError(f"{directory}, which the cluster was created in, is no directory any more")
    with cluster.log.open("ab") as log:
        cluster.write_offset(log.tell())
        return subprocess.Popen(  # noqa: S603  # this program, with the user's own flags
            [*words, *port],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, CLUSTER_VARIABLE: cluster.name},
            start_new_session=True,
            pass_fds=(lock,),
        )


def _names_port(flags: Sequence[str]) -> bool:
    return any(flag == "--port" or flag.startswith("--port=") for flag in flags)


def _port(cluster: Cluster) -> int:
    """The port it had, as contexts name it; else one that neither ``pilothouse up`` nor outgoing connections take."""
    if cluster.record.port and is_free(cluster.record.port):
        return cluster.record.port
    first = zlib.crc32(os.fsencode(cluster.directory))
    numbers = (_PORTS[(first + step) % len(_PORTS)] for step in range(_PORTS_TRIED))
    return next((number for number in numbers if is_free(number)), 0)


def is_free(port: int) -> bool:
    """Whether no program of this machine listens on the port on loopback."""
    import socket  # noqa: PLC0415, TID251

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait_ready(cluster: Cluster, process: subprocess.Popen[bytes] | None, say: Callable[[str], None]) -> str:
    """The number of nodes, as the process prints it when it is ready."""
    deadline = time.monotonic() + START_SECONDS
    offset = cluster.offset
    lines, printed = _Lines(cluster.log, offset), list[str]()
    while True:
        has_ended = not cluster.is_running if process is None else process.poll() is not None
        for line in lines.new():
            if line.startswith(READY):
                for warning in printed:
                    if not _INFO_LINE.match(warning):  # of -v, for the log
                        say(warning)
                nodes_line = _NODES.search(line)
                return nodes_line[1] if nodes_line else "an unknown number of nodes"
            printed.append(line)
        if has_ended:
            if process is None or process.returncode <= 0:  # negative: by a signal, before it had handlers
                _wait_removed(cluster)
            log_tail = "\n".join(f"  {line}" for line in tail(cluster.log, _TAIL_LINES, offset))
            code = "" if process is None else f" with {process.returncode}"
            raise UserError(f'cluster "{cluster.name}" has not started: its process ended{code}\n{log_tail}')
        if time.monotonic() > deadline:
            raise UserError(f'cluster "{cluster.name}" was not ready after {START_SECONDS:.0f} s; see {cluster.log}')
        time.sleep(_CHECK_SECONDS)


def _wait_removed(cluster: Cluster) -> None:
    """Another command has stopped the process. If it deletes the cluster, that is the error to report."""
    deadline = time.monotonic() + _RECORD_SECONDS
    while cluster.directory.exists() and time.monotonic() < deadline:
        time.sleep(_CHECK_SECONDS)


class _Lines:
    """The lines that are added to a file."""

    def __init__(self, path: Path, offset: int) -> None:
        self._path, self._offset = path, offset
        self._rest = b""

    def new(self) -> list[str]:
        """Whole lines since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            added = file.read(_READ_BYTES)
        self._offset += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        return [line.decode(errors="backslashreplace") for line in lines]


def stop(cluster: Cluster) -> bool:
    """Stop the process, and record that; False if there was none. Raises ``UserError`` if one of them fails."""
    unrecorded: UserError | FileNotFoundError | None = None
    try:
        # First, because observers of the end of the process must find that it was stopped.
        cluster.update(started=False)
    except (UserError, FileNotFoundError) as error:
        unrecorded = error
    except (KeyboardInterrupt, SystemExit):  # it may be recorded: the process ends, and is not waited for
        _send(cluster, cluster.pid, signal.SIGTERM)
        raise
    was_running = end(cluster)
    if isinstance(unrecorded, FileNotFoundError):
        raise unrecorded
    if unrecorded is not None:
        done = f'cluster "{cluster.name}" {"is stopped" if was_running else "was not running"}'
        raise UserError(
            f"{done}, but that is not recorded, and `list` shows it as Failed: {unrecorded}"
        ) from unrecorded
    return was_running


def end(cluster: Cluster) -> bool:
    """As ``stop``, for a cluster that is deleted: nothing is written, as the disk may be full."""
    pid = cluster.pid
    if pid is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        _send(cluster, pid, number)
        if _ends(cluster, STOP_SECONDS):
            return True
    raise UserError(f'unable to stop cluster "{cluster.name}": process {pid} does not end')


def _send(cluster: Cluster, pid: int | None, number: signal.Signals) -> None:
    if pid is None:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it has ended in the meantime: callers that wait observe its lock
    except PermissionError as error:
        reason = f"process {pid} belongs to another user"
        raise UserError(f'unable to stop cluster "{cluster.name}": {reason}') from error


def _ends(cluster: Cluster, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while cluster.is_running:
        if time.monotonic() > deadline:
            return False
        time.sleep(_CHECK_SECONDS)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _server_of(path: Path) -> str:
    try:
        document = kubeconfig_text.read(path.read_text(encoding="utf-8"))
    except (OSError, NoKubeconfig) as error:
        raise UserError(f"unable to read {path}: {error}") from error
    return kubeconfig_text.server_of(document, (document.get("clusters") or [{}])[0].get("name") or "")


def tail(path: Path, lines: int, offset: int = 0) -> list[str]:
    """The last lines of a file, from that byte on at the earliest."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(offset, size - _READ_BYTES))
        added = file.read(_READ_BYTES).decode(errors="backslashreplace").splitlines()
    return added[-lines:] if lines else []


def follow(cluster: Cluster) -> Iterator[str]:
    """The lines of the log from now on, until the process has ended."""
    with contextlib.suppress(FileNotFoundError):  # another command deletes the cluster
        lines = _Lines(cluster.log, cluster.log.stat().st_size)
        while True:
            running = cluster.is_running
            yield from lines.new()
            if not running:
                return
            time.sleep(0.2)


def ended_status(cluster: Cluster) -> str:
    """The status of a cluster whose process has just ended, empty if it was deleted."""
    deadline = time.monotonic() + _RECORD_SECONDS
    while True:
        try:
            status = Clusters(cluster.directory.parent).get(cluster.name).status
        except Missing:
            return ""
        if status != "Failed" or time.monotonic() > deadline:
            return status
        time.sleep(_CHECK_SECONDS)


def was_lost(cluster: Cluster) -> bool:
    """Whether the process has ended, after a connection to it was lost."""
    return _ends(cluster, _RECORD_SECONDS)
