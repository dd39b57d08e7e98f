"""What selectors see of stored objects."""

import pytest

from pilothouse.apiserver.registry.generic.selection_predicate import AttributeReader

READER = AttributeReader({"metadata.name": ("metadata", "name")}, {})
DEEP = b'{"metadata":{"name":"a","labels":{"b":%s%s}}}' % (b"[" * 50_000, b"]" * 50_000)


@pytest.mark.parametrize(
    ("stored", "labels"),
    [
        pytest.param(b'{"metadata":{"name":"a","labels":{"b":"c"}},"spec":{}}', {"b": "c"}, id="labels"),
        pytest.param(b'{"metadata":{"name":"a"}}', {}, id="no labels"),
        pytest.param(DEEP, {}, id="nested too deeply: none, and no failure of the watch that reads it"),
    ],
)
def test_labels_of_stored_objects(stored: bytes, labels: dict[str, str]) -> None:
    assert READER.read(stored).labels == labels
