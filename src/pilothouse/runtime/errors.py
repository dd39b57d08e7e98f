"""The exceptions by which a reconcile, or the start of a controller, determines how it is handled."""


class TerminalError(Exception):
    """A reconcile would fail again in the same way. It is logged and counted, and not retried until something
    changes."""


class RetryLater(Exception):  # a request, like Requeue, more than an error
    """A reconcile that could not be done yet, for a reason that is expected. It is not logged as an error, and retried
    with backoff, or after ``delay`` seconds: then it counts as no failure either."""

    def __init__(self, message: str = "", *, delay: float | None = None) -> None:
        super().__init__(message)
        self.delay = delay
        """Seconds until the next attempt; None for the queue's backoff."""


class CannotRun(Exception):
    """A controller cannot start in this cluster: the program exits with this message."""


class LostLease(RuntimeError):
    """A write was stopped because this process may no longer be the leader (``election.Fence``)."""
