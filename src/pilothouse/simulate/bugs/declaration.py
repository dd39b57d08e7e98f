"""``Bug`` and ``Scenario``: the declarations of known bugs.

A module declares a bug, and adds scenarios to it::

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
"""An object, the name of an attribute, and the replacement of its value."""
Patches = Sequence[Patch] | Callable[[], Sequence[Patch]]
"""A function creates patches with state, for each run separately."""
Steps = Callable[..., Coroutine[Any, Any, None]]
"""``steps(simulation, **arguments)``."""


class Pattern(enum.Enum):
    """The cause of a bug. The first three are the patterns of Sieve (Sun et al., OSDI 2022)."""

    STALE = "stale state"
    INTERMEDIATE = "intermediate state"
    UNOBSERVED = "unobserved state"
    TIME = "time"
    COLLISION = "collision"
    LOGIC = "logic or limits"


class Unguarded(msgspec.Struct, frozen=True):
    """How the guard is disabled, and the resulting failure."""

    fails: str
    """A regular expression that matches the failure message."""
    patches: Patches = ()
    options: SimulationOptions | None = None
    """Replace those of the scenario."""
    arguments: Mapping[str, Any] = {}
    """In addition to those of the scenario."""


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
    """Applied in both runs: they force rare circumstances, such as equal hashes."""
    arguments: Mapping[str, Any]
    unguarded: Unguarded | None
    """None for a variation that only runs with the guard."""


def _no_invariants() -> Sequence[Invariant]:
    return ()


class Bug:
    """A known bug. ``threads`` are its issues and pull requests, ``kubernetes#1`` or ``owner/name#1``; the first one is
    its name. ``upstream`` is its state there, ``protection`` the guard that prevents it here. ``limits``: which part of
    it cannot happen in a simulation, and why."""

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
        """The URLs of the threads. GitHub redirects issue URLs to pull requests with that number."""
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
    """The URL of an issue or pull request."""
    repository, _hash, number = thread.partition("#")
    return f"https://github.com/{repository if '/' in repository else f'{repository}/{repository}'}/issues/{number}"


def check(holds: object, message: str) -> None:
    """Raise ``Violation`` with the message if the condition is false."""
    if not holds:
        raise Violation(message)


def only_invariant(simulation: Simulation, kind: type[T]) -> T:
    """The invariant of this type, to read its counters."""
    return next(invariant for invariant in simulation.invariants if isinstance(invariant, kind))
