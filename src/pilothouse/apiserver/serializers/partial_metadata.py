"""``PartialObjectMetadata`` and its list.

Works on bytes: the metadata is sliced from the stored object.
"""

from collections.abc import Iterable

import msgspec


class _Metadata(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Metadata).decode


def metadata_of(value: bytes) -> msgspec.Raw:
    """The metadata of an object, as stored."""
    return _decode(value).metadata


def partial_object(value: bytes, version: str = "v1") -> bytes:
    """The object as ``PartialObjectMetadata`` of that version of meta.k8s.io. One that is too deeply nested to be
    decoded is returned as it is stored, which its reader cannot use, but the watch continues."""
    try:
        metadata = bytes(_decode(value).metadata)
    except RecursionError:
        return value
    for kind, prefix in _SHOWN_BY_CONVERSION:
        if prefix in metadata and value.startswith(kind):
            metadata = _without_annotations(metadata, prefix.decode())
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":%s}' % (
        version.encode(),
        metadata,
    )


_SHOWN_BY_CONVERSION = (
    (b'{"kind":"DaemonSet"', b"deprecated.daemonset.template.generation"),
    (b'{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1"', b"autoscaling.alpha.kubernetes.io/"),
)
"""Kinds, and the prefix of annotations in which conversion from v1 stores fields. Partial metadata is not converted
(kubernetes ``pkg/apis/{apps,autoscaling}/v1/conversion.go``, v1.36)."""


def _without_annotations(text: bytes, prefix: str) -> bytes:
    metadata = msgspec.json.decode(text)
    annotations = metadata.get("annotations") or {}
    remaining = {name: value for name, value in annotations.items() if not name.startswith(prefix)}
    if remaining == annotations:
        return text
    metadata["annotations"] = remaining
    if not remaining:
        del metadata["annotations"]
    return msgspec.json.encode(metadata)


def partial_list(values: Iterable[bytes], list_metadata: bytes, version: str = "v1") -> bytes:
    """Objects as ``PartialObjectMetadataList``; ``list_metadata`` is the JSON of the list's metadata."""
    items = b",".join([partial_object(value, version) for value in values])
    return b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":%s,"items":%s}' % (
        version.encode(),
        list_metadata,
        b"[%s]" % items if items else b"null",  # a nil slice in Go
    )
