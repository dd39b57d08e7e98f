"""``Search``: runs seeds until the first failure, or all of them, and shrinks failures.

The result does not depend on the number of processes: after a failure the runs with lower numbers are completed, and
the failure with the lowest number is reported.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from pilothouse.simulate.jobs import Job, Runner
from pilothouse.simulate.result import Failure, Part, Result
from pilothouse.testing.shrinking import FailedRun

MAX_RECORDINGS = 100
"""Maximum number of recorded runs, if recordings are requested; failures are recorded in addition."""
Finished = tuple[Job, Result]


class Observer(Protocol):
    """Receives the progress of a search."""

    def finished(self, result: Result) -> None:
        """A run has finished."""

    def shrinking(self, failed: "FailedRun[int, Result]") -> None:
        """A failed run is being shrunk. Called before every further run."""


class ShrunkFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure with the smallest set of parts that reproduces it."""

    job: Job
    failure: Failure
    """That of the run with all parts."""
    result: Result
    """The result of the run with the fewest parts, which may fail at another time and with other numbers."""
    parts: tuple[Part, ...]
    """The remaining parts; the run with them fails in the same way."""
    of: int
    """The number of parts before."""
    runs: int
    """The number of runs for shrinking."""


class Search:
    """Executes the runs of a command."""

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
        """All runs in order, without the details of failures."""
        self.failures: list[ShrunkFailure] = []
        """The first failure of each kind, per variant."""
        self.interrupted = False

    def run(self, jobs: Sequence[Job]) -> None:
        """Execute the runs. Raises ``ScenarioError``. Ctrl-C stops it; the results so far remain."""
        failed: list[Finished] = []
        try:
            self._run(jobs, failed)
            for job, result in sorted(failed, key=lambda run: run[0].number):
                self._shrink(job, result)
        except KeyboardInterrupt:
            self.interrupted = True
            shrunk = {failure.job for failure in self.failures}
            self.failures += [_unshrunk(job, result) for job, result in failed if job not in shrunk]
        finally:
            self.finished.sort(key=lambda run: run[0].number)

    def _run(self, jobs: Sequence[Job], failed: list[Finished]) -> None:
        signatures: set[tuple[int, tuple[str, str]]] = set()
        for job, result in self._runner.run(self._next_jobs(jobs)):
            self._observer.finished(result)
            self.finished.append((job, msgspec.structs.replace(result, parts=(), log="")))
            if result.failure is None:
                continue
            signature = (job.variant, result.failure.signature)
            if signature not in signatures:
                signatures.add(signature)
                failed.append((job, result))
            else:
                self._keep_lowest(failed, job, result)
            if not self._keep_going and (self._first_failure is None or job.number < self._first_failure):
                self._first_failure = job.number
                self._runner.abandon(job.number)
        if self._first_failure is not None:
            last = self._first_failure
            self.finished = [run for run in self.finished if run[0].number <= last]
            failed[:] = [run for run in failed if run[0].number <= last]

    def _keep_lowest(self, failed: list[Finished], job: Job, result: Result) -> None:
        """Of failures with the same signature, the one with the lowest number is reported, in whatever order the runs
        finish."""
        assert result.failure is not None, "the run has failed"
        for index, (other, other_result) in enumerate(failed):
            assert other_result.failure is not None, "failed has failures only"
            if other.variant == job.variant and other_result.failure.signature == result.failure.signature:
                if job.number < other.number:
                    failed[index] = (job, result)
                return

    def _next_jobs(self, jobs: Sequence[Job]) -> Iterator[Job]:
        for job in jobs:
            if self._first_failure is not None:
                return
            yield msgspec.structs.replace(job, record=True) if self._record and job.number < MAX_RECORDINGS else job

    def _shrink(self, job: Job, result: Result) -> None:
        failure = result.failure
        assert failure is not None, "only failures are shrunk"
        failed = FailedRun(tuple(part.number for part in result.parts), result)

        def rerun(numbers: tuple[int, ...]) -> Result:
            self._observer.shrinking(failed)
            subset = msgspec.structs.replace(job, only=frozenset(numbers), record=self._record)
            return next(iter(self._runner.run([subset])))[1]

        def fails_the_same_way(tried: Result) -> bool:
            return tried.failure is not None and tried.failure.signature == failure.signature

        try:
            # A run that timed out would time out again in each attempt.
            if result.parts and failure.kind != "timeout":
                failed.shrink(rerun, fails_the_same_way, limit=self._shrink_runs)
        finally:
            last = failed.result
            assert last.failure is not None, "the last result is a failure"
            kept = set(failed.parts)
            self.failures.append(
                ShrunkFailure(
                    job=job,
                    failure=failure,
                    result=last,
                    parts=tuple(part for part in result.parts if part.number in kept),
                    of=len(result.parts),
                    runs=failed.runs,
                )
            )


def _unshrunk(job: Job, result: Result) -> ShrunkFailure:
    assert result.failure is not None, "only failures are reported"
    return ShrunkFailure(
        job=job, failure=result.failure, result=result, parts=result.parts, of=len(result.parts), runs=0
    )
