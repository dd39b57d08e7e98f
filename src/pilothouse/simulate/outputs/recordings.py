"""Reads and writes files of recordings: one line of JSON for each run."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from pilothouse.simulate.recording import Recording

MAX_LINE_BYTES = 256 << 20
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Recording).decode


class RecordingError(ValueError):
    """The file is not a valid file of recordings."""


def write(file: BinaryIO, recordings: Iterable[Recording]) -> None:
    """Write recordings. Raises ``OSError``."""
    for recording in recordings:
        file.write(_encode(recording) + b"\n")


def read(path: Path) -> Iterator[Recording]:
    """Read recordings. Raises ``RecordingError`` and ``OSError``."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise RecordingError(f"{path}:{number}: a recording has at most {MAX_LINE_BYTES} bytes")
            try:
                yield _decode(line)
            except msgspec.DecodeError as error:
                raise RecordingError(f"{path}:{number}: not a recording of pilothouse simulate: {error}") from None
