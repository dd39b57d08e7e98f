"""Warnings in the responses of an API server.

After apimachinery's ``ParseWarningHeaders`` (``pkg/util/net/http.go``) and client-go's ``rest/warnings.go`` (v0.36).
"""

import re
from collections.abc import Callable

from pilothouse.api import wire

_WARNING = re.compile(r'299 [^\s,"]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(header: str) -> list[str]:
    """The texts in a ``Warning`` header, without duplicates. Those without code 299 are ignored."""
    texts = [_ESCAPED.sub(r"\1", text) for text in _WARNING.findall(header)]
    return list(dict.fromkeys(map(_as_utf8, texts)))


def _as_utf8(text: str) -> str:
    """Header bytes were read as Latin-1, and are UTF-8 as a rule."""
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text


class WarningHandler:
    """A transport that calls ``handle`` with each warning in the responses of another one."""

    def __init__(self, inner: wire.Transport, handle: Callable[[str], None]) -> None:
        self._inner = inner
        self._handle = handle

    async def request(self, request: wire.Request) -> wire.Response:
        """Send, and report the warnings of the response."""
        response = await self._inner.request(request)
        for text in warnings_of(response.headers.get("warning", "")):
            self._handle(text)
        return response

    async def open(self, request: wire.Request) -> wire.Stream:
        """Open a watch."""
        return await self._inner.open(request)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._inner.close()
