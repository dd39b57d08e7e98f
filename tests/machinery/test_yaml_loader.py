"""Deeply nested YAML is an error, not the end of the process."""

import pytest
import yaml

from pilothouse.machinery.json_bounds import MAX_DEPTH
from pilothouse.machinery.manifest_text import ManifestError, documents_of
from pilothouse.machinery.yaml_loader import BoundedLoader


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 200_000, id="lists"),
        pytest.param('{"a":' * 200_000, id="mappings"),
        pytest.param("- " * 200_000 + "a", id="lists of a line"),
        pytest.param("? " * 200_000 + "a", id="keys"),
        pytest.param("\n".join(" " * depth + "a:" for depth in range(2000)), id="indented mappings"),
    ],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    with pytest.raises(ManifestError, match=r"nested too deeply"):
        documents_of(text)


def test_the_limit_counts_open_levels() -> None:
    flat = "[" + "[[]]," * 1000 + "]"
    assert len(yaml.load(flat, Loader=BoundedLoader)) == 1000  # a safe loader
    allowed = MAX_DEPTH - 1
    assert yaml.load("[" * allowed + "]" * allowed, Loader=BoundedLoader)
    with pytest.raises(yaml.YAMLError):
        yaml.load("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), Loader=BoundedLoader)
