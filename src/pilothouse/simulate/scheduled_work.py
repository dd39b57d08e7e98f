"""Writes of a cluster apart from what CronJobs and Jobs do on their schedule, which never ends.

``ScheduledWork`` observes the writes of a simulation; ``run`` and ``drain_preview`` ask it when the rest of the cluster
is quiet.
"""

from collections import Counter

import msgspec

from pilothouse.sim import Simulation
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.run_log import Origin
from pilothouse.sim.simulation import is_heartbeat
from pilothouse.storage import Change

CRON_JOBS = "batch/cronjobs/"
JOBS = "batch/jobs/"
_SCHEDULER = "scheduler"
_EVENTS = "/events/"
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


class ScheduledWork(Invariant):
    """The time of the last write that is not scheduled work, and what was written recently.

    Scheduled work: the ``roots`` (CronJobs, and perhaps all Jobs), the objects that they own, directly or not, the
    Events about these, and the status of ResourceQuotas. Heartbeats are not counted either, nor the scheduler's Events:
    it tries a pod that stays pending every five minutes, and an attempt that changes something writes the pod, too.
    """

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self._uids: set[str] = set()
        self._simulation: Simulation | None = None
        self._recent: Counter[str] = Counter()
        self.last_other_write = 0.0
        """In loop time."""

    def follow(self, simulation: Simulation) -> None:
        """Start with the existing objects."""
        for prefix in dict.fromkeys((*self._roots, *_OWNED)):
            for record in simulation.store.list(prefix).records:
                self._is_scheduled(record.key, record.value)
        self._simulation = simulation
        self.last_other_write = simulation.last_write

    def committed(self, change: Change, origin: Origin | None) -> None:
        """An object was written."""
        if self._simulation is None or is_heartbeat(change) or self._is_scheduled(change.key, change.value):
            return
        if change.key.startswith(_EVENTS) and origin is not None and origin.program.partition("#")[0] == _SCHEDULER:
            return
        self.last_other_write = self._simulation.env.monotonic()
        self._recent[f"{change.key} by {origin.program.partition('#')[0] if origin else 'the API server'}"] += 1

    def recent(self) -> list[tuple[str, int]]:
        """The most frequent other writes since the last call, with their number."""
        recent, self._recent = self._recent, Counter()
        return recent.most_common(3)

    def _is_scheduled(self, key: str, value: bytes) -> bool:
        if key.startswith(_QUOTAS):
            return True
        is_root = key.startswith(self._roots)
        if not is_root and not self._uids:
            return False  # as in most scenarios, which thus decode nothing
        obj = _decode(value)
        meta = obj.metadata
        if is_root or any(owner.uid in self._uids for owner in meta.owner_references):
            self._uids.add(meta.uid)
            return True
        return meta.uid in self._uids or obj.involved_object.uid in self._uids
