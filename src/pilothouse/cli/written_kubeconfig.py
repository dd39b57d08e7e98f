"""The kubeconfigs that ``up`` and ``apiserver`` write for their users, and remove at the end.

The file of ``--kubeconfig`` is only ours: mode 0600, written atomically, and never over a file that was not written
here, since that may have the only copy of a user's credentials, nor over that of a running server. To the user's own
kubeconfig a context is added (``kubeconfig_text``).

Both are changed under client-go's lock, ``FILE.lock``, so that kubectl and this program do not overwrite each other's
changes.
"""

import asyncio
import contextlib
import os
import socket  # noqa: TID251  # checks once whether a real server listens
import stat
import sys
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from pilothouse.cli import kubeconfig_text
from pilothouse.cli.home_directory import expanded
from pilothouse.cli.kubeconfig_text import Document, NoKubeconfig
from pilothouse.cli.program import UserError
from pilothouse.env.private_files import is_owned_by_this_user, is_world_writable, write_private

MARK = "# Written by pilothouse; it is overwritten at the next start."
NAME = "pilothouse"
"""The name of cluster, user and context in the user's kubeconfig, unless it is taken."""
_PATIENCE_SECONDS = 0.2
_LOCK_SECONDS = 5.0
_LOCK_PAUSE_SECONDS = 0.05


class Unwritable(UserError):
    """The file cannot be written or read: a matter of permissions or space. Callers add the way to choose another."""


class Server:
    """The server of a kubeconfig. ``document`` creates the kubeconfig with a given name of cluster, user and
    context."""

    def __init__(self, url: str, document: Callable[[str], Document]) -> None:
        self.url = url
        self.document = document

    @property
    def port(self) -> int:
        """The port in the URL."""
        return urllib.parse.urlsplit(self.url).port or 443


@contextlib.asynccontextmanager
async def own_kubeconfig(
    path: Path,
    server: Server,
    *,
    explicit: bool = True,
    kept: bool = False,
    exclusive: bool = False,
    flag: str = "--kubeconfig",
) -> AsyncIterator[Path]:
    """Write a kubeconfig, and yield its path.

    If the file belongs to a running server, a file next to it is used, unless the path is ``explicit``, that is given
    by the user. At the end the file is removed, unless ``kept`` for a server that will be started again, and also its
    directory if it was created here and is empty. ``exclusive``: no other server writes this file, so whatever listens
    at the address in it is another program. Raises ``UserError``.
    """
    path = _home(path)
    is_new = not path.parent.exists()
    try:
        async with _locked(path):
            path = _free_path(path, server, explicit=explicit, exclusive=exclusive, flag=flag)
            document = kubeconfig_text.marked(server.document(NAME))
            _replace(path, f"{MARK}\n{kubeconfig_text.dumped(document)}")
    except Unwritable as error:
        if exclusive:
            raise
        raise UserError(f"{error}; {flag} names another file") from error
    try:
        yield path
    finally:
        if not kept:
            # If the directory was removed, locking the file would create it again.
            with _print_errors(f"{path} could not be removed"):
                if path.exists():
                    async with _locked(path):
                        if _is_written_here(path) and _server_of(path) == server.url:
                            path.unlink()
            if is_new:
                with contextlib.suppress(OSError):  # not empty
                    path.parent.rmdir()


@contextlib.asynccontextmanager
async def merged_kubeconfig(path: Path, server: Server) -> AsyncIterator[str]:
    """Add a context to the user's kubeconfig as the current one, and yield its name. At the end it is removed, and the
    previous one becomes current again. Raises ``UserError``."""
    path = _home(path)
    async with _locked(path):
        old = _read(path)
        try:
            name = _free_name(path, kubeconfig_text.read(old or ""), server)
            new = kubeconfig_text.with_context(old or "", server.document(name))
        except NoKubeconfig as error:
            raise UserError(f"unable to add a context to {path}: {error}; the file is not changed") from None
        _rewrite(path, new)
    try:
        yield name
    finally:
        with _print_errors(f"the context {name} could not be taken out of {path}"):
            async with _locked(path):
                _remove_entries(path, name, server, old, new)


async def add_context(path: Path, server: Server, name: str, owner: Path) -> None:
    """Add a context with that name to the user's kubeconfig as the current one, for the cluster in the directory
    ``owner``. A context of the same cluster, whatever it is called now, or of a deleted one is replaced. Raises
    ``UserError``, also if the name is taken."""
    path = _home(path)
    async with _locked(path):
        old = _read(path)
        if old is None:
            old = kubeconfig_text.CREATED
        try:
            document = kubeconfig_text.read(old)
            _check_free(path, document, name, owner, server.url)
            addition = server.document(name)
            renamed = kubeconfig_text.contexts_of(document, str(owner))
            if renamed and name not in renamed:
                context = {**addition["contexts"][0], "name": renamed[0]}
                addition |= {"contexts": [context], "current-context": renamed[0]}
            _rewrite(path, kubeconfig_text.with_context(old, addition, str(owner)))
        except NoKubeconfig as error:
            raise UserError(f"unable to add a context to {path}: {error}; the file is not changed") from None


def check_context(path: Path, name: str, owner: Path) -> None:
    """Raise the ``UserError`` of ``add_context`` before the server is started."""
    path = _home(path)
    try:
        _check_free(path, kubeconfig_text.read(_read(path) or ""), name, owner, "")
    except NoKubeconfig as error:
        raise UserError(f"unable to add a context to {path}: {error}; the file is not changed") from None


def _check_free(path: Path, document: Document, name: str, owner: Path, url: str) -> None:
    if not kubeconfig_text.has(document, name):
        return
    if kubeconfig_text.contexts_of(document, str(owner)) and not kubeconfig_text.owner_of(document, name):
        return  # the user has renamed its context
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
    """Compare the directory of the cluster; in contexts of older releases, which do not have it, the server."""
    directory = kubeconfig_text.owner_of(document, name)
    return directory == str(owner) if directory else kubeconfig_text.server_of(document, name) == url


def _is_in_use(document: Document, name: str) -> bool:
    """Whether the cluster of a marked context exists, even if it is stopped, or its server responds."""
    directory = kubeconfig_text.owner_of(document, name)
    exists = bool(directory) and (Path(directory) / "cluster.json").exists()
    return exists or _is_reachable(kubeconfig_text.server_of(document, name))


async def remove_context(path: Path, name: str, owner: Path, url: str) -> None:
    """Remove the context that ``add_context`` added for the cluster in the directory ``owner``, whatever it is called
    now, with its cluster and user, if they still exist. A file that ``add_context`` has created is removed when it
    becomes empty. Raises ``UserError``."""
    path = _home(path)
    if _read(path) is None:
        return
    async with _locked(path):
        text = _read(path)
        try:
            document = kubeconfig_text.read(text or "")
            contexts = kubeconfig_text.contexts_of(document, str(owner))
            if not contexts and kubeconfig_text.is_marked(document, name):
                contexts = [name] if _is_context_of(document, name, owner, url) else []
            left_over = kubeconfig_text.is_left_over(document, name)
            is_context_deleted = left_over and kubeconfig_text.server_of(document, name) == url
            if text is None or not (contexts or is_context_deleted):
                return
            left = kubeconfig_text.without_context(text, name, contexts)
            if kubeconfig_text.is_empty(left) and kubeconfig_text.is_created(left):
                path.unlink()
            else:
                _rewrite(path, left)
        except NoKubeconfig as error:
            raise UserError(f"unable to take {name} out of {path}: {error}; the file is not changed") from None


def _remove_entries(path: Path, name: str, server: Server, old: str | None, new: str) -> None:
    text = _read(path)
    if text is None or kubeconfig_text.server_of(kubeconfig_text.read(text), name) != server.url:
        return  # another program has removed or replaced it
    if text == new and not kubeconfig_text.has(kubeconfig_text.read(old or ""), name):
        left = old
    else:
        left = kubeconfig_text.without_context(text, name)
        if old is None and kubeconfig_text.is_empty(left):
            left = None
    if left is None:
        path.unlink()
    else:
        _rewrite(path, left)


# Which file, and which name


def _free_path(path: Path, server: Server, *, explicit: bool, exclusive: bool, flag: str) -> Path:
    """The path, or one next to it. Raises ``UserError`` if neither may be written."""
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file with {flag}")
    if os.path.lexists(path) and not (is_owned_by_this_user(path) and _is_written_here(path)):
        raise UserError(
            f"{path} was not written by pilothouse and is not overwritten; move it, choose another file with {flag}, "
            "or add a context to it with --write-kubeconfig"
        )
    old = _server_of(path)
    if exclusive or old in {"", server.url} or not _is_reachable(old):
        return path
    if explicit:
        raise UserError(f"{path} is for {old}, where a server is listening; name another file with {flag}")
    sibling = path.with_name(f"{path.name}-{server.port}")
    print(
        f"note: {path} is for {old}, where a server is listening; the kubeconfig of {server.url} is {sibling}",
        file=sys.stderr,
    )
    return _free_path(sibling, server, explicit=True, exclusive=False, flag=flag)


def _free_name(path: Path, document: Document, server: Server) -> str:
    """The default name, or one with the port; names of our stopped servers are reused. Raises ``UserError`` if there is
    none."""
    for name in (NAME, f"{NAME}-{server.port}"):
        if not kubeconfig_text.has(document, name):
            return name
        other_server = kubeconfig_text.server_of(document, name)
        if kubeconfig_text.is_marked(document, name) and (other_server == server.url or not _is_in_use(document, name)):
            return name
    raise UserError(f"{path} has clusters, users or contexts named {NAME} and {NAME}-{server.port}; rename one of them")


def _is_written_here(path: Path) -> bool:
    """Whether the file has our mark. kubectl removes the leading comment when it changes a file, and keeps the
    extensions."""
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
    """The server in a file written here; empty if it can't be read."""
    try:
        document = kubeconfig_text.read(_read(path) or "")
    except NoKubeconfig:
        return ""
    names = [cluster.get("name") or "" for cluster in document.get("clusters") or ()]
    return kubeconfig_text.server_of(document, names[0]) if names else ""


def _is_reachable(url: str) -> bool:
    """Whether the server accepts connections."""
    try:
        parts = urllib.parse.urlsplit(url)
        with socket.create_connection((parts.hostname or "", parts.port or 443), timeout=_PATIENCE_SECONDS):
            return True
    except (OSError, ValueError):
        return False


# Files


def _home(path: Path) -> Path:
    return expanded(path, "set HOME, or name the file without ~")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UserError(f"unable to read kubeconfig {path}: {error}") from None
    except OSError as error:
        raise Unwritable(f"unable to read kubeconfig {path}: {error.strerror}") from None


def _rewrite(path: Path, text: str) -> None:
    """Replace the user's file, or the target of a symbolic link; mode and owner are kept, and a new file is private."""
    path = path.resolve()
    if not path.exists():
        _replace(path, text)
        return
    old = path.stat()
    _replace(path, text, mode=stat.S_IMODE(old.st_mode))
    if old.st_uid != path.stat().st_uid:
        os.chown(path, old.st_uid, old.st_gid)  # root changed a file of another user


def _replace(path: Path, text: str, *, mode: int = 0o600) -> None:
    try:
        write_private(path, text.encode(), mode=mode)
    except OSError as error:
        raise Unwritable(f"unable to write kubeconfig {path}: {error.strerror}") from error


@contextlib.asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """Hold client-go's lock of a kubeconfig, in a directory that is created if it is missing (``lockFile`` in client-go
    ``tools/clientcmd/loader.go``, v0.36, which does not wait). Raises ``UserError``."""
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
                except FileNotFoundError:  # another program has just removed its directory
                    await asyncio.sleep(_LOCK_PAUSE_SECONDS)
                    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except TimeoutError:
        raise UserError(
            f"{lock} exists: another program is changing {path}, or crashed while doing so; if it crashed, remove it"
        ) from None
    except OSError as error:
        raise Unwritable(f"unable to write kubeconfig {path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


@contextlib.contextmanager
def _print_errors(noun: str) -> Iterator[None]:
    """Print an error on standard error: no caller is left to handle it."""
    try:
        yield
    except (UserError, NoKubeconfig, OSError) as error:
        print(f"note: {noun}: {error}", file=sys.stderr)
