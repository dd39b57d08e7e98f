"""The context of a cluster in the user's kubeconfig."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pilothouse.cli import kubeconfig_text
from pilothouse.cli.clusters.cluster import Cluster, Clusters, Missing
from pilothouse.cli.home_directory import expanded
from pilothouse.cli.kubeconfig_text import SECTIONS, Document, NoKubeconfig
from pilothouse.cli.program import UserError
from pilothouse.cli.written_kubeconfig import Server, Unwritable, add_context, check_context, remove_context


def user_kubeconfig(path: str) -> Path:
    """The file to which kubectl would add a context: the given one, else the first existing one in ``$KUBECONFIG`` or
    its last, else ``~/.kube/config`` (client-go ``PathOptions.GetDefaultFilename``, v0.36). Raises ``UserError`` if the
    home directory is unknown."""
    solution = "set HOME or KUBECONFIG, or name a file with --kubeconfig"
    if path:
        return expanded(path, solution).absolute()
    files = _files(solution)
    # Path.exists raises an error for a directory of another user.
    return next((candidate for candidate in files if os.path.exists(candidate)), files[-1])


def _files(solution: str) -> list[Path]:
    """The files that kubectl merges. Raises ``UserError`` if the home directory is unknown."""
    named = [text for text in (os.environ.get("KUBECONFIG") or "").split(os.pathsep) if text]
    return [expanded(text, solution).absolute() for text in named or ["~/.kube/config"]]


def chosen(name: str) -> Cluster:
    """The cluster of that name; without a name the one of kubectl's current context, and if that belongs to none of
    them, as ``Clusters.chosen``. Raises ``UserError``."""
    clusters = Clusters()
    directory = None if name else _current()[0]
    if directory is not None and directory.parent == clusters.root.absolute():
        with contextlib.suppress(Missing):  # the context of a deleted cluster
            return clusters.get(directory.name)
    return clusters.chosen(name)


def check_not_foreground() -> None:
    """Raises a ``UserError`` with the solution if kubectl's current context is that of ``pilothouse up``: manifests
    would get to another cluster than with kubectl."""
    current = _context_of_foreground()
    if not current:
        return
    names = Clusters().names()
    raise UserError(
        f'the current context "{current}" belongs to `pilothouse up`, '
        f"{'not to a' if names else 'and there is no'} cluster in the background: use `kubectl apply -f FILE`, or "
        "start it with `pilothouse up -f FILE`. "
        + (
            f"`pilothouse load {names[0]} …` loads into a cluster in the background"
            if names
            else "`pilothouse create cluster` makes a cluster in the background"
        )
    )


def is_current(cluster: Cluster) -> bool:
    """Whether kubectl's current context belongs to the cluster."""
    return _current()[0] == cluster.directory.absolute()


def _current() -> tuple[Path | None, str]:
    """The directory of the cluster to which kubectl's current context belongs, None if it is not known, and the
    namespace of that context."""
    current_context = _current_context()
    if current_context is None:
        return None, ""
    path, document, current = current_context
    owner = kubeconfig_text.owner_of(document, current)
    # A cluster's own kubeconfig is in its directory.
    return Path(owner) if owner else path.parent, kubeconfig_text.namespace_of(document, current)


def _context_of_foreground() -> str:
    """The name of kubectl's current context if ``pilothouse up`` or ``apiserver`` has written it, otherwise empty."""
    current_context = _current_context()
    if current_context is None:
        return ""
    _path, document, current = current_context
    written_here = kubeconfig_text.is_marked(document, current) and not kubeconfig_text.owner_of(document, current)
    return current if written_here else ""


def _current_context() -> tuple[Path, Document, str] | None:
    """The file with kubectl's current context, its content, and the name of the context; None if there is none. The
    first file with a value counts (client-go ``ClientConfigLoadingRules.Load``, v0.36)."""
    documents: dict[Path, Document] = {}
    with contextlib.suppress(UserError):  # the home directory is unknown
        for path in _files(""):
            with contextlib.suppress(OSError, UnicodeDecodeError, NoKubeconfig):  # load and logs need none
                documents[path] = kubeconfig_text.read(path.read_text(encoding="utf-8"))
    current = next(
        (document["current-context"] for document in documents.values() if document.get("current-context")), ""
    )
    for path, document in documents.items():
        if kubeconfig_text.has_context(document, current):
            return path, document, current
    return None


def check(cluster: Cluster, path: Path) -> None:
    """Raise the ``UserError`` of ``add`` for a context that belongs to another cluster, before this one runs."""
    with _other_files():
        check_context(path, cluster.context, cluster.directory.absolute())


async def add(cluster: Cluster, path: Path) -> None:
    """Add the context of a running cluster as the current one. Raises ``UserError``, also if another cluster has a
    context of that name there."""
    document = cluster_document(cluster)
    if namespace := _added(cluster)[1]:
        document["contexts"][0]["context"]["namespace"] = namespace
    url = document["clusters"][0]["cluster"]["server"]
    server = Server(url, lambda name: _renamed(document, name))
    with _other_files():
        await add_context(path, server, cluster.context, cluster.directory.absolute())
    cluster.update(user_kubeconfig=str(path))


@contextlib.contextmanager
def _other_files() -> Iterator[None]:
    """Add to the error of a file that can't be written or read how another one is chosen."""
    try:
        yield
    except Unwritable as error:
        way = "KUBECONFIG or --kubeconfig names another file, `create cluster --no-context` adds no context"
        raise UserError(f"{error}; {way}") from error


def namespace_of(cluster: Cluster) -> str:
    """The namespace that the user has set in kubectl's current context, if that is one of the cluster, else in the
    context that was added last; empty if none."""
    directory, namespace = _current()
    return namespace if directory == cluster.directory.absolute() else _added(cluster)[1]


def name_of(cluster: Cluster) -> str:
    """What its context is called now."""
    return _added(cluster)[0] or cluster.context


def _added(cluster: Cluster) -> tuple[str, str]:
    """Name and namespace of the context that was added last, empty if it does not exist."""
    try:
        document = kubeconfig_text.read(Path(cluster.record.user_kubeconfig).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, NoKubeconfig):  # no context was added, or the file was deleted
        return "", ""
    names = kubeconfig_text.contexts_of(document, str(cluster.directory.absolute()))
    return (names[0], kubeconfig_text.namespace_of(document, names[0])) if names else ("", "")


async def remove(cluster: Cluster) -> None:
    """Remove the context if it was added and still belongs to the cluster. Raises ``UserError``."""
    record = cluster.record
    if record.user_kubeconfig:
        url = f"https://127.0.0.1:{record.port}"
        await remove_context(Path(record.user_kubeconfig), cluster.context, cluster.directory.absolute(), url)


def cluster_document(cluster: Cluster) -> Document:
    """The kubeconfig of a running cluster with the name of its context. Raises ``UserError``."""
    try:
        text = cluster.kubeconfig.read_text(encoding="utf-8")
        return _renamed(kubeconfig_text.read(text), cluster.context)
    except FileNotFoundError:
        raise UserError(f'cluster "{cluster.name}" is {cluster.status.lower()}; {cluster.way_out}') from None
    except (OSError, NoKubeconfig) as error:
        reason = getattr(error, "strerror", "") or error
        raise UserError(f"unable to read {cluster.kubeconfig}: {reason}") from error


def _renamed(document: Document, name: str) -> Document:
    """A kubeconfig with one cluster, user and context, all of that name."""
    context: dict[str, Any] = {**document["contexts"][0]["context"], "cluster": name, "user": name}
    entries = {section: [{**document[section][0], "name": name}] for section in SECTIONS}
    return {**document, **entries, "contexts": [{"name": name, "context": context}], "current-context": name}
