"""Large objects of which a cache has only the metadata decoded: their JSON is decoded for each sync that reads it.

A decoded list takes several times the memory of its JSON, and the JSON is cached anyway because it is written back
whole.
"""

from typing import Any, Generic, NamedTuple, TypeVar

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.decode import decoders_of
from pilothouse.machinery.names import object_key
from pilothouse.runtime import Cache

T = TypeVar("T")


class CachedJson(NamedTuple, Generic[T]):
    """A cached object and the JSON of the same version, without managedFields."""

    object: T
    raw: bytes


def cached_json(cache: Cache[Any], metadata: ObjectMeta, kind: Kind[T]) -> CachedJson[T]:
    """The whole object with this metadata, which is in the cache. The informer must keep the JSON (``keep_raw``)."""
    key = object_key(metadata)
    raw = cache.raw(key)
    assert raw is not None, "the informer keeps the JSON (keep_raw)"
    return CachedJson(decoders_of(kind.view).one(raw, lambda: f"{kind.group_resource} {key}"), raw)
