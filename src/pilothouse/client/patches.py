"""The four types of patches, for ``Client.patch``."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Patch(msgspec.Struct, frozen=True):
    """The body of a PATCH and its media type."""

    content_type: str
    body: bytes


def json_patch(operations: Sequence[Mapping[str, Any]]) -> Patch:
    """RFC 6902: a list of operations. ``{"op": "test", ...}`` makes the following ones conditional."""
    return Patch("application/json-patch+json", msgspec.json.encode(operations))


def merge_patch(changes: Mapping[str, Any] | msgspec.Raw | bytes) -> Patch:
    """RFC 7386: objects are merged, ``None`` removes, lists are replaced whole."""
    return Patch("application/merge-patch+json", _encoded(changes))


def strategic_merge_patch(changes: Mapping[str, Any] | msgspec.Raw | bytes) -> Patch:
    """As a merge patch, but lists with a merge key are merged by it. Not for custom resources (415)."""
    return Patch("application/strategic-merge-patch+json", _encoded(changes))


def apply_patch(configuration: Mapping[str, Any] | msgspec.Raw | bytes) -> Patch:
    """Server-side apply: all fields that the field manager wants to own. ``Client.patch`` requires ``field_manager``
    with it."""
    return Patch("application/apply-patch+yaml", _encoded(configuration))


def _encoded(changes: Mapping[str, Any] | msgspec.Raw | bytes) -> bytes:
    return bytes(changes) if isinstance(changes, msgspec.Raw | bytes) else msgspec.json.encode(changes)
