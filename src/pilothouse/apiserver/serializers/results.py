"""Results of handlers, before they are encoded in the format that the client asked for.

The core speaks in stored JSON bytes and revisions; a ``Presenter`` (plain JSON in ``json``, everything else in
``presenter``) turns that into a wire response: tables, metadata only, protobuf, pretty-printed.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

import msgspec

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.metrics import Histogram


class ObjectResult(msgspec.Struct, gc=False):
    """One object of ``info``'s kind (or of a subresource's), as JSON that begins with kind and apiVersion."""

    code: int
    info: ResourceInfo
    value: bytes
    warnings: tuple[str, ...] = ()


class ListResult(msgspec.Struct, gc=False):
    """A page of objects, each as in ``ObjectResult``. ``remaining`` is None when they were not counted."""

    info: ResourceInfo
    values: Sequence[bytes]
    revision: int
    continue_: str = ""
    remaining: int | None = None
    warnings: tuple[str, ...] = ()


class StatusResult(msgspec.Struct, gc=False):
    """A ``Status`` (or another small object outside the resource's kind), the same in every format."""

    code: int
    value: bytes
    warnings: tuple[str, ...] = ()


class RawResult(msgspec.Struct, gc=False):
    """An answer that is not an object and has one form only (the lines of a log)."""

    answer: Response | Stream


class WatchEvent(msgspec.Struct, gc=False):
    """One event of a watch. For ERROR the value is a Status, for BOOKMARK an object with only metadata.

    ``memo`` belongs to the change behind the event and to all that show it: a presenter keeps under a key of its
    own what it made of the event, so that each form is made once for all watchers. None when there is nobody to
    share with.
    """

    type: str
    value: bytes
    memo: dict[Any, Any] | None = None


class Watching(Protocol):
    """Events as they come, in batches that came together, until the watch ends."""

    info: ResourceInfo
    warnings: tuple[str, ...]
    event_sizes: Histogram | None
    """Counts the bytes of what is sent; None where nothing shows them."""
    hand_over: Callable[[int], bool] | None
    """Takes the version of a bookmark that is due while the reader waits; false if it does not."""

    def hand_events_to(self, take: Callable[[list[WatchEvent]], bool]) -> None:
        """Have ``take`` called with events that may come while the reader waits, without waking it; false if it does
        not take them."""
        ...

    def bookmark(self, revision: int) -> WatchEvent:
        """The event that says that there is nothing else up to a revision."""
        ...

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        """The batches; never an empty one. Ends when the watch does."""
        ...

    async def close(self) -> None:
        """End the watch from this side. Safe to call twice."""
        ...


Result = ObjectResult | ListResult | StatusResult | Watching


class Presenter(Protocol):
    """The forms in which requests come and answers go."""

    def is_plain(self, request: Request, info: RequestInfo) -> bool:
        """Whether the body is read as it is, and the answer shown as JSON, as it is: with ``serializers.json.PLAIN``,
        and nothing else of this presenter."""
        ...

    def read(self, request: Request, info: RequestInfo) -> Request:
        """The request with its body as JSON (or YAML or a patch, as its content type then says).

        Raises ``StatusError`` for a body or an Accept header that cannot be served.
        """
        ...

    def show(self, request: Request, info: RequestInfo, result: Result) -> Response | Stream:
        """The answer in the form the request asked for."""
        ...

    async def show_long(
        self, request: Request, info: RequestInfo, result: ObjectResult | ListResult
    ) -> Response | Stream:
        """The same, of what may be large: others have their turn meanwhile."""
        ...

    def as_json(self, request: Request, info: RequestInfo, result: "ObjectResult | ListResult | StatusResult") -> bytes:
        """The body of that answer, transformed as the request asked for, but as plain JSON in any case."""
        ...

    def fail(self, request: Request, info: RequestInfo | None, error: StatusError) -> Response:
        """The failure in the form the request asked for."""
        ...
