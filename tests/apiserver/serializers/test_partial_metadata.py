"""PartialObjectMetadata of objects."""

from tests.tables import cases

from pilothouse.apiserver.serializers.partial_metadata import partial_object

DEEP = b'{"kind":"A","apiVersion":"v1","metadata":{"annotations":%s%s}}' % (b"[" * 50_000, b"]" * 50_000)


@cases(
    "stored, expected",
    {
        "metadata only": (
            b'{"kind":"A","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}',
            b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}',
        ),
        "nested too deeply: the stored bytes unchanged": (DEEP, DEEP),
    },
)
def test_partial_object(stored: bytes, expected: bytes) -> None:
    assert partial_object(stored) == expected
