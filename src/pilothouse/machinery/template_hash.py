"""The hash of a pod template, in the names and labels of ReplicaSets and ControllerRevisions.

Equal to upstream's for templates of the release we follow: ``controller.ComputeHash``, v1.36
``pkg/controller/controller_utils.go``. Nothing depends on that: revisions are compared by content. FNV takes 90 ms for
a megabyte here, so large templates have a hash of zlib's instead.
"""

import zlib

import msgspec

from pilothouse.machinery.go_dump import dump_for_hash

_FNV_OFFSET = 2166136261
_FNV_PRIME = 16777619
_LARGE_BYTES = 256 * 1024
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no similar characters, so that names contain no words (``SafeEncodeString``)."""


def fnv32a(data: bytes) -> int:
    """FNV-1a, 32 bits; CRC-32 for large data."""
    if len(data) > _LARGE_BYTES:
        return zlib.crc32(data)
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def fnv32(data: bytes) -> int:
    """FNV-1, 32 bits: as FNV-1a, but the multiplication precedes the XOR. CRC-32 for large data."""
    if len(data) > _LARGE_BYTES:
        return zlib.crc32(data)
    value = _FNV_OFFSET
    for byte in data:
        value = ((value * _FNV_PRIME) & 0xFFFFFFFF) ^ byte
    return value


def safe_text(text: str) -> str:
    """Every character replaced by one of the alphabet (``SafeEncodeString``)."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def template_hash(template: bytes | msgspec.Raw, collision_count: int | None = None) -> str:
    """The hash of a pod template as the API server stores it, with its defaults, and the collision count."""
    data = dump_for_hash(msgspec.json.decode(template), "v1.PodTemplateSpec").encode()
    if collision_count is not None:
        data += collision_count.to_bytes(4, "little") + bytes(4)
    return safe_text(str(fnv32a(data)))
