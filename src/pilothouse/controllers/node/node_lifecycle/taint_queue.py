"""The rate-limited queue of a zone's nodes to taint. Upstream: v1.36
``pkg/controller/nodelifecycle/scheduler/rate_limited_queue.go``."""


class TaintLimiter:
    """A token bucket of size 1. At rate 0 and below it is never refilled."""

    def __init__(self, rate: float, now: float, tokens: float = 1.0) -> None:
        self.rate = rate
        self._tokens = tokens
        self._at = now

    def try_accept(self, now: float) -> bool:
        self._tokens = min(1.0, self._tokens + (now - self._at) * max(self.rate, 0.0))
        self._at = now
        # Ten steps of 0.1 may be a little less than 1.
        if self._tokens < 1.0 - 1e-9:
            return False
        self._tokens = 0.0
        return True


class TaintQueue:
    """Node names, first in first out, each until it was processed. A processed name is not added again before it is
    removed: ``remove`` is for nodes that are ready again, or lost the taint."""

    def __init__(self, rate: float, now: float) -> None:
        self.limiter = TaintLimiter(rate, now)
        self._due: dict[str, float] = {}
        self._seen: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, name: str, now: float, *, force: bool = False) -> bool:
        """Enqueue the node. False if it is queued already, or was processed: ``force`` enqueues it all the same, when
        the taint is missing. A queued node keeps its position."""
        if name in self._due or (name in self._seen and not force):
            return False
        self._seen[name] = None
        self._due[name] = now
        return True

    def remove(self, name: str) -> None:
        """The node may be added again."""
        self._seen.pop(name, None)
        self._due.pop(name, None)

    def head(self, now: float) -> str | None:
        """The next node if a token is available, else None."""
        if not self._due:
            return None
        name = min(self._due, key=self._due.__getitem__)  # the first of equals
        return name if self._due[name] <= now else None

    def done(self, name: str) -> None:
        self._due.pop(name, None)

    def retry(self, name: str, at: float) -> None:
        """Process the node again, not before ``at``, unless it is removed in the meantime."""
        if name in self._due:
            self._due[name] = at

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate. Nodes that waited for a token wait for the first one of the new rate."""
        if rate == self.limiter.rate:
            return
        had_token = self.limiter.try_accept(now)
        self.limiter = TaintLimiter(rate, now, 1.0 if had_token and rate > 0 else 0.0)
