"""The hash by which pods of one template are known: part of the names and labels of ControllerRevisions."""

import msgspec

_FNV_OFFSET = 2166136261
_FNV_PRIME = 16777619
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and nothing that looks like them, so that no name is a word (``SafeEncodeString``)."""


def fnv32a(data: bytes) -> int:
    """FNV-1a, 32 bits."""
    value = _FNV_OFFSET
    for byte in data:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def safe_text(text: str) -> str:
    """Every character replaced by one of the alphabet."""
    return "".join(_ALPHABET[ord(character) % len(_ALPHABET)] for character in text)


def template_hash(template: bytes | msgspec.Raw, collision_count: int | None = None) -> str:
    """The hash of a template, the same for every spelling of its JSON, and another one for another count."""
    text = msgspec.json.encode(msgspec.json.decode(template), order="deterministic")
    if collision_count is not None:
        text += collision_count.to_bytes(4, "little") + bytes(4)
    return safe_text(str(fnv32a(text)))
