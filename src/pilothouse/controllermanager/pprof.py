"""A profile in pprof's format (github.com/google/pprof ``proto/profile.proto``), gzipped protobuf.

Encoded by hand: it has only six small messages, and a protobuf library is larger than the manager's own code.
``profiling`` records the stacks.
"""

import gzip
from collections.abc import Iterable, Mapping
from types import CodeType

_VARINT, _BYTES = 0, 2


def encode_profile(
    stacks: Mapping[tuple[CodeType, ...], int], *, time_nanos: int, duration_nanos: int, period_nanos: int
) -> bytes:
    """Encode stacks (innermost function first) with how often each was sampled, once every ``period_nanos``."""
    strings = _Strings()
    functions: dict[CodeType, int] = {}
    out = bytearray()
    for kind, unit in (("samples", "count"), ("cpu", "nanoseconds")):
        out += _message(1, _value_type(strings, kind, unit))
    for stack, times in stacks.items():
        ids = [functions.setdefault(code, len(functions) + 1) for code in stack]
        out += _message(2, _packed(1, ids) + _packed(2, (times, times * period_nanos)))
    for code, number in functions.items():
        # One location per function: its first line, with the function's ID.
        line = _number(1, number) + _number(2, code.co_firstlineno)
        out += _message(4, _number(1, number) + _message(4, line))
        name, file = strings.index(code.co_qualname), strings.index(code.co_filename)
        out += _message(
            5,
            _number(1, number) + _number(2, name) + _number(3, name) + _number(4, file)
            + _number(5, code.co_firstlineno),
        )  # fmt: skip
    period = _value_type(strings, "cpu", "nanoseconds")
    for text in strings.all:
        out += _message(6, text.encode("utf-8", "replace"))
    out += _number(9, time_nanos) + _number(10, duration_nanos) + _message(11, period) + _number(12, period_nanos)
    return gzip.compress(bytes(out), mtime=0)


class _Strings:
    """The string table; index 0 is the empty string."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {"": 0}

    def index(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all))


def _value_type(strings: _Strings, kind: str, unit: str) -> bytes:
    return _number(1, strings.index(kind)) + _number(2, strings.index(unit))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))
