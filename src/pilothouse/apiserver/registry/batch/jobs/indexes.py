"""Completion indexes (``0,2,5-7``), read more strictly than by the Job controller.

After ``validateIndexesFormat`` and its neighbours in kubernetes' ``pkg/apis/batch/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Iterator

from pilothouse.machinery.go_text import quote

_NUMBER = re.compile("[+-]?[0-9]+", re.ASCII)
_LARGEST = 2**63 - 1


class IndexesError(ValueError):
    """The text names no indexes; the message is upstream's."""


def count_indexes(text: str, completions: int) -> int:
    """How many indexes a text names. Raises ``IndexesError`` unless they are ascending and below ``completions``."""
    total, previous = 0, None
    for part in text.split(",") if text else ():
        first, last = _interval(part, completions)
        if previous is not None and previous >= first:
            raise IndexesError(_not_increasing(previous, first))
        total += last - first + 1
        previous = last
    return total


def first_in_both(one: str, other: str, completions: int) -> int | None:
    """The first index that both texts name; parts that name none are left out."""
    ours, theirs = _readable(one, completions), _readable(other, completions)
    here, there = next(ours, None), next(theirs, None)
    while here is not None and there is not None:
        if here[0] <= there[1] and there[0] <= here[1]:
            return max(here[0], there[0])
        if here[0] <= there[0]:
            here = next(ours, None)
        else:
            there = next(theirs, None)
    return None


def _readable(text: str, completions: int) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        try:
            yield _interval(part, completions)
        except IndexesError:
            continue


def _interval(part: str, completions: int) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > 2:
        raise IndexesError(
            f"the fragment {quote(part)} violates the requirement that an index interval can have at most two parts "
            "separated by '-'"
        )
    first = _index(ends[0], completions)
    if len(ends) == 1:
        return first, first
    last = _index(ends[1], completions)
    if first >= last:
        raise IndexesError(_not_increasing(first, last))
    return first, last


def _index(text: str, completions: int) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or abs(number) > _LARGEST:
        raise IndexesError(f"cannot convert string to integer for index: {quote(text)}")
    if number >= completions:
        raise IndexesError(f"too large index: {quote(text)}")
    return number


def _not_increasing(previous: int, current: int) -> str:
    return f"non-increasing order, previous: {previous}, current: {current}"
