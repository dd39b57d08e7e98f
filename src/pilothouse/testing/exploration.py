"""``explore``: an operator under faults, in virtual time, once per seed; a run that fails is shrunk to few faults.

Cluster, faults and log of a run are those of ``pilothouse.sim``: the operator replaces the manager there, i.e. it is
killed and restarted. The API server, controllers and nodes have no faults.
"""

import contextlib
import inspect
import os
import re
import shlex
import signal
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.env.signals import FirstSignal
from pilothouse.operator import App, Settings
from pilothouse.operator.arguments import shown
from pilothouse.sim.faults import Fault
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.simulation import SimulationOptions
from pilothouse.testing import mistakes
from pilothouse.testing.asynchronous import check_controllers, is_expected
from pilothouse.testing.exploration_runs import Numbered, PatternRunner, RandomRunner, Run, Runner, Scenario
from pilothouse.testing.manifests import definitions_of
from pilothouse.testing.patterns import Pattern, patterns_of
from pilothouse.testing.running import Program
from pilothouse.testing.shrinking import FailedRun
from pilothouse.testing.simulated_program import simulated_program
from pilothouse.testing.state import Check, CheckFailed
from pilothouse.testing.tracebacks import without_internals

with lazy_imports():
    from pilothouse.testing import plugin

if TYPE_CHECKING:
    import pytest

    from pilothouse.testing.manifests import Definitions

SEEDS = "PILOTHOUSE_SEEDS"
"""The environment variable with the seeds that override those of the call: ``17``, ``0-199``, or ``17:0,3`` for seed 17
with only the first and the fourth of its faults, ``17:none`` without any."""
FAULTS = "PILOTHOUSE_FAULTS"
"""The environment variable with the faults that override those of the call: ``8``, ``sieve``, ``stale,unobserved``."""
_MAX_WARNED = 5
MAX_POINTS = 500
"""The default number of runs with a systematic fault per seed."""
_NONE = "none"
_CHOSEN = re.compile(rf"(\d+)(?:-(\d+)|:((?:\d+(?:,\d+)*|{_NONE})?))?")


class Explored(msgspec.Struct, frozen=True):
    """The summary of an exploration without failures."""

    digests: dict[int, str]
    """By seed, of all writes of the run: two runs with the same digest were the same. With patterns: of the run without
    faults."""
    writes: int
    faults: dict[str, int]
    """How many faults of each type occurred."""
    runs: int


class Failure(msgspec.Struct, frozen=True):
    """One kind of failure, and the fewest faults that were found to cause it."""

    seed: int
    faults: tuple[Fault, ...]
    check: str
    """The name of the function that failed; empty if it was not one."""
    reason: str
    command: str
    """Repeats the run, in a shell."""
    log: str


def is_hidden(raised: "pytest.ExceptionInfo[BaseException]") -> bool:
    """For pytest: whether to omit the frames of this module from a traceback."""
    return isinstance(raised.value, ExplorationFailed) or is_expected(raised)


__tracebackhide__ = is_hidden


class ExplorationFailed(AssertionError):
    """Failed runs: the reason, how to reproduce it, the necessary faults, and the end of the log."""

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
    most_points: int = MAX_POINTS,
) -> Explored:
    """Run ``scenario(cluster)`` against the operator, with ``faults`` faults within ``seconds``, once for each of the
    seeds (a number: that many, from 0; 20 by default). The same seed gives the same run in every process.

    The operator is killed and restarted, also with lists from a stale API server; responses to its writes are lost,
    writes conflict and fail, watches are delayed or end, and a second process runs in parallel. The scenario is an
    administrator whose requests never fail. When it has returned and the last fault is over, the cluster must become
    idle: twenty minutes (virtual) without a write other than heartbeats.

    ``faults="sieve"`` is systematic instead of random: after a run without faults there is one run for each of its
    writes and changes, with a single fault at that point. ``"stale"``, ``"intermediate"`` and ``"unobserved"`` are its
    three patterns (``testing.patterns``). Each run must end as the one without faults, except for times, uids and
    differences between two seeds; ``same_end=False`` leaves that to the invariants. One seed is the default. Of more
    than ``most_points`` points, this many are used, spread evenly over the run. The number of runs, their approximate
    duration, and the current one are printed to standard error, which ``pytest -s`` shows.

    ``invariants`` are functions of the ``State``, called after every write and at the end (``state.converged``), or
    classes derived from ``pilothouse.sim.Invariant``, with an instance for each run. Reconcilers are created for each
    process, as are programs that are coroutine functions.

    The webhooks and conversions of an app are called, in this process, as long as one of its processes runs; calls are
    delayed, fail or lose their responses, and are rejected while no process runs. A call whose failure would fail a
    request of the scenario is spared, except with ``failure_policy="Ignore"``, where the webhook then has no effect.

    A warning names objects whose syncs still fail, and are retried, when the cluster is idle.

    Raises ``ExplorationFailed`` for the first seed that fails, with the fewest faults that still fail in at most
    ``shrink_runs`` further runs; with ``keep_going`` after all runs, with one ``Failure`` for each function that has
    failed, which no longer ends runs from then on. Raises ``ValueError`` for definitions in ``crds`` with a conversion
    webhook, for settings with ``webhooks``, for ``most_points`` below 1, negative ``faults``, no seed, a
    fault that does not exist, and unknown patterns. The environment variables ``PILOTHOUSE_SEEDS`` and
    ``PILOTHOUSE_FAULTS`` override ``seeds`` and ``faults``; a single seed runs with its log, from INFO on.
    """
    if most_points < 1:
        raise ValueError(f"most_points must be at least 1, got {most_points}")
    if isinstance(faults, int) and faults < 0:
        raise ValueError(f"faults must not be negative, got {faults}")
    _check_functions(app, scenario, invariants)
    check_controllers(controllers)
    options = SimulationOptions(nodes=nodes, controllers=tuple(controllers), storage=True)
    processes: list[App] = []
    program = simulated_program(app, settings, definitions_of(crds), processes.append)
    requested = os.environ.get(FAULTS) or faults
    count = (
        int(requested) if isinstance(requested, int) or (isinstance(requested, str) and requested.isdecimal()) else None
    )
    if count is None:
        assert not isinstance(requested, int), "a number is counted"
        runner: Runner = PatternRunner(
            program,
            scenario,
            tuple(invariants),
            options,
            patterns_of(requested),
            same_end=same_end,
            most_points=most_points,
        )
    else:
        resources = resources_of(app) if isinstance(app, App) else ()
        runner = RandomRunner(program, scenario, tuple(invariants), options, (seconds, count, resources))
    runner.processes = processes
    chosen = os.environ.get(SEEDS, "")
    if seeds is None:
        seeds = 20 if count is not None else 1
    wanted = [(seed, None) for seed in (range(seeds) if isinstance(seeds, int) else seeds)]
    if not chosen and not wanted:
        raise ValueError(f"seeds must be a positive number or name at least one seed, got {seeds!r}")
    exploration = _Exploration(runner, shrink_runs, keep_going=keep_going)
    is_single_run = bool(chosen) and "-" not in chosen
    with _sigterm_as_ctrl_c():
        try:
            for seed, only in _chosen(chosen) if chosen else wanted:
                exploration.explore(seed, only, logged=is_single_run)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(exploration.so_far()) from None
    return exploration.done()


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Within the block SIGTERM interrupts the tests as Ctrl-C does, so that pytest writes its reports."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    first: FirstSignal | None = None

    def interrupt(number: int, _frame: object) -> None:
        nonlocal first
        if first is None:
            first = FirstSignal(number)
            raise KeyboardInterrupt
        if not first.is_repeated():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def resources_of(app: App) -> tuple[str, ...]:
    """The resources of an app's requests, of which faults are drawn. A fault of a resource also happens to requests of
    its subresources: these are no resources of their own."""
    return tuple(dict.fromkeys(grant.resource.partition("/")[0] for grant in app.grants()))


def _check_functions(app: object, scenario: object, invariants: object) -> None:
    """Raises ``TypeError`` for arguments that can't be called as documented, above all in another order."""
    if isinstance(scenario, App) or not callable(scenario):
        raise mistakes.InvalidType(f"scenario must be an async function of the cluster, got {shown(scenario)}")
    if not isinstance(app, App) and not callable(app):
        raise mistakes.InvalidType(f"app must be an App, or a program that takes a client, got {shown(app)}")
    if not isinstance(invariants, Sequence) or isinstance(invariants, str):
        raise mistakes.InvalidType(f"invariants must be a list of functions, got {shown(invariants)}")
    for check in invariants:
        if not callable(check):
            raise mistakes.InvalidType(f"invariants must be functions of the State, got {shown(check)}")
        if inspect.iscoroutinefunction(check):
            raise mistakes.InvalidType(f"invariants must not be async functions: {shown(check)} would not be run")


class _Exploration:
    """The runs of one call."""

    def __init__(self, runner: Runner, shrink_runs: int, *, keep_going: bool) -> None:
        self._runner = runner
        self._shrink_runs = shrink_runs
        self._keep_going = keep_going
        self._failures: dict[tuple[type[BaseException], str], tuple[Failure, str]] = {}
        self._digests: dict[int, str] = {}
        self._writes = 0
        self._runs = 0
        self._counts: Counter[str] = Counter()
        self._has_warned = False

    def explore(self, seed: int, only: frozenset[int] | None, *, logged: bool) -> None:
        """All runs of a seed, or the one with the faults of these numbers."""
        for used in self._runner.plans(seed, only):
            count = len(self._failures)
            run = self._run(seed, used, logged=logged)
            if run.failure is not None:
                self._fail(run, self._shrink_runs if only is None else 0)
                while self._keep_going and len(self._failures) > count:
                    # The failed function no longer ends runs, because others may fail in the same one.
                    count = len(self._failures)
                    run = self._run(seed, used, logged=logged)
                    if run.failure is not None:
                        self._fail(run, self._shrink_runs)
            if run.failure is not None and not used and self._runner.needs_reference:
                return  # without faults nothing can be compared with it
            self._digests.setdefault(seed, run.digest)

    def _run(self, seed: int, used: tuple[Numbered, ...], *, logged: bool) -> Run:
        run = self._runner.run(seed, used, logged=logged)
        self._runs += 1
        self._writes += run.writes
        self._counts.update(type(fault).__name__ for _number, fault in used)
        if run.failure is None and run.retried_errors and not self._has_warned:
            self._has_warned = True
            errors = "".join(f"\n  {line}" for line in run.retried_errors[:_MAX_WARNED])
            warnings.warn(
                f"explore: when the cluster is idle, syncs still fail and are retried (seed {seed}):{errors}",
                stacklevel=4,
            )
        return run

    def _fail(self, run: Run, limit: int) -> None:
        if run.kind in self._failures:
            return
        failure, text, error = shrunk(self._runner, run, limit)
        if not self._keep_going:
            raise ExplorationFailed(text, (failure,)) from error
        self._failures[run.kind] = failure, text
        if isinstance(run.failure, CheckFailed):
            self._runner.muted.add(run.failure.check)

    def so_far(self) -> str:
        """The result of an exploration that was interrupted."""
        texts = [text for _failure, text in self._failures.values()]
        ended = f"explore was interrupted after {self._runs} runs"
        return "\n\n".join([ended if texts else f"{ended}, none of which failed", *texts])

    def done(self) -> Explored:
        """The result, unless runs have failed."""
        if self._failures:
            failures = self._failures.values()
            text = "\n\n".join(text for _failure, text in failures)
            count = f"{len(failures)} {'failure' if len(failures) == 1 else 'failures'} in {self._runs} runs"
            raise ExplorationFailed(f"{text}\n\n{count}", tuple(failure for failure, _text in failures))
        return Explored(self._digests, self._writes, dict(sorted(self._counts.items())), self._runs)


def shrunk(runner: Runner, run: Run, limit: int) -> tuple[Failure, str, BaseException | None]:
    """Shrink the faults of a failed run; returns the remaining failure and a report of it."""
    failed = FailedRun(run.faults, run)
    if not runner.needs_reference:  # else there is one fault at most, and without it there was no failure
        failed.shrink(
            lambda subset: runner.run(run.seed, subset),
            lambda tried: tried.failure is not None and tried.kind == run.kind,
            limit=limit,
        )
    needed, last = failed.parts, failed.result
    reason = f"{type(last.failure).__name__}: {last.failure}"
    faults_text = "\n".join(f"  [{number}] {fault}" for number, fault in needed) or "  none: it fails without faults"
    enough = f"{len(needed)} of {len(run.faults)} are enough, found in {failed.runs} runs"
    command = _command(run.seed, needed)
    text = (
        f"seed {run.seed}: {reason}\n"
        f"reproduce: {command}\n"
        f"faults:{'' if runner.needs_reference else f' {enough}'}\n{faults_text}\n"
        f"the end of the log:\n{last.log}\n\nseed {run.seed}: {reason}"
    )
    faults = tuple(fault for _number, fault in needed)
    cause = last.failure.__cause__ if isinstance(last.failure, CheckFailed) else last.failure
    failure_cause = None if cause is None else without_internals(cause)
    return Failure(run.seed, faults, last.kind[1], reason, command, last.log), text, failure_cause


def _command(seed: int, needed: tuple[Numbered, ...]) -> str:
    """The shell command that runs a seed with these faults only."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    words = ["pytest", plugin.from_invocation_directory(test)] if test else ["python", *sys.orig_argv[1:]]
    program = shlex.join(words)
    requested = os.environ.get(FAULTS)
    faults = f"{FAULTS}={shlex.quote(requested)} " if requested else ""
    return f"{faults}{SEEDS}={seed}:{','.join(str(number) for number, _fault in needed) or _NONE} {program}"


def _chosen(text: str) -> Iterator[tuple[int, frozenset[int] | None]]:
    """The value of ``PILOTHOUSE_SEEDS``. Raises ``ValueError``."""
    match = _CHOSEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{SEEDS} is a seed (17), a range (0-199) or a seed with some of its faults (17:0,3, 17:none), got {text!r}"
        )
    first, last, only = match.groups()
    if only is not None:
        yield int(first), frozenset(int(number) for number in only.split(",") if number.isdecimal())
        return
    if last is not None and int(last) < int(first):
        raise ValueError(f"{SEEDS}={text}: the last seed is before the first")
    for seed in range(int(first), int(last or first) + 1):
        yield seed, None
