"""Results of handlers, before they are encoded in the negotiated format.

The core returns stored JSON and revisions; a ``Presenter`` (plain JSON in ``json``, other formats in ``presenter``)
encodes them: tables, partial metadata, protobuf, indented JSON.
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
    """A page of objects, each as in ``ObjectResult``. ``remaining`` is None if they were not counted."""

    info: ResourceInfo
    values: Sequence[bytes]
    revision: int
    continue_: str = ""
    remaining: int | None = None
    warnings: tuple[str, ...] = ()


class StatusResult(msgspec.Struct, gc=False):
    """A ``Status`` (or another small object that is not of the resource's kind), the same in every format."""

    code: int
    value: bytes
    warnings: tuple[str, ...] = ()


class RawResult(msgspec.Struct, gc=False):
    """A response that is not an object and has one format only (log lines)."""

    response: Response | Stream


class WatchEvent(msgspec.Struct, gc=False):
    """One event of a watch. For ERROR the value is a Status, for BOOKMARK an object with only metadata.

    ``memo`` belongs to the change and is shared by all its watchers: a presenter caches each encoding of the event
    under a key of its own. None for events that are not shared.
    """

    type: str
    value: bytes
    memo: dict[Any, Any] | None = None


class Watching(Protocol):
    """The events of a watch, in batches that arrived together."""

    info: ResourceInfo
    warnings: tuple[str, ...]
    event_sizes: Histogram | None
    """The histogram of event sizes; None without metrics."""
    bookmark_handler: Callable[[int], bool] | None
    """Delivers the version of a due bookmark to a waiting reader; returns false if the reader does not handle it."""

    def deliver_events_to(self, handler: Callable[[list[WatchEvent]], bool]) -> None:
        """Call ``handler`` with events that arrive while the reader waits, instead of waking it; false if it does not
        take them."""
        ...

    def bookmark(self, revision: int) -> WatchEvent:
        """The bookmark event of a revision."""
        ...

    def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        """The batches; none is empty. Ends with the watch."""
        ...

    async def close(self) -> None:
        """End the watch. Idempotent."""
        ...


Result = ObjectResult | ListResult | StatusResult | Watching


class Presenter(Protocol):
    """The request and response formats of a server."""

    def is_plain(self, request: Request, info: RequestInfo) -> bool:
        """Whether body and response are JSON in stored form: then ``serializers.json.PLAIN`` is used instead of this
        presenter."""
        ...

    def read(self, request: Request, info: RequestInfo) -> Request:
        """The request with its body in JSON (or YAML, or a patch, by its content type).

        Raises ``StatusError`` for a body or an Accept header that is not supported.
        """
        ...

    def show(self, request: Request, info: RequestInfo, result: Result) -> Response | Stream:
        """The response in the negotiated format."""
        ...

    async def show_long(
        self, request: Request, info: RequestInfo, result: ObjectResult | ListResult
    ) -> Response | Stream:
        """As ``show``, for large results: yields to other requests in between."""
        ...

    def as_json(self, request: Request, info: RequestInfo, result: "ObjectResult | ListResult | StatusResult") -> bytes:
        """The body of that response, transformed as requested, but always as plain JSON."""
        ...

    def fail(self, request: Request, info: RequestInfo | None, error: StatusError) -> Response:
        """The failure in the negotiated format."""
        ...
