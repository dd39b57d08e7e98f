"""Faults of nodes: silent, slow, gone, out of service. All writes of a node check them first.

They are set through ``NodeSimulator``, and by annotations through ``heartbeats``. A node that is *down* sends nothing:
its containers keep running (``silent``) or are lost with the machine (``gone``). A *slow* node sends everything with a
delay. Pressure is in ``eviction_manager``.
"""

from collections.abc import Callable

from pilothouse.env import Env


class Outages:
    """The faults of all nodes. ``on_change`` is called with a node's name after each change."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._silent: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._slow: dict[str, float] = {}
        self._late: dict[str, dict[str, float]] = {}
        self._serviceless: set[str] = set()
        self._lost: set[str] = set()
        self._boots: dict[str, int] = {}
        self.on_change: list[Callable[[str], None]] = []

    def is_down(self, node: str) -> bool:
        """Whether the node sends nothing."""
        return node in self._silent or node in self._gone

    def is_gone(self, node: str) -> bool:
        """Whether the machine is away, and its containers with it."""
        return node in self._gone

    def silence(self, node: str) -> None:
        """The node sends nothing any more; its containers run on."""
        if node not in self._silent:
            self._silent[node] = self._env.monotonic()
            self._changed(node)

    def remove(self, node: str) -> None:
        """The machine is away."""
        if node not in self._gone:
            self._gone[node] = self._env.monotonic()
            self._changed(node)

    def slow(self, node: str, seconds: float) -> None:
        """Delay everything that the node sends; 0 ends that."""
        if self._slow.get(node, 0.0) != seconds:
            self._slow[node] = seconds
            if not seconds:
                del self._slow[node]
            self._late.pop(node, None)
            self._changed(node)

    def take_out_of_service(self, node: str) -> None:
        """The node is silent and tainted as out of service."""
        if node not in self._serviceless:
            self._serviceless.add(node)
            self._silent.setdefault(node, self._env.monotonic())
            self._changed(node)

    def is_out_of_service(self, node: str) -> bool:
        """Whether the node is out of service."""
        return node in self._serviceless

    def boots(self, node: str) -> int:
        """How often the node has rebooted."""
        return self._boots.get(node, 0)

    def restore(self, node: str, *, containers: bool) -> None:
        """The node is back. ``containers``: they have kept running; otherwise it has rebooted."""
        was_vanished = self._gone.pop(node, None) is not None
        was_silent = self._silent.pop(node, None) is not None
        self._slow.pop(node, None)
        self._late.pop(node, None)
        self._serviceless.discard(node)
        if was_vanished or not containers:
            self._lost.add(node)
            self._boots[node] = self.boots(node) + 1
        if was_vanished or was_silent or not containers:
            self._changed(node)

    def take_lost(self, node: str) -> bool:
        """Whether the node has lost its containers since the last call."""
        if node in self._lost:
            self._lost.discard(node)
            return True
        return False

    def is_slow(self, node: str) -> bool:
        """Whether the node's requests are delayed."""
        return node in self._slow

    def lateness(self, node: str, subject: str) -> float:
        """The seconds that the node must wait before it sends ``subject``; 0.0 if it may send it.

        The caller checks again after that time. After a result of 0.0 the next request is delayed again.
        """
        seconds = self._slow.get(node)
        if seconds is None:
            return 0.0
        now = self._env.monotonic()
        waiting = self._late.setdefault(node, {})
        due = waiting.setdefault(subject, now + seconds)
        if now < due:
            return due - now
        del waiting[subject]
        return 0.0

    def forget(self, node: str, subject: str) -> None:
        """Drop the delay of ``subject``, which was deleted."""
        waiting = self._late.get(node)
        if waiting is not None:
            waiting.pop(subject, None)

    def _changed(self, node: str) -> None:
        for record_event in self.on_change:
            record_event(node)
