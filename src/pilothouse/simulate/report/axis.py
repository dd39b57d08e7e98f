"""The axis of time that all panels share. Pure."""

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
"""Pixels: values that are nearer to each other are drawn as one."""


class Axis(msgspec.Struct, frozen=True):
    """Seconds of a recording to pixels. ``zero`` is what is called 0: when the time line of the scenario begins."""

    begin: float
    end: float
    zero: float = 0.0

    @property
    def left(self) -> float:
        """Of the plot."""
        return float(LEFT)

    @property
    def right(self) -> float:
        """Of the plot."""
        return float(WIDTH - RIGHT)

    def x(self, at: float) -> float:
        """The place of a time; times beyond the ends are at the ends."""
        at = min(max(at, self.begin), self.end)
        return round(LEFT + (at - self.begin) / (self.end - self.begin) * (WIDTH - RIGHT - LEFT), 1)

    def column(self, at: float) -> float:
        """The place to which values are merged."""
        return round(self.x(at) / COLUMN) * COLUMN

    def label(self, at: float) -> str:
        """What a time of the recording is called."""
        return seconds_text(round(at - self.zero, 3))

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places and labels of round times."""
        length = self.end - self.begin
        steps = (*_STEPS, *(86400.0 * days for days in _DAYS))
        step = next((candidate for candidate in steps if length / candidate <= _TICKS), steps[-1])
        number = -int((self.zero - self.begin) // step)
        while (at := self.zero + number * step) <= self.end:
            yield self.x(at), seconds_text(round(number * step, 3))
            number += 1
