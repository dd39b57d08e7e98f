"""Runs a scenario of a known bug, with or without the guard, and compares the result with the declaration."""

import contextlib
import re
from collections.abc import Iterator, Sequence

import msgspec

from pilothouse.env import Env, virtual
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import without_log
from pilothouse.sim import Simulation, running
from pilothouse.simulate.bugs.declaration import Bug, Patch, Patches, Scenario

with lazy_imports():
    from pilothouse.simulate import recording

LINES = 40


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one run."""

    bug: str
    scenario: str
    unguarded: bool
    """Whether the guard was disabled."""
    as_declared: bool
    """Whether it passed with the guard, or failed without the guard for the declared reason."""
    failure: str
    """The failure; empty if the run passed."""
    expected: str = ""
    """The regular expression that the failure must match; empty if the run must pass."""
    why: list[str] = []
    """The explanation of the write that an invariant rejected."""
    log: list[str] = []
    """The last lines of the log of the run."""
    seconds: float
    """Virtual seconds."""
    writes: int
    digest: str
    """A digest of all writes: runs with equal digests are identical."""


class NoUnguardedRun(ValueError):
    """The scenario has no run without the guard."""


def run(bug: Bug, scenario: Scenario, *, unguarded: bool = False, seed: int | None = None) -> Outcome:
    """Run the scenario in virtual time. Raises ``NoUnguardedRun``."""
    return _run(bug, scenario, unguarded=unguarded, seed=seed, record=False)[0]


def run_recorded(
    bug: Bug, scenario: Scenario, *, unguarded: bool = False, seed: int | None = None
) -> "tuple[Outcome, recording.Recording]":
    """As ``run``, with a recording for a report. The run is the same."""
    outcome, recorded = _run(bug, scenario, unguarded=unguarded, seed=seed, record=True)
    assert recorded is not None, "recording was requested"
    if outcome.failure:
        why = "\n".join(outcome.why)
        mark = recording.Mark(at=recorded.seconds, kind=recording.VIOLATION, text=outcome.failure, why=why)
        recorded = msgspec.structs.replace(recorded, failure=outcome.failure, marks=[*recorded.marks, mark])
    return outcome, recorded


def _run(
    bug: Bug, scenario: Scenario, *, unguarded: bool, seed: int | None, record: bool
) -> "tuple[Outcome, recording.Recording | None]":
    without = scenario.unguarded if unguarded else None
    if unguarded and without is None:
        raise NoUnguardedRun(f"{bug.id}, {scenario.name!r}, has no run without the guard")
    options, arguments = scenario.options, dict(scenario.arguments)
    if without is not None:
        options = without.options or options
        arguments |= without.arguments
    simulations: list[Simulation] = []
    ended = 0.0
    recorded: recording.Recording | None = None
    chosen_seed = scenario.seed if seed is None else seed
    name = f"{bug.id}: {scenario.name}"

    async def main(env: Env) -> None:
        nonlocal ended, recorded
        try:
            async with running(env, options, scenario.invariants()) as simulation:
                simulations.append(simulation)
                recorder = None
                if record:
                    variant = "without the guard" if unguarded else "with the guard"
                    recorder = recording.Recorder(simulation, name=name, seed=chosen_seed, variant=variant)
                try:
                    await scenario.steps(simulation, **arguments)
                finally:
                    if recorder is not None:
                        recorded = recorder.finish()
        finally:
            ended = env.monotonic()

    failure = ""
    with contextlib.ExitStack() as stack:
        stack.enter_context(without_log())
        stack.enter_context(patched(scenario.patches))
        if without is not None:
            stack.enter_context(patched(without.patches))
        try:
            virtual.run(main, seed=chosen_seed)
        except Exception as error:  # any error is the outcome
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            failure = f"{type(cause).__name__}: {cause}"
            if not simulations:
                raise
    simulation = simulations[0]
    expected = without.fails if without is not None else ""
    outcome = Outcome(
        bug=bug.id,
        scenario=scenario.name,
        unguarded=unguarded,
        as_declared=re.search(expected, failure) is not None if expected else not failure,
        failure=failure,
        expected=expected,
        why=simulation.explained().strip().splitlines()[1:] if failure else [],
        log=simulation.log.last(LINES).splitlines() if failure else [],
        seconds=round(ended, 3),
        writes=simulation.log.writes,
        digest=simulation.log.digest,
    )
    return outcome, recorded


@contextlib.contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Replace attributes for the time of the block."""
    chosen: Sequence[Patch] = patches() if callable(patches) else patches
    with contextlib.ExitStack() as stack:
        for target, name, replacement in chosen:
            original = getattr(target, name)
            own = not isinstance(target, type) or name in vars(target)
            stack.callback(
                _restore, target, name, vars(target)[name] if own and isinstance(target, type) else original, own
            )
            setattr(target, name, replacement)
        yield


def _restore(target: object, name: str, original: object, own: bool) -> None:
    if own:
        setattr(target, name, original)
    else:
        delattr(target, name)  # it was inherited
