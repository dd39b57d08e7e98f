"""The directory of a cluster, and the record in it.

``$XDG_STATE_HOME/pilothouse/clusters/NAME/`` has ``cluster.json``, ``lock``, ``log``, ``kubeconfig`` and ``data``. The
process of the cluster holds the lock as long as it runs, so that a killed one is detected, and another process with the
same process id is not mistaken for it.
"""

import contextlib
import os
import re
import shutil
import time  # noqa: TID251  # processes are waited for
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pilothouse.cli.program import UserError
from pilothouse.env.private_files import UnsafePath, make_private_directory, write_private

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

DEFAULT_NAME = "pilothouse"
CLUSTER_VARIABLE = "PILOTHOUSE_CLUSTER"
"""The environment variable with the name of the cluster, if it runs in the background."""
FORMAT = 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,48}[a-z0-9])?")
_RESERVED = ("cluster", "clusters")
_REMOVED = ".removed-"
_STANDARD_ERROR = 2
_PATIENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.01


class Unreadable(UserError):
    """The record of a cluster can't be read: it is of a newer release, or damaged."""


class Missing(UserError):
    """There is no cluster of that name."""


class _Format(msgspec.Struct):
    format: int = FORMAT


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of ``cluster.json``."""

    format: int = FORMAT
    name: str
    created: str
    """RFC 3339."""
    flags: tuple[str, ...] = ()
    """Flags of ``pilothouse up`` that the user gave."""
    directory: str = ""
    """The working directory: relative paths in the flags are relative to it."""
    in_memory: bool = False
    port: int = 0
    """Where it listened last."""
    started: bool = False
    """Whether it was started and not stopped since."""
    user_kubeconfig: str = ""
    """The file that its context was added to."""


class Cluster:
    """A cluster and its files."""

    def __init__(self, root: Path, record: Record) -> None:
        self.directory = root / record.name
        self.record = record

    @property
    def name(self) -> str:
        """The cluster in messages."""
        return self.record.name

    @property
    def context(self) -> str:
        """The name of its context in the user's kubeconfig."""
        return DEFAULT_NAME if self.name == DEFAULT_NAME else f"{DEFAULT_NAME}-{self.name}"

    @property
    def log(self) -> Path:
        """The output of its process."""
        return self.directory / "log"

    @property
    def kubeconfig(self) -> Path:
        """The credentials of its administrator, while it runs."""
        return self.directory / "kubeconfig"

    @property
    def data(self) -> Path:
        """Where a cluster that is not in memory is stored."""
        return self.directory / "data"

    @property
    def status(self) -> str:
        """``Running``, ``Stopped``, ``Failed`` if its process has ended by itself, or ``Starting`` until it was ready
        for the first time: permanently if ``create`` was killed meanwhile."""
        if self.is_running:
            return "Running" if self.record.port else "Starting"
        return "Failed" if self.record.started else "Stopped"

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        try:
            with self._locked(shared=True):
                return False
        except BlockingIOError:
            return True

    @property
    def pid(self) -> int | None:
        """The process id, if it runs."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self.is_running:
            text = self._lock_file.read_text(encoding="ascii")
            if text:
                return int(text)
            if time.monotonic() > deadline:  # the command that started it was killed before it wrote the process id
                raise UserError(f'cluster "{self.name}" runs, and its process is unknown: end it by hand')
            time.sleep(_PAUSE_SECONDS)
        return None

    def check_running(self) -> None:
        """Raises a ``UserError`` with the solution if its process does not run."""
        if not self.is_running:
            raise UserError(f'cluster "{self.name}" does not run; {self.way_out}')

    @property
    def way_out(self) -> str:
        """The solution for a cluster that does not run."""
        if self.record.in_memory:
            return f"it was in memory, and nothing of it is left; `pilothouse delete cluster {self.name}` deletes it"
        return f"`pilothouse start {self.name}` starts it"

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the lock, as a descriptor that a process may inherit. Raises ``BlockingIOError`` if another process
        holds it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    descriptor = stack.enter_context(self._locked())
                    break
                except BlockingIOError:  # perhaps by one that only checks the lock
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_PAUSE_SECONDS)
            os.truncate(descriptor, 0)
            yield descriptor

    @contextlib.contextmanager
    def _locked(self, *, shared: bool = False) -> Iterator[int]:
        if fcntl is None:
            raise UserError("clusters in the background need POSIX file locks; run `pilothouse up` in the foreground")
        descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if descriptor <= _STANDARD_ERROR:  # of a program with closed streams: a child's own would take its place
            low = descriptor
            descriptor = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _STANDARD_ERROR + 1)
            os.close(low)
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            yield descriptor
        finally:
            os.close(descriptor)

    def write_pid(self, pid: int) -> None:
        """Record the process that holds the lock."""
        self._lock_file.write_text(f"{pid}", encoding="ascii")

    def update(self, **changes: object) -> None:
        """Change the record, on disk too."""
        self.record = msgspec.structs.replace(self.record, **changes)
        self.write()

    def write(self) -> None:
        """Write the record."""
        write_private(self.directory / "cluster.json", msgspec.json.format(msgspec.json.encode(self.record)) + b"\n")

    def remove(self) -> None:
        """Remove everything that is stored of it.

        Atomically for other commands: of two concurrent removals one gets ``FileNotFoundError``. Remains of killed
        commands are removed, too.
        """
        root = self.directory.parent
        try:
            _remove_left(root)
            self.directory.replace(root / f"{_REMOVED}{self.name}-{os.getpid()}")
            _remove_left(root)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UserError(f"unable to remove {self.directory}: {error.strerror}") from error

    @property
    def _lock_file(self) -> Path:
        return self.directory / "lock"


class Clusters:
    """All clusters of this user."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def create(self, record: Record) -> Cluster:
        """A new cluster that does not run yet. Raises ``UserError``."""
        check_name(record.name)
        cluster = Cluster(self.root, record)
        try:
            make_private_directory(self.root)
            cluster.directory.mkdir(mode=0o700)
        except FileExistsError:
            raise UserError(self._exists(cluster)) from None
        except UnsafePath as error:
            raise UserError(f"{self.root}: {error}") from error
        except OSError as error:
            hint = "" if os.environ.get("XDG_STATE_HOME") else "; $XDG_STATE_HOME may name another directory"
            raise UserError(f"unable to create {cluster.directory}: {error.strerror}{hint}") from error
        cluster.write()
        return cluster

    def _exists(self, cluster: Cluster) -> str:
        """Why a cluster cannot be created whose directory exists, and the solution."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with contextlib.suppress(Missing):
                existing = self.get(cluster.name)
                break
            if time.monotonic() > deadline:
                return (
                    f'a cluster "{cluster.name}" is being created by another command; if that was killed, remove '
                    f"{cluster.directory}"
                )
            time.sleep(_PAUSE_SECONDS)  # the other command writes the record now
        delete = f"`pilothouse delete cluster {cluster.name}` deletes it"
        status = existing.status
        if status == "Starting" or (status == "Stopped" and not existing.record.port):
            return f'a cluster "{cluster.name}" is being created by another command; if that was killed, {delete}'
        way = delete
        if status != "Running" and not existing.record.in_memory:
            way = f"`pilothouse start {cluster.name}` starts it, {delete}"
        return f'a cluster "{cluster.name}" exists already ({status.lower()}): {way}, or choose another name'

    def get(self, name: str) -> Cluster:
        """The cluster of that name. Raises ``UserError``."""
        check_name(name)
        path = self.root / name / "cluster.json"
        try:
            content = path.read_bytes()
            written = msgspec.json.decode(content, type=_Format).format
            if written != FORMAT:
                raise Unreadable(f"{path} has format {written}, which this release does not read; it reads {FORMAT}")
            record = msgspec.json.decode(content, type=Record)
        except FileNotFoundError:
            names = ", ".join(self.names()) or "there are none"
            raise Missing(f'no cluster "{name}" (clusters: {names}); `pilothouse create cluster` makes one') from None
        except (OSError, msgspec.DecodeError) as error:
            raise Unreadable(
                f"unable to read {path}: {error}; remove {path.parent} to be rid of the cluster"
            ) from error
        if record.name != name:
            raise Unreadable(f"{path} is of a cluster named {record.name!r}")
        return Cluster(self.root, record)

    def chosen(self, name: str) -> Cluster:
        """The cluster of that name; without a name the only one that can be read, or the one with the default name.
        Raises ``UserError``."""
        if not name:
            names = [cluster.name for cluster in self.readable()] or self.names()
            if DEFAULT_NAME not in names and len(names) > 1:
                raise UserError(f"there are several clusters, name one of them: {', '.join(names)}", code=2)
            name = names[0] if len(names) == 1 else DEFAULT_NAME
        return self.get(name)

    def readable(self) -> list[Cluster]:
        """All clusters whose records can be read."""
        clusters = []
        for name in self.names():
            with contextlib.suppress(Unreadable):
                clusters.append(self.get(name))
        return clusters

    def names(self) -> list[str]:
        """The names of all, in order."""
        try:
            return sorted(path.parent.name for path in self.root.glob("*/cluster.json") if is_name(path.parent.name))
        except OSError as error:
            raise UserError(f"unable to read {self.root}: {error.strerror}") from error


def _remove_left(root: Path) -> None:
    """Directories that ``Cluster.remove`` has moved aside. Other commands may do the same concurrently."""
    for path in root.glob(f"{_REMOVED}*"):
        while path.exists():
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path)


def default_root() -> Path:
    """Where clusters are stored."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "pilothouse" / "clusters"


def is_name(text: str) -> bool:
    """Whether a cluster may be called that."""
    return text not in _RESERVED and _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    """Raises ``UserError`` for an invalid name."""
    if not is_name(name):
        raise UserError(
            f'"{name}" can\'t be the name of a cluster: up to 50 lower-case letters, digits, "-" and "."', code=2
        )
