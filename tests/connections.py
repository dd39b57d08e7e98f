"""Connections to a server that tests ask again and again, kept open in between.

A TLS handshake costs both sides more than most requests do, and whoever waits for something asks thirty times a second.
"""

import contextlib
import http.client
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

_IDLE_SECONDS = 20.0
"""Nobody keeps a connection forever: one that has been idle for so long may be closed from the other side just now."""


def trusting_context() -> ssl.SSLContext:
    """For a client that believes any server. Unlike ``ssl.create_default_context`` it does not read the authorities of
    the machine first, which takes 28 ms."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Connections:
    """To one port of this machine, over TLS. Any thread may ask; each request has a connection to itself."""

    def __init__(self, authority: Path, *, seconds: float) -> None:
        """``authority`` signed the server's certificate; an answer may take so many seconds."""
        self._context = ssl.create_default_context(cafile=str(authority))
        self._seconds = seconds
        self._idle: list[tuple[float, http.client.HTTPSConnection]] = []
        self._epoch = 0

    def ask(
        self, port: int, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and text. What goes wrong is raised: nothing is sent twice."""
        epoch = self._epoch
        connection = self._take(port)
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            if epoch == self._epoch and not answer.will_close:
                stack.pop_all()
                self._idle.append((time.monotonic(), connection))
        return answer.status, text

    def close(self) -> None:
        """Close what is idle now, and what is in use when its answer has come. For a server that goes, too."""
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
