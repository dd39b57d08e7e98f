"""Frames over a socket between two processes."""

import asyncio
from collections.abc import Callable

from pilothouse.plane.processes.messages import LENGTH_BYTES

HIGH_WATER = 4 * 1024 * 1024
"""Bytes that wait to be sent, from which on ``writable`` is not set."""


class Framing(asyncio.Protocol):
    """Calls ``on_frame`` with the payload of each frame, and ``on_end`` when the other process has closed its end."""

    def __init__(self, on_frame: Callable[[memoryview], None], on_end: Callable[[], None]) -> None:
        self._on_frame = on_frame
        self._on_end = on_end
        self._received = bytearray()
        self._needed = LENGTH_BYTES
        self._transport: asyncio.WriteTransport | None = None
        self.writable = asyncio.Event()
        """Whether the other process keeps up with what is sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        transport.set_write_buffer_limits(HIGH_WATER)  # type: ignore[attr-defined]
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if len(received) < self._needed:
            return
        start = 0
        with memoryview(received) as view:
            while len(received) - start >= LENGTH_BYTES:
                end = start + LENGTH_BYTES + int.from_bytes(view[start : start + LENGTH_BYTES], "big")
                if end > len(received):
                    break
                with view[start + LENGTH_BYTES : end] as payload:
                    self._on_frame(payload)
                start = end
        del received[:start]
        self._needed = LENGTH_BYTES
        if len(received) >= LENGTH_BYTES:
            self._needed += int.from_bytes(received[:LENGTH_BYTES], "big")

    def connection_lost(self, error: Exception | None) -> None:
        self.writable.set()
        self._on_end()

    def send(self, payload: bytes) -> None:
        """Send a frame."""
        assert self._transport is not None, "the connection exists"
        self._transport.writelines((len(payload).to_bytes(LENGTH_BYTES, "big"), payload))

    def close(self) -> None:
        """Close the connection after what waits has been sent."""
        if self._transport is not None:
            self._transport.close()
