"""The timeline of a run: entries at fixed times, periodically, or when a condition becomes true; random faults."""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from pilothouse.env import TaskGroup
from pilothouse.sim import Simulation
from pilothouse.simulate.actions.administrator import ActionError, ObjectsRejected
from pilothouse.simulate.actions.perform import Actions
from pilothouse.simulate.drawn import Drawn, NodeOutage, PodCrash
from pilothouse.simulate.expectations import Expectations
from pilothouse.simulate.result import Failure
from pilothouse.simulate.scenario import Scenario, actions
from pilothouse.simulate.scenario.scalars import shown_seconds

_LASTING = ("drain", "load", "nodes", "manager", "program", "api_server")
"""Actions with a duration. Expectations after one are checked from its start on."""
_OUTAGES = {"silent": "goes silent", "slow": "becomes slow", "vanished": "vanishes", "rebooted": "reboots"}
_NAMED = 3
"""Maximum number of obstacles in a message."""
Mark = Callable[[str, str], object]
"""Kind (``action``, ``fault``) and text of an event of the run."""


class Timeline:
    """Performs the selected entries and faults."""

    def __init__(
        self,
        simulation: Simulation,
        scenario: Scenario,
        expectations: Expectations,
        *,
        mark: Mark,
        on_failure: Callable[[Failure], None],
    ) -> None:
        self._simulation = simulation
        self._scenario = scenario
        self._expectations = expectations
        self._mark = mark
        self._on_failure = on_failure
        self._began = 0.0
        self._performing = 0
        self._pending = 0
        """Entries and faults that have not started, without entries with a condition."""
        self.ended_at = 0.0
        """When the last action or fault has ended, in loop time."""
        self.actions = Actions(simulation, scenario)
        self.seconds: dict[str, float] = {}
        """By name of an entry: its duration, the longest of several."""
        self._unmet: dict[int, actions.Entry] = {}
        """Entries whose conditions have not been true."""
        self._active = Counter[int]()
        """Running entries, by number."""

    @property
    def is_over(self) -> bool:
        """Whether no action is running or pending, except for entries with a condition."""
        return not self._pending and not self._performing

    def notices(self) -> Iterator[str]:
        """Notices about entries that never started."""
        for number, entry in self._unmet.items():
            path = f"spec.timeline[{number}]"
            name = f'the entry "{entry.name}"' if entry.name else f"{self._scenario.where(path)}: the entry"
            yield f"{name} never began: its condition (when) never held"

    def unfinished(self, *, blocked: bool = False) -> Iterator[str]:
        """Entries that have started and not finished, each with the reason; ``blocked``: only those with a known
        reason. Others may be intended to last as long as the run."""
        for number in +self._active:
            obstacles = self.actions.obstacles(number)
            if blocked and not obstacles:
                continue
            more = [f"{len(obstacles) - _NAMED} more"] if len(obstacles) > _NAMED else []
            yield ": ".join(
                filter(None, (f"{self._title(number)}: not finished", "; ".join([*obstacles[:_NAMED], *more])))
            )

    def _title(self, number: int) -> str:
        entry = self._scenario.spec.timeline[number]
        return entry.name or f"{self._scenario.where(f'spec.timeline[{number}]')}: {action_text(entry)}"

    def start(self, group: TaskGroup, entries: Sequence[int], faults: Sequence[Drawn]) -> None:
        """Start. ``entries`` are the numbers of the entries that are not left out."""
        self._began = self._simulation.env.monotonic()
        for number in entries:
            entry = self._scenario.spec.timeline[number]
            if entry.when is None:
                self._pending += 1
            group.start(self._entry(group, number, entry), name=f"entry {number}")
        for fault in faults:
            self._pending += 1
            group.start(self._fault(fault), name=str(fault))

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, self._began + at - self._simulation.env.monotonic()))

    async def _entry(self, group: TaskGroup, number: int, entry: actions.Entry) -> None:
        if entry.when is not None:
            self._unmet[number] = entry
        await self._until(entry.at or 0.0)
        if entry.when is not None:
            self._expectations.when(
                number, lambda: group.start(self._after_condition(number, entry), name=f"entry {number}")
            )
            return
        if entry.every is None:
            self._pending -= 1
            await self._perform(number, entry)
            return
        first = self._simulation.env.monotonic() - self._began + (entry.every if entry.at is None else 0.0)
        times = 0
        while entry.until is None or first + times * entry.every <= entry.until:
            await self._until(first + times * entry.every)
            # An action that takes longer than its period runs in parallel with the next one.
            group.start(self._perform(number, entry), name=f"entry {number}")
            times += 1
        self._pending -= 1

    async def _after_condition(self, number: int, entry: actions.Entry) -> None:
        self._unmet.pop(number, None)
        self._performing += 1
        await asyncio.sleep(entry.delay)
        self._performing -= 1
        await self._perform(number, entry)

    async def _perform(self, number: int, entry: actions.Entry) -> None:
        text = action_text(entry)
        self._simulation.log.record(f"ACTION {text}")
        self._mark("action", f"{entry.name}: {text}" if entry.name else text)
        self._performing += 1
        self._active[number] += 1
        try:
            started_at = self._simulation.env.monotonic()
            active = self._expectations.true_expectations(entry.name) if entry.name else frozenset[str]()
            if entry.name and entry.action in _LASTING:
                self._expectations.start_entry(entry.name, started_at, active)
            await self.actions.perform(number)
            if getattr(getattr(entry, entry.action), "for_", None):
                self._mark("action", f"end of {entry.name or text}")
            if entry.name:
                if entry.action not in _LASTING:
                    # A state from before the response is not an effect of the action.
                    self._expectations.start_entry(entry.name, started_at, active)
                took = round(self._simulation.env.monotonic() - started_at, 3)
                self.seconds[entry.name] = max(self.seconds.get(entry.name, 0.0), took)
        except ActionError as error:
            path = f"spec.timeline[{number}]"
            at = self._simulation.env.monotonic() - self._began
            name = entry.name or path.removeprefix("spec.")
            message = f"{self._scenario.where(path)}: {self._reason(error, entry)}"
            self._on_failure(Failure(kind="action", name=name, message=message, at=at))
        finally:
            self._end()
            self._active[number] -= 1

    def _reason(self, error: ActionError, entry: actions.Entry) -> str:
        """The reason for the failure; of objects also their places."""
        if not isinstance(error, ObjectsRejected) or entry.apply is None:
            return str(error)
        applied = entry.apply if isinstance(entry.apply, tuple) else (entry.apply,)
        return "; ".join(error.messages(lambda document: self._scenario.position_of(applied, document)))

    async def _fault(self, fault: Drawn) -> None:
        await self._until(fault.at)
        self._pending -= 1
        self._simulation.log.record(f"FAULT {fault}")
        self._mark("fault", fault_text(fault))
        self._performing += 1
        try:
            match fault:
                case NodeOutage():
                    await self._node_outage(fault)
                case PodCrash(share=share):
                    self._crash_pod(share)
                case _:
                    await self._simulation.inject(fault)
        finally:
            self._end()

    def _end(self) -> None:
        self._performing -= 1
        self.ended_at = self._simulation.env.monotonic()

    async def _node_outage(self, fault: NodeOutage) -> None:
        nodes = self.actions.nodes.simulator
        self._simulation.note_fault(fault.node, f"{_OUTAGES[fault.failure]}, a random fault of spec.faults")
        match fault.failure:
            case "silent":
                nodes.silence(fault.node)
            case "slow":
                nodes.slow(fault.node, 5.0)
            case "vanished":
                nodes.vanish(fault.node)
            case "rebooted":
                nodes.revive(fault.node, pods=False)
                return
        await asyncio.sleep(fault.seconds)
        self._simulation.note_fault(fault.node, "is as before, end of a random fault")
        nodes.revive(fault.node)

    def _crash_pod(self, share: float) -> None:
        keys = [record.key.removeprefix("/pods/") for record in self._simulation.store.list("/pods/").records]
        while keys:
            namespace, _slash, name = keys.pop(int(share * len(keys))).partition("/")
            if self.actions.nodes.simulator.crash(namespace, name):
                return


def entry_text(entry: actions.Entry) -> str:
    """The time and the action of an entry, in one line."""
    if entry.when is not None:
        when = f"when {' '.join(entry.when.split())[:80]}"
    elif entry.every is not None:
        when = f"every {entry.every}"
    else:
        when = f"at {entry.at}"
    name = f"{entry.name}: " if entry.name else ""
    return f"{when}: {name}{action_text(entry)}"


def action_text(entry: actions.Entry) -> str:
    """The action of an entry, in one line."""
    action: Any = getattr(entry, entry.action)
    words = entry.action.replace("_", " ")
    if isinstance(action, str | dict | tuple):
        return f"{words} {_manifests(action)}"
    fields = {
        field.encode_name: value
        for field in msgspec.structs.fields(action)
        if (value := getattr(action, field.name)) not in (None, False, "", (), {}, []) and value != field.default
    }
    subject = ""
    if isinstance(action, actions.Target | actions.Delete | actions.NodeSelection | actions.PodSelection):
        subject = str(action)
        fields_shown = {"namespace", "object", "selector", "name", "names", "group", "zone", "count", "node"}
        fields_shown |= {"deployment", "statefulSet", "daemonSet", "replicaSet", "job", "cronJob"}
        fields = {key: value for key, value in fields.items() if key not in fields_shown}
    details = " ".join(_detail(key, value) for key, value in fields.items())
    return " ".join(filter(None, (words, subject, details)))


def _detail(key: str, value: object) -> str:
    if value is True:
        return key
    if isinstance(value, tuple | list) and any(isinstance(item, msgspec.Struct) for item in value):
        return f"{len(value)} {key}"
    text = str(value) if isinstance(value, str | int | float) else msgspec.json.encode(value, enc_hook=str).decode()
    return f"{key} {text[:120]}"


def _manifests(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"{str(value.get('kind', 'object')).lower()}/{(value.get('metadata') or {}).get('name', '')}"
    return ", ".join(map(_manifests, value))


@functools.lru_cache(maxsize=1024)
def fault_text(fault: Drawn) -> str:
    """A random fault, in one line."""
    if isinstance(fault, NodeOutage | PodCrash):
        return f"at {shown_seconds(fault.at)}: {fault}"
    fields = {
        field.name: value
        for field in msgspec.structs.fields(fault)
        if field.name != "at" and (value := getattr(fault, field.name)) not in ("", False, None)
    }
    name = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in type(fault).__name__).strip()
    return f"at {shown_seconds(fault.at)}: {name} " + " ".join(_detail(key, value) for key, value in fields.items())
