"""Runs to be made, and how they are made in this process. ``workers`` makes them in several."""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from pilothouse.simulate.result import Result
from pilothouse.simulate.run import Running, run
from pilothouse.simulate.scenario import Scenario


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    number: int
    """In the order of all runs."""
    seed: int
    variant: int = 0
    only: frozenset[int] | None = None
    record: bool = False


class Runner(Protocol):
    """Makes runs of scenarios, one for each variant."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """The results as they come. The next job is taken when there is room for it. Raises ``ScenarioError``."""

    def abandon(self, after: int) -> None:
        """Give up the runs with a higher number, which ``run`` then does not return."""

    def close(self) -> None:
        """End what is still running."""


class LocalRunner:
    """Runs in this process, one after the other: what debuggers want."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._scenarios = scenarios
        self.running = Running()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """As ``Runner.run``."""
        for job in jobs:
            yield job, perform(self._scenarios, job, self.running)

    def abandon(self, after: int) -> None:
        """Nothing runs beside the consumer."""

    def close(self) -> None:
        """Nothing is left."""

    def virtual_seconds(self) -> float:
        """Of the run that is being made; may be called from another thread."""
        return self.running.seconds


def perform(scenarios: Sequence[Scenario], job: Job, running: Running) -> Result:
    """Make a run. Standard output belongs to the command's result: what a program prints goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        return run(scenarios[job.variant], job.seed, only=job.only, record=job.record, running=running)
