"""Converts series to SVG paths. Points are merged to the resolution of the picture, which bounds the size of a path.
Pure."""

import itertools
from collections.abc import Sequence

import msgspec

from pilothouse.simulate.recording import Rates, Steps
from pilothouse.simulate.report.axis import Axis

_PEAK = 1.2
"""Width in pixels of a peak within one column."""


class Column(msgspec.Struct, frozen=True):
    """Minimum, maximum and last value of a series within one column of the picture."""

    x: float
    low: float
    high: float
    last: float


class Scale(msgspec.Struct, frozen=True):
    """Maps values to pixels: 0 is at ``bottom``, ``most`` is ``height`` above it."""

    bottom: float
    height: float
    most: float

    def y(self, value: float) -> float:
        """The y coordinate of a value."""
        return round(self.bottom - min(value, self.most) / (self.most or 1) * self.height, 1)


def columns_of(steps: Steps, axis: Axis) -> list[Column]:
    """The columns with changes, in order. The value before the first point is 0."""
    columns: list[Column] = []
    for at, last, low, high in zip(steps.at, steps.last, steps.low, steps.high, strict=True):
        x = axis.column(at)
        if columns and columns[-1].x == x:
            last_column = columns[-1]
            columns[-1] = Column(x, min(last_column.low, low), max(last_column.high, high), last)
        else:
            columns.append(Column(x, low, high, last))
    return columns


def line_path(steps: Steps, axis: Axis, scale: Scale, *, until: float | None = None) -> str:
    """A step line. If a column has several values, the line covers their range."""
    columns = columns_of(steps, axis)
    if not columns:
        return ""
    parts = [f"M{columns[0].x:g} {scale.y(columns[0].last):g}"]
    y = scale.y(columns[0].last)
    for column in columns[1:]:
        parts.append(f"H{column.x:g}")
        low, high, last = scale.y(column.low), scale.y(column.high), scale.y(column.last)
        extremes = (high, low) if high != low else ()
        parts += [f"V{y_value:g}" for y_value in _without_repeats((y, *extremes, last))]
        y = last
    parts.append(f"H{axis.x(until if until is not None else axis.end):g}")
    return "".join(parts)


def _without_repeats(values: Sequence[float]) -> list[float]:
    return [value for previous, value in itertools.pairwise(values) if value != previous]


def area_path(steps: Steps, axis: Axis, scale: Scale) -> str:
    """The area below the maximum of each column, so that no peak is lost."""
    xs: list[float] = []
    values: list[float] = []
    for column in columns_of(steps, axis):
        if xs and xs[-1] > column.x:  # the end of the peak of the previous column
            xs.pop()
            values.pop()
        xs.append(column.x)
        values.append(max(column.high, column.last))
        if column.last < column.high:
            xs.append(column.x + _PEAK)
            values.append(column.last)
    return _band(xs, [0.0] * len(xs), values, axis, scale)


def stacked_paths(series: Sequence[Steps], axis: Axis, scale: Scale) -> list[str]:
    """Stacked areas."""
    values = [{column.x: column.last for column in columns_of(steps, axis)} for steps in series]
    xs = sorted({x for levels in values for x in levels})
    below = [0.0] * len(xs)
    paths = []
    for levels in values:
        above, value = [], 0.0
        for number, x in enumerate(xs):
            value = levels.get(x, value)
            above.append(below[number] + value)
        paths.append(_band(xs, below, above, axis, scale))
        below = above
    return paths


def _band(xs: list[float], below: list[float], above: list[float], axis: Axis, scale: Scale) -> str:
    """The area between two step lines, without parts of height 0."""
    parts: list[str] = []
    start = None
    ends = [*xs[1:], axis.right]
    for number in range(len(xs) + 1):
        empty = number == len(xs) or above[number] == below[number]
        if not empty and start is None:
            start = number
        if empty and start is not None:
            top = "".join(f"V{scale.y(above[i]):g}H{ends[i]:g}" for i in range(start, number))
            bottom = "".join(f"V{scale.y(below[i]):g}H{xs[i]:g}" for i in reversed(range(start, number)))
            parts.append(f"M{xs[start]:g} {scale.y(below[start]):g}{top}{bottom}Z")
            start = None
    return "".join(parts)


def rate_columns(rates: Rates, counts: Sequence[int], axis: Axis) -> list[tuple[float, float, float]]:
    """The x coordinate, width and rate per second of each bucket that is not empty. Buckets of one column are
    merged."""
    columns: list[tuple[float, float, float]] = []
    pending: tuple[int, float] | None = None
    """The first bucket that is not emitted yet, and the sum since then."""
    for number, count in enumerate(counts):
        first, total = pending or (number, 0.0)
        total += count
        begin, end = first * rates.width, (number + 1) * rates.width
        left, right = axis.column(begin), axis.column(end)
        if right - left < 1.5 and number + 1 < len(counts):
            pending = (first, total)
            continue
        pending = None
        if total:
            columns.append((left, max(1.5, right - left), total / (end - begin)))
    return columns


def rate_path(columns: Sequence[tuple[float, float, float]], scale: Scale) -> str:
    """Bars, at least one pixel high."""
    return "".join(
        f"M{x:g} {scale.bottom:g}V{min(scale.y(value), scale.bottom - 1):g}h{width:g}V{scale.bottom:g}Z"
        for x, width, value in columns
    )
