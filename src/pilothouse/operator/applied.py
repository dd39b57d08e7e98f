"""Whether a server-side apply would change anything, so that unchanged objects cost no requests."""

import hashlib
from typing import Any

import msgspec


class Applied(msgspec.Struct):
    """The last apply of one object, and the resulting object."""

    body: bytes
    resource_version: str
    fingerprint: bytes


def digest(value: Any) -> bytes:
    """A hash of JSON data that does not depend on the order of keys."""
    return hashlib.blake2b(msgspec.json.encode(value, order="deterministic"), digest_size=16).digest()


def fingerprint(raw: bytes, body: dict[str, Any]) -> bytes:
    """A hash of the fields that an apply of ``body`` determines: the object's uid, and the values of the fields of the
    body.

    Lists are compared as a whole. Fields that others add elsewhere, such as the revision of a Deployment, do not count,
    because the apply would not change them.
    """
    obj: dict[str, Any] = msgspec.json.decode(raw)
    applied = {name: value for name, value in body.items() if name != "status"}
    return digest([obj.get("metadata", {}).get("uid"), _within(obj, applied)])


def _within(value: Any, shape: Any) -> Any:
    if isinstance(value, dict) and isinstance(shape, dict):
        return {name: _within(value[name], subshape) for name, subshape in shape.items() if name in value}
    return value


def is_current(applied: Applied | None, body: dict[str, Any], resource_version: str, raw: bytes | None) -> bool:
    """Whether the cached object still equals the result of this body.

    ``raw`` is the cached object (None: there is none). A new version is compared once, and stored in ``applied``.
    """
    if applied is None or raw is None or applied.body != digest(body):
        return False
    if applied.resource_version == resource_version:
        return True
    if fingerprint(raw, body) != applied.fingerprint:
        return False
    applied.resource_version = resource_version
    return True
