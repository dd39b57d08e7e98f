"""``Bug`` and ``Scenario``: what is declared of a known bug.

A module of an area declares a bug, and adds scenarios to it::

    SLOW_CACHE = Bug("kubernetes#41675", "A slow pod cache causes an extra pod", …)

    @SLOW_CACHE.scenario( "synced too early", options=…, invariants=lambda: (ReplicaSets(burst=5),),
    unguarded=Unguarded("active pod number 2", ((UidTrackingExpectations, "satisfied", lambda _self, _key: True),)), )
    async def synced_too_early(simulation: Simulation) -> None: \"\"\"What happens in it.\"\"\"
"""

import enum
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation

T = TypeVar("T", bound=Invariant)
Patch = tuple[object, str, object]
"""An object, the name of one of its attributes, and what the attribute is replaced by."""
Patches = Sequence[Patch] | Callable[[], Sequence[Patch]]
"""A function creates patches with state, for each run separately."""
Steps = Callable[..., Coroutine[Any, Any, None]]
"""``steps(simulation, **arguments)``."""


class Pattern(enum.Enum):
    """What leads to a bug. The first three are the patterns of Sieve (Sun et al., OSDI 2022)."""

    STALE = "stale state"
    INTERMEDIATE = "intermediate state"
    UNOBSERVED = "unobserved state"
    TIME = "time"
    COLLISION = "collision"
    LOGIC = "logic or limits"


class Unguarded(msgspec.Struct, frozen=True):
    """How the guard is taken away, and what goes wrong then."""

    fails: str
    """A regular expression that is found in the message of the failure."""
    patches: Patches = ()
    options: SimulationOptions | None = None
    """In place of those of the scenario."""
    arguments: Mapping[str, Any] = {}
    """Besides those of the scenario."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One way to provoke a bug."""

    name: str
    """Unique within the bug."""
    description: str
    steps: Steps
    options: SimulationOptions
    invariants: Callable[[], Sequence[Invariant]]
    seed: int
    patches: Patches
    """Applied in both runs: they make rare circumstances certain, such as equal hashes."""
    arguments: Mapping[str, Any]
    unguarded: Unguarded | None
    """None if this is a variation that only shows the guard holding."""


def _no_invariants() -> Sequence[Invariant]:
    return ()


class Bug:
    """A known bug. ``threads`` are the issues and pull requests about it, ``kubernetes#1`` or ``owner/name#1``, the
    first of which names it. ``upstream`` says what has become of it there, ``guard`` what keeps it from happening
    here. ``limits``: what of it cannot happen in a simulation, if anything, and why."""

    def __init__(
        self,
        threads: str,
        title: str,
        *,
        controller: str,
        patterns: Sequence[Pattern],
        upstream: str,
        mechanism: str,
        protection: str,
        limits: str = "",
    ) -> None:
        self.threads = tuple(threads.split())
        self.title = title
        self.controller = controller
        self.patterns = tuple(patterns)
        self.upstream = upstream
        self.mechanism = mechanism
        self.protection = protection
        self.limits = limits
        self.scenarios: list[Scenario] = []

    @property
    def id(self) -> str:
        """``kubernetes#129795``."""
        return self.threads[0]

    @property
    def number(self) -> str:
        """``129795``."""
        return self.id.rpartition("#")[2]

    @property
    def links(self) -> list[str]:
        """Of the threads. GitHub leads from an issue's address to the pull request of that number."""
        return [link_of(thread) for thread in self.threads]

    def scenario(
        self,
        name: str,
        *,
        options: SimulationOptions,
        invariants: Callable[[], Sequence[Invariant]] = _no_invariants,
        seed: int = 1,
        patches: Patches = (),
        unguarded: Unguarded | None = None,
        cases: Mapping[str, Mapping[str, Any]] | None = None,
        variations: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Callable[[Steps], Steps]:
        """Add a scenario, or with ``cases`` one for each of them: ``NAME, CASE``, with the case's arguments.
        ``variations`` are cases that only run with the guard."""

        def add(steps: Steps) -> Steps:
            both = [(case, arguments, unguarded) for case, arguments in (cases or {"": {}}).items()]
            both += [(case, arguments, None) for case, arguments in (variations or {}).items()]
            for case, arguments, without in both:
                whole = f"{name}, {case}" if case else name
                assert all(scenario.name != whole for scenario in self.scenarios), (
                    f"{self.id} has two scenarios {whole!r}"
                )
                self.scenarios.append(
                    Scenario(
                        name=whole,
                        description=" ".join((inspect.getdoc(steps) or "").split()),
                        steps=steps,
                        options=options,
                        invariants=invariants,
                        seed=seed,
                        patches=patches,
                        arguments=arguments,
                        unguarded=without,
                    )
                )
            return steps

        return add


def link_of(thread: str) -> str:
    """The address of an issue or a pull request."""
    repository, _hash, number = thread.partition("#")
    return f"https://github.com/{repository if '/' in repository else f'{repository}/{repository}'}/issues/{number}"


def check(holds: object, message: str) -> None:
    """Raise ``Violation`` with the message unless it holds."""
    if not holds:
        raise Violation(message)


def only_invariant(simulation: Simulation, kind: type[T]) -> T:
    """The invariant of this type, for what it has counted."""
    return next(invariant for invariant in simulation.invariants if isinstance(invariant, kind))
