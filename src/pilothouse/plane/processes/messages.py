"""The messages between the process of the API server and that of the programs.

A frame has all messages of one iteration of the event loop, as MessagePack, after its length.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.machinery.causes import Cause

LENGTH_BYTES = 8


class User(msgspec.Struct, frozen=True, array_like=True, tag="user", gc=False):
    """A transport was created: its requests have this number as ``user``."""

    number: int
    name: str
    groups: tuple[str, ...]
    agent: str


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call", gc=False):
    """A request. ``opens``: the response is a stream. ``cause`` is that of a write."""

    id: int
    user: int
    opens: bool
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    cause: Cause | None


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel", gc=False):
    """The caller of a request was cancelled, or a stream is not read any more."""

    id: int


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready", gc=False):
    """All programs are ready."""


class Metrics(msgspec.Struct, frozen=True, array_like=True, tag="metrics", gc=False):
    """The response to ``GetMetrics``: a page for each component."""

    pages: Mapping[str, str]


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer", gc=False):
    """The complete response to a request, or the status and headers of a stream."""

    id: int
    status: int
    headers: Mapping[str, str]
    body: bytes


class Chunks(msgspec.Struct, frozen=True, array_like=True, tag="chunks", gc=False):
    """Chunks of a stream that arrived together, as positions in ``ToPrograms.chunks``."""

    id: int
    positions: list[int]


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended", gc=False):
    """The stream is over; or the request has failed in the server with ``error``."""

    id: int
    error: str


class GetMetrics(msgspec.Struct, frozen=True, array_like=True, tag="get metrics", gc=False):
    """Requests ``Metrics``."""


class Stop(msgspec.Struct, frozen=True, array_like=True, tag="stop", gc=False):
    """The programs must stop: they release their Leases, and the process ends."""


class Start(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The first frame that the programs receive."""

    words: tuple[str, ...]
    """The flags of ``pilothouse up``."""
    defaults: Mapping[str, Any]
    """Values of flags that were not given, from a restored cluster."""
    nodes: tuple[str, ...]
    """The nodes of a restored cluster."""
    manager_identity: str
    """The manager's name in leader election."""
    authority: tuple[bytes, bytes] | None
    """The server's CA and its key, PEM; None without TLS."""
    signing_key: bytes
    """The key for service account tokens, PEM."""


ToServer = User | Call | Cancel | Ready | Metrics
FromServer = Answer | Chunks | Ended | GetMetrics | Stop


class ToPrograms(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A frame of the API server. An event that several watches deliver is in it once."""

    chunks: list[bytes]
    messages: list[FromServer]
