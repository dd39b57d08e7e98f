"""Whether a server-side apply would change anything, so that objects at rest cost no requests."""

import hashlib
from typing import Any

import msgspec


class Applied(msgspec.Struct):
    """What was applied to one object, and how the object was afterwards."""

    body: bytes
    resource_version: str
    fingerprint: bytes


def digest(value: Any) -> bytes:
    """A hash of JSON data that does not depend on the order of keys."""
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=16).digest()


def fingerprint(raw: bytes, body: dict[str, Any]) -> bytes:
    """A hash of what an apply of ``body`` decides of an object: its uid, and the values of the fields of the body.

    Lists count as a whole. What others add elsewhere, such as the revision of a Deployment, changes nothing that the
    apply would change back.
    """
    obj: dict[str, Any] = msgspec.json.decode(raw)
    applied = {name: value for name, value in body.items() if name != "status"}
    return digest([obj.get("metadata", {}).get("uid"), _within(obj, applied)])


def _within(value: Any, shape: Any) -> Any:
    if isinstance(value, dict) and isinstance(shape, dict):
        return {name: _within(value[name], each) for name, each in shape.items() if name in value}
    return value


def is_current(applied: Applied | None, body: dict[str, Any], resource_version: str, raw: bytes | None) -> bool:
    """Whether the object in the cache still is what this body made of it.

    ``raw`` is the cached object (None: there is none). A version seen for the first time is compared once, and
    remembered in ``applied``.
    """
    if applied is None or raw is None or applied.body != digest(body):
        return False
    if applied.resource_version == resource_version:
        return True
    if fingerprint(raw, body) != applied.fingerprint:
        return False
    applied.resource_version = resource_version
    return True
