"""Parses the seeds of a search: ``17``, ``1-1000``, ``3,7,100-199``."""

import re
from collections.abc import Iterator, Sequence

MAX_SEEDS = 1_000_000
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class Seeds:
    """Seeds in the given order, with duplicates."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = tuple(ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self._ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._ranges)

    def __str__(self) -> str:
        return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in self._ranges)


def parse_seeds(text: str) -> Seeds:
    """Parse seeds and ranges. Raises ``ValueError``."""
    ranges = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f'seeds are numbers and ranges such as 17, 1-1000 or 3,7,100-199, got "{text[:80]}"')
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f'the range of seeds "{part.strip()}" ends before it begins')
        ranges.append((first, last))
    seeds = Seeds(ranges)
    if sum(last - first + 1 for first, last in ranges) > MAX_SEEDS:
        raise ValueError(f'at most {MAX_SEEDS} seeds at a time, got "{text[:80]}"')
    return seeds


def parse_parts(text: str) -> frozenset[int]:
    """Parse numbers of parts; ``none`` is the empty set. Raises ``ValueError``."""
    if text == "none":
        return frozenset()
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in parts):
        raise ValueError(f'expected numbers of parts such as 0,3, or none, got "{text[:80]}"')
    return frozenset(map(int, parts))


def shown_parts(numbers: Sequence[int]) -> str:
    """Format numbers for ``parse_parts``."""
    return ",".join(map(str, numbers)) or "none"
