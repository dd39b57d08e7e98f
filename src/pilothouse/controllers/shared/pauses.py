"""The pause of a periodic loop."""

LEAST_SECONDS = 1.0


def pause(period: float) -> float:
    """The period of a flag, or a second if it is 0 or less. Upstream's ``wait.Until`` would not pause then; on one
    event loop nothing else would run."""
    return period if period > 0 else LEAST_SECONDS
