"""Manifests: YAML documents, with Kubernetes' types for scalars."""

from functools import cache
from typing import Any

import yaml

_TEXT = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
"""Types of YAML 1.1 that Go's parser (goyaml.v2 ``resolve.go``) reads as strings."""


class ManifestError(ValueError):
    """Invalid YAML. The message is one line with the position."""


def documents_of(text: str) -> list[Any]:
    """The documents of a text, None for empty ones. Raises ``ManifestError``."""
    try:
        return [_with_text_keys(document) for document in yaml.load_all(text, Loader=_loader())]
    except yaml.YAMLError as error:
        raise ManifestError(_error_message(error)) from None


def _with_text_keys(value: Any) -> Any:
    """JSON only has strings as keys; ``on`` is true in YAML (sigs.k8s.io/yaml ``yaml.go``,
    ``convertToJSONableObject``)."""
    match value:
        case dict():
            return {_text(key): _with_text_keys(member) for key, member in value.items()}
        case list():
            return [_with_text_keys(member) for member in value]
        case _:
            return value


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise ManifestError(f"a key must be text, got {key!r}")


def _error_message(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)


@cache
def _loader() -> Any:
    """YAML as Kubernetes reads it: timestamps and ``=`` are strings."""

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
        pass

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in rows if tag not in _TEXT]
        for letter, rows in Loader.yaml_implicit_resolvers.items()
    }
    return Loader
