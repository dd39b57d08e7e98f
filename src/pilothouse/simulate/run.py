"""``run``: executes a scenario once, for one seed, in this process and in virtual time."""

import asyncio
import contextlib
import traceback
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.env.clock import processor_seconds
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import without_log
from pilothouse.sim import Simulation, Violation
from pilothouse.sim import running as simulated
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.process import Program
from pilothouse.simulate import budgets, cluster, drawn, named_invariants
from pilothouse.simulate.actions.administrator import ActionError, ObjectsRejected
from pilothouse.simulate.expectations import Compiled, Expectations, compile_all
from pilothouse.simulate.result import BudgetResult, Failure, Part, Result
from pilothouse.simulate.scenario import Scenario, ScenarioError
from pilothouse.simulate.scenario.scalars import counted, shown_seconds
from pilothouse.simulate.scheduled_work import CRON_JOBS, EVENTS, ScheduledObjects, ScheduledWork
from pilothouse.simulate.seeds import shown_parts
from pilothouse.simulate.timeline import Timeline, entry_text, fault_text

with lazy_imports():
    from pilothouse.simulate import programs, recording


def parts_of(scenario: Scenario, seed: int) -> tuple[Part, ...]:
    """The numbered parts that shrinking may leave out: the entries of the timeline, then the random faults."""
    entries = [entry_text(entry) for entry in scenario.spec.timeline]
    return tuple(Part(number, text) for number, text in enumerate([*entries, *map(fault_text, _drawn(scenario, seed))]))


def _drawn(scenario: Scenario, seed: int) -> tuple[drawn.Drawn, ...]:
    groups = scenario.spec.cluster.node_groups
    nodes = [f"{group.name}-{index}" for group in groups for index in range(group.count)]
    nodes += [node.name for node in scenario.snapshot.nodes if node.ready] if scenario.snapshot is not None else []
    return drawn.draw(scenario.spec.faults, seed, nodes, program=bool(scenario.program))


_WRITERS = ("manager", "scheduler", "nodes", "user", "server")
"""The values of ``writes.by``, besides the name of the program."""
_CLAIMS_NAMED = 5
"""Maximum number of named claims without a volume."""


class Running:
    """The progress of a run, read by another thread."""

    def __init__(self) -> None:
        self.simulation: Simulation | None = None

    @property
    def seconds(self) -> float:
        """Virtual seconds since the start of the current run; 0 if there is none."""
        simulation = self.simulation
        return 0.0 if simulation is None else simulation.env.monotonic()


def run(
    scenario: Scenario,
    seed: int,
    *,
    only: frozenset[int] | None = None,
    record: bool = False,
    running: Running | None = None,
) -> Result:
    """Execute one run. ``only`` selects the parts (see ``parts_of``). All kinds of failures are in the result.

    Raises ``ScenarioError`` for errors of the scenario that are only detected at run time: manifests that the API
    server rejects, expressions about resources that do not exist or that exceed the cost limits.
    """
    started_at = processor_seconds()
    one = _Run(scenario, seed, only, record=record, running=running or Running())
    with without_log():
        error = one.run()
    return one.result(error, processor_seconds() - started_at)


def validate(scenario: Scenario) -> None:
    """Compile the expressions, look up the invariants and the writers, and load the program. Raises
    ``ScenarioError``."""
    compile_all(scenario)
    writers = [*_WRITERS]
    if scenario.program:
        try:
            writers.append(programs.load(scenario.program).name)
        except ScenarioError:
            raise
        except Exception as error:
            text = "".join(traceback.format_exception(error)).rstrip()
            raise ScenarioError(f"{scenario.program}: the program can't be loaded:\n{text}") from error
    for number, budget in enumerate(scenario.spec.expect.budgets):
        if budget.writes is not None and budget.writes.by not in ("", *writers):
            path = f"spec.expect.budgets[{number}]"
            raise ScenarioError(
                f'{scenario.where(path)}: writes.by is one of {", ".join(writers)}, got "{budget.writes.by}"'
            )
    for number, name in enumerate(scenario.spec.expect.invariants):
        try:
            named_invariants.create(name)
        except LookupError as error:
            raise ScenarioError(f"{scenario.where(f'spec.expect.invariants[{number}]')}: {error}") from None


def check_parts(scenarios: Sequence[Scenario], seeds: Iterable[int], only: Collection[int]) -> None:
    """Raises ``ValueError`` for numbers that are no part of any run (``parts_of``)."""
    unknown, most = set(only), 0
    for scenario in scenarios:
        for seed in seeds:
            if not unknown:
                return
            most = max(most, len(parts_of(scenario, seed)))
            unknown = {number for number in unknown if number >= most}
    if unknown:
        parts = f"they are 0 to {most - 1}" if most else "there are none"
        raise ValueError(f"there is no part {shown_parts(sorted(unknown))}: {parts}")


class _Run:
    def __init__(
        self, scenario: Scenario, seed: int, only: frozenset[int] | None, *, record: bool, running: Running
    ) -> None:
        self._scenario = scenario
        self._seed = seed
        self._record = record
        self._running = running
        compiled: Compiled = compile_all(scenario)
        self._expectations = Expectations(scenario, compiled, self._fail)
        self._usage = budgets.Usage(scenario.spec.expect.budgets, partial=only is not None)
        self._invariants = [named_invariants.create(name) for name in scenario.spec.expect.invariants]
        all_parts = parts_of(scenario, seed)
        entries, faults = len(scenario.spec.timeline), _drawn(scenario, seed)
        used = [part for part in all_parts if only is None or part.number in only]
        self._parts = tuple(used)
        self._entries = [part.number for part in used if part.number < entries]
        self._faults = [faults[part.number - entries] for part in used if part.number >= entries]
        self._simulation: Simulation | None = None
        self._failure: Failure | None = None
        self._failed: asyncio.Event | None = None
        self._recorder: recording.Recorder | None = None
        self._recording: recording.Recording | None = None
        self._began = self._ended = 0.0
        self._budgets: tuple[BudgetResult, ...] = ()
        self._measures: dict[str, float] = {}
        self._timeline: Timeline | None = None
        self._scheduled_objects = ScheduledObjects((CRON_JOBS,))
        self._scheduled = ScheduledWork(self._scheduled_objects) if scenario.spec.until.quiet is not None else None
        self._rested = False
        self._unfinished: tuple[str, ...] = ()
        """Blocked entries of the timeline at the end of the run."""
        self._unprovisioned = ""
        """A notice about claims that nothing provisions."""
        self._never_ready: tuple[str, ...] = ()
        self._deleted_unready: tuple[str, ...] = ()

    def run(self) -> Exception | None:
        """Execute the run. Returns the error that ended it, if any."""
        try:
            virtual.run(self._main, seed=self._seed, start=cluster.start_of(self._scenario))
        except Exception as error:  # noqa: BLE001 # any error is the result of the run
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            return cause if isinstance(cause, Exception) else error
        finally:
            self._running.simulation = None
        return None

    def _fail(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
            if self._recorder is not None and self._recording is None:
                # Budgets are evaluated at the end, with the time at which they were exceeded.
                at = failure.at if failure.kind == "budget" else None
                self._recorder.mark(recording.VIOLATION, failure.summary, why=failure.why, at=at)
        if self._failed is not None:
            self._failed.set()

    async def _main(self, env: Env) -> None:
        self._failed = asyncio.Event()
        options = cluster.simulation_options(self._scenario, env)
        scheduled = [] if self._scheduled is None else [self._scheduled]
        checks: Sequence[Invariant] = (self._expectations, self._usage, *self._invariants, *scheduled)
        async with simulated(env, options, checks, self._program()) as simulation:
            self._simulation = self._running.simulation = simulation
            if (latency := cluster.latency(self._scenario)) is not None:
                simulation.add_rule(latency)
            self._usage.begin(simulation)
            simulation.log.scheduled = self._scheduled_objects
            if self._scheduled is not None:
                self._scheduled.follow(simulation)
            else:
                self._scheduled_objects.follow(simulation)
            if self._record:
                self._recorder = recording.Recorder(
                    simulation, name=self._scenario.name, seed=self._seed, times=self._usage.times
                )
            try:
                await self._perform(simulation)
            finally:
                self._ended = env.monotonic()
                if self._recorder is not None:
                    failure = self._failure
                    self._recording = self._recorder.finish(failure="" if failure is None else failure.summary)
                self._budgets, self._measures = self._usage.results(), self._measured()
                self._never_ready = self._usage.never_ready()
                self._deleted_unready = self._usage.deleted_unready()
                if not self._scenario.spec.cluster.storage:
                    self._unprovisioned = _unprovisioned(simulation)

    def _measured(self) -> dict[str, float]:
        """The measures by name: durations of entries and expectations, and usage."""
        measures: dict[str, float] = {}
        if self._rested and self._scheduled is not None:
            measures["time until quiet"] = round(max(0.0, self._scheduled.last_other_write - self._began), 3)
        measured = {} if self._timeline is None else self._timeline.seconds
        measures |= {f"time of {name}": seconds for name, seconds in measured.items() if seconds}
        measures |= {f"time until {name}": seconds for name, seconds in self._expectations.seconds.items()}
        return measures | self._usage.measures()

    def _program(self) -> Program | None:
        return programs.load(self._scenario.program) if self._scenario.program else None

    async def _perform(self, simulation: Simulation) -> None:
        scenario, env = self._scenario, simulation.env
        self._began = env.monotonic()
        mark = (lambda _kind, _text: None) if self._recorder is None else self._recorder.mark
        timeline = Timeline(simulation, scenario, self._expectations, mark=mark, on_failure=self._fail)
        self._timeline = timeline
        await self._apply(timeline)
        await asyncio.sleep(scenario.spec.ready)
        self._began = env.monotonic()
        self._usage.begin_timeline()
        if self._recorder is not None:
            self._recorder.begin_timeline()
        left_out = [
            entry.name
            for number, entry in enumerate(scenario.spec.timeline)
            if entry.name and number not in self._entries
        ]
        self._expectations.begin(simulation, _defined(scenario), left_out=left_out)
        self._check_fault_resources()
        async with TaskGroup("scenario") as group:
            timeline.start(group, self._entries, self._faults)
            await self._until_end(simulation, timeline)
            self._unfinished = tuple(timeline.unfinished(blocked=True))
            group.cancel()
        if self._failure is None:
            self._expectations.finish()
        if self._failure is None:
            failure = budgets.failure_of(self._usage.results(), env.monotonic() - self._began)
            if failure is not None:
                self._fail(failure)

    def _check_fault_resources(self) -> None:
        """Faults of a resource that does not exist would have no effect."""
        spec = self._scenario.spec
        names = [
            (f"spec.timeline[{number}]", entry.api_server.resource)
            for number, entry in enumerate(spec.timeline)
            if entry.api_server is not None
        ]
        names += [("spec.faults", name) for name in (spec.faults.resources if spec.faults is not None else ())]
        for path, name in names:
            if name:
                self._expectations.check_resource(path, name)

    async def _apply(self, timeline: Timeline) -> None:
        scenario = self._scenario
        try:
            await timeline.actions.administrator.apply(scenario.objects)
        except ObjectsRejected as rejected:
            # The last one may be the number of further objects, which names no place.
            texts = rejected.messages(scenario.object_position)
            general = f"{scenario.source}: spec.objects: "
            raise ScenarioError(
                "\n".join(text if text.startswith(scenario.source) else general + text for text in texts)
            ) from rejected
        except (ActionError, TimeoutError) as error:
            raise ScenarioError(f"{scenario.source}: spec.objects: {error}") from error

    async def _until_end(self, simulation: Simulation, timeline: Timeline) -> None:
        until, env, scheduled = self._scenario.spec.until, simulation.env, self._scheduled
        end = self._began + until.time if until.time is not None else None
        recent: list[tuple[str, int]] = []
        while self._failure is None:
            now = env.monotonic()
            if end is not None and now >= end:
                if scheduled is not None:
                    self._fail(self._unsettled(scheduled, timeline, recent, now))
                return
            wait = end - now if end is not None else 86400.0
            if scheduled is not None and until.quiet is not None:
                recent = scheduled.recent() or recent
                # The effects of the last action may begin later: a silent node is marked after its grace period.
                rest = max(scheduled.last_other_write, self._began, timeline.ended_at) + until.quiet - now
                if rest <= 0 and timeline.is_over:
                    self._rested = True
                    self._check_settled(simulation)
                    return
                wait = min(wait, rest if rest > 0 else 60.0)
            await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        assert self._failed is not None, "the run has begun"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._failed.wait()

    def _check_settled(self, simulation: Simulation) -> None:
        for invariant in self._invariants:
            try:
                invariant.check_final_state()
            except Violation as error:
                at = simulation.env.monotonic() - self._began
                self._fail(Failure(kind="invariant", name=type(invariant).__name__, message=str(error), at=at))
                return

    def _unsettled(
        self, scheduled: ScheduledWork, timeline: Timeline, recent: list[tuple[str, int]], now: float
    ) -> Failure:
        until = self._scenario.spec.until
        quiet = until.quiet or 0.0
        expected = f"the cluster was not quiet for {shown_seconds(quiet)} within {shown_seconds(until.time or 0.0)}: "
        unfinished = list(timeline.unfinished())
        if max(scheduled.last_other_write, self._began) + quiet > now:
            most = ", ".join(f"{key} ({counted(times, 'time')})" for key, times in recent)
            actual = "; ".join([f"objects are still written, recently {most}", *unfinished])
        elif timeline.is_over:
            actual = f"the timeline ended only {shown_seconds(round(now - timeline.ended_at, 3))} before"
        else:
            actual = f"the timeline has not finished: {'; '.join(unfinished) or 'entries or faults are pending'}"
        return Failure(kind="unsettled", name="until", message=expected + actual, at=now - self._began)

    def _mark_late(self) -> None:
        """Add a failure that was raised after the recording was finished."""
        if self._recording is not None and self._failure is not None:
            failure = self._failure
            at = max(0.0, self._recording.seconds)
            mark = recording.Mark(at=at, kind=recording.VIOLATION, text=failure.summary, why=failure.why)
            self._recording = msgspec.structs.replace(
                self._recording, failure=failure.summary, marks=[*self._recording.marks, mark]
            )

    def result(self, error: Exception | None, cpu: float) -> Result:
        """The result of the run. Raises ``ScenarioError``."""
        simulation = self._simulation
        if isinstance(error, ScenarioError):
            raise error
        if simulation is None:
            assert error is not None, "a run without a cluster has failed"
            raise error
        if error is not None and self._failure is None:
            kind = "invariant" if isinstance(error, Violation) else "error"
            name = _violated(error, self._invariants) if kind == "invariant" else type(error).__name__
            self._fail(
                Failure(
                    kind="invariant" if kind == "invariant" else "error",
                    name=name,
                    message=f"{type(error).__name__}: {error}",
                    at=self._ended - self._began,
                    why=simulation.explained().strip(),
                )
            )
            self._mark_late()
        log, failure = simulation.log, self._failure
        log_until = self._usage.log_until(failure.at) if failure is not None and failure.kind == "budget" else ""
        shows_repeated = failure is not None and not log_until and self._is_about_repeated(failure)
        return Result(
            scenario=self._scenario.name,
            seed=self._seed,
            failure=failure,
            # Those of the measures and budgets: while a run is ended, programs may write on.
            writes=round(self._measures.get("writes", log.writes)),
            digest=log.digest,
            seconds=self._ended,
            cpu=cpu,
            budgets=self._budgets,
            expectations=self._expectations.results(),
            measures=self._measures,
            parts=self._parts,
            log="" if failure is None else log_until or log.last(budgets.LOG_LINES, repeated=shows_repeated),
            log_is_until_end=not log_until,
            log_omits_scheduled=failure is not None and not shows_repeated and self._scheduled_objects.exist,
            recording=self._recording,
            notices=tuple(self._notices()),
            never_ready=self._never_ready,
            deleted_unready=self._deleted_unready,
        )

    def _is_about_repeated(self, failure: Failure) -> bool:
        """Whether the work of CronJobs or repeated Events may be the reason of a failure."""
        if failure.kind in ("always", "eventually", "atEnd"):
            read = self._expectations.read_by_failed()
            return any(prefix == EVENTS or self._scheduled_objects.includes_any(prefix, keys) for prefix, keys in read)
        return failure.kind != "unsettled"  # which is about other writes

    def _notices(self) -> Iterator[str]:
        yield from self._expectations.notices
        if self._failure is None and self._timeline is not None:
            yield from self._timeline.notices()
        if self._failure is None or self._failure.kind in ("eventually", "atEnd", "budget", "unsettled"):
            if self._failure is None or self._failure.kind != "unsettled":  # whose message has them
                yield from self._unfinished
            yield from self._usage.notices()
            if self._unprovisioned:
                yield self._unprovisioned


def _unprovisioned(simulation: Simulation) -> str:
    """A notice about claims that wait for a volume, in a cluster without a driver that provisions some; or ""."""
    pending = []
    for record in simulation.store.list("/persistentvolumeclaims/").records:
        claim = msgspec.json.decode(record.value)
        if (claim.get("status") or {}).get("phase") == "Pending":
            pending.append(f"{claim['metadata']['namespace']}/{claim['metadata']['name']}")
    if not pending:
        return ""
    more = f" and {len(pending) - _CLAIMS_NAMED} more" if len(pending) > _CLAIMS_NAMED else ""
    named = ", ".join(sorted(pending)[:_CLAIMS_NAMED])
    return f"no volume at the end for {named}{more}; with cluster: {{storage: true}} volumes are provisioned"


def _violated(error: BaseException, checked: Sequence[Invariant]) -> str:
    """The class name of the invariant that raised the error."""
    trace = error.__traceback__
    name = ""
    while trace is not None:
        instance = trace.tb_frame.f_locals.get("self")
        if any(instance is invariant for invariant in checked):
            name = type(instance).__name__
        trace = trace.tb_next
    return name or type(error).__name__


def _defined(scenario: Scenario) -> list[str]:
    """The resources of the CRDs in the scenario and of its program."""
    documents = [*scenario.objects, *(obj for applied in scenario.applied.values() for obj in applied)]
    specs = [document.get("spec") or {} for document in documents if document["kind"] == "CustomResourceDefinition"]
    if scenario.program:
        specs += [definition["spec"] for definition in programs.load(scenario.program).definitions]
    names = [((spec.get("names") or {}).get("plural"), spec.get("group")) for spec in specs]
    return [name for plural, group in names if plural for name in (plural, f"{plural}.{group}")]
