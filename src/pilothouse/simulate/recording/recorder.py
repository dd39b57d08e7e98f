"""``Recorder``: observes a simulation and records the data of its report.

It only uses the hooks of commits and requests. A change costs the decoding of one object, whatever the size of the
cluster.
"""

from typing import Any

import msgspec

from pilothouse.machinery.times import format_micro_time
from pilothouse.sim import Origin, Simulation
from pilothouse.sim.run_log import CURRENT
from pilothouse.simulate.readiness import TimesToReady, Wait
from pilothouse.simulate.recording import structs
from pilothouse.simulate.recording.clients import client_name
from pilothouse.simulate.recording.events import Events
from pilothouse.simulate.recording.nodes import Nodes
from pilothouse.simulate.recording.series import OTHERS, Durations, RateSeries, StepSeries
from pilothouse.simulate.recording.workloads import Workloads, Write
from pilothouse.storage import Change

MAX_MARKS = 1000
MAX_WRITERS = 300
MAX_CLIENTS = 300
MAX_QUEUES = 100
START, ALL = "start of the cluster", "all"
"""Client and resource of the writes before the recording, so that all writes of a run are counted."""
LONGEST_TEXT = 1000
LONGEST_WHY = 20_000
_COMMITS_BETWEEN_SAMPLES = 8
_SAMPLES_OF_A_RUN = 512
"""Minimum number of queue samples in a run with few writes; with more writes there are more samples."""
_FIRST = (
    *("batch/cronjobs", "apps/deployments", "apps/statefulsets", "apps/daemonsets", "apps/replicasets", "batch/jobs"),
    *("/replicationcontrollers", "apps/controllerrevisions", "policy/poddisruptionbudgets", "/nodes", "/pods"),
    "/events",
)
"""The order in which existing objects are read: owners before their objects."""
_COLUMNS = {"ADDED": 0, "MODIFIED": 1, "DELETED": 2}


class Recorder:
    """Records from its creation until ``finish``. Existing objects are read once."""

    def __init__(
        self,
        simulation: Simulation,
        *,
        name: str = "",
        seed: int = 0,
        variant: str = "",
        times: TimesToReady | None = None,
    ) -> None:
        """``name`` is the name of the scenario, ``variant`` the settings in which this run differs from others.
        ``times`` is shared with another observer of the run, which calls it for each write before the recorder."""
        self._simulation = simulation
        self._env = simulation.env
        self._names = {"name": name, "seed": seed, "variant": variant}
        self._began = self._env.monotonic()
        self._began_at = format_micro_time(self._env.now())
        self._zero = 0.0
        self._times = TimesToReady(simulation) if times is None else times
        self._is_shared = times is not None
        self._times.on_end.append(self._wait_ended)
        self._durations = Durations()
        self._workloads = Workloads()
        self._nodes = Nodes()
        self._events = Events(self._workloads)
        self._handlers = {**self._workloads.handlers, "/nodes": self._nodes.changed, "/events": self._events.changed}
        self._requests = RateSeries(most_names=MAX_CLIENTS)
        self._writes: dict[tuple[str, str], list[int]] = {}
        if simulation.log.writes:
            self._writes[START, ALL] = [simulation.log.writes, 0, 0]
        self._queues: dict[str, StepSeries] = {}
        self._unsampled = 0
        self._next_sample = 0.0
        self._marks: list[structs.Mark] = []
        self._more_marks = 0
        self._clients: dict[tuple[str, str], str] = {}
        self._read_existing()
        simulation.store.on_commit.append(self._committed)
        simulation.log.on_request.append(self._requested)

    @property
    def now(self) -> float:
        """Virtual seconds since the start of the run."""
        return self._env.monotonic() - self._began

    def begin_timeline(self) -> None:
        """The timeline starts now; times in the report are relative to it."""
        self._zero = self.now

    def mark(
        self,
        kind: str,
        text: str,
        object: str = "",  # noqa: A002  # as in ``Mark``
        *,
        why: str = "",
        at: float | None = None,
    ) -> None:
        """Add an ACTION, FAULT or VIOLATION to the time axis, now or ``at`` a time of the timeline. ``why`` is the
        explanation of a violation, formatted as a tree."""
        if len(self._marks) >= MAX_MARKS and kind != structs.VIOLATION:
            self._more_marks += 1
            return
        self._marks.append(
            structs.Mark(
                at=round(self.now if at is None else self._zero + at, 3),
                kind=kind,
                text=_short(text, LONGEST_TEXT),
                object=_short(object, LONGEST_TEXT),
                why=_short(why, LONGEST_WHY),
            )
        )

    def finish(self, *, failure: str = "") -> structs.Recording:
        """Stop, and return the recording. ``failure`` is the failure of the run, if any."""
        self._simulation.store.on_commit.remove(self._committed)
        self._simulation.log.on_request.remove(self._requested)
        self._times.on_end.remove(self._wait_ended)
        now = self.now
        for wait in self._times.waiting():
            self._wait_ended(wait)
        workloads, more_workloads = self._workloads.workloads(now)
        events, more_events = self._events.events()
        writes = [
            structs.Writes(
                client=client,
                resource=_group_resource(resource),
                created=counts[0],
                modified=counts[1],
                deleted=counts[2],
            )
            for (client, resource), counts in self._writes.items()
        ]
        names: dict[str, Any] = self._names
        return structs.Recording(
            **names,
            began=self._began_at,
            seconds=round(now, 3),
            zero=round(self._zero, 3),
            failure=failure,
            digest=self._simulation.log.digest,
            time_to_ready=self._durations.percentiles(),
            workloads=workloads,
            more_workloads=more_workloads,
            nodes=self._nodes.nodes(),
            node_states=self._nodes.states(),
            requests=self._requests.rates(),
            queues={name: steps for name, series in sorted(self._queues.items()) if (steps := series.steps()).most},
            events=events,
            more_events=more_events,
            event_rates=self._events.rates(),
            marks=sorted(self._marks, key=lambda mark: mark.at),
            more_marks=self._more_marks,
            writes=sorted(writes, key=lambda write: (-write.total, write.client, write.resource)),
        )

    # Hooks

    def _wait_ended(self, wait: Wait) -> None:
        self._durations.add(wait.seconds)
        self._workloads.pod_waited(wait.key, wait.seconds, was_ready=wait.was_ready)

    def _read_existing(self) -> None:
        for resource in _FIRST:
            for record in self._simulation.store.list(f"{resource}/").records:
                self._handlers[resource](Write(0.0, record.key, "ADDED", record.value, "", False, False))

    def _committed(self, changes: list[Change]) -> None:
        origin = CURRENT.get()
        client = self._client(origin)
        at = self.now
        evicts = origin is not None and origin.call.subresource == "eviction"
        for change in changes:
            key = change.key
            resource = key[: key.index("/", key.index("/") + 1)]
            self._count_write(client, resource, change.type)
            if resource == "/pods" and not self._is_shared:
                self._times.committed(change)
            handler = self._handlers.get(resource)
            if handler is not None:
                handler(Write(at, key, change.type, change.value, client, evicts, True))
        self._unsampled += 1
        if self._unsampled >= _COMMITS_BETWEEN_SAMPLES or at >= self._next_sample:
            self._sample_queues(at)

    def _requested(self, origin: Origin) -> None:
        self._requests.add(self.now, f"{self._client(origin)} {origin.call.verb}")

    def _client(self, origin: Origin | None) -> str:
        if origin is None:
            return client_name(None)
        key = (origin.program, origin.controller)
        client = self._clients.get(key)
        if client is None:
            client = self._clients[key] = client_name(origin)
        return client

    def _count_write(self, client: str, resource: str, type_: str) -> None:
        key = (client, resource)
        counts = self._writes.get(key)
        if counts is None:
            if len(self._writes) >= MAX_WRITERS:
                key = (OTHERS, OTHERS)
            counts = self._writes.setdefault(key, [0, 0, 0])
        counts[_COLUMNS[type_]] += 1

    def _sample_queues(self, at: float) -> None:
        """Record the depths of the manager's queues. Only sampled at commits: a timer would change the order of events
        that are due at the same instant."""
        self._unsampled = 0
        self._next_sample = at + at / _SAMPLES_OF_A_RUN
        process = self._simulation.process
        manager = process.manager if process is not None else None
        if manager is None:
            return
        for controller in manager.controllers.values():
            for pool in getattr(controller, "pools", ()):
                depth = len(pool.queue)
                series = self._queues.get(pool.queue.name)
                if series is not None:
                    series.set(at, depth)
                elif depth and len(self._queues) < MAX_QUEUES:
                    series = self._queues[pool.queue.name] = StepSeries()
                    series.set(at, depth)


def _group_resource(stored: str) -> str:
    """``replicasets.apps`` for ``apps/replicasets``."""
    group, _slash, plural = stored.partition("/")
    return f"{plural}.{group}" if group and plural else plural or group


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


encode = msgspec.json.Encoder().encode
"""A recording as JSON."""
