"""Labels and fields of stored objects that selectors match."""

from tests.tables import cases

from pilothouse.apiserver.registry.generic.selection_predicate import AttributeReader

READER = AttributeReader({"metadata.name": ("metadata", "name")}, {})
DEEP = b'{"metadata":{"name":"a","labels":{"b":%s%s}}}' % (b"[" * 50_000, b"]" * 50_000)


@cases(
    "stored, labels",
    {
        "labels": (b'{"metadata":{"name":"a","labels":{"b":"c"}},"spec":{}}', {"b": "c"}),
        "no labels": (b'{"metadata":{"name":"a"}}', {}),
        "nested too deeply: no labels and no error": (DEEP, {}),
    },
)
def test_labels_of_stored_objects(stored: bytes, labels: dict[str, str]) -> None:
    assert READER.read(stored).labels == labels
