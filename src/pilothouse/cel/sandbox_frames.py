"""Messages over the pipes between ``sandbox`` and ``sandboxed``: four bytes of length and the content."""

from typing import IO


def read_frame(stream: IO[bytes]) -> bytes | None:
    """One message; None at the end of the stream."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head)
    frame = stream.read(size)
    return frame if len(frame) == size else None


def write_frame(stream: IO[bytes], frame: bytes) -> None:
    stream.write(len(frame).to_bytes(4) + frame)
    stream.flush()
