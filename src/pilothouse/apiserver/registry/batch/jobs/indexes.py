"""Strict parsing of completion indexes (``0,2,5-7``); the Job controller is more lenient.

After ``validateIndexesFormat`` and ``parseIndexInterval`` in kubernetes'
``pkg/apis/batch/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Iterator

from pilothouse.machinery.go_text import quote

_NUMBER = re.compile("[+-]?[0-9]+", re.ASCII)
_MAX_INT64 = 2**63 - 1


class IndexesError(ValueError):
    """The text is not a valid list of indexes; the message is upstream's."""


def count_indexes(indexes_str: str, completions: int) -> int:
    """The number of indexes. Raises ``IndexesError`` unless they are ascending and below ``completions``."""
    total, previous = 0, None
    for interval_str in indexes_str.split(",") if indexes_str else ():
        first, last = _parse_index_interval(interval_str, completions)
        if previous is not None and previous >= first:
            raise IndexesError(_not_increasing(previous, first))
        total += last - first + 1
        previous = last
    return total


def first_common_index(indexes_str: str, other_indexes_str: str, completions: int) -> int | None:
    """The first index in both lists, None if there is none. Invalid intervals are ignored."""
    intervals, other_intervals = (
        _valid_intervals(indexes_str, completions),
        _valid_intervals(other_indexes_str, completions),
    )
    a, b = next(intervals, None), next(other_intervals, None)
    while a is not None and b is not None:
        if a[0] <= b[1] and b[0] <= a[1]:
            return max(a[0], b[0])
        if a[0] <= b[0]:
            a = next(intervals, None)
        else:
            b = next(other_intervals, None)
    return None


def _valid_intervals(indexes_str: str, completions: int) -> Iterator[tuple[int, int]]:
    for interval_str in indexes_str.split(",") if indexes_str else ():
        try:
            yield _parse_index_interval(interval_str, completions)
        except IndexesError:
            continue


def _parse_index_interval(interval_str: str, completions: int) -> tuple[int, int]:
    limits = interval_str.split("-")
    if len(limits) > 2:
        raise IndexesError(
            f"the fragment {quote(interval_str)} violates the requirement that an index interval can have at most two "
            "parts separated by '-'"
        )
    first = _parse_index(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _parse_index(limits[1], completions)
    if first >= last:
        raise IndexesError(_not_increasing(first, last))
    return first, last


def _parse_index(index_str: str, completions: int) -> int:
    number = int(index_str) if _NUMBER.fullmatch(index_str) else None
    if number is None or abs(number) > _MAX_INT64:
        raise IndexesError(f"cannot convert string to integer for index: {quote(index_str)}")
    if number >= completions:
        raise IndexesError(f"too large index: {quote(index_str)}")
    return number


def _not_increasing(previous: int, current: int) -> str:
    return f"non-increasing order, previous: {previous}, current: {current}"
