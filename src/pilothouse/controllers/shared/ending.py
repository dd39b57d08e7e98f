"""Keys of owners whose namespace is going away: gathered for a second, not synced with every event.

Stands between the handlers of pods (``pod_events``) and the work queue of a controller that makes pods. The controller
says of which owners it knows.
"""

from typing import Protocol

GATHER_SECONDS = 1.0
"""As long as the Job controller gathers changes of pods (``SyncJobBatchPeriod``, v1.36 job_controller.go)."""


class Enqueuer(Protocol):
    """Where keys go: the work queue, or something that holds them back a little."""

    def add(self, key: str) -> None:
        """Have the key synced."""
        ...

    def add_after(self, key: str, delay: float) -> None:
        """Have it synced in so many seconds."""
        ...


class EndingOwners:
    """A queue that holds the keys of such owners back. Of two times for one key the queue keeps the earlier.

    Pods are the first to leave a namespace (KEP-5080), one by one. Each of them enqueues its owner, which can make no
    other and has only new numbers to report, of which the owner's owner makes new numbers in turn; then all of them
    go. Upstream reports as often as it can. Once a second is enough for those who watch a namespace that is slow to go.
    """

    def __init__(self, queue: Enqueuer) -> None:
        self._queue = queue
        self._ending: set[str] = set()  # never iterated

    def refused(self, key: str) -> None:
        """The server would not make a pod for this owner because its namespace goes away, which nothing can stop."""
        self._ending.add(key)

    def forget(self, key: str) -> None:
        """The owner is gone. Another one of its name lives in another namespace of that name."""
        self._ending.discard(key)

    def add(self, key: str) -> None:
        """Have the key synced."""
        if key in self._ending:
            self._queue.add_after(key, GATHER_SECONDS)
        else:
            self._queue.add(key)

    def add_after(self, key: str, delay: float) -> None:
        """Have it synced in so many seconds."""
        self._queue.add_after(key, delay)
