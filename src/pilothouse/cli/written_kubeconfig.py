"""The kubeconfigs that ``up`` and ``apiserver`` write for their users, and take back.

One file is all ours: mode 0600, written in one step, and never over a file that was not written here, since such a file
may hold the only copy of a user's credentials; nor over that of a server that still runs. Into another, which is the
user's, a context is put (``kubeconfig_text``). Both are changed under client-go's lock, ``FILE.lock``, so that kubectl
and this program do not overwrite each other's changes.
"""

import asyncio
import contextlib
import os
import socket  # noqa: TID251  # asks once whether a real server listens
import stat
import sys
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from pilothouse.cli import kubeconfig_text
from pilothouse.cli.kubeconfig_text import Document, NoKubeconfig
from pilothouse.cli.program import UserError
from pilothouse.env.private_files import is_owned_by_this_user, is_world_writable, write_private

MARK = "# Written by pilothouse; it is overwritten at the next start."
NAME = "pilothouse"
"""What cluster, user and context are called in the user's file, if that name is free."""
_PATIENCE_SECONDS = 0.2
_LOCK_SECONDS = 5.0
_LOCK_PAUSE_SECONDS = 0.05


class Server:
    """The server that a kubeconfig is for. ``document`` makes one whose cluster, user and context have that name."""

    def __init__(self, url: str, document: Callable[[str], Document]) -> None:
        self.url = url
        self.document = document

    @property
    def port(self) -> int:
        """Where it listens."""
        return urllib.parse.urlsplit(self.url).port or 443


@contextlib.asynccontextmanager
async def own_kubeconfig(
    path: Path, server: Server, *, given: bool = True, kept: bool = False, flag: str = "--kubeconfig"
) -> AsyncIterator[Path]:
    """Write a kubeconfig, and yield its path.

    If the file belongs to a server that still runs, a file next to it is used, unless the path was ``given`` by the
    user. The file is removed at the end unless ``kept``, for a server that comes back, and so is its directory if it
    was made for it and nothing else is in it. Raises ``UserError``.
    """
    path = _home(path)
    is_new = not path.parent.exists()
    async with _locked(path):
        path = _free_path(path, server, given=given, flag=flag)
        document = kubeconfig_text.marked(server.document(NAME))
        _replace(path, f"{MARK}\n{kubeconfig_text.dumped(document)}")
    try:
        yield path
    finally:
        if not kept:
            with _reported(f"{path} could not be removed"):
                async with _locked(path):
                    if _is_written_here(path) and _server_of(path) == server.url:
                        path.unlink()
            if is_new:
                with contextlib.suppress(OSError):  # others have files in it
                    path.parent.rmdir()


@contextlib.asynccontextmanager
async def merged_kubeconfig(path: Path, server: Server) -> AsyncIterator[str]:
    """Have a context in the user's file, as the current one, and say how it is called. At the end it is taken out, and
    what was current before is so again. Raises ``UserError``."""
    path = _home(path)
    async with _locked(path):
        before = _read(path)
        try:
            name = _free_name(path, kubeconfig_text.read(before or ""), server)
            after = kubeconfig_text.put_in(before or "", server.document(name))
        except NoKubeconfig as error:
            raise UserError(f"unable to add a context to {path}: {error}; the file is not changed") from None
        _rewrite(path, after)
    try:
        yield name
    finally:
        with _reported(f"the context {name} could not be taken out of {path}"):
            async with _locked(path):
                _take_out(path, name, server, before, after)


async def add_context(path: Path, server: Server, name: str, owner: Path) -> None:
    """Have a context of that name in the user's file, as the current one, that belongs to the cluster in the directory
    ``owner``. One that is its own, or of a server that is gone, is replaced. Raises ``UserError``, also if the name is
    somebody else's."""
    path = _home(path)
    async with _locked(path):
        before = _read(path) or ""
        try:
            _check_free(path, kubeconfig_text.read(before), name, owner, server.url)
            _rewrite(path, kubeconfig_text.put_in(before, server.document(name), str(owner)))
        except NoKubeconfig as error:
            raise UserError(f"unable to add a context to {path}: {error}; the file is not changed") from None


def check_context(path: Path, name: str, owner: Path) -> None:
    """Raise the ``UserError`` of ``add_context`` before there is a server."""
    path = _home(path)
    try:
        _check_free(path, kubeconfig_text.read(_read(path) or ""), name, owner, "")
    except NoKubeconfig as error:
        raise UserError(f"unable to add a context to {path}: {error}; the file is not changed") from None


def _check_free(path: Path, document: Document, name: str, owner: Path, url: str) -> None:
    if not kubeconfig_text.has(document, name):
        return
    if not kubeconfig_text.is_marked(document, name):
        raise UserError(
            f"{path} has a cluster, user or context named {name} that pilothouse has not added; rename it, or "
            "choose another name for the cluster"
        )
    if _is_context_of(document, name, owner, url) or not _is_in_use(document, name):
        return
    server, directory = kubeconfig_text.server_of(document, name), kubeconfig_text.owner_of(document, name)
    whose = f"the cluster in {directory}" if directory else "another server"
    raise UserError(
        f"the context {name} in {path} belongs to {whose} ({server}) and is not replaced; choose another name for the "
        "cluster, another kubeconfig (--kubeconfig or $KUBECONFIG), or create it with --no-context"
    )


def _is_context_of(document: Document, name: str, owner: Path, url: str) -> bool:
    """By the directory; contexts of releases before it was noted, by the server."""
    directory = kubeconfig_text.owner_of(document, name)
    return directory == str(owner) if directory else kubeconfig_text.server_of(document, name) == url


def _is_in_use(document: Document, name: str) -> bool:
    """Whether the cluster of a marked context exists, even if it is stopped, or its server answers."""
    directory = kubeconfig_text.owner_of(document, name)
    exists = bool(directory) and (Path(directory) / "cluster.json").exists()
    return exists or _answers(kubeconfig_text.server_of(document, name))


async def remove_context(path: Path, name: str, owner: Path, url: str) -> None:
    """Take a context out of the user's file that ``add_context`` has added for the cluster in the directory ``owner``,
    if it is still there. A file with nothing else in it is removed. Raises ``UserError``."""
    path = _home(path)
    if not path.exists():
        return
    async with _locked(path):
        text = _read(path)
        try:
            document = kubeconfig_text.read(text or "")
            marked = kubeconfig_text.is_marked(document, name)
            if text is None or not marked or not _is_context_of(document, name, owner, url):
                return
            left = kubeconfig_text.take_out(text, name)
            if kubeconfig_text.is_empty(left):
                path.unlink()
            else:
                _rewrite(path, left)
        except NoKubeconfig as error:
            raise UserError(f"unable to take {name} out of {path}: {error}; the file is not changed") from None


def _take_out(path: Path, name: str, server: Server, before: str | None, after: str) -> None:
    text = _read(path)
    if text is None or kubeconfig_text.server_of(kubeconfig_text.read(text), name) != server.url:
        return  # another program has removed or replaced it
    if text == after and not kubeconfig_text.has(kubeconfig_text.read(before or ""), name):
        left = before
    else:
        left = kubeconfig_text.take_out(text, name)
        if before is None and kubeconfig_text.is_empty(left):
            left = None
    if left is None:
        path.unlink()
    else:
        _rewrite(path, left)


# Which file, and which name


def _free_path(path: Path, server: Server, *, given: bool, flag: str) -> Path:
    """The path, or one next to it. Raises ``UserError`` when neither may be written."""
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file with {flag}")
    if os.path.lexists(path) and not (is_owned_by_this_user(path) and _is_written_here(path)):
        raise UserError(
            f"{path} was not written by pilothouse and is not overwritten; move it, choose another file with {flag}, "
            "or add a context to it with --write-kubeconfig"
        )
    before = _server_of(path)
    if before in {"", server.url} or not _answers(before):
        return path
    if given:
        raise UserError(f"{path} is for {before}, which is still running; name another file with {flag}")
    sibling = path.with_name(f"{path.name}-{server.port}")
    print(
        f"note: {path} is for {before}, which is still running; the kubeconfig of {server.url} is {sibling}",
        file=sys.stderr,
    )
    return _free_path(sibling, server, given=True, flag=flag)


def _free_name(path: Path, document: Document, server: Server) -> str:
    """A name that is free, or of a server of ours that is gone. Raises ``UserError`` if there is none."""
    for name in (NAME, f"{NAME}-{server.port}"):
        if not kubeconfig_text.has(document, name):
            return name
        known = kubeconfig_text.server_of(document, name)
        if kubeconfig_text.is_marked(document, name) and (known == server.url or not _is_in_use(document, name)):
            return name
    raise UserError(f"{path} has clusters, users or contexts named {NAME} and {NAME}-{server.port}; rename one of them")


def _is_written_here(path: Path) -> bool:
    """Whether the file carries our mark. kubectl drops the comment when it changes something, and keeps the others."""
    text = _read(path)
    if text is None:
        return False
    if text.split("\n", 1)[0] == MARK:
        return True
    try:
        document = kubeconfig_text.read(text)
    except NoKubeconfig:
        return False
    names = [cluster.get("name") or "" for cluster in document.get("clusters") or ()]
    return bool(names) and all(kubeconfig_text.is_marked(document, name) for name in names)


def _server_of(path: Path) -> str:
    """The server that a file of ours names; empty when there is none to be found."""
    try:
        document = kubeconfig_text.read(_read(path) or "")
    except NoKubeconfig:
        return ""
    names = [cluster.get("name") or "" for cluster in document.get("clusters") or ()]
    return kubeconfig_text.server_of(document, names[0]) if names else ""


def _answers(url: str) -> bool:
    """Whether the server accepts connections."""
    try:
        parts = urllib.parse.urlsplit(url)
        with socket.create_connection((parts.hostname or "", parts.port or 443), timeout=_PATIENCE_SECONDS):
            return True
    except (OSError, ValueError):
        return False


# Files


def _home(path: Path) -> Path:
    return path.expanduser()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"unable to read kubeconfig {path}: {getattr(error, 'strerror', '') or error}") from None


def _rewrite(path: Path, text: str) -> None:
    """Replace the user's file, or the one that it links to; its mode and owner stay, and a new one is private."""
    path = path.resolve()
    if not path.exists():
        _replace(path, text)
        return
    old = path.stat()
    _replace(path, text, mode=stat.S_IMODE(old.st_mode))
    if old.st_uid != path.stat().st_uid:
        os.chown(path, old.st_uid, old.st_gid)  # root has changed the file of another user


def _replace(path: Path, text: str, *, mode: int = 0o600) -> None:
    try:
        write_private(path, text.encode(), mode=mode)
    except OSError as error:
        raise UserError(f"unable to write kubeconfig {path}: {error.strerror}") from error


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Hold client-go's lock of a kubeconfig, in a directory that is made if it is not there (``lockFile`` in client-go
    ``tools/clientcmd/loader.go``, v0.36; that gives up at once). Raises ``UserError``."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_world_writable(path.parent):
            reason = f"every user may replace files in {path.parent}; chmod o-w {path.parent}"
            raise UserError(f"unable to write kubeconfig {path}: {reason}")
        async with asyncio.timeout(_LOCK_SECONDS):
            while True:
                try:
                    os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
                    break
                except FileExistsError:
                    await asyncio.sleep(_LOCK_PAUSE_SECONDS)
                except FileNotFoundError:  # another program has just ended, and removed its directory
                    await asyncio.sleep(_LOCK_PAUSE_SECONDS)
                    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except TimeoutError:
        raise UserError(
            f"{lock} exists: another program is changing {path}, or crashed while doing so; if it crashed, remove it"
        ) from None
    except OSError as error:
        raise UserError(f"unable to write kubeconfig {path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


@contextlib.contextmanager
def _reported(what: str) -> Iterator[None]:
    """Print an error on standard error: no caller is left to handle it."""
    try:
        yield
    except (UserError, NoKubeconfig, OSError) as error:
        print(f"note: {what}: {error}", file=sys.stderr)
