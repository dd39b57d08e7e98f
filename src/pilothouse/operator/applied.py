"""Whether a server-side apply would change anything, so that objects at rest cost no requests."""

import hashlib
from typing import Any

import msgspec

_VOLATILE = ("resourceVersion", "managedFields")


class Applied(msgspec.Struct):
    """What was applied to one object, and how the object was afterwards."""

    body: bytes
    resource_version: str
    fingerprint: bytes


def digest(value: Any) -> bytes:
    """A hash of JSON data that does not depend on the order of keys."""
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=16).digest()


def fingerprint(raw: bytes) -> bytes:
    """A hash of an object without what other programs change all the time: its status and its versions."""
    obj: dict[str, Any] = msgspec.json.decode(raw)
    obj.pop("status", None)
    metadata = obj.get("metadata") or {}
    for name in _VOLATILE:
        metadata.pop(name, None)
    return digest(obj)


def is_current(applied: Applied | None, body: bytes, resource_version: str, raw: bytes | None) -> bool:
    """Whether the object in the cache still is what this body made of it.

    ``body`` is the ``digest`` of what would be applied, ``raw`` the cached object (None: there is none). A version seen
    for the first time is compared once, and remembered in ``applied``.
    """
    if applied is None or raw is None or applied.body != body:
        return False
    if applied.resource_version == resource_version:
        return True
    if fingerprint(raw) != applied.fingerprint:
        return False
    applied.resource_version = resource_version
    return True
