"""Keep-alive connections to a server that tests poll.

A TLS handshake costs both sides more than most requests, and tests that wait poll thirty times a second.
"""

import contextlib
import http.client
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

_IDLE_SECONDS = 20.0
"""Connections idle for longer are not reused: the server may be closing them."""


def insecure_context() -> ssl.SSLContext:
    """A client context that does not verify the server. Unlike ``ssl.create_default_context`` it does not load the
    system's CAs, which takes 28 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Connections:
    """Connections to one port of this machine, over TLS. Thread-safe; a connection has one request at a time."""

    def __init__(self, authority: Path, *, seconds: float) -> None:
        """``authority`` is the CA of the server's certificate; ``seconds`` is the timeout of a response."""
        self._context = ssl.create_default_context(cafile=str(authority))
        self._seconds = seconds
        self._idle: list[tuple[float, http.client.HTTPSConnection]] = []
        self._epoch = 0

    def request(
        self, port: int, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Returns status and text. Raises the error of a failed request; nothing is retried."""
        epoch = self._epoch
        connection = self._take(port)
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
            if epoch == self._epoch and not response.will_close:
                stack.pop_all()
                self._idle.append((time.monotonic(), connection))
        return response.status, text

    def close(self) -> None:
        """Close idle connections now and those in use after their response."""
        self._epoch += 1
        while self._idle:
            self._idle.pop()[1].close()

    def _take(self, port: int) -> http.client.HTTPSConnection:
        with contextlib.suppress(IndexError):
            since, connection = self._idle.pop()
            if connection.port == port and time.monotonic() - since < _IDLE_SECONDS:
                return connection
            connection.close()
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=self._seconds, context=self._context)
