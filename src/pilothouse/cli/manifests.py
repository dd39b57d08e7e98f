"""Manifest files: read, validated and applied.

Errors of ``load`` name the file and document. ``apply_manifest`` creates an object, or updates an existing one.
"""

import errno
import os
import pathlib
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.cli.program import UserError, joined
from pilothouse.cli.server_side_apply import apply_document
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env.bounded_files import read_text
from pilothouse.machinery.api_resources import Discovery
from pilothouse.machinery.manifest_text import ManifestError, documents_of

MAX_MANIFEST_BYTES = 256 * 1024 * 1024
ENDINGS = (".json", ".yaml", ".yml")
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""Kustomize's ``RecognizedKustomizationFileNames`` (kustomize ``api/konfig``, v0.20)."""
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io/"
_INSTALL_FIRST = ": ensure CRDs are installed first"
"""As kubectl has it."""
_HELM_HINT = ": is it part of a Helm chart? Its manifests are the output of `helm template NAME CHART`, for `-f -`"
_STRICT_ERROR = "strict decoding error: "
_DECODING_ERROR = '": json: cannot unmarshal '
"""After the object of the cluster, quoted."""


class Manifest(msgspec.Struct, frozen=True):
    """One object as it was written, and where."""

    source: str
    document: dict[str, Any]
    namespace: str = "default"
    """The namespace of objects that have none."""
    is_enforced: bool = False
    """Whether other namespaces are an error, as with ``kubectl apply --namespace``."""

    @property
    def name(self) -> str:
        """``metadata.name``, or the prefix of the name to be generated."""
        meta = self.document["metadata"]
        return str(meta.get("name") or meta.get("generateName"))


class AppliedObject(msgspec.Struct, frozen=True):
    """The object in the cluster after applying a manifest."""

    kind: Kind[Object]
    namespace: str
    name: str
    uid: str
    verb: str


def load(path: str, *, recursive: bool = False) -> list[Manifest]:
    """The objects of a file, or of all manifests in a folder, in the order of their names, as kubectl takes them; ``-``
    is standard input. Lists (``kind: List``) are taken apart. Raises ``UserError``."""
    if not path:
        raise UserError("the name of a manifest is empty")
    files = [path]
    if path != "-" and os.path.isdir(path):
        files = [str(file) for file in _files_in(pathlib.Path(path), recursive=recursive)]
        if not files:
            raise UserError(f"no manifests found in {path}; the names of manifests end with {', '.join(ENDINGS)}")
    return not_empty(all_of(partial(_load_file, file) for file in files), path)


def not_empty(manifests: list[Manifest], source: str) -> list[Manifest]:
    """The manifests of a source. Raises ``UserError`` if there are none, as kubectl does: the source is most likely not
    what was meant."""
    if not manifests:
        raise UserError(f"manifest {source} has no objects in it")
    return manifests


def all_of(sources: Iterable[Callable[[], list[Manifest]]]) -> list[Manifest]:
    """The manifests of all sources; if some are unusable, ``UserError`` with the reason for each of them."""
    manifests: list[Manifest] = []
    unusable: list[UserError] = []
    for source in sources:
        try:
            manifests += source()
        except UserError as error:
            unusable.append(error)
    if unusable:
        raise joined(unusable)
    return manifests


def _files_in(folder: pathlib.Path, *, recursive: bool) -> list[pathlib.Path]:
    """Files in the order of Go's ``filepath.Walk``: by name, directories among the files."""
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"unable to read the directory {folder}: {error.strerror}") from error
    files: list[pathlib.Path] = []
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            files += _files_in(entry, recursive=True) if recursive else []
        elif entry.name.endswith(ENDINGS):
            if entry.exists() and not entry.is_file():
                raise UserError(f"unable to read manifest {entry}: it is not a regular file")
            files.append(entry)
    return files


def _standard_input() -> str:
    text = sys.stdin.read(MAX_MANIFEST_BYTES + 1)
    if len(text) > MAX_MANIFEST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_MANIFEST_BYTES:,} characters")
    return text


def _load_file(path: str) -> list[Manifest]:
    try:
        text = _standard_input() if path == "-" else read_text(path, MAX_MANIFEST_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(f"unable to read manifest {path}: {reason}") from error
    return manifests_in(text, path)


def manifests_in(text: str, path: str) -> list[Manifest]:
    """The objects of a text from ``path``. Lists are expanded. Raises ``UserError``."""
    try:
        documents = documents_of(text)
    except ManifestError as error:
        hint = _HELM_HINT if "{{" in text else ""
        raise UserError(f"manifest {path} is not valid YAML: {error}{hint}") from error
    objects: list[tuple[Any, str]] = []
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        source = f"{path}, document {number}"
        if _is_kustomization(path, document):
            folder = shlex.quote(str(pathlib.Path(path).parent))
            raise UserError(
                f"{path} is a kustomization, not a manifest; `-k {folder}` builds it, and so does "
                f"`kubectl kustomize {folder}`, for `-f -`"
            )
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        objects += [(item, source) for item in (items if isinstance(items, list) else [document])]
    return all_of(partial(_manifest, item, source) for item, source in objects)


def _is_kustomization(path: str, document: Any) -> bool:
    """Whether kustomize reads it; apiVersion and kind may be left out then. Flux's Kustomizations are objects."""
    if pathlib.Path(path).name not in _KUSTOMIZATIONS or not isinstance(document, dict):
        return False
    version = document.get("apiVersion")
    return version is None or str(version).startswith(_KUSTOMIZE_GROUP)


def _manifest(document: Any, source: str) -> list[Manifest]:
    if not isinstance(document, dict):
        raise UserError(f"{source}: expected an object, got {type(document).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            wrong = "is missing" if document.get(field) in (None, "") else "must be a string"
            raise UserError(f"{source}: {field} {wrong}{_hint_of_file(source)}")
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise UserError(f"{source}: {document['kind']} has no metadata.name")
    return [Manifest(source, document)]


def _hint_of_file(source: str) -> str:
    """For files of a Helm chart, which are no manifests."""
    name = pathlib.Path(source.partition(", document ")[0]).name
    if not (name == "Chart.yaml" or (name.startswith("values") and name.endswith((".yaml", ".yml")))):
        return ""
    return _HELM_HINT


async def apply_manifest(client: Client, manifest: Manifest) -> AppliedObject:
    """Apply a manifest: create the object, or update the one that is there (``server_side_apply``).

    Discovery is requested each time, so that a custom resource can follow its definition in the same file.
    """
    document = manifest.document
    kind = _kind_of(await client.discover(), document, manifest.source)
    own = str(document["metadata"].get("namespace") or "")
    namespace = (own or manifest.namespace) if kind.namespaced else ""
    if manifest.is_enforced and kind.namespaced and namespace != manifest.namespace:
        # kubectl's sentence (cli-runtime resource/visitor.go, RequireNamespace, v0.36)
        raise UserError(
            f'{manifest.source}: the namespace from the provided object "{own}" does not match the namespace '
            f"\"{manifest.namespace}\". You must pass '--namespace={own}' to perform this operation."
        )
    try:
        live, verb = await apply_document(client, kind, document, namespace)
    except ApiError as error:
        raise UserError(f"{manifest.source}: {document['kind']} {manifest.name}: {_reason(error)}") from error
    meta = live.get("metadata") or {}
    return AppliedObject(kind, namespace, str(meta.get("name", "")), str(meta.get("uid", "")), verb)


def _reason(error: ApiError) -> str:
    """The message of the error. That of a patch with an unknown field, or a value of another type, begins with the
    whole object of the cluster."""
    text = str(error)
    for mark in (_STRICT_ERROR, _DECODING_ERROR):
        if mark in text:
            return mark.lstrip('": ') + text.rpartition(mark)[2]
    return text


def _kind_of(discovery: Discovery, document: dict[str, Any], source: str) -> Kind[Object]:
    resource = discovery.find(document["apiVersion"], document["kind"])
    if resource is None:
        version, kind = document["apiVersion"], document["kind"]
        hint = discovery.hint(version, kind) or _INSTALL_FIRST
        raise UserError(f'{source}: no matches for kind "{kind}" in version "{version}"{hint}')
    return resource.as_kind()
