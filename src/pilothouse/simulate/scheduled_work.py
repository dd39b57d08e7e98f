"""Writes of a cluster apart from what CronJobs and Jobs do on their schedule, which never ends.

``ScheduledObjects`` recognizes it, for the log of a run. ``ScheduledWork`` observes the writes of a simulation; ``run``
and ``drain_preview`` ask it when the rest of the cluster is quiet.
"""

from collections import Counter
from collections.abc import Collection

import msgspec

from pilothouse.client.request_info import RequestInfo
from pilothouse.sim import Simulation
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.run_log import Origin
from pilothouse.sim.simulation import is_heartbeat
from pilothouse.storage import Change

CRON_JOBS = "batch/cronjobs/"
JOBS = "batch/jobs/"
_SCHEDULER = "scheduler"
EVENTS = "/events/"
_OWNED = (JOBS, "/pods/", "/persistentvolumeclaims/")
_QUOTAS = "/resourcequotas/"
"""Their status counts the objects of Jobs, too. It is written only after something else has been."""


class _Reference(msgspec.Struct, frozen=True):
    uid: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    owner_references: tuple[_Reference, ...] = ()


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta = _Meta()
    involved_object: _Reference = _Reference()


_decode = msgspec.json.Decoder(_Object).decode


class ScheduledObjects:
    """The scheduled work of a cluster: the ``roots`` (CronJobs, and perhaps all Jobs), the objects that they own,
    directly or not, and the Events about these."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._uids: set[str] = set()
        self._keys: set[str] = set()
        self._last: tuple[Change, bool] | None = None

    def follow(self, simulation: Simulation) -> None:
        """Start with the existing objects."""
        for prefix in dict.fromkeys((*self._roots, *_OWNED)):
            for record in simulation.store.list(prefix).records:
                self._includes(record.key, record.value)

    @property
    def exist(self) -> bool:
        """Whether there are or were such objects."""
        return bool(self._uids)

    def includes(self, change: Change) -> bool:
        """Whether the written object is part of it. Has to be called with each write of such an object."""
        if self._last is None or self._last[0] is not change:
            self._last = change, self._includes(change.key, change.value)
        return self._last[1]

    def includes_request(self, call: RequestInfo, body: bytes) -> bool:
        """Whether a request concerns such an object: by its key, or for a new one by its owners in the body."""
        if not self._uids:
            return False
        if call.name:
            return f"{call.group}/{call.resource}/{call.namespace}/{call.name}" in self._keys
        try:
            return call.verb == "create" and self._is_dependent(_decode(body))
        except msgspec.MsgspecError:  # the server rejects it, and the log says so
            return False

    def includes_any(self, prefix: str, keys: Collection[str] | None) -> bool:
        """Whether any object of a resource, or one with these keys, is part of it."""
        if keys is None:
            return any(key.startswith(prefix) for key in self._keys)
        return any(f"{prefix}{key}" in self._keys for key in keys)

    def _includes(self, key: str, value: bytes) -> bool:
        is_root = key.startswith(self._roots)
        if not is_root and not self._uids:
            return False  # as in most scenarios, which thus decode nothing
        obj = _decode(value)
        if is_root or self._is_dependent(obj):
            self._uids.add(obj.metadata.uid)
            self._keys.add(key)
            return True
        return obj.metadata.uid in self._uids

    def _is_dependent(self, obj: _Object) -> bool:
        """Whether the object is owned by scheduled work, or an Event about it."""
        references = (*obj.metadata.owner_references, obj.involved_object)
        return any(reference.uid in self._uids for reference in references)


class ScheduledWork(Invariant):
    """The time of the last write that is not scheduled work, and what was written recently.

    Heartbeats are not counted either, nor the status of ResourceQuotas, nor the scheduler's Events: it tries a pod that
    stays pending every five minutes, and an attempt that changes something writes the pod, too.
    """

    def __init__(self, objects: ScheduledObjects) -> None:
        self._objects = objects
        self._simulation: Simulation | None = None
        self._recent: Counter[str] = Counter()
        self.last_other_write = 0.0
        """In loop time."""

    def follow(self, simulation: Simulation) -> None:
        """Start with the existing objects."""
        self._objects.follow(simulation)
        self._simulation = simulation
        self.last_other_write = simulation.last_write

    def committed(self, change: Change, origin: Origin | None) -> None:
        """An object was written."""
        if self._simulation is None or is_heartbeat(change):
            return
        if change.key.startswith(_QUOTAS) or self._objects.includes(change):
            return
        if change.key.startswith(EVENTS) and origin is not None and origin.program.partition("#")[0] == _SCHEDULER:
            return
        self.last_other_write = self._simulation.env.monotonic()
        self._recent[f"{change.key} by {origin.program.partition('#')[0] if origin else 'the API server'}"] += 1

    def recent(self) -> list[tuple[str, int]]:
        """The most frequent other writes since the last call, with their number."""
        recent, self._recent = self._recent, Counter()
        return recent.most_common(3)
