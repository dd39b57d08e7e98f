"""Samples of metrics, in milli-units."""

import datetime
from collections.abc import Mapping

import msgspec

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1


class MetricUnavailable(Exception):
    """A metric is not available now; the message has the reason."""


class Sample(msgspec.Struct, frozen=True):
    """The usage of one pod over ``window`` seconds up to ``at``."""

    value: int
    at: datetime.datetime | None = None
    window: float = 0.0


Samples = Mapping[str, Sample]
"""By the name of the pod."""


def quotient(total: int, count: int) -> int:
    """Go's integer division, which cuts towards zero: -7 / 2 is -3."""
    truncated = abs(total) // abs(count)
    return truncated if (total < 0) == (count < 0) else -truncated
