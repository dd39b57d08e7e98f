"""What objects look like by their metadata alone."""

import pytest

from pilothouse.apiserver.serializers.partial_metadata import partial_object

DEEP = b'{"kind":"A","apiVersion":"v1","metadata":{"annotations":%s%s}}' % (b"[" * 50_000, b"]" * 50_000)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        pytest.param(
            b'{"kind":"A","apiVersion":"v1","metadata":{"name":"a"},"spec":{}}',
            b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}',
            id="metadata only",
        ),
        pytest.param(DEEP, DEEP, id="nested too deeply: as it is stored, for whoever reads it to refuse"),
    ],
)
def test_partial_object(stored: bytes, shown: bytes) -> None:
    assert partial_object(stored) == shown
