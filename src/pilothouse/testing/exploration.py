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
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
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
from pilothouse.testing.manifests import definitions_of
from pilothouse.testing.running import Program
from pilothouse.testing.shrinking import FailedRun
from pilothouse.testing.snapshot import Snapshot
from pilothouse.testing.webhooks import client_config

if TYPE_CHECKING:
    from pilothouse.testing.manifests import Definitions

SEEDS = "PILOTHOUSE_SEEDS"
"""The environment variable with the seeds to run in place of those of the call: ``17``, ``0-199``, or ``17:0,3`` for
seed 17 with the first and the fourth of its faults only."""
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
    """By seed, of all writes of the run: two runs with the same digest were the same."""
    writes: int
    faults: dict[str, int]
    """How many faults of each type occurred."""


class ExplorationFailed(AssertionError):
    """A run has failed: the reason, how to reproduce it, the faults that are enough, and the end of the log."""


def explore(
    app: App | Program,
    scenario: Scenario,
    invariants: Sequence[Check | type[Invariant]] = (),
    *,
    seeds: int | Iterable[int] = 20,
    faults: int = 8,
    seconds: float = 60.0,
    settings: Settings = Settings(),  # noqa: B008  # immutable
    crds: "Definitions" = (),
    nodes: int = 1,
    controllers: Sequence[str] = ("*",),
    shrink_runs: int = 100,
) -> Explored:
    """Run ``scenario(cluster)`` against the operator, with ``faults`` faults within ``seconds``, once for each of the
    seeds (a number: that many, from 0). The same seed gives the same run in every process.

    The operator is killed and restarted, also with lists from an API server that is behind; answers to its writes are
    lost, writes conflict and fail, watches are late or end, and a second process runs at the same time. The scenario is
    an administrator whose requests never fail. When it has returned and the last fault is over, the cluster must come
    to rest: twenty minutes (virtual) without a write other than heartbeats.

    ``invariants`` are functions of the ``State``, called after every write and at the end (``state.converged``), or
    classes derived from ``pilothouse.sim.Invariant``, with an instance for each run. Reconcilers are created anew with
    each process, as are programs that are coroutine functions.

    The webhooks and conversions of an app are called, in this process. Its living processes answer; the calls are
    slow, fail or lose their answers, and are refused while no process lives. Where that would fail a request of the
    scenario, its call is spared: with ``failure_policy="Ignore"`` it is not, and the webhook has no effect then.

    Raises ``ExplorationFailed`` for the first seed that fails, with the fewest faults that still fail in at most
    ``shrink_runs`` further runs, and ``ValueError`` for definitions in ``crds`` whose versions a webhook converts, and
    for settings with ``webhooks``. The environment variable ``PILOTHOUSE_SEEDS`` takes the place of ``seeds``.
    """
    options = SimulationOptions(nodes=nodes, controllers=tuple(controllers), storage=True)
    program = simulated_program(app, settings, definitions_of(crds))
    resources = tuple(dict.fromkeys(grant.resource for grant in app.grants())) if isinstance(app, App) else ()
    runner = _Runner(program, scenario, tuple(invariants), options)

    def plan(seed: int) -> tuple[Fault, ...]:
        chance = Chance(seed).stream("faults")
        return draw_for_program(
            chance, seconds, count=faults, resources=resources, webhooks=program.webhooks is not None
        ).faults

    digests: dict[int, str] = {}
    writes, counts = 0, Counter[str]()
    chosen = os.environ.get(SEEDS)
    wanted = [(seed, None) for seed in (range(seeds) if isinstance(seeds, int) else seeds)]
    for seed, only in _chosen(chosen) if chosen else wanted:
        drawn = tuple(enumerate(plan(seed)))
        used = drawn if only is None else tuple(each for each in drawn if each[0] in only)
        run = runner.run(seed, used, logged=chosen is not None)
        if run.failure is not None:
            _fail(runner, run, shrink_runs if only is None else 0)
        digests[seed] = run.digest
        writes += run.writes
        counts.update(type(fault).__name__ for _number, fault in used)
    return Explored(digests, writes, dict(sorted(counts.items())))


Numbered = tuple[int, Fault]


class _Run(msgspec.Struct):
    seed: int
    faults: tuple[Numbered, ...]
    failure: BaseException | None
    digest: str
    writes: int
    log: str

    @property
    def kind(self) -> tuple[type[BaseException], str]:
        """What kind of failure it is: subsets of faults that fail in another way do not count when it is shrunk."""
        assert self.failure is not None, "only what has failed has a kind"
        return type(self.failure), self.failure.check if isinstance(self.failure, CheckFailed) else ""


class _Runner:
    """Runs one scenario, with any seed and faults."""

    def __init__(
        self,
        program: SimulatedProgram,
        scenario: Scenario,
        invariants: tuple[Check | type[Invariant], ...],
        options: SimulationOptions,
    ) -> None:
        self._program = program
        self._scenario = scenario
        self._invariants = invariants
        self._options = options

    def run(self, seed: int, faults: tuple[Numbered, ...], *, logged: bool = False) -> _Run:
        """One run. Failures of every kind are a part of its result."""
        simulations: list[Simulation] = []

        async def main(env: Env) -> None:
            checks = _Checks([each for each in self._invariants if not isinstance(each, type)])
            others = [each() for each in self._invariants if isinstance(each, type)]
            async with running(env, self._options, (checks, *others), self._program) as simulation:
                simulations.append(simulation)
                checks.state = State(simulation)
                plan = FaultPlan(tuple(fault for _number, fault in faults))
                following = asyncio.get_running_loop().create_task(simulation.follow(plan), name="faults")
                await self._scenario(AsyncCluster(simulation.plane, Snapshot(simulation.plane), client=simulation.user))
                await following
                await simulation.settle()

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


class CheckFailed(Violation):
    """A function that was given as an invariant has failed."""

    def __init__(self, check: str, error: AssertionError) -> None:
        super().__init__(f"{check}: {error}")
        self.check = check


class _Checks(Invariant):
    """Calls functions of the state after every write, and at the end."""

    def __init__(self, checks: list[Check]) -> None:
        self._checks = checks
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
                raise CheckFailed(getattr(check, "__name__", repr(check)), error) from error


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


def _fail(runner: _Runner, run: _Run, most: int) -> None:
    """Shrink the faults of a run that has failed, and report what is left."""
    failed = FailedRun(run.faults, run)
    failed.shrink(
        lambda subset: runner.run(run.seed, subset),
        lambda tried: tried.failure is not None and tried.kind == run.kind,
        most=most,
    )
    needed, last = failed.parts, failed.result
    reason = f"{type(last.failure).__name__}: {last.failure}"
    shown = "\n".join(f"  [{number}] {fault}" for number, fault in needed) or "  none: it fails without faults"
    text = (
        f"seed {run.seed}: {reason}\n"
        f"reproduce: {_command(run.seed, needed)}\n"
        f"faults: {len(needed)} of {len(run.faults)} are enough, found in {failed.runs} runs\n{shown}\n"
        f"the end of the log:\n{last.log}\n\nseed {run.seed}: {reason}"
    )
    raise ExplorationFailed(text) from last.failure


def _command(seed: int, needed: tuple[Numbered, ...]) -> str:
    """What runs a seed with these faults only, in a shell."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    program = f"pytest {shlex.quote(test)}" if test else f"python {shlex.quote(sys.argv[0])}"
    return f"{SEEDS}={seed}:{','.join(str(number) for number, _fault in needed)} {program}"


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
