"""Requests and responses between a client and an API server, independent of the transport.

``client`` and ``apiserver`` use these structs and do not import each other: the client defines the protocol, and the
server satisfies it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request. ``target`` is the path with its query, percent-encoded; header names are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Response(msgspec.Struct, frozen=True, gc=False):
    """One complete response. Header names are lower-case."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Stream(Protocol):
    """A response whose body arrives in pieces: a watch. If ``status`` is not 200, the pieces are the error body.

    A piece is a sequence of complete lines from the local transport, and any bytes from a socket.
    """

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, until the server ends the stream. A broken connection raises ``ConnectionError``."""
        ...

    async def close(self) -> None:
        """Stop receiving. Safe to call twice, and after the end."""
        ...


class SharedEvent(Protocol):
    """An event of a watch that is not encoded as a line, for readers in the process of the server.

    ``memo`` is shared by all readers of the event: each keeps what it has decoded under a key of its own. It is None
    for an event of a single reader.
    """

    type: str
    value: bytes
    """The object in JSON."""
    memo: dict[Any, Any] | None


@runtime_checkable
class RenewsAtOnce(Protocol):
    """A transport to a server in the same process that can renew Leases without requests."""

    def renewal(self, request: Request) -> Callable[[str], bytes | None] | None:
        """For a PUT like this one (its body does not matter) of a Lease that was renewed by the previous one: a
        function that renews it again.

        It takes the ``renewTime`` and returns the Lease; or None without any effect, if another client has written it
        or a request is needed for another reason. None if renewals are not possible at all.
        """
        ...


@runtime_checkable
class LocalDiscovery(Protocol):
    """A transport to a server in the same process that can return discovery documents without requests."""

    def request_nowait(self, request: Request) -> Response | None:
        """The response to a GET of a discovery document, without waiting; None if that is not possible."""
        ...


class Transport(Protocol):
    """A connection to an API server."""

    async def request(self, request: Request) -> Response:
        """Send, and wait for the complete response. Raises ``ConnectionError`` (refused, reset, TLS) or
        ``TimeoutError``; whether a write was executed is then unknown."""
        ...

    async def open(self, request: Request) -> Stream:
        """Send, and return as soon as the status is received."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...
