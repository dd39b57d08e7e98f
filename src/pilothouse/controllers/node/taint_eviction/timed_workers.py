"""The scheduled deletions, by pod.

An entry is pending, due (the deletion is in progress or must be retried), or done. A done one is kept until its pod is
gone, so that the pod is not deleted again with every event. It belongs to a uid: with the name only, the next pod with
that name would never be evicted, as in older releases of upstream (kubernetes#107543).
"""

from enum import Enum

from pilothouse.api.core import Taint
from pilothouse.machinery.causes import current_triggers
from pilothouse.runtime import WorkQueue


class State(Enum):
    WAITING = "waiting"
    DUE = "due"
    DONE = "done"


class Entry:
    __slots__ = ("announced", "at", "decided", "made_at", "node", "state", "taints", "triggers", "uid")

    def __init__(
        self,
        uid: str,
        node: str,
        taints: tuple[Taint, ...],
        at: float,
        created_at: float,
        decided: int,
        *,
        immediate: bool,
    ) -> None:
        self.uid = uid
        self.node = node
        self.taints = taints
        """The node's NoExecute taints when it was last synced."""
        self.at = at
        self.made_at = created_at
        self.decided = decided
        """``LiveNodes.moment`` of the sync that made the last decision."""
        self.state = State.DUE if immediate else State.WAITING
        self.announced = False
        self.triggers = current_triggers()
        """Of the sync that made the decision."""


class TimedWorkers:
    """Deletions by pod key. ``queue`` returns a key when its time has come, or when a failed deletion is retried; the
    entry determines what happens then."""

    def __init__(self, queue: WorkQueue[str]) -> None:
        self.queue = queue
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def set(self, key: str, entry: Entry, now: float) -> None:
        """Schedule the deletion at the entry's time, replacing an earlier entry."""
        self._entries[key] = entry
        self.queue.forget(key)
        self.queue.add_after(key, entry.at - now)

    def drop(self, key: str) -> bool:
        """Cancel it. Whether it was still pending: then no event was recorded yet."""
        entry = self._entries.pop(key, None)
        return entry is not None and entry.state is State.WAITING
