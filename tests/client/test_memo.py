"""Size and scope of ``DecodeMemo``."""

import msgspec

from pilothouse.client import DecodeMemo
from pilothouse.client.memo import HALF_BYTES


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
    lines = [bytes([number]) * (HALF_BYTES // 2) for number in range(10)]
    for line in lines:
        memo.put(_Event, False, line, _Event(0))
    assert [memo.get(_Event, False, line) is not None for line in lines] == [False] * 6 + [True] * 4


def test_views_have_separate_caches() -> None:
    memo = DecodeMemo(capacity=10)
    event = _Event(1)
    memo.put(_Event, False, b"1", event)
    assert memo.get(_Event, False, b"1") is event
    assert memo.get(_Event, True, b"1") is None
    assert (memo.hits, memo.misses) == (1, 1)
