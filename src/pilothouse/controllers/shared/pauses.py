"""How long a loop pauses that runs again and again, as long as its controller does."""

LEAST_SECONDS = 1.0


def pause(period: float) -> float:
    """The period that a flag gives, or a second where it gives none.

    Upstream's ``wait.Until`` takes 0 and less for no pause at all: a loop that keeps a core busy and the API server
    with it. On one event loop nothing else would be done.
    """
    return period if period > 0 else LEAST_SECONDS
