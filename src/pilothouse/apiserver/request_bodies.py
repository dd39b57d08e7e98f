"""Reads request bodies, after authorization and within limits.

``asgi`` passes a reader to ``HandlerChain``, and the server calls it after authorization. A body may have 3 MiB; all
incomplete bodies may have 16 MiB in total.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.options import MAX_BODY
from pilothouse.serving.budget import Budget

UNFINISHED_BYTES = 16 * 1024 * 1024
"""The limit of all incomplete bodies. Local clients send 3 MiB in a few milliseconds."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


def has_body(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request has a body that is read."""
    return method in _WITH_BODY and (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers)


class BodyReader:
    """Reads the bodies of one server."""

    def __init__(self) -> None:
        self._budget = Budget(UNFINISHED_BYTES)

    async def read(self, headers: Mapping[str, str], receive: Receive) -> bytes:
        """The whole body. Raises 413 if it is too large, 429 if it arrives too slowly while other requests need the
        memory, and 400 if the client disconnects."""
        if _is_too_long(headers.get("content-length", "0")):
            raise _too_large()
        body, has_more = await _read_chunk(receive)
        if has_more:
            body = await self._read_remaining(body, receive)
        if len(body) > MAX_BODY:
            raise _too_large()
        return body

    async def _read_remaining(self, first_chunk: bytes, receive: Receive) -> bytes:
        chunks, size, has_more = [first_chunk], len(first_chunk), True
        try:
            async with asyncio.timeout(None) as limit:
                with self._budget.hold(limit) as reservation:
                    self._budget.grow(reservation, size)
                    while has_more and size <= MAX_BODY:
                        chunk, has_more = await _read_chunk(receive)
                        chunks.append(chunk)
                        size += len(chunk)
                        self._budget.grow(reservation, len(chunk))
        except TimeoutError:
            raise errors.too_many_requests("Too many requests, please try again later.") from None
        return b"".join(chunks)


async def _read_chunk(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise errors.bad_request("unexpected EOF")  # the rest is not read
    return message.get("body", b""), message.get("more_body", False)


def _is_too_long(length: str) -> bool:
    return length.isdigit() and (len(length) > 18 or int(length) > MAX_BODY)


def _too_large() -> StatusError:
    return errors.too_large(f"Request entity too large: limit is {MAX_BODY}")
