"""The result of a run."""

from typing import TYPE_CHECKING, Literal

import msgspec

from pilothouse.simulate.pod_wait import PodWait
from pilothouse.simulate.unavailable import Moment

if TYPE_CHECKING:
    from pilothouse.simulate.recording import Recording

FailureKind = Literal[
    "always", "eventually", "atEnd", "invariant", "budget", "action", "unsettled", "error", "crash", "timeout"
]
ERRORS: tuple[FailureKind, ...] = ("crash", "timeout", "error")
"""Kinds of failures of runs that did not finish."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The failure of a run."""

    kind: FailureKind
    name: str
    """The name of the expectation, invariant or entry; failures with equal ``kind`` and ``name`` are considered the
    same."""
    message: str
    at: float
    """Virtual seconds since the start of the timeline."""
    why: str = ""
    """The chain of causes of the write that was rejected, for invariants and ``always``, or that exceeded a budget of
    unavailable pods first."""

    @property
    def summary(self) -> str:
        """Kind, name and message, without the chain of causes."""
        return f"{self.kind} {self.name}: {self.message}"

    @property
    def signature(self) -> tuple[str, str]:
        """Equal for failures that are considered the same."""
        return self.kind, self.name


class Part(msgspec.Struct, frozen=True):
    """An entry of the timeline or a random fault; shrinking may leave it out."""

    number: int
    text: str


class BudgetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one budget: measured value and limit."""

    name: str
    measured: float
    limit: float
    held: bool
    at: float | None = None
    """When it was exceeded for the first time."""
    is_time: bool = False
    """Whether the values are seconds."""
    missing: str = ""
    """The workload, if it never existed in the run."""
    namespace: str = ""
    """The namespace of the missing workload."""
    elsewhere: tuple[str, ...] = ()
    """Other namespaces that have a workload of this name."""
    pods: tuple[PodWait, ...] = ()
    """The slowest pods, if a time to ready was exceeded."""
    moments: tuple[Moment, ...] = ()
    """When a ``maxUnavailable`` was exceeded first, and most, with the pods that were not ready."""
    why: str = ""
    """The chain of causes of the write that exceeded a ``maxUnavailable`` first."""


ExpectationOutcome = Literal["held", "violated", "open"]


class ExpectationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one expectation."""

    kind: FailureKind
    name: str
    outcome: ExpectationOutcome
    """``open``: the run ended before with another failure, or the objects of the expectation never existed."""
    at: float | None = None
    """Seconds since the start of the timeline: when it was violated, or when an ``eventually`` or ``atEnd`` expectation
    held."""
    message: str = ""
    """The violation."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run with one seed."""

    scenario: str
    seed: int
    failure: Failure | None
    writes: int
    digest: str
    """A digest of all writes with their times and origins: runs with equal digests are identical."""
    seconds: float
    """Virtual seconds."""
    cpu: float
    budgets: tuple[BudgetResult, ...] = ()
    expectations: tuple[ExpectationResult, ...] = ()
    """``always``, ``eventually`` and ``atEnd``, in the order of the file."""
    measures: dict[str, float] = {}
    parts: tuple[Part, ...] = ()
    """The parts that were not left out."""
    log: str = ""
    """The last lines of the log until the failure, if the run failed."""
    log_is_until_end: bool = True
    """Whether those are the last lines of the run: an exceeded budget is reported at the end of it."""
    log_omits_scheduled: bool = False
    """Whether the log leaves out the work of CronJobs, which the failure is not about."""
    recording: "Recording | None" = None
    """The recording, if requested."""
    notices: tuple[str, ...] = ()
    """Warnings about the scenario that do not fail the run."""
    never_ready: tuple[str, ...] = ()
    """Pods that were never ready by the end of the run; the first ones by name."""
    deleted_unready: tuple[str, ...] = ()
    """The first pods that were deleted or failed before they were ready."""

    @property
    def is_complete(self) -> bool:
        """Whether the run finished, so that its measures can be compared with those of other runs."""
        return self.failure is None or self.failure.kind in ("budget", "atEnd")
