"""What came of a run."""

from typing import TYPE_CHECKING, Literal

import msgspec

from pilothouse.simulate.pod_wait import PodWait

if TYPE_CHECKING:
    from pilothouse.simulate.recording import Recording

FailureKind = Literal[
    "always", "eventually", "atEnd", "invariant", "budget", "action", "unsettled", "error", "crash", "timeout"
]
ERRORS: tuple[FailureKind, ...] = ("crash", "timeout", "error")
"""Runs that have not come to their end."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run has failed."""

    kind: FailureKind
    name: str
    """Of the expectation, invariant or entry; with ``kind`` it says whether two failures are the same."""
    message: str
    at: float
    """Virtual seconds since the start."""
    why: str = ""
    """The chain of causes of the write that was rejected, for invariants and ``always``."""

    @property
    def summary(self) -> str:
        """What, and why, without the chain of causes."""
        return f"{self.kind} {self.name}: {self.message}"

    @property
    def signature(self) -> tuple[str, str]:
        """Two failures with the same are of the same kind."""
        return self.kind, self.name


class Part(msgspec.Struct, frozen=True):
    """An entry of the time line or a drawn fault: what shrinking may leave out."""

    number: int
    text: str


class BudgetResult(msgspec.Struct, frozen=True, kw_only=True):
    """One budget: what was used at most, and what might be."""

    name: str
    measured: float
    limit: float
    held: bool
    at: float | None = None
    """When it was exceeded for the first time."""
    is_time: bool = False
    """Whether it is in seconds."""
    missing: str = ""
    """The workload, if it never existed in the run."""
    namespace: str = ""
    """In which it never existed."""
    elsewhere: tuple[str, ...] = ()
    """Namespaces in which there was one of that name."""
    pods: tuple[PodWait, ...] = ()
    """Of a time to ready that was exceeded: the slowest pods."""


ExpectationOutcome = Literal["held", "violated", "open"]


class ExpectationResult(msgspec.Struct, frozen=True, kw_only=True):
    """One expectation: whether it held."""

    kind: FailureKind
    name: str
    outcome: ExpectationOutcome
    """``open``: the run ended before it was known, by another failure, or nothing was there that it is about."""
    at: float | None = None
    """Seconds since the start of the time line: when it was violated, or when what has to hold in time held."""
    message: str = ""
    """How it was violated."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one run of one seed."""

    scenario: str
    seed: int
    failure: Failure | None
    writes: int
    digest: str
    """Of every write, its time and its origin: two runs with the same digest were the same."""
    seconds: float
    """Virtual."""
    cpu: float
    budgets: tuple[BudgetResult, ...] = ()
    expectations: tuple[ExpectationResult, ...] = ()
    """``always``, ``eventually`` and ``atEnd``, in the order of the file."""
    measures: dict[str, float] = {}
    parts: tuple[Part, ...] = ()
    """What happened, as far as it was not left out."""
    log: str = ""
    """The last lines of the run's log, if it has failed."""
    recording: "Recording | None" = None
    """What a report shows, where it was asked for."""
    notices: tuple[str, ...] = ()
    """What did not fail the run, but may not be what was meant."""
    never_ready: tuple[str, ...] = ()
    """Pods that were not ready at the end, and never before; the first ones by name."""
    deleted_unready: tuple[str, ...] = ()
    """The first pods that were deleted, or have failed, before they were ready."""

    @property
    def is_whole(self) -> bool:
        """Whether it has come to its end, so that its measures can be compared with others."""
        return self.failure is None or self.failure.kind in ("budget", "atEnd")
