"""Bounded requests and responses of the page's application."""

import asyncio
import http
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from pilothouse.serving.exchange import Receive, Scope, Send
from pilothouse.ui.files import SECURITY_HEADERS

LONGEST_QUERY = 2048
LONGEST_BODY = 1024
_BODY_SECONDS = 5.0
_MAX_PARAMETERS = 10


class Rejected(Exception):
    """The request is rejected with a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class PageRequest(msgspec.Struct, frozen=True):
    """The parsed request."""

    method: str
    path: str
    """Below ``/ui/``."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    scheme: str

    @staticmethod
    def of(scope: Scope, path: str) -> "PageRequest":
        """Parse a scope. Raises ``Rejected`` for a query that is too long."""
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key = name.decode("latin-1").lower()
            text = value.decode("latin-1")
            # Browsers send one Host and one Origin.
            headers[key] = f"{headers[key]},{text}" if key in headers else text
        raw: bytes = scope["query_string"]
        if len(raw) > LONGEST_QUERY:
            raise Rejected(414, f"the query is longer than {LONGEST_QUERY} bytes")
        try:
            query = dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS))
        except ValueError as error:
            raise Rejected(400, f"the query has more than {_MAX_PARAMETERS} parameters") from error
        return PageRequest(scope["method"], path, query, headers, scope["scheme"])

    def cookie(self, name: str) -> str:
        """A cookie's value; empty if it is not set."""
        for pair in self.headers.get("cookie", "")[:8192].replace(",", ";").split(";"):
            key, _equals, value = pair.strip().partition("=")
            if key == name:
                return value
        return ""


async def read_body(receive: Receive) -> bytes:
    """Read a small body. Raises ``Rejected`` for a large or slow one."""
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionAbortedError("the client is gone")
                body += bytes(message.get("body", b""))
                if len(body) > LONGEST_BODY:
                    raise Rejected(413, f"the body is longer than {LONGEST_BODY} bytes")
                if not message.get("more_body", False):
                    return body
    except TimeoutError:
        raise Rejected(408, "the body did not come in time") from None


async def answer(send: Send, status: int, body: bytes = b"", **headers: str) -> None:
    """Send a response; underscores in the names of headers stand for hyphens."""
    await _start(send, status, {**headers, "content_length": str(len(body))})
    await send({"type": "http.response.body", "body": body})


async def answer_json(send: Send, value: Any, status: int = 200, **headers: str) -> None:
    """Send a value as JSON that must not be cached."""
    await answer(
        send, status, msgspec.json.encode(value), content_type="application/json", cache_control="no-store", **headers
    )


async def answer_error(send: Send, status: int, message: str = "", **headers: str) -> None:
    """Send an error with a hint for the user."""
    await answer_json(send, {"error": message or http.HTTPStatus(status).phrase}, status, **headers)


async def answer_lines(send: Send, frames: AsyncIterator[bytes]) -> None:
    """Send lines of JSON as they become available. An error before the first line is raised, and nothing has been
    sent."""
    first = await anext(frames, b"")
    await _start(send, 200, {"content_type": "application/x-ndjson", "cache_control": "no-store"})
    await send({"type": "http.response.body", "body": first, "more_body": True})
    async for line in frames:
        await send({"type": "http.response.body", "body": line, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    every = {**SECURITY_HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in every.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
