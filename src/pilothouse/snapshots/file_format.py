"""The format of a snapshot file: gzip-compressed JSON lines in UTF-8, each ending with a newline.

1. one ``Header``: the format version, the time, and the server
2. for each resource a ``ResourceLine``, then its objects: each with apiVersion and kind, as the API server sent it.
   CustomResourceDefinitions come first, then the others of the core group, then those of the other groups.
3. one ``End``, with counts and what was left out. A file without it is incomplete.

A recording has a ``ChangeLine`` for each change after the end, preceded by a ``ResourceLine`` if the resource differs
from that of the previous change. It may be cut off anywhere in this part.

The first key of a line is its type: ``pilothouseSnapshot``, ``resource``, ``end`` or ``change``; other lines are
objects.
"""

import os
import zlib
from typing import Literal

import msgspec

FORMAT = 1
"""The version that is written, and the newest that is read."""
MAX_LINE = 8 * 1024 * 1024
"""The limit of an object in bytes. etcd accepts 1.5 MiB by default, in protobuf; kube-apiserver 3 MiB."""
MAX_OBJECTS = 1_000_000
MAX_BYTES = 2 * 1024 * 1024 * 1024
"""The limit of all lines, uncompressed: a restored cluster is kept in memory."""


def gzip_compressor() -> "zlib._Compress":
    """A stream of gzip. Its header has neither name nor time, so that the same lines give the same bytes."""
    return zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)


class SnapshotError(ValueError):
    """An invalid snapshot. The message has the file, the line, and the reason."""

    def __init__(self, path: str | os.PathLike[str], reason: str, *, line: int = 0) -> None:
        super().__init__(f"{os.fspath(path)}{f':{line}' if line else ''}: {reason}")
        self.line = line
        """The line number, from 1; 0 if the error is about the file."""
        self.reason = reason


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The first line."""

    format: int = msgspec.field(name="pilothouseSnapshot")
    time: str = ""
    """When the snapshot was taken, by the clock of that machine. RFC 3339, UTC."""
    written_by: str = ""
    """``pilothouse v1.2.3``"""
    server_version: str = ""
    """The version of the API server: ``v1.36.2``."""
    secret_values: bool = False
    """Whether it contains the values of Secrets."""
    anonymized: bool = False
    recording: bool = False
    """Whether changes follow."""


class ResourceLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The line before the objects of a resource."""

    resource: str
    group: str = ""
    version: str
    kind: str
    namespaced: bool = False
    resource_version: str = ""
    """The resourceVersion of the list of the objects; of several lists, the last one."""

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
    """Counts of the written objects."""

    objects: int
    oldest: int
    """The lowest and the highest resourceVersion of the lists: if they are equal, the snapshot is consistent."""
    newest: int
    skipped: tuple[Skipped, ...] = ()


class End(msgspec.Struct, frozen=True):
    """The last line."""

    end: Totals


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A change of an object."""

    change: Literal["ADDED", "MODIFIED", "DELETED"]
    at: float
    """Seconds since the time in the header."""
    object: msgspec.Raw
    """As the API server sent it, with apiVersion and kind. For an unobserved deletion only name and uid."""


encode = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode
decode_resource = msgspec.json.Decoder(ResourceLine).decode
decode_end = msgspec.json.Decoder(End).decode
decode_change = msgspec.json.Decoder(ChangeLine).decode

HEADER_START = b'{"pilothouseSnapshot":'
RESOURCE_START = b'{"resource":'
CHANGE_START = b'{"change":'
END_START = b'{"end":'
