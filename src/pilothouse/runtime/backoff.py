"""Backoff per key, independent of a work queue (client-go ``util/flowcontrol/backoff.go``).

Not the work queue's: a DaemonSet uses it per node for pods that keep failing.
"""

from pilothouse.env import Env


class _Entry:
    __slots__ = ("updated_at", "wait")

    def __init__(self, wait: float, updated_at: float) -> None:
        self.wait = wait
        self.updated_at = updated_at


class Backoff:
    """``initial`` seconds, doubled with each failure up to ``maximum``. An entry expires if it is not used for twice
    the maximum.

    ``jitter`` j adds up to j times the value, drawn from the stream named ``stream``.
    """

    def __init__(
        self, env: Env, initial: float, maximum: float, *, jitter: float = 0.0, stream: str = "backoff"
    ) -> None:
        self._env = env
        self._initial = initial
        self._maximum = maximum
        self._jitter = jitter
        self._stream = stream
        self._entries: dict[str, _Entry] = {}

    def get(self, key: str) -> float:
        """The current backoff in seconds, 0 if there is none."""
        entry = self._entries.get(key)
        return entry.wait if entry is not None else 0.0

    def next(self, key: str) -> None:
        """Move on: to the initial value first, or after a long rest, and to twice the value after that."""
        now = self._env.monotonic()
        entry = self._entries.get(key)
        if entry is None or self._expired(entry, now):
            self._entries[key] = _Entry(self._jittered(self._initial), now)
            return
        entry.wait = min(self._jittered(entry.wait * 2.0), self._maximum)
        entry.updated_at = now

    def is_in_backoff(self, key: str, since: float | None = None) -> bool:
        """Whether ``key`` must still wait: less than its value has passed since ``since``, or since the last ``next``.

        Times are loop times.
        """
        entry = self._entries.get(key)
        if entry is None:
            return False
        now = self._env.monotonic()
        start = entry.updated_at if since is None else since
        if self._expired(entry, now, since):
            return False
        return now - start < entry.wait

    def remaining(self, key: str) -> float:
        """Seconds until ``key`` may be tried again, counted from the last ``next``."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else max(0.0, entry.wait - (self._env.monotonic() - entry.updated_at))

    def reset(self, key: str) -> None:
        """Reset the backoff of a key."""
        self._entries.pop(key, None)

    def collect(self) -> None:
        """Remove expired entries (``GC``). Call it about once a minute."""
        now = self._env.monotonic()
        for key in [key for key, entry in self._entries.items() if self._expired(entry, now)]:
            del self._entries[key]

    def _jittered(self, wait: float) -> float:
        if self._jitter == 0.0:
            return wait
        return wait + self._env.stream(self._stream).random() * self._jitter * wait

    def _expired(self, entry: _Entry, now: float, since: float | None = None) -> bool:
        return now - (entry.updated_at if since is None else since) > 2.0 * self._maximum
