"""The runs of ``explore``: one scenario with a seed and faults, drawn at random or one for each point of a run."""

import asyncio
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from pilothouse.env import Env, Log, virtual
from pilothouse.env.clock import SystemClock
from pilothouse.env.logging import info_log, without_log
from pilothouse.env.random_streams import RandomStreams
from pilothouse.operator.app import App
from pilothouse.operator.arguments import shown
from pilothouse.sim.faults import Fault, FaultPlan, draw_for_program
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.process import Program as SimulatedProgram
from pilothouse.sim.simulation import Simulation, SimulationOptions, running
from pilothouse.testing import mistakes
from pilothouse.testing.asynchronous import AsyncCluster
from pilothouse.testing.end_states import EndState, described, differences, end_state
from pilothouse.testing.patterns import Pattern, Reference, perturbations
from pilothouse.testing.snapshot import Snapshot
from pilothouse.testing.state import Check, CheckFailed, Checks, State
from pilothouse.testing.tracebacks import without_internals

T = TypeVar("T")
_PROGRESS_LINES = 20
_LONG_SECONDS = 60.0
PATTERN_SECONDS = 300.0
"""How long a run with a systematic fault continues after its scenario before the fault is ended."""
_OTHER_SEED = 1_000_003
"""Added to a seed for a second run without faults: differences between the two are random."""
_LINES = 60
_LOG = Log("explore")


class NotAsync(mistakes.InvalidType):
    """The scenario is no async function, which only its call shows."""


Scenario = Callable[[AsyncCluster], Coroutine[Any, Any, None]]
Numbered = tuple[int, Fault]


class Run(msgspec.Struct):
    seed: int
    faults: tuple[Numbered, ...]
    failure: BaseException | None
    digest: str
    writes: int
    log: str
    end: EndState | None = None
    retried_errors: tuple[str, ...] = ()
    """Objects whose syncs fail, and are retried, when the cluster is idle."""

    @property
    def kind(self) -> tuple[type[BaseException], str]:
        """The kind of a failure: subsets of faults that fail in another way do not count in shrinking."""
        assert self.failure is not None, "only what has failed has a kind"
        return type(self.failure), self.failure.check if isinstance(self.failure, CheckFailed) else ""


class Runner(ABC):
    """Runs one scenario, with any seed and faults."""

    needs_reference = False

    def __init__(
        self,
        program: SimulatedProgram,
        scenario: Scenario,
        invariants: tuple[Check | type[Invariant], ...],
        options: SimulationOptions,
    ) -> None:
        self.program = program
        self._scenario = scenario
        self._invariants = invariants
        self._options = options
        self.processes: list[App] = []
        """The apps of all processes of the current run, if the program is an app."""
        self.muted: set[str] = set()
        """Functions that do not fail a run any more."""
        self.checks = Checks([], self.muted)
        """Those of the current run."""

    @abstractmethod
    def plans(self, seed: int, only: frozenset[int] | None) -> Iterator[tuple[Numbered, ...]]:
        """The faults of each run of a seed; if only certain numbers are requested, of that run."""

    async def play(self, simulation: Simulation, faults: tuple[Numbered, ...]) -> None:
        """The scenario, under faults."""
        plan = FaultPlan(tuple(fault for _number, fault in faults))
        following = asyncio.get_running_loop().create_task(simulation.follow(plan), name="faults")
        await self._perform(AsyncCluster(simulation.plane, Snapshot(simulation.plane), client=simulation.user))
        await following
        await simulation.run_until_idle()

    async def _perform(self, cluster: AsyncCluster) -> None:
        """Raises ``NotAsync``."""
        scenario = self._scenario(cluster)
        if not inspect.isawaitable(scenario):
            name = shown(self._scenario)
            raise NotAsync(f"scenario must be an async function: declare it async def {name}(cluster)")
        await scenario

    def observers(self) -> list[Invariant]:
        """Further invariants of a run."""
        return []

    def run(self, seed: int, faults: tuple[Numbered, ...], *, logged: bool = False) -> Run:
        """One run. Failures of every kind are a part of its result."""
        simulations: list[Simulation] = []
        retried_errors: list[str] = []
        self.processes.clear()

        async def main(env: Env) -> None:
            checks = Checks(
                [invariant for invariant in self._invariants if not isinstance(invariant, type)], self.muted
            )
            self.checks = checks
            others = [invariant() for invariant in self._invariants if isinstance(invariant, type)]
            invariants = (checks, *others, *self.observers())
            async with running(env, self._options, invariants, self.program) as simulation:
                simulations.append(simulation)
                if logged:
                    simulation.log.follow(_LOG.info)
                checks.state = State(simulation)
                await self.play(simulation, faults)
                retried_errors.extend(line for app in self.processes for line in app.retried_errors())

        failure: BaseException | None = None
        with info_log() if logged else without_log():
            try:
                virtual.run(main, seed=seed)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what the run has found
                failure = error
                while isinstance(failure, BaseExceptionGroup):
                    failure = failure.exceptions[0]
        if not simulations or isinstance(failure, NotAsync):
            assert failure is not None, "a run without a cluster has failed"
            raise without_internals(failure)
        log = simulations[0].log
        errors = tuple(dict.fromkeys(retried_errors))
        return Run(seed, faults, failure, log.digest, log.writes, log.excerpt(_LINES), retried_errors=errors)


class RandomRunner(Runner):
    """One run for each seed, with faults that the seed determines."""

    def __init__(
        self,
        program: SimulatedProgram,
        scenario: Scenario,
        invariants: tuple[Check | type[Invariant], ...],
        options: SimulationOptions,
        drawing: tuple[float, int, tuple[str, ...]],
    ) -> None:
        super().__init__(program, scenario, invariants, options)
        self._drawing = drawing

    def plans(self, seed: int, only: frozenset[int] | None) -> Iterator[tuple[Numbered, ...]]:
        """The one plan of the seed."""
        seconds, count, resources = self._drawing
        rng = RandomStreams(seed).stream("faults")
        webhooks = self.program.webhooks is not None
        plan = draw_for_program(rng, seconds, count=count, resources=resources, webhooks=webhooks)
        yield selected(seed, tuple(enumerate(plan.faults)), only)


class PatternRunner(Runner):
    """A run without faults, and then one for each possible fault in it."""

    needs_reference = True

    def __init__(
        self,
        program: SimulatedProgram,
        scenario: Scenario,
        invariants: tuple[Check | type[Invariant], ...],
        options: SimulationOptions,
        patterns: tuple[Pattern, ...],
        *,
        same_end: bool,
        most_points: int,
    ) -> None:
        super().__init__(program, scenario, invariants, options)
        self._patterns = patterns
        self._most_points = most_points
        self._same_end = same_end
        self._recorder = Reference()
        self._expected: tuple[EndState, EndState] | None = None
        """The end states of the run without faults, and of one with another seed."""
        self._written: frozenset[str] = frozenset()
        self._end: EndState | None = None

    def plans(self, seed: int, only: frozenset[int] | None) -> Iterator[tuple[Numbered, ...]]:
        """No fault, then each fault alone."""
        self._expected = None
        clock = SystemClock()
        began = clock.timestamp()
        yield ()
        seconds = clock.timestamp() - began
        reference, ends = self._recorder, [self._end]
        self._written = frozenset(reference.written)
        if self._same_end and only != frozenset():
            began = clock.timestamp()
            self.run(seed + _OTHER_SEED, ())
            seconds = min(seconds, clock.timestamp() - began)  # the first run has also imported
            ends.append(self._end)
            if ends[0] is not None and ends[1] is not None:
                self._expected = ends[0], ends[1]
        points = tuple(enumerate(perturbations(reference, self._patterns)))
        chosen: Sequence[Numbered]
        if only is not None:
            chosen = selected(seed, points, only)
        else:
            chosen = spread(points, self._most_points)
            _say(f"seed {seed}: {announcement(len(chosen), len(points), len(chosen) * seconds, self._options)}")
        step = max(1, -(-len(chosen) // _PROGRESS_LINES))
        for number, point in enumerate(chosen, 1):
            if only is None and number % step == 0:
                _say(f"seed {seed}: run {number} of {len(chosen)}")
            yield (point,)

    def observers(self) -> list[Invariant]:
        """Each run is recorded."""
        self._recorder = Reference()
        return [self._recorder]

    async def play(self, simulation: Simulation, faults: tuple[Numbered, ...]) -> None:
        """Equals the run without faults until the change at which the fault starts."""
        self._end = None
        self._recorder.begin()
        following = asyncio.get_running_loop().create_task(
            simulation.follow(FaultPlan(tuple(fault for _number, fault in faults))), name="faults"
        )
        await asyncio.sleep(0.001)  # until it waits for its change
        await self._perform(AsyncCluster(simulation.plane, Snapshot(simulation.plane), client=simulation.user))
        await following
        await asyncio.sleep(PATTERN_SECONDS)
        await simulation.run_until_idle()
        prefixes = self._written | self._recorder.written
        self._end = end_state(
            (record for prefix in prefixes for record in simulation.store.list(prefix).records), prefixes
        )
        if self._expected is not None and faults and not self.checks.muted_failed:
            expected, other = self._expected
            unmuted = [
                difference
                for difference in differences(expected, other, self._end)
                if difference.resource not in self.muted
            ]
            if unmuted:
                raise CheckFailed(unmuted[0].resource, AssertionError(described(unmuted)))


def selected(seed: int, faults: tuple[Numbered, ...], only: frozenset[int] | None) -> tuple[Numbered, ...]:
    """The faults with these numbers, or all. Raises ``ValueError`` for a number without a fault."""
    if only is None:
        return faults
    unknown = sorted(only - {number for number, _fault in faults})
    if unknown:
        available = f"0 to {len(faults) - 1}" if faults else "none"
        raise ValueError(f"seed {seed} has no fault {', '.join(map(str, unknown))}; its faults are {available}")
    return tuple(numbered for numbered in faults if numbered[0] in only)


def spread(points: Sequence[T], limit: int) -> list[T]:
    """At most ``limit`` of the points, at equal distances."""
    count = min(len(points), limit)
    return [points[number * len(points) // count] for number in range(count)]


def announcement(runs: int, points: int, seconds: float, options: SimulationOptions) -> str:
    """The number of runs, their duration, and how to reduce both."""
    some = f"{runs} of {points} points (most_points=)" if runs < points else "every point"
    text = f"{runs} runs, with a fault at {some}, about "
    if seconds < _LONG_SECONDS:
        return f"{text}{max(1, round(seconds))} s"
    cheaper = ["most_points="]
    if options.controllers == ("*",):
        cheaper.append("controllers=")
    if options.nodes:
        cheaper.append("nodes=0")
    return f"{text}{round(seconds / 60)} min; cheaper with {', '.join(cheaper)}"


def _say(text: str) -> None:
    sys.stderr.write(f"explore: {text}\n")
