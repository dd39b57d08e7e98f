"""Manifest files: read, checked, and brought into the cluster.

``load`` names file and document in every complaint; ``bring`` creates what is missing and merges into what is there.
"""

import pathlib
import sys
from typing import Any

import msgspec
import yaml

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.cli.program import UserError
from pilothouse.client import Client, merge_patch
from pilothouse.client.discovery import Discovery
from pilothouse.client.errors import AlreadyExists, ApiError

AGENT = "pilothouse-up"
STRICT = "Strict"
"""A field that the server does not know is a mistake in the manifest, as kubectl takes it."""


class Manifest(msgspec.Struct, frozen=True):
    """One object as it was written, and where."""

    source: str
    document: dict[str, Any]

    @property
    def name(self) -> str:
        """``metadata.name``, or the prefix of the name to be generated."""
        meta = self.document["metadata"]
        return str(meta.get("name") or meta.get("generateName"))


class Brought(msgspec.Struct, frozen=True):
    """An object that is in the cluster now."""

    kind: Kind[Object]
    namespace: str
    name: str
    verb: str


def load(path: str) -> list[Manifest]:
    """The objects of a file, ``-`` for standard input. Lists (``kind: List``) are taken apart."""
    try:
        text = sys.stdin.read() if path == "-" else pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"unable to read manifest {path}: {reason}") from error
    try:
        documents = list(yaml.load_all(text, Loader=_loader()))
    except yaml.YAMLError as error:
        raise UserError(f"manifest {path} is not valid YAML: {_complaint(error)}") from error
    found: list[Manifest] = []
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        where = f"{path}, document {number}"
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        for item in items if isinstance(items, list) else [document]:
            found.append(Manifest(where, _checked(item, where)))
    if not found:
        raise UserError(f"manifest {path} has no objects in it")
    return found


def _complaint(error: yaml.YAMLError) -> str:
    """Where and what, in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)


def _loader() -> Any:
    """YAML as Kubernetes reads it: timestamps stay text."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
        pass

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
        for letter, rows in Loader.yaml_implicit_resolvers.items()
    }
    return Loader


def _checked(document: Any, where: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UserError(f"{where}: expected an object, got {type(document).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise UserError(f"{where}: {field} is missing")
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise UserError(f"{where}: {document['kind']} has no metadata.name")
    return document


async def bring(client: Client, manifest: Manifest) -> Brought:
    """Create the object, or merge the manifest into the one that is there.

    Discovery is asked each time, so that a custom resource can follow its definition in the same file.
    """
    document = manifest.document
    kind = _kind_of(await client.discover(), document, manifest.source)
    namespace = str(document["metadata"].get("namespace") or "default") if kind.namespaced else ""
    try:
        try:
            made = await client.create(kind, document, namespace, field_manager=AGENT, field_validation=STRICT)
            return Brought(kind, namespace, made.metadata.name, "created")
        except AlreadyExists:
            patch = merge_patch(document)
            await client.patch(kind, manifest.name, patch, namespace, field_manager=AGENT, field_validation=STRICT)
            return Brought(kind, namespace, manifest.name, "configured")
    except ApiError as error:
        raise UserError(f"{manifest.source}: {document['kind']} {manifest.name}: {error}") from error


def _kind_of(discovery: Discovery, document: dict[str, Any], where: str) -> Kind[Object]:
    resource = discovery.find(document["apiVersion"], document["kind"])
    if resource is None:
        raise UserError(f'{where}: no matches for kind "{document["kind"]}" in version "{document["apiVersion"]}"')
    return resource.as_kind()
