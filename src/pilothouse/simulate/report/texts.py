"""Formats numbers and times. Pure."""

import math

from pilothouse.simulate.scenario.scalars import shown_seconds


def seconds_text(seconds: float) -> str:
    """Three significant digits, or whole seconds: ``3.55s``, ``1m2s``, ``2h``, ``-30s``."""
    if not seconds:
        return "0s"
    sign, size = ("−" if seconds < 0 else ""), abs(seconds)
    if size < 0.001:
        return f"{sign}0s"
    digits = max(0, 2 - math.floor(math.log10(size)))
    rounded = round(size, digits if size < 60 else 0)
    if rounded >= 36_000:
        rounded = round(rounded / 60) * 60
    return sign + shown_seconds(rounded)


def number_text(number: float) -> str:
    """``1,234``; three significant digits below a hundred."""
    if number >= 100 or number == int(number):
        return f"{round(number):,}"
    return f"{number:.3g}"


def count_text(number: int, one: str, more: str = "") -> str:
    """``1 pod``, ``2,000 pods``."""
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"
