"""The PEM blocks of a text, found as Go's ``encoding/pem`` finds them (Go 1.25, ``Decode``), in linear time.

The last BEGIN before an END belongs to it. A regular expression that searches an END for each BEGIN takes minutes for
a megabyte of BEGINs, and nothing else runs in the meantime.
"""

from collections.abc import Iterator
from typing import NamedTuple

_BEGIN, _END, _DASHES = b"-----BEGIN ", b"\n-----END ", b"-----"
_NEWLINE = ord("\n")


class PemBlock(NamedTuple):
    """One block. Its body is not decoded."""

    type: bytes
    """What BEGIN and END name: ``CERTIFICATE``."""
    body: bytes
    """The headers, if there are any, and the content in base64."""
    text: bytes
    """The whole block."""
    end: int
    """Where the line after it begins."""


def pem_blocks(data: bytes) -> Iterator[PemBlock]:
    """The blocks, in their order. Everything between them is skipped."""
    rest = 0
    while (end := data.find(_END, rest)) >= 0:
        type_at = end + len(_END)
        begin = data.rfind(_BEGIN, rest, end)
        block = _block(data, begin, end, type_at) if _begins_line(data, begin, rest) else None
        rest = type_at
        if block is not None:
            rest = block.end
            yield block


def _begins_line(data: bytes, begin: int, rest: int) -> bool:
    return begin == rest or (begin > rest and data[begin - 1] == _NEWLINE)


def _block(data: bytes, begin: int, end: int, type_at: int) -> PemBlock | None:
    first_line, body_at = _line(data, begin + len(_BEGIN))
    if not first_line.endswith(_DASHES) or data[type_at : type_at + len(first_line)] != first_line:
        return None
    text_end = type_at + len(first_line)
    trailer, next_line = _line(data, text_end)
    if trailer:
        return None
    return PemBlock(first_line.removesuffix(_DASHES), data[body_at:end], data[begin:text_end], next_line)


def _line(data: bytes, start: int) -> tuple[bytes, int]:
    """The rest of the line without trailing blanks, and where the next line begins."""
    end = data.find(b"\n", start)
    if end < 0:
        return data[start:].rstrip(b" \t"), len(data)
    return data[start:end].removesuffix(b"\r").rstrip(b" \t"), end + 1
