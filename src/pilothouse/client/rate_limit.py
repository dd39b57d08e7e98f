"""Upstream's client-side rate limit: a token bucket for all requests.

The arithmetic is that of ``golang.org/x/time/rate``, as client-go's ``flowcontrol.NewTokenBucketRateLimiter`` uses it:
a waiting request reserves its token immediately and sleeps until that is available, so requests continue in order.
"""

import asyncio

from pilothouse.env import Env, Log

_log = Log("client")


class RateLimiter:
    """``qps`` tokens a second, at most ``burst`` saved up; full at the start.

    Example: qps 20, burst 30. 31 requests at one instant: 30 leave immediately, the last one after 50 ms.
    """

    __slots__ = ("_env", "_last", "_said_at", "_tokens", "burst", "qps")

    def __init__(self, env: Env, qps: float, burst: int) -> None:
        if qps <= 0 or burst <= 0:
            raise ValueError(f"qps {qps} and burst {burst} must be above 0; leave the limiter out for no limit")
        self.qps = qps
        self.burst = burst
        self._env = env
        self._tokens = float(burst)
        self._last: float | None = None
        self._said_at: float | None = None

    def reserve(self) -> float:
        """Reserve a token. Returns the seconds until it is available."""
        now = self._env.monotonic()
        if self._last is not None:
            self._tokens = min(float(self.burst), self._tokens + (now - self._last) * self.qps)
        self._last = now
        self._tokens -= 1.0
        return -self._tokens / self.qps if self._tokens < 0 else 0.0

    async def acquire(self, operation: str, reason: str = "client-side throttling, not priority and fairness") -> float:
        """Wait for a token and take it. Returns the seconds waited. A cancelled wait returns its token."""
        delay = self.reserve()
        if delay <= 0:
            return 0.0
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self._tokens += 1.0
            raise
        self._log_throttling(delay, operation, reason)
        return delay

    def _log_throttling(self, delay: float, operation: str, reason: str) -> None:
        # client-go rest/request.go tryThrottleWithInfo (v0.36): over 50 ms at V(3), over 1 s at V(0), but then at most
        # every 10 s (otherwise V(2)).
        if delay <= 0.05:
            return
        v = 3
        if delay > 1.0:
            now = self._env.monotonic()
            v = 2
            if self._said_at is None or now - self._said_at >= 10.0:
                self._said_at = now
                v = 0
        _log.info("Waited before sending request", v=v, delay=f"{delay:.3f}s", reason=reason, request=operation)
