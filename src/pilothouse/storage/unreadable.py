"""Placeholders for values that can't be read: corrupt ones, and those that can't be decrypted.

They are not JSON, so that they cannot be mistaken for an object; code that fails to decode a value gets the reason
here.
"""

import msgspec

_MARK = b"\xffunreadable:"
_MAX_KEY_LENGTH = 200
"""The maximum length in characters: Kubernetes' own keys are seldom longer, but other programs may write one of a
megabyte."""


class Unreadable(msgspec.Struct, frozen=True):
    """Why a value can't be read. ``storage_key`` is its key in the backend if it could not be decrypted, empty if it is
    corrupt."""

    reason: str
    storage_key: str = ""


def printable_key(key: str) -> str:
    """The key of such a value, truncated for log lines and errors."""
    return key if len(key) <= _MAX_KEY_LENGTH else f"{key[:_MAX_KEY_LENGTH]}... ({len(key)} characters)"


def encrypted_value(storage_key: str, reason: str) -> bytes:
    """Represents a value that cannot be decrypted."""
    return _MARK + msgspec.json.encode(Unreadable(reason, storage_key))


def damaged_value(reason: str) -> bytes:
    """Represents a decrypted or unencrypted value that is not an object."""
    return _MARK + msgspec.json.encode(Unreadable(reason))


def is_readable(value: bytes) -> bool:
    """Whether a value is none of these. Loops of the server skip them until they can be read."""
    return not value.startswith(_MARK)


def why_unreadable(value: bytes) -> Unreadable | None:
    """Why a value cannot be read; None for any other value."""
    return msgspec.json.decode(value[len(_MARK) :], type=Unreadable) if not is_readable(value) else None
