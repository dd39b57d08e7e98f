"""Objects cut down to their metadata: ``PartialObjectMetadata`` and its list.

Works on bytes: the metadata is cut out of the object as it stands.
"""

from collections.abc import Iterable

import msgspec


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Metadata).decode


def metadata_of(value: bytes) -> msgspec.Raw:
    """The metadata of an object, as it stands in it."""
    return _decode(value).metadata


def partial_object(value: bytes, version: str = "v1") -> bytes:
    """The object as ``PartialObjectMetadata`` of that version of meta.k8s.io."""
    metadata = bytes(_decode(value).metadata)
    if _COUNTER in metadata and value.startswith(b'{"kind":"DaemonSet"'):
        metadata = _without_counter(metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":%s}' % (
        version.encode(),
        metadata,
    )


_COUNTER = b"deprecated.daemonset.template.generation"


def _without_counter(text: bytes) -> bytes:
    """The annotation is a field that only conversion to v1 shows so, which metadata alone does not go through
    (kubernetes pkg/apis/apps/v1/conversion.go, v1.36)."""
    metadata = msgspec.json.decode(text)
    del metadata["annotations"][_COUNTER.decode()]
    if not metadata["annotations"]:
        del metadata["annotations"]
    return msgspec.json.encode(metadata)


def partial_list(values: Iterable[bytes], list_metadata: bytes, version: str = "v1") -> bytes:
    """Objects as ``PartialObjectMetadataList``; ``list_metadata`` is the JSON of the list's metadata."""
    return b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":%s,"items":[%s]}' % (
        version.encode(),
        list_metadata,
        b",".join([partial_object(value, version) for value in values]),
    )
