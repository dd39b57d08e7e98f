"""What is in a snapshot file: gzip of JSON lines, UTF-8, each ended by a newline.

1. one ``Header``, which names the format and says when and of what the snapshot was taken
2. for each resource a ``ResourceLine``, then its objects: each with apiVersion and kind, as the API server gave it.
   CustomResourceDefinitions come first, then the others of the core group, then those of the other groups.
3. one ``End``, with what was left out. A file without it is not complete.

A recording goes on after the end: with a ``ChangeLine`` for each change, after a ``ResourceLine`` if its resource is
not that of the change before. It may be cut off anywhere there.

The first key of a line says what it is: ``pilothouseSnapshot``, ``resource``, ``end`` or ``change``; other lines are
objects.
"""

import os
from typing import Literal

import msgspec

FORMAT = 1
"""What is written, and the newest that is read."""
MAX_LINE = 8 * 1024 * 1024
"""Bytes of an object. etcd takes 1.5 MiB by default, in protobuf; kube-apiserver 3 MiB."""
MAX_OBJECTS = 1_000_000
MAX_BYTES = 2 * 1024 * 1024 * 1024
"""Of all lines, uncompressed: a restored cluster is kept in memory."""


class SnapshotError(ValueError):
    """A snapshot that can't be read. The text says which file, which line, and why."""

    def __init__(self, path: str | os.PathLike[str], reason: str, *, line: int = 0) -> None:
        super().__init__(f"{os.fspath(path)}{f':{line}' if line else ''}: {reason}")
        self.line = line
        """From 1; 0 if it is about the file."""
        self.reason = reason


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The first line."""

    format: int = msgspec.field(name="pilothouseSnapshot")
    time: str = ""
    """When it was taken, by the clock of the machine that took it. RFC 3339, UTC."""
    written_by: str = ""
    """``pilothouse v1.2.3``"""
    server_version: str = ""
    """What the API server says of itself: ``v1.36.2``."""
    secret_values: bool = False
    """Whether the values of Secrets are in it."""
    anonymized: bool = False
    recording: bool = False
    """Whether changes follow."""


class ResourceLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What precedes the objects of a resource."""

    resource: str
    group: str = ""
    version: str
    kind: str
    namespaced: bool = False
    resource_version: str = ""
    """Of the list that the objects are from; if that took several, of the last one."""

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``replicasets.apps``, or ``pods`` for the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


class Skipped(msgspec.Struct, frozen=True):
    """A resource that could not be read, or an object that was left out."""

    resource: str
    reason: str


class Totals(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was written."""

    objects: int
    oldest: int
    """The lowest and the highest resourceVersion of the lists: the snapshot is of one moment if they are equal."""
    newest: int
    skipped: tuple[Skipped, ...] = ()


class End(msgspec.Struct, frozen=True):
    """The last line."""

    end: Totals


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an object."""

    change: Literal["ADDED", "MODIFIED", "DELETED"]
    at: float
    """Seconds after the time of the header."""
    object: msgspec.Raw
    """As the API server gave it, with apiVersion and kind. Of a deletion that was not seen: its name and uid."""


encode = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode
decode_resource = msgspec.json.Decoder(ResourceLine).decode
decode_end = msgspec.json.Decoder(End).decode
decode_change = msgspec.json.Decoder(ChangeLine).decode

HEADER_START = b'{"pilothouseSnapshot":'
RESOURCE_START = b'{"resource":'
CHANGE_START = b'{"change":'
END_START = b'{"end":'
