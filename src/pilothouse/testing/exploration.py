"""``explore``: an operator under faults, in virtual time, once per seed; a run that fails is shrunk to few faults.

The cluster, the faults and the log of a run are those of ``pilothouse.sim``: the operator takes the manager's place
there, which means that it is killed and started again. The API server, controllers and nodes are spared.
"""

import asyncio
import contextlib
import logging
import os
import re
import shlex
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from pilothouse.client import Client
from pilothouse.env import Env, virtual
from pilothouse.env.chance import Chance
from pilothouse.operator import App, Settings
from pilothouse.operator.client_config import ClientConfig
from pilothouse.sim.faults import Fault, FaultPlan, draw_for_program
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.process import Program as SimulatedProgram
from pilothouse.sim.simulation import Simulation, SimulationOptions, running
from pilothouse.sim.story import Origin
from pilothouse.sim.webhooks import ProgramWebhooks
from pilothouse.storage import Change
from pilothouse.testing.asynchronous import AsyncCluster, Object, Objects
from pilothouse.testing.end_states import EndState, described, differences, end_state
from pilothouse.testing.manifests import definitions_of
from pilothouse.testing.patterns import Pattern, Reference, patterns_of, perturbations
from pilothouse.testing.running import Program
from pilothouse.testing.shrinking import FailedRun
from pilothouse.testing.snapshot import Snapshot
from pilothouse.testing.webhooks import client_config

if TYPE_CHECKING:
    from pilothouse.testing.manifests import Definitions

T = TypeVar("T")
SEEDS = "PILOTHOUSE_SEEDS"
"""The environment variable with the seeds to run in place of those of the call: ``17``, ``0-199``, or ``17:0,3`` for
seed 17 with the first and the fourth of its faults only."""
FAULTS = "PILOTHOUSE_FAULTS"
"""The environment variable with the faults in place of those of the call: ``8``, ``sieve``, ``stale,unobserved``."""
MOST_POINTS = 500
"""Runs with a systematic fault for each seed, unless the caller says otherwise."""
_PROGRESS_LINES = 20
PATTERN_SECONDS = 300.0
"""How long a run with a systematic fault goes on after its scenario, before what is left of the fault is ended."""
_OTHER_SEED = 1_000_003
"""Added to a seed for a second run without faults: what differs between the two is chance."""
_CHOSEN = re.compile(r"(\d+)(?:-(\d+)|:((?:\d+(?:,\d+)*)?))?")
_LINES = 60


class State:
    """The objects of the cluster at one instant, for invariants."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._decoded: dict[str, tuple[int, Object]] = {}
        self.converged = False
        """Whether this is the end: all faults are over, and nothing is being written any more."""

    def list(self, api_version: str, kind: str, namespace: str = "") -> Objects:
        """The objects of a kind, of one namespace or of all, by key. Raises ``LookupError`` for an unknown kind."""
        prefix = self._prefix(api_version, kind)
        records = self._simulation.store.list(f"{prefix}{namespace}/" if namespace else prefix).records
        return [self._object(record.key, record.revision, record.value) for record in records]

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Object | None:
        """One object, or None. For cluster-scoped kinds the namespace is empty."""
        key = f"{namespace}/{name}" if namespace else name
        record = self._simulation.store.get(f"{self._prefix(api_version, kind)}{key}")
        return None if record is None else self._object(record.key, record.revision, record.value)

    def _prefix(self, api_version: str, kind: str) -> str:
        group = api_version.rpartition("/")[0]
        for info in self._simulation.plane.server.core.table:
            if (info.group, info.kind) == (group, kind) and "list" in info.verbs:
                return info.prefix
        raise LookupError(f"the API server has no kind {kind!r} in {api_version}")

    def _object(self, key: str, revision: int, value: bytes) -> Object:
        known = self._decoded.get(key)
        if known is None or known[0] != revision:
            known = self._decoded[key] = (revision, msgspec.json.decode(value))
        return known[1]


Check = Callable[[State], object]
"""Raises ``AssertionError`` if something is wrong. Called after every write, and at the end."""
Scenario = Callable[[AsyncCluster], Coroutine[Any, Any, None]]


class Explored(msgspec.Struct, frozen=True):
    """What a passed exploration consisted of."""

    digests: dict[int, str]
    """By seed, of all writes of the run: two runs with the same digest were the same. With patterns: of the run without
    faults."""
    writes: int
    faults: dict[str, int]
    """How many faults of each type occurred."""
    runs: int


class Failure(msgspec.Struct, frozen=True):
    """A way in which runs have failed, and the fewest faults that were found to be enough for it."""

    seed: int
    faults: tuple[Fault, ...]
    check: str
    """The name of the function that failed; empty if it was none."""
    reason: str
    command: str
    """Repeats the run, in a shell."""
    log: str


class ExplorationFailed(AssertionError):
    """Runs have failed: the reason, how to reproduce it, the faults that are enough, and the end of the log."""

    def __init__(self, text: str, failures: tuple[Failure, ...]) -> None:
        super().__init__(text)
        self.failures = failures


def explore(
    app: App | Program,
    scenario: Scenario,
    invariants: Sequence[Check | type[Invariant]] = (),
    *,
    seeds: int | Iterable[int] | None = None,
    faults: int | Literal["sieve"] | Iterable[Pattern] = 8,
    seconds: float = 60.0,
    settings: Settings = Settings(),  # noqa: B008  # immutable
    crds: "Definitions" = (),
    nodes: int = 1,
    controllers: Sequence[str] = ("*",),
    shrink_runs: int = 100,
    keep_going: bool = False,
    same_end: bool = True,
    most_points: int = MOST_POINTS,
) -> Explored:
    """Run ``scenario(cluster)`` against the operator, with ``faults`` faults within ``seconds``, once for each of the
    seeds (a number: that many, from 0; 20 by default). The same seed gives the same run in every process.

    The operator is killed and restarted, also with lists from an API server that is behind; answers to its writes are
    lost, writes conflict and fail, watches are late or end, and a second process runs at the same time. The scenario is
    an administrator whose requests never fail. When it has returned and the last fault is over, the cluster must come
    to rest: twenty minutes (virtual) without a write other than heartbeats.

    ``faults="sieve"`` is systematic in place of random: after a run without faults there is one run for each of its
    writes and changes, with a single fault at that point. ``"stale"``, ``"intermediate"`` and ``"unobserved"`` are the
    three patterns of it (``testing.patterns``). Each run must end as the one without faults, apart from times, uids and
    what two seeds do differently; ``same_end=False`` leaves that to the invariants. One seed is the default.Of more
    than ``most_points`` points, so many are taken, spread evenly over the run. How many runs there will be, and which
    one is under way, is printed on standard error, which ``pytest -s`` shows.

    ``invariants`` are functions of the ``State``, called after every write and at the end (``state.converged``), or
    classes derived from ``pilothouse.sim.Invariant``, with an instance for each run. Reconcilers are created anew with
    each process, as are programs that are coroutine functions.

    The webhooks and conversions of an app are called, in this process. Its living processes answer; the calls are
    slow, fail or lose their answers, and are refused while no process lives. Where that would fail a request of the
    scenario, its call is spared: with ``failure_policy="Ignore"`` it is not, and the webhook has no effect then.

    Raises ``ExplorationFailed`` for the first seed that fails, with the fewest faults that still fail in at most
    ``shrink_runs`` further runs; with ``keep_going`` after all runs, with one ``Failure`` for each function that has
    failed, which does not end runs any more from then on. Raises ``ValueError`` for definitions in ``crds`` whose
    versions a webhook converts, for settings with ``webhooks``, for ``most_points`` below 1, and for unknown patterns.
    The environment variables ``PILOTHOUSE_SEEDS`` and ``PILOTHOUSE_FAULTS`` take the place of ``seeds`` and ``faults``.
    """
    if most_points < 1:
        raise ValueError(f"most_points must be at least 1, got {most_points}")
    options = SimulationOptions(nodes=nodes, controllers=tuple(controllers), storage=True)
    program = simulated_program(app, settings, definitions_of(crds))
    asked = os.environ.get(FAULTS) or faults
    count = int(asked) if isinstance(asked, int) or (isinstance(asked, str) and asked.isdecimal()) else None
    if count is None:
        assert not isinstance(asked, int), "a number is counted"
        runner: _Runner = _PatternRunner(
            program,
            scenario,
            tuple(invariants),
            options,
            patterns_of(asked),
            same_end=same_end,
            most_points=most_points,
        )
    else:
        resources = tuple(dict.fromkeys(grant.resource for grant in app.grants())) if isinstance(app, App) else ()
        runner = _RandomRunner(program, scenario, tuple(invariants), options, (seconds, count, resources))
    chosen = os.environ.get(SEEDS)
    if seeds is None:
        seeds = 20 if count is not None else 1
    wanted = [(seed, None) for seed in (range(seeds) if isinstance(seeds, int) else seeds)]
    exploration = _Exploration(runner, shrink_runs, keep_going=keep_going)
    for seed, only in _chosen(chosen) if chosen else wanted:
        exploration.explore(seed, only, logged=chosen is not None)
    return exploration.done()


Numbered = tuple[int, Fault]


class _Run(msgspec.Struct):
    seed: int
    faults: tuple[Numbered, ...]
    failure: BaseException | None
    digest: str
    writes: int
    log: str
    end: EndState | None = None

    @property
    def kind(self) -> tuple[type[BaseException], str]:
        """What kind of failure it is: subsets of faults that fail in another way do not count when it is shrunk."""
        assert self.failure is not None, "only what has failed has a kind"
        return type(self.failure), self.failure.check if isinstance(self.failure, CheckFailed) else ""


class _Exploration:
    """The runs of one call."""

    def __init__(self, runner: "_Runner", shrink_runs: int, *, keep_going: bool) -> None:
        self._runner = runner
        self._shrink_runs = shrink_runs
        self._keep_going = keep_going
        self._failures: dict[tuple[type[BaseException], str], tuple[Failure, str]] = {}
        self._digests: dict[int, str] = {}
        self._writes = 0
        self._runs = 0
        self._counts: Counter[str] = Counter()

    def explore(self, seed: int, only: frozenset[int] | None, *, logged: bool) -> None:
        """All runs of a seed, or the one with the faults of these numbers."""
        for used in self._runner.plans(seed, only):
            known = len(self._failures)
            run = self._run(seed, used, logged=logged)
            if run.failure is not None:
                self._fail(run, self._shrink_runs if only is None else 0)
                while self._keep_going and len(self._failures) > known:
                    # The function that failed does not end runs any more: others may fail in the same one.
                    known = len(self._failures)
                    run = self._run(seed, used, logged=logged)
                    if run.failure is not None:
                        self._fail(run, self._shrink_runs)
            if run.failure is not None and not used and self._runner.needs_reference:
                return  # without faults nothing can be compared with it
            self._digests.setdefault(seed, run.digest)

    def _run(self, seed: int, used: tuple[Numbered, ...], *, logged: bool) -> _Run:
        run = self._runner.run(seed, used, logged=logged)
        self._runs += 1
        self._writes += run.writes
        self._counts.update(type(fault).__name__ for _number, fault in used)
        return run

    def _fail(self, run: _Run, most: int) -> None:
        if run.kind in self._failures:
            return
        failure, text, error = shrunk(self._runner, run, most)
        if not self._keep_going:
            raise ExplorationFailed(text, (failure,)) from error
        self._failures[run.kind] = failure, text
        if isinstance(run.failure, CheckFailed):
            self._runner.muted.add(run.failure.check)

    def done(self) -> Explored:
        """The result, unless runs have failed."""
        if self._failures:
            found = self._failures.values()
            text = "\n\n".join(text for _failure, text in found)
            count = f"{len(found)} {'failure' if len(found) == 1 else 'failures'} in {self._runs} runs"
            raise ExplorationFailed(f"{text}\n\n{count}", tuple(failure for failure, _text in found))
        return Explored(self._digests, self._writes, dict(sorted(self._counts.items())), self._runs)


class _Runner(ABC):
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
        self.muted: set[str] = set()
        """Functions that do not fail a run any more."""
        self.checks = _Checks([], self.muted)
        """Those of the run under way."""

    @abstractmethod
    def plans(self, seed: int, only: frozenset[int] | None) -> Iterator[tuple[Numbered, ...]]:
        """The faults of each run of a seed; if only those of some numbers are asked for, of that run."""

    async def play(self, simulation: Simulation, faults: tuple[Numbered, ...]) -> None:
        """The scenario, under faults."""
        plan = FaultPlan(tuple(fault for _number, fault in faults))
        following = asyncio.get_running_loop().create_task(simulation.follow(plan), name="faults")
        await self._scenario(AsyncCluster(simulation.plane, Snapshot(simulation.plane), client=simulation.user))
        await following
        await simulation.settle()

    def observers(self) -> list[Invariant]:
        """Further invariants of a run."""
        return []

    def run(self, seed: int, faults: tuple[Numbered, ...], *, logged: bool = False) -> _Run:
        """One run. Failures of every kind are a part of its result."""
        simulations: list[Simulation] = []

        async def main(env: Env) -> None:
            checks = _Checks([each for each in self._invariants if not isinstance(each, type)], self.muted)
            self.checks = checks
            others = [each() for each in self._invariants if isinstance(each, type)]
            invariants = (checks, *others, *self.observers())
            async with running(env, self._options, invariants, self.program) as simulation:
                simulations.append(simulation)
                checks.state = State(simulation)
                await self.play(simulation, faults)

        failure: BaseException | None = None
        with contextlib.nullcontext() if logged else without_log():
            try:
                virtual.run(main, seed=seed)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what the run has found
                failure = error
                while isinstance(failure, BaseExceptionGroup):
                    failure = failure.exceptions[0]
        if not simulations:
            assert failure is not None, "a run without a cluster has failed"
            raise failure
        story = simulations[0].story
        return _Run(seed, faults, failure, story.digest, story.writes, story.last(_LINES))


class _RandomRunner(_Runner):
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
        chance = Chance(seed).stream("faults")
        webhooks = self.program.webhooks is not None
        plan = draw_for_program(chance, seconds, count=count, resources=resources, webhooks=webhooks)
        yield tuple(each for each in enumerate(plan.faults) if only is None or each[0] in only)


class _PatternRunner(_Runner):
    """A run without faults, and then one for each thing that can go wrong in it."""

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
        """How the run without faults ends, and one with another seed."""
        self._written: frozenset[str] = frozenset()
        self._end: EndState | None = None

    def plans(self, seed: int, only: frozenset[int] | None) -> Iterator[tuple[Numbered, ...]]:
        """None, and then each alone."""
        self._expected = None
        yield ()
        reference, ends = self._recorder, [self._end]
        self._written = frozenset(reference.written)
        if self._same_end and only != frozenset():
            self.run(seed + _OTHER_SEED, ())
            ends.append(self._end)
            if ends[0] is not None and ends[1] is not None:
                self._expected = ends[0], ends[1]
        points = tuple(enumerate(perturbations(reference, self._patterns)))
        if only is not None:
            chosen = [each for each in points if each[0] in only]
        else:
            chosen = spread(points, self._most_points)
            some = (
                f"{len(chosen)} of {len(points)} points (most_points=)" if len(chosen) < len(points) else "every point"
            )
            _say(f"seed {seed}: {len(chosen)} runs, with a fault at {some}")
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
        """As without faults until the change at which the one fault begins."""
        self._end = None
        self._recorder.begin()
        following = asyncio.get_running_loop().create_task(
            simulation.follow(FaultPlan(tuple(fault for _number, fault in faults))), name="faults"
        )
        await asyncio.sleep(0.001)  # until it waits for its change
        await self._scenario(AsyncCluster(simulation.plane, Snapshot(simulation.plane), client=simulation.user))
        await following
        await asyncio.sleep(PATTERN_SECONDS)
        await simulation.settle()
        prefixes = self._written | self._recorder.written
        self._end = end_state((each for prefix in prefixes for each in simulation.store.list(prefix).records), prefixes)
        if self._expected is not None and faults and not self.checks.muted_failed:
            expected, other = self._expected
            found = [each for each in differences(expected, other, self._end) if each.resource not in self.muted]
            if found:
                raise CheckFailed(found[0].resource, AssertionError(described(found)))


def spread(points: Sequence[T], most: int) -> list[T]:
    """At most so many of the points, at equal distances."""
    count = min(len(points), most)
    return [points[number * len(points) // count] for number in range(count)]


def _say(text: str) -> None:
    sys.stderr.write(f"explore: {text}\n")


class CheckFailed(Violation):
    """A function that was given as an invariant has failed."""

    def __init__(self, check: str, error: AssertionError) -> None:
        super().__init__(f"{check}: {error}")
        self.check = check


class _Checks(Invariant):
    """Calls functions of the state after every write, and at the end."""

    def __init__(self, checks: list[Check], muted: set[str]) -> None:
        self._checks = checks
        self._muted = muted
        self.muted_failed = False
        """Whether a function has failed that does not end the run any more."""
        self.state: State | None = None

    def committed(self, _change: Change, _origin: Origin | None) -> None:
        """A write has become visible. The program that has made it must not survive what is wrong."""
        try:
            self._call()
        except Exception as error:  # noqa: BLE001  # raised here the operator might catch it; the run must end
            context = {"message": "an invariant failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def settled(self) -> None:
        """The end."""
        if self.state is not None:
            self.state.converged = True
            self._call()

    def _call(self) -> None:
        if self.state is None:
            return
        for check in self._checks:
            try:
                check(self.state)
            except AssertionError as error:
                if name_of(check) not in self._muted:
                    raise CheckFailed(name_of(check), error) from error
                self.muted_failed = True


def simulated_program(
    app: App | Program,
    settings: Settings = Settings(),  # noqa: B008  # immutable
    others: Sequence[Object] = (),
) -> SimulatedProgram:
    """The program, with its definitions and ``others``, and its webhooks. Raises ``ValueError``."""
    for definition in others:
        if definition["spec"].get("conversion", {}).get("strategy") == "Webhook":
            raise ValueError(
                f"{definition['metadata']['name']} in crds= is converted by a webhook, which explore does not serve: "
                "declare it as a CustomResource of the app, with its versions"
            )
    if not isinstance(app, App):
        return SimulatedProgram(getattr(app, "__name__", "program"), app, tuple(others))
    if settings.webhooks is not None:
        raise ValueError("explore calls the app's webhooks without a port: leave webhooks= out of the settings")
    operator, config = app, client_config(app.name)

    def start(client: Client, env: Env) -> Coroutine[Any, Any, object]:
        return operator.restarted().run(client, env, settings)

    return SimulatedProgram(
        operator.name, start, (*operator.definitions(config), *others), _webhooks_of(operator, config)
    )


def _webhooks_of(app: App, config: ClientConfig) -> ProgramWebhooks | None:
    if not app.has_webhooks:
        return None
    configurations = app.webhook_configurations(config)
    webhooks = [each for configuration in configurations for each in configuration["webhooks"]]
    return ProgramWebhooks(
        host=urlsplit(config.url).netloc,
        handler=lambda client: app.webhook_handler(client).respond,
        configurations=tuple(configurations),
        ignorable=frozenset(
            urlsplit(each["clientConfig"]["url"]).path for each in webhooks if each["failurePolicy"] == "Ignore"
        ),
    )


def name_of(check: Check) -> str:
    """What a function is called in reports."""
    return getattr(check, "__name__", repr(check))


def shrunk(runner: _Runner, run: _Run, most: int) -> tuple[Failure, str, BaseException | None]:
    """Shrink the faults of a run that has failed; the failure that is left, and a report of it."""
    failed = FailedRun(run.faults, run)
    if not runner.needs_reference:  # else there is one fault at most, and without it there was no failure
        failed.shrink(
            lambda subset: runner.run(run.seed, subset),
            lambda tried: tried.failure is not None and tried.kind == run.kind,
            most=most,
        )
    needed, last = failed.parts, failed.result
    reason = f"{type(last.failure).__name__}: {last.failure}"
    shown = "\n".join(f"  [{number}] {fault}" for number, fault in needed) or "  none: it fails without faults"
    enough = f"{len(needed)} of {len(run.faults)} are enough, found in {failed.runs} runs"
    command = _command(run.seed, needed)
    text = (
        f"seed {run.seed}: {reason}\n"
        f"reproduce: {command}\n"
        f"faults:{'' if runner.needs_reference else f' {enough}'}\n{shown}\n"
        f"the end of the log:\n{last.log}\n\nseed {run.seed}: {reason}"
    )
    faults = tuple(fault for _number, fault in needed)
    return Failure(run.seed, faults, last.kind[1], reason, command, last.log), text, last.failure


def _command(seed: int, needed: tuple[Numbered, ...]) -> str:
    """What runs a seed with these faults only, in a shell."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    program = f"pytest {shlex.quote(test)}" if test else f"python {shlex.quote(sys.argv[0])}"
    asked = os.environ.get(FAULTS)
    faults = f"{FAULTS}={shlex.quote(asked)} " if asked else ""
    return f"{faults}{SEEDS}={seed}:{','.join(str(number) for number, _fault in needed)} {program}"


def _chosen(text: str) -> Iterator[tuple[int, frozenset[int] | None]]:
    """What ``PILOTHOUSE_SEEDS`` says. Raises ``ValueError``."""
    found = _CHOSEN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{SEEDS} is a seed (17), a range (0-199) or a seed with its faults (17:0,3), got {text!r}")
    first, last, only = found.groups()
    if only is not None:
        yield int(first), frozenset(int(number) for number in only.split(",") if number)
        return
    for seed in range(int(first), int(last or first) + 1):
        yield seed, None


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """No log lines: under faults there are thousands, and all are expected."""
    logger = logging.getLogger("pilothouse")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
