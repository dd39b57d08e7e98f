"""What crosses between a client and an API server, whichever transport carries it.

Both ends use these structs and neither imports the other: ``client`` has the protocol, ``apiserver`` satisfies it.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol, runtime_checkable

import msgspec


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request. ``target`` is the path with its query, percent-encoded; header names are lower-case."""

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Response(msgspec.Struct, frozen=True, gc=False):
    """One whole answer. Header names are lower-case."""

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Stream(Protocol):
    """An answer whose body comes in pieces: a watch.

    When ``status`` is not 200 the pieces make up the error body. A piece is a run of whole lines when it comes from the
    local transport, and any bytes when it comes from a socket.
    """

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces, until the server ends the stream. A broken connection raises ``ConnectionError``."""
        ...

    async def close(self) -> None:
        """Stop receiving. Safe to call twice, and after the end."""
        ...


@runtime_checkable
class RenewsAtOnce(Protocol):
    """A transport to a server in the same process, by which Leases can be renewed without requests."""

    def renewal(self, request: Request) -> Callable[[str], bytes | None] | None:
        """For a PUT like this one (its body does not matter) of a Lease that was renewed by the last one: what renews
        it again. It takes the ``renewTime`` and gives the Lease; or None, having done nothing, when somebody else has
        written it or a request is needed for another reason. None if that is not possible at all."""
        ...


@runtime_checkable
class AnswersAtOnce(Protocol):
    """A transport to a server in the same process, which has the documents of discovery at hand."""

    def answer_at_once(self, request: Request) -> Response | None:
        """The answer to a GET of such a document, without waiting; None, having done nothing, where that is not
        possible."""
        ...


class Transport(Protocol):
    """A way to an API server."""

    async def request(self, request: Request) -> Response:
        """Send and wait for the whole answer.

        Raises ``ConnectionError`` (refused, reset, TLS) or ``TimeoutError``; whether a write happened is then unknown.
        """
        ...

    async def open(self, request: Request) -> Stream:
        """Send and return as soon as the status is known."""
        ...

    async def close(self) -> None:
        """Give back every connection."""
        ...
