"""Size and scope of ``DecodeMemo``."""

import msgspec

from pilothouse.client import DecodeMemo
from pilothouse.client.memo import HALF_BYTES, LARGE_BYTES, LARGE_HALF_BYTES


class _Event(msgspec.Struct):
    number: int


def _line(number: int) -> bytes:
    return b"%d" % number


def test_oldest_events_are_evicted() -> None:
    memo = DecodeMemo(capacity=10)
    events = [_Event(number) for number in range(23)]
    for number, event in enumerate(events):
        memo.put(_Event, False, _line(number), event)
    known = [number for number in range(23) if memo.get(_Event, False, _line(number)) is not None]
    assert known == list(range(known[0], 23))
    assert 5 <= len(known) <= 10


def test_few_large_events_are_kept() -> None:
    memo = DecodeMemo()
    lines = [bytes([number]) * (LARGE_HALF_BYTES // 2) for number in range(10)]
    for number, line in enumerate(lines):
        memo.put(_Event, number % 2 == 0, line, _Event(0))
    known = [memo.get(_Event, number % 2 == 0, line) is not None for number, line in enumerate(lines)]
    assert known == [False] * 6 + [True] * 4, "of all views together"
    assert memo.get(_Event, True, lines[9]) is None


def test_events_of_a_view_are_bounded_in_bytes() -> None:
    memo = DecodeMemo(capacity=10_000)
    lines = [b"%d" % number + b" " * (LARGE_BYTES - 10) for number in range(400)]
    for line in lines:
        memo.put(_Event, False, line, _Event(0))
    known = [memo.get(_Event, False, line) is not None for line in lines].count(True)
    assert HALF_BYTES // LARGE_BYTES <= known <= 2 * HALF_BYTES // LARGE_BYTES + 2


def test_views_have_separate_caches() -> None:
    memo = DecodeMemo(capacity=10)
    event = _Event(1)
    memo.put(_Event, False, b"1", event)
    assert memo.get(_Event, False, b"1") is event
    assert memo.get(_Event, True, b"1") is None
    assert (memo.hits, memo.misses) == (1, 1)
