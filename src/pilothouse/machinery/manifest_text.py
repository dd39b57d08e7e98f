"""Manifests: YAML documents, with Kubernetes' types for scalars."""

from functools import cache
from typing import Any

import yaml

from pilothouse.machinery.yaml_loader import BoundedLoader, yaml_error_text

MAX_VALUES = 2_000_000
"""How many values a text may have. A few lines of aliases of aliases, or of merges of merges, have thousands of
millions."""
_TEXT = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
"""Types of YAML 1.1 that Go's parser (goyaml.v2 ``resolve.go``) reads as strings."""


class ManifestError(ValueError):
    """Invalid YAML. The message is one line with the position."""


def documents_of(text: str, max_values: int = MAX_VALUES) -> list[Any]:
    """The documents of a text, None for empty ones. Raises ``ManifestError``, also for more values than the limit."""
    try:
        loader = _loader()(text)
        loader.remaining = max_values
        try:
            values = _Values(max_values)
            documents = []
            while loader.check_data():
                documents.append(values.with_text_keys(loader.get_data()))
            return documents
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise ManifestError(yaml_error_text(error)) from None
    except RecursionError:
        raise ManifestError("it is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        if isinstance(error, ManifestError):
            raise
        raise ManifestError(f"a value can't be read: {error}") from None


class _Values:
    """Copies documents, up to a number of values: an alias has those of what it refers to."""

    def __init__(self, max_values: int) -> None:
        self._max_values = self._remaining = max_values

    def with_text_keys(self, value: Any) -> Any:
        """JSON only has strings as keys; ``on`` is true in YAML (sigs.k8s.io/yaml ``yaml.go``,
        ``convertToJSONableObject``)."""
        if not isinstance(value, dict | list):
            return value
        self._remaining -= len(value)
        if self._remaining < 0:
            raise ManifestError(f"it has more than {self._max_values:,} values, those of aliases included")
        if isinstance(value, dict):
            return {_text(key): self.with_text_keys(member) for key, member in value.items()}
        return [self.with_text_keys(member) for member in value]


def _text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise ManifestError(f"a key must be text, got {key!r}")


@cache
def _loader() -> Any:
    """YAML as Kubernetes reads it: timestamps and ``=`` are strings."""

    class Loader(BoundedLoader):
        remaining = MAX_VALUES

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            super().flatten_mapping(node)
            self.remaining -= len(node.value)
            if self.remaining < 0:
                raise yaml.constructor.ConstructorError(None, None, "too many merged values", node.start_mark)

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, pattern) for tag, pattern in resolvers if tag not in _TEXT]
        for letter, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    return Loader
