"""Watches over WebSocket (RFC 6455), for clients that request it: fabric8's, and web pages.

``asgi`` checks for the handshake, sends its response, and sends each event as a text message. The rules are those of
``golang.org/x/net/websocket``, which serves upstream's watches (apiserver ``endpoints/handlers/watch.go``, v0.36): only
version 13, an Origin is required, at most one subprotocol. Messages of clients are dropped, except for pings and close
frames.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping

import msgspec

PING, PONG, CLOSE = 0x9, 0xA, 0x8
_CONTINUATION, _TEXT = 0x0, 0x1
_FINAL = _MASKED = 0x80
_MAX_CONTROL_PAYLOAD = 125
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_UPGRADES = re.compile(r"(^|.*,\s*)upgrade($|\s*,)", re.IGNORECASE).match
"""``connectionUpgradeRegex`` (apimachinery ``util/httpstream/wsstream``)."""


class Rejected(msgspec.Struct, frozen=True):
    """The handshake is rejected."""

    status: int
    message: str


class FrameError(ValueError):
    """The client violates the framing protocol."""


def is_websocket_request(headers: Mapping[str, str]) -> bool:
    """Whether the client requests an upgrade to WebSocket (``wsstream.IsWebSocketRequest``)."""
    return headers.get("upgrade", "").lower() == "websocket" and bool(_UPGRADES(headers.get("connection", "")))


def handshake(headers: Mapping[str, str]) -> dict[str, str] | Rejected:
    """The headers of the 101 (``hybiServerHandshaker``), or the error."""
    key = headers.get("sec-websocket-key", "")
    if not key:
        return Rejected(400, "missing or bad challenge response")
    if headers.get("sec-websocket-version") != "13":
        return Rejected(400, "missing or bad WebSocket Version")
    if not headers.get("origin"):
        return Rejected(403, "null origin")
    protocol = headers.get("sec-websocket-protocol", "").strip()
    if "," in protocol:
        return Rejected(400, "missing or bad WebSocket-Protocol")
    digest = hashlib.sha1(key.encode("latin-1") + _GUID, usedforsecurity=False).digest()
    accepted = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(digest).decode(),
    }
    return {**accepted, "sec-websocket-protocol": protocol} if protocol else accepted


def text_frames(message: bytes, max_payload: int) -> Iterator[bytes]:
    """A text message in frames of at most this many bytes: pongs may be sent in between."""
    for start in range(0, len(message) or 1, max_payload):
        payload = message[start : start + max_payload]
        is_last = start + max_payload >= len(message)
        yield _frame((_FINAL if is_last else 0) | (_CONTINUATION if start else _TEXT), payload)


def control_frame(kind: int, payload: bytes = b"") -> bytes:
    """A pong, or a close frame."""
    return _frame(_FINAL | kind, payload)


def _frame(first_byte: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes((first_byte, size)) + payload
    if size < 1 << 16:
        return bytes((first_byte, 126)) + size.to_bytes(2) + payload
    return bytes((first_byte, 127)) + size.to_bytes(8) + payload


class ClientFrames:
    """Extracts the control frames from what a client sends. Data frames are dropped as they arrive."""

    def __init__(self) -> None:
        self._incomplete = b""
        self._remaining_to_skip = 0
        """Remaining bytes of a dropped frame."""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Kind and payload of the complete control frames; of several pings only the last, which is all that needs a
        pong (RFC 6455, 5.5.3). Raises ``FrameError``."""
        if self._remaining_to_skip >= len(data):
            self._remaining_to_skip -= len(data)
            return []
        data = self._incomplete + data
        offset, self._remaining_to_skip = self._remaining_to_skip, 0
        ping: bytes | None = None
        control_frames = []
        while (head := _head(data, offset)) is not None:
            opcode, size, start = head
            if opcode < CLOSE:
                offset = start + size
                if offset >= len(data):
                    self._remaining_to_skip, offset = offset - len(data), len(data)
                    break
                continue
            if len(data) < start + size:
                break
            if opcode == PING:
                ping = data[start - 4 : start + size]
            else:
                control_frames.append((opcode, _unmasked(data[start - 4 : start + size])))
            offset = start + size
            if opcode == CLOSE:
                # Nothing is read after it (5.5.1).
                break
        self._incomplete = data[offset:]
        return control_frames if ping is None else [(PING, _unmasked(ping)), *control_frames]


def _unmasked(masked: bytes) -> bytes:
    """A payload of a few bytes, after its mask."""
    return bytes(byte ^ masked[i % 4] for i, byte in enumerate(masked[4:]))


def _head(data: bytes, offset: int) -> tuple[int, int, int] | None:
    """Kind, size and offset of the payload of the frame that begins there; None if its header is incomplete."""
    if len(data) < offset + 2:
        return None
    opcode, size = data[offset] & 0xF, data[offset + 1] & ~_MASKED
    if not data[offset + 1] & _MASKED:
        raise FrameError("a client's frames must be masked")
    if opcode >= CLOSE and size > _MAX_CONTROL_PAYLOAD:
        raise FrameError("a control frame is longer than 125 bytes")
    start = offset + 2
    length_bytes = {126: 2, 127: 8}.get(size, 0)
    if len(data) < start + length_bytes + 4:
        return None
    return (
        opcode,
        int.from_bytes(data[start : start + length_bytes]) if length_bytes else size,
        start + length_bytes + 4,
    )
