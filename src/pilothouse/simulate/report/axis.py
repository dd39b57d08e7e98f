"""The time axis that all panels share. Pure."""

from collections.abc import Iterator

import msgspec

from pilothouse.simulate.report.texts import seconds_text

WIDTH = 1120
LEFT = 236
RIGHT = 84
_TICKS = 9
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)
_DAYS = (1, 2, 7, 14, 28, 56, 112, 224)
COLUMN = 1.0
"""Width in pixels of a column; values in the same column are merged."""


class Axis(msgspec.Struct, frozen=True):
    """Maps times of a recording to pixels. ``zero`` is the start of the timeline, labeled 0."""

    begin: float
    end: float
    zero: float = 0.0

    @property
    def left(self) -> float:
        """Edge of the plot, in pixels."""
        return float(LEFT)

    @property
    def right(self) -> float:
        """Edge of the plot, in pixels."""
        return float(WIDTH - RIGHT)

    def x(self, at: float) -> float:
        """The x coordinate of a time, clamped to the axis."""
        at = min(max(at, self.begin), self.end)
        return round(LEFT + (at - self.begin) / (self.end - self.begin) * (WIDTH - RIGHT - LEFT), 1)

    def column(self, at: float) -> float:
        """The x coordinate of the column of a time."""
        return round(self.x(at) / COLUMN) * COLUMN

    def label(self, at: float) -> str:
        """The label of a time."""
        return seconds_text(round(at - self.zero, 3))

    def ticks(self) -> Iterator[tuple[float, str]]:
        """The x coordinates and labels of the ticks."""
        length = self.end - self.begin
        steps = (*_STEPS, *(86400.0 * days for days in _DAYS))
        step = next((candidate for candidate in steps if length / candidate <= _TICKS), steps[-1])
        number = -int((self.zero - self.begin) // step)
        while (at := self.zero + number * step) <= self.end:
            yield self.x(at), seconds_text(round(number * step, 3))
            number += 1
