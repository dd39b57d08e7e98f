"""The context of a cluster in the user's kubeconfig."""

import os
from pathlib import Path
from typing import Any

from pilothouse.cli import kubeconfig_text
from pilothouse.cli.clusters.cluster import Cluster
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
    named = [expanded(text, solution) for text in (os.environ.get("KUBECONFIG") or "").split(os.pathsep) if text]
    if not named:
        return expanded("~/.kube/config", solution).absolute()
    return next((candidate for candidate in named if candidate.exists()), named[-1]).absolute()


def check(cluster: Cluster, path: Path) -> None:
    """Raise the ``UserError`` of ``add`` for a context that belongs to another cluster, before this one runs."""
    check_context(path, cluster.context, cluster.directory.absolute())


async def add(cluster: Cluster, path: Path) -> None:
    """Add the context of a running cluster as the current one. Raises ``UserError``, also if another cluster has a
    context of that name there."""
    document = cluster_document(cluster)
    if namespace := namespace_of(cluster):
        document["contexts"][0]["context"]["namespace"] = namespace
    url = document["clusters"][0]["cluster"]["server"]
    server = Server(url, lambda name: _renamed(document, name))
    try:
        await add_context(path, server, cluster.context, cluster.directory.absolute())
    except Unwritable as error:
        way = "KUBECONFIG or --kubeconfig names another file, `create cluster --no-context` adds no context"
        raise UserError(f"{error}; {way}") from error
    cluster.update(user_kubeconfig=str(path))


def namespace_of(cluster: Cluster) -> str:
    """The namespace that the user has set in its context, empty if none."""
    try:
        document = kubeconfig_text.read(Path(cluster.record.user_kubeconfig).read_text(encoding="utf-8"))
    except (OSError, NoKubeconfig):  # no context was added, or the file was deleted
        return ""
    if kubeconfig_text.owner_of(document, cluster.context) != str(cluster.directory.absolute()):
        return ""
    return kubeconfig_text.namespace_of(document, cluster.context)


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
