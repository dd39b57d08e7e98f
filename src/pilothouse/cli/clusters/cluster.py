"""The directory of a cluster, and the record in it.

``$XDG_STATE_HOME/pilothouse/clusters/NAME/`` has ``cluster.json``, ``lock``, ``starter``, ``log``, ``kubeconfig`` and
``data``. The process of the cluster holds the lock as long as it runs, so that a killed one is detected, and another
process with the same process id is not mistaken for it. So does the command that starts it with ``starter``.
"""

import contextlib
import os
import re
import shutil
import time  # noqa: TID251  # processes are waited for
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pilothouse.cli.home_directory import expanded
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
_LOCK, _STARTER = "lock", "starter"
_REMOVED = ".removed-"
_STANDARD_ERROR = 2
_PATIENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.01


class Unreadable(UserError):
    """The record of a cluster can't be read: it is of a newer release, or damaged."""


class Damaged(Unreadable):
    """The record cannot be read. ``cluster`` has the directory, and no record."""

    def __init__(self, message: str, cluster: "Cluster") -> None:
        super().__init__(message)
        self.cluster = cluster


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
    """The file that its context was added to, or is to be once it is ready."""


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
        """``Running``, ``Stopped``, ``Failed`` if its process has ended by itself, ``Starting`` until it was ready for
        the first time, or ``Interrupted`` if the command that created it was killed before that."""
        if not self.record.port:
            return "Starting" if self.is_being_started else "Interrupted"
        if self.is_running:
            return "Running"
        return "Failed" if self.record.started else "Stopped"

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._is_held(_LOCK)

    @property
    def is_being_started(self) -> bool:
        """Whether a command creates or starts it at the moment."""
        return self._is_held(_STARTER)

    def _is_held(self, lock: str) -> bool:
        try:
            with self._locked(lock, shared=True):
                return False
        except BlockingIOError:
            return True
        except FileNotFoundError:  # another command has deleted the cluster
            return False
        except OSError as error:
            raise UserError(f"unable to open {self.directory / lock}: {error.strerror}") from error

    @property
    def pid(self) -> int | None:
        """The process id, if it runs."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self.is_running:
            text = self._read(_LOCK)
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
        with self._held(_LOCK) as descriptor:
            os.truncate(descriptor, 0)
            yield descriptor

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Within it this command creates or starts the cluster. Raises ``UserError`` if another command does."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._held(_STARTER))
            except BlockingIOError:
                raise UserError(f'cluster "{self.name}" is being started by another command') from None
            yield

    @contextlib.contextmanager
    def _held(self, lock: str) -> Iterator[int]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    descriptor = stack.enter_context(self._locked(lock))
                    break
                except BlockingIOError:  # perhaps by one that only checks the lock
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_PAUSE_SECONDS)
            yield descriptor

    @contextlib.contextmanager
    def _locked(self, lock: str, *, shared: bool = False) -> Iterator[int]:
        if fcntl is None:
            raise UserError("clusters in the background need POSIX file locks; run `pilothouse up` in the foreground")
        descriptor = os.open(self.directory / lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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
        (self.directory / _LOCK).write_text(f"{pid}", encoding="ascii")

    def write_offset(self, offset: int) -> None:
        """Record where the output of the process that is being started begins in the log."""
        (self.directory / _STARTER).write_text(f"{offset}", encoding="ascii")

    @property
    def offset(self) -> int:
        """Where the output of the last process begins in the log."""
        return int(self._read(_STARTER) or 0)

    def _read(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="ascii")

    def update(self, **changes: object) -> None:
        """Change the record, on disk too."""
        self.record = msgspec.structs.replace(self.record, **changes)
        self.write()

    def write(self) -> None:
        """Write the record. Raises ``UserError``, and ``FileNotFoundError`` if another command has deleted the
        cluster."""
        path = self.directory / "cluster.json"
        try:
            write_private(path, msgspec.json.format(msgspec.json.encode(self.record)) + b"\n")
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UserError(f"unable to write {path}: {error.strerror}") from error

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
        try:
            cluster.write()
        except BaseException:
            cluster.remove()
            raise
        return cluster

    def _exists(self, cluster: Cluster) -> str:
        """Why a cluster cannot be created whose directory exists, and the solution."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with contextlib.suppress(Missing):
                existing = self.get(cluster.name)
                if existing.record.port or existing.is_being_started:
                    break
                if time.monotonic() > deadline:
                    return self._unfinished(existing)
            if time.monotonic() > deadline:
                return (
                    f'a cluster "{cluster.name}" is being created by another command; if that was killed, remove '
                    f"{cluster.directory}"
                )
            time.sleep(_PAUSE_SECONDS)  # the other command writes the record, or takes the lock, now
        if not existing.record.port:
            return f'a cluster "{cluster.name}" is being created by another command'
        status = existing.status
        way = f"`pilothouse delete cluster {cluster.name}` deletes it"
        if status != "Running" and not existing.record.in_memory:
            way = f"`pilothouse start {cluster.name}` starts it, {way}"
        return f'a cluster "{cluster.name}" exists already ({status.lower()}): {way}, or choose another name'

    def _unfinished(self, existing: Cluster) -> str:
        """Why a cluster cannot be created that another command has not completed, and the solution."""
        way = f"`pilothouse delete cluster {existing.name}` deletes it"
        if existing.is_running or not existing.record.in_memory:
            way = f"`pilothouse start {existing.name}` completes it, {way}"
        return f'a cluster "{existing.name}" exists already, and the command that created it was interrupted: {way}'

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
            cluster = Cluster(self.root, Record(name=name, created=""))
            way = f"`pilothouse delete cluster {name}` deletes the cluster"
            with contextlib.suppress(UserError):
                if cluster.is_running:
                    way = f"its process runs; {way}, and ends the process"
            reason = getattr(error, "strerror", "") or error
            raise Damaged(f"unable to read {path}: {reason}; {way}", cluster) from error
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
    return expanded(state, "set HOME or XDG_STATE_HOME") / "pilothouse" / "clusters"


def is_name(text: str) -> bool:
    """Whether a cluster may be called that."""
    return text not in _RESERVED and _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    """Raises ``UserError`` for an invalid name."""
    if name in _RESERVED:
        raise UserError(f'"{name}" can\'t be the name of a cluster: name the cluster alone, without this word', code=2)
    if not is_name(name):
        raise UserError(
            f'"{name}" can\'t be the name of a cluster: up to 50 lower-case letters, digits, "-" and ".", the first '
            "and the last one a letter or digit",
            code=2,
        )
