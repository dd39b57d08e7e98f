"""The pods that wait for a place.

A pod is in one of these states:

* *active*: to be decided next; higher priority first, then in the order of arrival.
* *taken*: ``get`` handed it out, and what was decided is being carried out.
* *refused*: it fits nowhere, and is being told so. A wake that comes meanwhile is not lost, it is remembered until
  ``park`` (upstream's in-flight events).
* *parked*: it fits nowhere, and knows. ``wake`` takes it out when something happened that could help.
* *resting*: tried again when its backoff is over. A parked pod that was woken before that is taken earlier if nothing
  else waits (``SchedulerPopFromBackoffQ``, on since 1.33); one whose attempt failed for other reasons is not.

Follows kube-scheduler v1.36 ``pkg/scheduler/backend/queue``. Everything happens on the loop, in the order of the calls.
"""

import asyncio
import heapq
from collections.abc import Callable
from enum import Enum, auto

from pilothouse.env import Env
from pilothouse.scheduler.wish import Wish

BACKOFF_SECONDS = (1.0, 10.0)
"""First and longest pause between two attempts (``podInitialBackoffSeconds``, ``podMaxBackoffSeconds``)."""
PARKED_SECONDS = 300.0
"""A pod that nothing has woken is tried again after this long all the same (``podMaxInUnschedulablePodsDuration``)."""


class _State(Enum):
    ACTIVE = auto()
    TAKEN = auto()
    REFUSED = auto()
    PARKED = auto()
    RESTING = auto()


_OUT = (_State.TAKEN, _State.REFUSED)


class Entry:
    """One pod in the queue, by key and uid. ``wish`` and ``rejected`` are for whoever takes it."""

    __slots__ = (
        "attempts", "backoff_until", "key", "parked_at", "priority", "rejected", "state", "ticket", "uid", "wish",
        "woken",
    )  # fmt: skip

    def __init__(self, key: str, uid: str, priority: int) -> None:
        self.key = key
        self.uid = uid
        self.priority = priority
        self.attempts = 0
        self.state = _State.ACTIVE
        self.woken = False
        self.wish: Wish | None = None
        self.rejected: frozenset[str] = frozenset()
        """Which filters refused it the last time."""
        self.parked_at = 0.0
        self.backoff_until = 0.0
        self.ticket = 0


_Item = tuple[float, int, Entry]
"""In a heap: priority or time, ticket, entry."""


class PodQueue:
    """See the module. Create it on the running loop."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._entries: dict[str, Entry] = {}
        self._waiting: dict[str, Entry] = {}
        """The refused and the parked: those that an event may help."""
        self._afar: dict[str, Entry] = {}
        """Those of them whom pods on any node may help."""
        # Entries leave their state without leaving the heap: what is stale is skipped, by state and ticket.
        self._active: list[_Item] = []
        self._resting: list[_Item] = []
        self._early: list[_Item] = []
        self._tickets = 0
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """How many pods it knows, whatever their state."""
        return len(self._entries)

    def put(self, key: str, uid: str, priority: int) -> None:
        """The pod needs a place, or changed so that it may find one now."""
        entry = self._entries.get(key)
        if entry is None or entry.uid != uid:
            self._wait_no_more(key)
            entry = self._entries[key] = Entry(key, uid, priority)
            self._activate(entry)
            return
        entry.priority = priority
        if entry.state in _OUT:
            entry.woken = True
        elif entry.state is _State.PARKED:
            self._rouse(entry)

    def discard(self, key: str) -> None:
        """The pod needs no place any more."""
        self._entries.pop(key, None)
        self._wait_no_more(key)

    def anybody_waits(self, *, afar: bool = False) -> bool:
        """Whether ``wake`` could find anybody."""
        return bool(self._afar if afar else self._waiting)

    def knows(self, key: str, uid: str) -> bool:
        """Whether this pod is here, in any state."""
        entry = self._entries.get(key)
        return entry is not None and entry.uid == uid

    async def get(self) -> Entry:
        """Wait for the next pod and take it. Then call ``retry``, ``discard``, or ``refuse`` and ``park``."""
        while True:
            entry = self._next()
            if entry is not None:
                entry.state = _State.TAKEN
                entry.woken = False
                entry.attempts += 1
                return entry
            self._waiter = asyncio.get_running_loop().create_future()
            timer = None
            if self._resting:
                timer = asyncio.get_running_loop().call_at(self._resting[0][0], self._notify)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()

    def refuse(self, entry: Entry, rejected: frozenset[str], *, afar: bool = False) -> None:
        """The pod that was taken fits nowhere. From now on events count for it; ``park`` it when it was told.

        ``afar``: what refused it may be healed by a pod on any node.
        """
        if self._entries.get(entry.key) is entry:
            entry.state = _State.REFUSED
            entry.rejected = rejected
            self._waiting[entry.key] = entry
            if afar:
                self._afar[entry.key] = entry

    def park(self, entry: Entry) -> None:
        """The pod that was refused waits from now on."""
        if self._entries.get(entry.key) is not entry:
            return
        entry.state = _State.PARKED
        entry.parked_at = self._env.monotonic()
        entry.backoff_until = entry.parked_at + self._backoff(entry)
        if entry.woken:
            self._rouse(entry)

    def retry(self, entry: Entry) -> None:
        """The attempt failed for a reason that has nothing to do with the nodes: again after the backoff."""
        if self._entries.get(entry.key) is entry:
            self._wait_no_more(entry.key)
            entry.state = _State.RESTING
            self._push(self._resting, self._env.monotonic() + self._backoff(entry), entry)
            self._notify()

    def wake(self, helps: Callable[[Entry], bool], *, afar: bool = False) -> None:
        """Something happened. Every waiting pod that it ``helps`` is tried again; ``afar`` asks only those."""
        for entry in list((self._afar if afar else self._waiting).values()):
            if entry.state is _State.PARKED:
                if helps(entry):
                    self._rouse(entry)
            elif not entry.woken:
                entry.woken = helps(entry)

    def wake_old(self) -> None:
        """Try pods again that nothing has woken for ``PARKED_SECONDS``, should a wake-up have been missed."""
        limit = self._env.monotonic() - PARKED_SECONDS
        for entry in list(self._waiting.values()):
            if entry.state is _State.PARKED and entry.parked_at <= limit:
                self._rouse(entry)

    def _wait_no_more(self, key: str) -> None:
        self._waiting.pop(key, None)
        self._afar.pop(key, None)

    def _rouse(self, entry: Entry) -> None:
        self._wait_no_more(entry.key)
        if entry.backoff_until <= self._env.monotonic():
            self._activate(entry)
        else:
            entry.state = _State.RESTING
            self._push(self._early, entry.backoff_until, entry)
            self._notify()

    def _activate(self, entry: Entry) -> None:
        entry.state = _State.ACTIVE
        self._push(self._active, -entry.priority, entry)
        self._notify()

    def _push(self, heap: list[_Item], order: float, entry: Entry) -> None:
        self._tickets += 1
        entry.ticket = self._tickets
        heapq.heappush(heap, (order, self._tickets, entry))

    def _next(self) -> Entry | None:
        now = self._env.monotonic()
        for heap in (self._resting, self._early):
            while heap and (heap[0][0] <= now or self._is_stale(heap[0])):
                item = heapq.heappop(heap)
                if not self._is_stale(item):
                    self._activate(item[2])
        for heap in (self._active, self._early):
            while heap:
                item = heapq.heappop(heap)
                if not self._is_stale(item):
                    return item[2]
        return None

    def _is_stale(self, item: _Item) -> bool:
        _order, ticket, entry = item
        return entry.ticket != ticket or entry.state in _OUT or self._entries.get(entry.key) is not entry

    def _backoff(self, entry: Entry) -> float:
        """1 s after the first attempt, 2 s after the second, then 4, 8 and 10 s."""
        first, longest = BACKOFF_SECONDS
        return float(min(first * 2.0 ** min(entry.attempts - 1, 30), longest))

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
