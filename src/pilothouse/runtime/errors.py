"""The exceptions with which a reconcile, or the start of a controller, says how it wants to be treated."""


class TerminalError(Exception):
    """A reconcile that would fail the same way again. It is logged and counted, and not retried until something
    changes."""


class RetryLater(Exception):  # a request, like Requeue, more than an error
    """A reconcile that could not be done yet, for a reason that is expected. It is not logged as an error, and retried
    with backoff, or after ``delay`` seconds: then it counts as no failure either."""

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay
        """Seconds until the next attempt; None for backoff."""


class CannotRun(Exception):
    """A controller must not work on what it found when it was started: the program ends, and says this text."""


class LostLease(RuntimeError):
    """A write was stopped because this process may no longer be the leader (``election.Fence``)."""
