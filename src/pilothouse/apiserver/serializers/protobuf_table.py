"""The protobuf messages of the built-in kinds: numbers, names and types of their fields.

Generated from the release's ``generated.proto`` files and Go struct tags (``scripts/make_protobuf_table.py``); used by
``protobuf_encoding`` and ``protobuf_decoding``.
"""

from functools import cache

import msgspec

from pilothouse.api.packaged import packaged

META_VERSIONS = ("meta.k8s.io/v1", "meta.k8s.io/v1beta1")


class FieldRow(msgspec.Struct, array_like=True, frozen=True):
    """One field. Flags: r repeated, m map, p pointer, o omitempty, i inlined into its parent."""

    number: int
    name: str
    type: str
    flags: str

    @property
    def repeated(self) -> bool:
        return "r" in self.flags

    @property
    def is_map(self) -> bool:
        return "m" in self.flags

    @property
    def pointer(self) -> bool:
        return "p" in self.flags

    @property
    def omit_empty(self) -> bool:
        return "o" in self.flags

    @property
    def inlined(self) -> bool:
        return "i" in self.flags


class Table(msgspec.Struct, frozen=True):
    """``kinds`` maps ``apps/v1 Deployment`` to a message, ``messages`` a message to its fields."""

    kinds: dict[str, str]
    messages: dict[str, tuple[FieldRow, ...]]


@cache
def table() -> Table:
    """The table, loaded once."""
    text = packaged("apiserver/data/protobuf.json")
    return msgspec.json.decode(text, type=Table)


@cache
def older_table() -> Table:
    """Versions that are no longer served but may be stored in etcd (``storage_codec``), loaded once."""
    return msgspec.json.decode(packaged("apiserver/data/protobuf_older.json"), type=Table)


def rows_of(message: str) -> tuple[FieldRow, ...]:
    """The fields of a message, in the order of the Go struct. Raises ``KeyError``."""
    rows = table().messages.get(message)
    return rows if rows is not None else older_table().messages[message]


def message_of(api_version: str, kind: str) -> str | None:
    """The message of a kind, or None if it has no protobuf form.

    The kinds of meta/v1 (Status, DeleteOptions, ...) are registered in every group, so their version does not matter.
    """
    message = table().kinds.get(f"{api_version} {kind}")
    if message is not None:
        return message
    if kind in ("PartialObjectMetadata", "PartialObjectMetadataList") and api_version not in META_VERSIONS:
        return None
    if kind == "PartialObjectMetadataList" and api_version == "meta.k8s.io/v1beta1":
        return "meta.v1beta1.PartialObjectMetadataList"
    meta = f"meta.v1.{kind}"
    return meta if meta in table().messages else None
