"""Sets of completion indexes, as text and as intervals, and the index of a pod. Pure.

Upstream: v1.36 ``pkg/controller/job/indexed_job_utils.go``.
"""

import re
from collections.abc import Iterable, Mapping

from pilothouse.api.core import Pod

INDEX = "batch.kubernetes.io/job-completion-index"
UNKNOWN = -1

_number = re.compile(r"[+-]?[0-9]+", re.ASCII)

Interval = tuple[int, int]
"""From and to, both included."""


class Indexes:
    __slots__ = ("intervals", "total")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self.intervals = tuple(intervals)
        self.total = sum(last - first + 1 for first, last in self.intervals)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        intervals: list[Interval] = []
        for index in sorted(set(indexes)):
            if intervals and index == intervals[-1][1] + 1:
                intervals[-1] = (intervals[-1][0], index)
            else:
                intervals.append((index, index))
        return cls(intervals)

    @classmethod
    def parse(cls, text: str, completions: int) -> "Indexes":
        """The indexes below ``completions`` in a text; invalid parts are ignored (``parseIndexesFromString``)."""
        if not text:
            return cls()
        intervals: list[Interval] = []
        for part in text.split(","):
            ends = part.split("-")[:2]
            if not all(_number.fullmatch(end) for end in ends):
                continue
            first, last = int(ends[0]), int(ends[-1])
            if first >= completions:
                break
            last = min(last, completions - 1)
            if intervals and first <= intervals[-1][1] + 1:
                intervals[-1] = (intervals[-1][0], max(last, intervals[-1][1]))
            else:
                intervals.append((first, last))
        return cls(intervals)

    def __contains__(self, index: int) -> bool:
        low, high = 0, len(self.intervals)
        while low < high:
            middle = (low + high) // 2
            first, last = self.intervals[middle]
            if index < first:
                high = middle
            elif index > last:
                low = middle + 1
            else:
                return True
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indexes) and self.intervals == other.intervals

    def __hash__(self) -> int:
        return hash(self.intervals)

    def __repr__(self) -> str:
        return f"Indexes({self})"

    def __str__(self) -> str:
        """``1,3-5,7``. Two adjacent ones are ``1,2``: a hyphen is used for three or more."""
        parts = []
        for first, last in self.intervals:
            if first == last:
                parts.append(str(first))
            else:
                parts.append(f"{first}{',' if last == first + 1 else '-'}{last}")
        return ",".join(parts)

    def plus(self, indexes: Iterable[int]) -> "Indexes":
        merged: list[Interval] = []
        for first, last in sorted((*self.intervals, *((index, index) for index in indexes))):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
            else:
                merged.append((first, last))
        return Indexes(merged)


def index_of(annotations: Mapping[str, str]) -> int:
    """The index in a pod's annotations, or ``UNKNOWN``."""
    text = annotations.get(INDEX)
    if text is None or not _number.fullmatch(text):
        return UNKNOWN
    index = int(text)
    return index if index >= 0 else UNKNOWN


def index_of_pod(pod: Pod) -> int:
    return index_of(pod.metadata.annotations)


def first_pending_indexes(count: int, completions: int, *used: Iterable[int] | Indexes) -> list[int]:
    """The ``count`` lowest indexes that are not in ``used``."""
    if count <= 0:
        return []
    sets = [indexes if isinstance(indexes, Indexes) else frozenset(indexes) for indexes in used]
    free: list[int] = []
    for index in range(completions):
        if not any(index in used_indexes for used_indexes in sets):
            free.append(index)
            if len(free) == count:
                break
    return free


def pod_generate_name_with_index(job_name: str, index: int) -> str:
    """The prefix of the names of an index's pods, without the last dash. With it at most 58 characters, so that the
    server, which adds five, never truncates the index."""
    ending = f"-{index}-"
    return job_name[: 58 - len(ending)] + ending[:-1]
