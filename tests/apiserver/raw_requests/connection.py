"""Sends requests as bytes over keep-alive connections, and parses responses strictly."""

import contextlib
import ssl
import time

from tests.apiserver.attacks.attacked_plane import AttackedPlane
from tests.apiserver.raw_requests.cases import Sent
from tests.connections import insecure_context

ANSWER_SECONDS = 30.0
_SILENCE_SECONDS = 0.03
"""How long bytes that are no valid request may remain without a response."""


class Unanswered(AssertionError):
    """A complete request got no complete response."""


class RawConnection:
    """A client of a server."""

    def __init__(self, plane: AttackedPlane) -> None:
        self._plane = plane
        self._context = insecure_context()
        self._socket: ssl.SSLSocket | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def request(self, sent: Sent) -> tuple[int, bytes]:
        """Returns status and body; (0, b"") if no response is required and none was received."""
        if self._socket is None:
            self._socket = self._plane.connect(self._context)
        connection = self._socket
        connection.settimeout(ANSWER_SECONDS if sent.whole else _SILENCE_SECONDS)
        try:
            # The server may respond and close the connection before everything has been sent.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(sent.data)
            status, body, kept = self._answer(connection, sent.data.startswith(b"HEAD "))
        except (OSError, ValueError, Unanswered) as error:
            self.close()
            if sent.whole:
                raise Unanswered(f"{type(error).__name__}: {error}") from None
            return 0, b""
        if not kept or not sent.whole:
            self.close()
        return status, body

    def _answer(self, connection: ssl.SSLSocket, to_head: bool) -> tuple[int, bytes, bool]:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more(connection)
        top, _, data = data.partition(b"\r\n\r\n")
        lines = top.split(b"\r\n")
        status = int(lines[0].split(b" ")[1])
        if status == 100:
            return self._after_continue(connection, data, to_head)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])
        }
        if status == 101:
            return status, b"", False
        kept = headers.get(b"connection", b"").lower() != b"close"
        if to_head or status in (204, 304):
            return status, b"", kept
        if b"content-length" in headers:
            length = int(headers[b"content-length"])
            while len(data) < length:
                data += self._more(connection)
            return status, data[:length], kept and len(data) == length
        return status, self._stream(connection, data), False

    def _after_continue(self, connection: ssl.SSLSocket, _data: bytes, to_head: bool) -> tuple[int, bytes, bool]:
        return self._answer(connection, to_head)

    def _stream(self, connection: ssl.SSLSocket, data: bytes) -> bytes:
        """The chunks received so far: a watch does not end."""
        deadline = time.monotonic() + ANSWER_SECONDS
        connection.settimeout(_SILENCE_SECONDS)
        with contextlib.suppress(OSError, Unanswered):
            while not data.endswith(b"0\r\n\r\n") and time.monotonic() < deadline:
                data += self._more(connection)
        return data

    @staticmethod
    def _more(connection: ssl.SSLSocket) -> bytes:
        data = connection.recv(1 << 16)
        if not data:
            raise Unanswered("the connection was closed")
        return data
