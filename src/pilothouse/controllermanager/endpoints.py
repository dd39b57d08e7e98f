"""The secure port's ASGI application.

Authentication, authorization and errors as in the apiserver library (v0.36 ``pkg/endpoints/filters``). ``serving`` has
the sockets, ``pages`` the responses.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import msgspec

from pilothouse.controllermanager.authentication import ANONYMOUS, Authenticator
from pilothouse.controllermanager.delegation import Authorizer, ReviewFailed
from pilothouse.controllermanager.pages import Pages, Request, Response
from pilothouse.env import Log
from pilothouse.serving.peer import mark_authenticated, presented_by

__all__ = ["Endpoints", "Pages"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_BODY_BYTES = 64 * 1024
_log = Log("serving")


class Endpoints:
    """Serves the pages, after authentication and authorization."""

    def __init__(self, pages: Pages, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._pages = pages
        self._authenticator = authenticator
        self._authorizer = authorizer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            response = await self._answer(scope, receive)
            _log.info("HTTP", v=3, verb=scope["method"], URI=scope["path"], resp=int(response.status))
            await _send(response, send, head=scope["method"] == "HEAD")

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        path, method = scope["path"], scope["method"]
        peer, _status_error = presented_by(scope)
        user = await self._authenticator.user(peer, scope["headers"])
        if user is None:
            return _status(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")
        if user is not ANONYMOUS:
            mark_authenticated(scope)
        try:
            review = await self._authorizer.review(user, method.lower(), path)
        except ReviewFailed as error:
            return Response(HTTPStatus.INTERNAL_SERVER_ERROR, f'Internal Server Error: "{path}": {error}\n')
        if not review.allowed:
            message = f'forbidden: User "{user.username}" cannot {method.lower()} path "{path}"'
            reason = f": {review.reason}" if review.reason else ""
            return _status(HTTPStatus.FORBIDDEN, "Forbidden", message + reason)
        accept = b", ".join(value for name, value in scope["headers"] if name.lower() == b"accept")
        query = scope.get("query_string", b"").decode("latin-1")
        return await self._pages.answer(
            Request(
                method=method,
                path=path,
                query=parse_qs(query, keep_blank_values=True),
                accept=accept.decode("latin-1"),
                body=lambda: _read(receive),
            )
        )


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body") or len(body) > _BODY_BYTES:
            return bytes(body[:_BODY_BYTES])


def _status(status: HTTPStatus, reason: str, message: str) -> Response:
    """The error as a ``Status`` object."""
    document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        **({"details": {}} if status == HTTPStatus.FORBIDDEN else {}),
        "code": int(status),
    }
    return Response(status, msgspec.json.encode(document) + b"\n", "application/json")


async def _send(response: Response, send: Send, *, head: bool) -> None:
    payload = response.body.encode("utf-8", "replace") if isinstance(response.body, str) else response.body
    headers = [
        (b"content-type", response.content_type.encode()),
        (b"content-length", str(len(payload)).encode()),
        (b"cache-control", b"no-cache, private"),
        (b"x-content-type-options", b"nosniff"),
        *((name.encode(), value.encode()) for name, value in response.headers),
    ]
    await send({"type": "http.response.start", "status": int(response.status), "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else payload})
