"""The runs of a search, and a runner that executes them in this process; ``workers`` executes them in several
processes."""

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
    """Its position among all runs."""
    seed: int
    variant: int = 0
    only: frozenset[int] | None = None
    record: bool = False


class Runner(Protocol):
    """Executes runs of scenarios, one scenario for each variant."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """Execute the jobs and yield results in the order of completion. The next job is taken when a slot is free.
        Raises ``ScenarioError``."""

    def abandon(self, after: int) -> None:
        """Abort the runs with a higher number; ``run`` does not yield their results."""

    def close(self) -> None:
        """Abort the remaining runs."""


class LocalRunner:
    """Executes runs one after the other in this process, for debuggers."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        self._scenarios = scenarios
        self.running = Running()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result]]:
        """As ``Runner.run``."""
        for job in jobs:
            yield job, perform(self._scenarios, job, self.running)

    def abandon(self, after: int) -> None:
        """A no-op: there are no parallel runs."""

    def close(self) -> None:
        """A no-op."""

    def virtual_seconds(self) -> float:
        """The virtual time of the current run; may be called from another thread."""
        return self.running.seconds


def perform(scenarios: Sequence[Scenario], job: Job, running: Running) -> Result:
    """Execute one run. Standard output is reserved for the result of the command: output of a program goes to standard
    error."""
    with contextlib.redirect_stdout(sys.stderr):
        return run(scenarios[job.variant], job.seed, only=job.only, record=job.record, running=running)
