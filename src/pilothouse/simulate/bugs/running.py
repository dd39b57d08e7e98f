"""Runs a scenario of a known bug, with the guard or without, and says whether it went as declared."""

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
    """One run."""

    bug: str
    scenario: str
    unguarded: bool
    """Whether the guard was taken away."""
    as_declared: bool
    """With the guard it passed; without, it failed for the reason that is declared."""
    failure: str
    """What went wrong; empty if nothing did."""
    expected: str = ""
    """What the failure had to contain, as a regular expression; empty if nothing was to fail."""
    why: list[str] = []
    """Why the write was made that an invariant rejected."""
    log: list[str] = []
    """The last lines of the log of the run."""
    seconds: float
    """Virtual."""
    writes: int
    digest: str
    """Of all writes: runs with the same digest were the same."""


class NoUnguardedRun(ValueError):
    """The scenario only shows the guard holding."""


def run(bug: Bug, scenario: Scenario, *, unguarded: bool = False, seed: int | None = None) -> Outcome:
    """Run the scenario in virtual time. Raises ``NoUnguardedRun``."""
    return _run(bug, scenario, unguarded=unguarded, seed=seed, record=False)[0]


def run_recorded(
    bug: Bug, scenario: Scenario, *, unguarded: bool = False, seed: int | None = None
) -> "tuple[Outcome, recording.Recording]":
    """As ``run``, with what a report shows of it. The run is the same."""
    outcome, recorded = _run(bug, scenario, unguarded=unguarded, seed=seed, record=True)
    assert recorded is not None, "it was asked for"
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
        except Exception as error:  # whatever it is, it is the outcome
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
        log=simulation.story.last(LINES).splitlines() if failure else [],
        seconds=round(ended, 3),
        writes=simulation.story.writes,
        digest=simulation.story.digest,
    )
    return outcome, recorded


@contextlib.contextmanager
def patched(patches: Patches) -> Iterator[None]:
    """Replace attributes for the time of the block."""
    chosen: Sequence[Patch] = patches() if callable(patches) else patches
    with contextlib.ExitStack() as stack:
        for target, name, replacement in chosen:
            before = getattr(target, name)
            own = not isinstance(target, type) or name in vars(target)
            stack.callback(
                _restore, target, name, vars(target)[name] if own and isinstance(target, type) else before, own
            )
            setattr(target, name, replacement)
        yield


def _restore(target: object, name: str, before: object, own: bool) -> None:
    if own:
        setattr(target, name, before)
    else:
        delattr(target, name)  # it was inherited
