"""How long a failing key waits before its next try. Read by ``workqueue``; used by controllers to choose a policy.

Mirrors client-go v0.36 ``util/workqueue/default_rate_limiters.go``. Times are seconds.
"""

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from pilothouse.env import Env

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """The interface that a work queue uses."""

    def when(self, key: K_contra) -> float:
        """Count one more failure of ``key`` and return the seconds to wait."""
        ...

    def forget(self, key: K_contra) -> None:
        """Reset the failures of ``key``, which succeeded or was given up."""
        ...

    def num_requeues(self, key: K_contra) -> int:
        """How many failures of ``key`` are counted."""
        ...


class ExponentialFailureLimiter(Generic[K]):
    """``base * 2**n`` with n earlier failures of that key, at most ``maximum``. 5 ms: 5, 10, 20, 40 ms …"""

    def __init__(self, base: float, maximum: float) -> None:
        self._base = base
        self._maximum = maximum
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2.0**1024 overflows; far below that every base has reached its maximum.
        return min(self._base * 2.0 ** min(failures, 500), self._maximum)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        return self._failures.get(key, 0)


class BucketLimiter(Generic[K]):
    """One token bucket for all keys: ``rate`` tokens per second, ``burst`` at most. Every call reserves a token.

    With rate 10 and burst 100 the first hundred calls wait 0 s, the next ones 0.1 s, 0.2 s, …, unless tokens are
    refilled.
    """

    def __init__(self, env: Env, rate: float, burst: int) -> None:
        self._env = env
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at = 0.0

    def when(self, key: K) -> float:
        now = self._env.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._rate) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: K) -> None:
        return None

    def num_requeues(self, key: K) -> int:
        return 0


class FixedLimiter(Generic[K]):
    """The same time for every key, however often it failed: for controllers that sync everything once per ``period``.

    As ``FixedItemIntervalRateLimiter`` of the HPA controller (kubernetes v1.36).
    """

    def __init__(self, period: float) -> None:
        self._period = period

    def when(self, key: K) -> float:
        return self._period

    def forget(self, key: K) -> None:
        return None

    def num_requeues(self, key: K) -> int:
        return 1


class FastSlowLimiter(Generic[K]):
    """``fast`` for the first ``max_fast`` failures of a key, then ``slow``."""

    def __init__(self, fast: float, slow: float, max_fast: int) -> None:
        self._fast = fast
        self._slow = slow
        self._max_fast = max_fast
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return self._fast if failures <= self._max_fast else self._slow

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        return self._failures.get(key, 0)


class MaxOfLimiter(Generic[K]):
    """The longest delay of several limiters. All of them are called, so the state of all advances."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: K) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        return max(limiter.num_requeues(key) for limiter in self._limiters)


class MaxWaitLimiter(Generic[K]):
    """Another limiter, but never longer than ``maximum``."""

    def __init__(self, limiter: RateLimiter[K], maximum: float) -> None:
        self._limiter = limiter
        self._maximum = maximum

    def when(self, key: K) -> float:
        return min(self._limiter.when(key), self._maximum)

    def forget(self, key: K) -> None:
        self._limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        return self._limiter.num_requeues(key)


def default_controller_limiter(env: Env) -> RateLimiter[Hashable]:
    """Upstream's default: 5 ms doubling up to 1000 s per key, and ten keys per second after the first hundred."""
    return MaxOfLimiter[Hashable](ExponentialFailureLimiter(0.005, 1000.0), BucketLimiter(env, 10.0, 100))


def default_item_limiter() -> RateLimiter[Hashable]:
    """Upstream's item-based default: 1 ms doubling up to 1000 s per key, keys independent of each other."""
    return ExponentialFailureLimiter[Hashable](0.001, 1000.0)
