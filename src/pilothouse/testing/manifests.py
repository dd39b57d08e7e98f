"""The manifests that tests pass: paths, YAML text, mappings, and definitions of custom resources; as plain objects.

``Cluster.create`` takes one object, ``Cluster.apply`` several, ``plane(crds=…)`` definitions only.
"""

import errno
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    import pytest

    from pilothouse.operator import ClientConfig, CustomResource

with lazy_imports():
    from pilothouse.machinery import manifest_text
    from pilothouse.operator import bodies, custom_resource
    from pilothouse.testing import mistakes

Object = dict[str, Any]


class Model(Protocol):
    """An object of the ``kubernetes`` package, or of one that is generated as it is, for type checkers: they have this
    method in common. Its names are Python's, so that ``attribute_map`` is used instead."""

    def to_dict(self) -> Any:
        """Its attributes."""


OneObject = Mapping[str, Any] | str | Model
"""An object, or YAML text of one."""
Manifest = Path | OneObject
"""A file or folder, its name or YAML text, or one object."""
Manifests = Manifest | Iterable[Manifest]
if TYPE_CHECKING:
    Definition = Manifest | CustomResource[Any]
    Definitions = Definition | Iterable[Definition]


def is_mistake(raised: "pytest.ExceptionInfo[BaseException]") -> bool:
    """For pytest: whether to omit the frames of this module from a traceback."""
    return isinstance(raised.value, mistakes.Mistake)


__tracebackhide__ = is_mistake
_ENDINGS = (".json", ".yaml", ".yml")
_MAX_NAME = 4096
DEFINITION_KIND = "CustomResourceDefinition"
_MODEL = "the model"


def one_object(manifest: OneObject) -> Mapping[str, Any]:
    """A mapping as it is, YAML text of exactly one object decoded. Raises ``TypeError`` and ``ValueError``."""
    source = "the manifest"
    if _is_model(manifest):
        manifest, source = bodies.as_json(manifest), _MODEL
    if not isinstance(manifest, Mapping):
        manifest = _one_document(manifest)
    _check(manifest, source)
    return manifest


def objects_of(manifests: Manifests) -> list[Object]:
    """The objects in their order; those of a ``List`` one by one. A folder has the manifests with the endings .json,
    .yaml and .yml in it, by name.

    A single-line ``str`` with one of these suffixes is a file, the name of a folder is that, any other is YAML text.
    Relative paths are resolved in the working directory. Raises ``TypeError`` for other
    types, ``ValueError`` for invalid text and ``OSError`` for files that cannot be read; each with its source.
    """
    if isinstance(manifests, Path | str | Mapping) or _is_model(manifests):
        manifests = (cast("Manifest", manifests),)
    if not isinstance(manifests, Iterable):
        raise TypeError(f"manifests are paths, YAML text, mappings, or a list of them, got {type(manifests).__name__}")
    return [obj for manifest in manifests for obj in _objects(manifest)]


def definitions_of(
    definitions: "Definitions", webhooks: "ClientConfig | None" = None, *, argument: str = "crds"
) -> list[Object]:
    """The CustomResourceDefinitions among them; other objects are ignored, as envtest does. ``argument`` is the name
    of the argument, for errors.

    Raises the errors of ``objects_of``, and ``ValueError`` for a source without a definition, and for a
    ``CustomResource`` with conversion functions unless ``webhooks`` is given.
    """
    if isinstance(definitions, Path | str | Mapping) or not isinstance(definitions, Iterable):
        definitions = (definitions,)
    objects: list[Object] = []
    for source in definitions:
        if isinstance(source, Path | str | Mapping):
            own = [obj for obj in _objects(source, argument) if obj["kind"] == DEFINITION_KIND]
        elif isinstance(source, custom_resource.CustomResource):
            if source.has_conversion and webhooks is None:
                raise mistakes.InvalidValue(
                    f"{source.name} has functions for conversion, which the API server calls in its App: leave it out "
                    "of crds=, and run the App (running(app)), which applies the definition"
                )
            own = [source.definition(webhooks)]
        else:
            raise TypeError(f"crds are paths, YAML text, mappings or CustomResources, got {type(source).__name__}")
        if not own:
            raise mistakes.InvalidValue(f"there is no {DEFINITION_KIND} in {_shown(source)}")
        objects += own
    return objects


def _is_model(value: object) -> bool:
    """Whether it is a model of the official client, or of those that are generated as it is."""
    return hasattr(value, "attribute_map")


def _objects(manifest: Manifest, argument: str = "the manifest") -> list[Object]:
    if _is_model(manifest):
        return _checked([bodies.as_json(manifest)], _MODEL)
    match manifest:
        case Mapping():
            return _checked([dict(manifest)], "the manifest")
        case Path():
            return _of_path(manifest, argument)
        case str() if "\n" not in manifest and (manifest.endswith(_ENDINGS) or _is_folder(manifest)):
            return _of_path(Path(manifest), argument)
        case str():
            documents = manifest_text.documents_of(manifest)
            if len(documents) == 1 and isinstance(documents[0], str):
                raise mistakes.InvalidValue(
                    f"{argument} is neither YAML of an object nor the name of a file (*.yaml, *.yml, *.json) or of a "
                    f"folder in {Path.cwd()}: {_shown(manifest)!r}"
                )
            return _checked(documents, "the manifest")
    raise TypeError(f"a manifest is a path, YAML text or a mapping, got {type(manifest).__name__}")


def _is_folder(name: str) -> bool:
    return bool(name) and len(name) < _MAX_NAME and os.path.isdir(name)


def _of_path(path: Path, argument: str) -> list[Object]:
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.name.endswith(_ENDINGS) and file.is_file())
        return [obj for file in files for obj in _of_path(file, argument)]
    try:
        documents = manifest_text.documents_of(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise mistakes.MissingFile(errno.ENOENT, _missing(path, argument)) from None
    except (manifest_text.ManifestError, UnicodeDecodeError) as error:
        raise mistakes.InvalidValue(f"{path} is not valid YAML: {error}") from error
    return _checked(documents, str(path))


def _missing(path: Path, argument: str) -> str:
    if path.is_absolute():
        return f"{argument}: there is no file or folder {path}"
    beside = f"for one beside the test use Path(__file__).parent / {str(path)!r}"
    return f"{argument}: there is no file or folder {str(path)!r} in the working directory, {Path.cwd()}; {beside}"


def _checked(documents: list[Any], source: str) -> list[Object]:
    objects: list[Object] = []
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise mistakes.InvalidValue(f"{source} is not an object of Kubernetes, got {type(document).__name__}")
        is_list = document.get("kind") == "List" and isinstance(document.get("items"), list)
        for item in document["items"] if is_list else [document]:
            _check(item, source)
            objects.append(item)
    return objects


def _check(manifest: object, source: str) -> None:
    for field in ("apiVersion", "kind"):
        if not isinstance(manifest, Mapping) or not manifest.get(field):
            hint = " (pass api_version= and kind=)" if source == _MODEL else ""
            raise mistakes.InvalidValue(f"{source} has no {field}{hint}: {manifest}")


def _one_document(text: object) -> Mapping[str, Any]:
    if not isinstance(text, str):
        hint = "; apply takes several" if isinstance(text, Iterable) else ""
        raise mistakes.InvalidType(
            f"a manifest is a mapping, or YAML text of one object, got {type(text).__name__}{hint}"
        )
    documents = [document for document in manifest_text.documents_of(text) if document is not None]
    if len(documents) != 1 or not isinstance(documents[0], dict):
        actual = f"{len(documents)} documents" if len(documents) != 1 else type(documents[0]).__name__
        raise mistakes.InvalidValue(f"a manifest is YAML text of one object, got {actual}")
    return documents[0]


def _shown(source: object) -> str:
    text = str(source)
    return text if len(text) < 200 else f"{text[:200]}…"
