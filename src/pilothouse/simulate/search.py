"""``Search``: runs seeds until one fails, or all of them, and shrinks what has failed.

What is reported does not depend on the number of processes: after a failure the runs before it are completed, and the
first failure in the order of the seeds is the one that counts.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from pilothouse.simulate.jobs import Job, Runner
from pilothouse.simulate.result import Failure, Part, Result
from pilothouse.testing.shrinking import FailedRun

MAX_RECORDINGS = 100
"""So many of the first runs are recorded, where that is asked for; and those that are reported as failures."""
Finished = tuple[Job, Result]


class Observer(Protocol):
    """Receives the progress of a search."""

    def finished(self, result: Result) -> None:
        """A run has come to its end."""

    def shrinking(self, failed: "FailedRun[int, Result]") -> None:
        """A run that has failed is being shrunk. Called before every further run."""


class ShrunkFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure, shrunk."""

    job: Job
    failure: Failure
    result: Result
    """Of the run with the fewest parts."""
    parts: tuple[Part, ...]
    """The fewest that still fail in the same way."""
    of: int
    """How many there were."""
    runs: int
    """Made to find out."""


class Search:
    """Runs one after the other, or several at a time."""

    def __init__(
        self, runner: Runner, observer: Observer, *, keep_going: bool, shrink_runs: int, record: bool = False
    ) -> None:
        self._runner = runner
        self._observer = observer
        self._keep_going = keep_going
        self._shrink_runs = shrink_runs
        self._record = record
        self._first_failure: int | None = None
        self.finished: list[Finished] = []
        """All runs, in their order, without what only a failure needs."""
        self.failures: list[ShrunkFailure] = []
        """The first failure of each kind, per variant."""
        self.interrupted = False

    def run(self, jobs: Sequence[Job]) -> None:
        """Make the runs. Raises ``ScenarioError``. Ctrl-C ends it with what is known by then."""
        failed: list[Finished] = []
        try:
            self._run(jobs, failed)
            for job, result in sorted(failed, key=lambda run: run[0].number):
                self._shrink(job, result)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.finished.sort(key=lambda run: run[0].number)

    def _run(self, jobs: Sequence[Job], failed: list[Finished]) -> None:
        signatures: set[tuple[int, tuple[str, str]]] = set()
        for job, result in self._runner.run(self._wanted(jobs)):
            self._observer.finished(result)
            self.finished.append((job, msgspec.structs.replace(result, parts=(), log="")))
            if result.failure is None:
                continue
            signature = (job.variant, result.failure.signature)
            if signature not in signatures:
                signatures.add(signature)
                failed.append((job, result))
            else:
                self._replace_later(failed, job, result)
            if not self._keep_going and (self._first_failure is None or job.number < self._first_failure):
                self._first_failure = job.number
                self._runner.abandon(job.number)
        if self._first_failure is not None:
            last = self._first_failure
            self.finished = [run for run in self.finished if run[0].number <= last]
            failed[:] = [run for run in failed if run[0].number <= last]

    def _replace_later(self, failed: list[Finished], job: Job, result: Result) -> None:
        """Of a kind of failure the first seed counts, whatever came to its end first."""
        assert result.failure is not None, "the run has failed"
        for index, (other, before) in enumerate(failed):
            assert before.failure is not None, "only failures are here"
            if other.variant == job.variant and before.failure.signature == result.failure.signature:
                if job.number < other.number:
                    failed[index] = (job, result)
                return

    def _wanted(self, jobs: Sequence[Job]) -> Iterator[Job]:
        for job in jobs:
            if self._first_failure is not None:
                return
            yield msgspec.structs.replace(job, record=True) if self._record and job.number < MAX_RECORDINGS else job

    def _shrink(self, job: Job, result: Result) -> None:
        failure = result.failure
        assert failure is not None, "only what has failed is shrunk"
        failed = FailedRun(tuple(part.number for part in result.parts), result)

        def again(numbers: tuple[int, ...]) -> Result:
            self._observer.shrinking(failed)
            subset = msgspec.structs.replace(job, only=frozenset(numbers), record=self._record)
            return next(iter(self._runner.run([subset])))[1]

        def fails_alike(tried: Result) -> bool:
            return tried.failure is not None and tried.failure.signature == failure.signature

        try:
            # What takes too long would take as long again and again.
            if result.parts and failure.kind != "timeout":
                failed.shrink(again, fails_alike, most=self._shrink_runs)
        finally:
            last = failed.result
            assert last.failure is not None, "it fails alike"
            kept = set(failed.parts)
            self.failures.append(
                ShrunkFailure(
                    job=job,
                    failure=last.failure,
                    result=last,
                    parts=tuple(part for part in result.parts if part.number in kept),
                    of=len(result.parts),
                    runs=failed.runs,
                )
            )
