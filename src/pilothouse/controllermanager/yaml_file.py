"""Reads a YAML document from a file, for ``config_file`` and ``leader_migration``.

The YAML library is imported when a file is read, because most programs read none.
"""

from typing import Any

from pilothouse.env.bounded_files import read_text
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import yaml

    from pilothouse.machinery import yaml_loader


def read_mapping(path: str) -> dict[str, Any]:
    """The mapping in a file. Raises ``OSError``, or ``ValueError`` if it is not one document, not a mapping, or has
    duplicate keys."""

    class Loader(yaml_loader.BoundedLoader):
        """Rejects duplicate keys, of which YAML silently uses the last one."""

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if key in values:
                line = key_node.start_mark.line + 1
                raise ValueError(f'line {line}: key "{key}" is there twice')
            values[key] = loader.construct_object(value_node, deep=True)
        return values

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    text = read_text(path)
    try:
        # The subclass is derived from the safe loader.
        documents = [document for document in yaml.load_all(text, Loader=Loader) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(f"not valid YAML: {yaml_loader.yaml_error_text(error)}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ValueError("expected one document with a mapping")
    return documents[0]
