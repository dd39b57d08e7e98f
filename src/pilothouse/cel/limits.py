"""Limits of evaluations (k8s.io/apiserver ``pkg/apis/cel/config.go``, v0.36), and where expressions are evaluated.

Upstream's cost units are not counted here. An expression that may take long according to ``work`` is evaluated in a
process with a time limit (``sandbox``); its time is charged. Without a process, in virtual time, the estimated maximum
is charged, so that the result is deterministic.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from pilothouse.cel.work import Extent

PER_CALL_LIMIT = 1_000_000
BUDGET = 10_000_000
BUDGET_OF_MATCH_CONDITIONS = 2_500_000
CHECK_COST = 350_000
"""The cost of an authorization check (``pkg/cel/library/cost.go``)."""

UNITS_PER_SECOND = 2_000_000
"""Upstream does five times as much in a second, since it need not convert and copy values."""
MAX_INLINE_WORK = 50_000
"""The maximum work (``work``) of an evaluation in the calling thread, about 2.5 ms."""
MAX_INLINE_WORK_PER_OBJECT = 200_000
"""The maximum work of all evaluations for one object in the calling thread. Few need their maximum."""
_WORK_PER_UNIT = 10
"""20 million units of ``work`` are a second."""
MAX_INLINE_COMPILE_SIZE = 1024
"""The maximum size of an expression and its variable types, in characters and bytes, that is compiled in the calling
thread: about 5 ms. The library holds the interpreter's lock, so threads do not help."""
COMPILE_SECONDS = 4.0
"""The time limit of compiling. The largest allowed expressions (100,000 characters) take one second."""

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
TOO_LONG_TO_COMPILE = "ERROR: <input>:-1:0: compiling the expression takes too much time or memory"
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class EvaluationError(ValueError):
    """An evaluation failed: a missing key, an overflow, a dynamic type error."""


class OutOfBudget(ValueError):
    """The expressions for one object exceed the total cost."""

    def __init__(self, text: str = OUT_OF_BUDGET) -> None:
        super().__init__(text)


class Busy(Exception):  # not an error: the client may retry
    """Too many evaluations are queued; the client may retry."""


class WouldBlock(Exception):  # not an error: selects where to evaluate
    """An expression may take long, and the caller must not block the event loop."""


class Task(msgspec.Struct, frozen=True):
    """An evaluation for the sandbox process."""

    checked: bytes
    optional_variable: str
    values: Mapping[str, Any]


class Evaluated(msgspec.Struct, frozen=True):
    """The result of an evaluation: a value or an error."""

    value: Any = None
    error: str = ""
    seconds: float = 0.0


class Source(msgspec.Struct, frozen=True):
    """An expression to compile: see ``environment.Environment``."""

    text: str
    variables: Mapping[str, Any]
    messages: bytes | None = None
    line_offset: int = 0
    """The number of generated lines before the source, to correct positions in messages."""
    runs: bool = True
    """Whether it will be evaluated, or is only checked."""
    bindings: bool = False
    """Whether it may use ``cel.bind``."""
    uniform: bool = True
    """Whether the elements of a list or map must have one type."""

    @property
    def size(self) -> int:
        """The size that determines the time of compiling."""
        return len(self.text) + len(self.messages or b"") // 16


class Compiled(msgspec.Struct, frozen=True):
    """A serialized checked expression and the name of its type in lower case, or the compiler's error."""

    checked: bytes = b""
    kind: str = ""
    error: str = ""


class BlockingEvaluator(Protocol):
    """Compiles and evaluates in another process, and blocks the calling thread in the meantime. Raises ``WouldBlock``
    if the thread must not block."""

    def compiles_inline(self, size: int) -> bool:
        """Whether a ``Source`` of this size is compiled in the calling thread."""

    def compile(self, source: Source) -> Compiled:
        """Compile in the other process."""

    def evaluate(self, task: Task) -> Evaluated:
        """Evaluate in the other process."""


class EventLoopEvaluator:
    """``BlockingEvaluator`` for one function on the event loop, which must not block. The sizes of the expressions that
    it compiles are added up."""

    def __init__(self) -> None:
        self._remaining = MAX_INLINE_COMPILE_SIZE

    def compiles_inline(self, size: int) -> bool:
        """Raises ``WouldBlock`` if the total is too large; the caller starts again in a thread."""
        self._remaining -= size
        if self._remaining < 0:
            raise WouldBlock
        return True

    def compile(self, source: Source) -> Compiled:
        """Raises ``WouldBlock``."""
        raise WouldBlock

    def evaluate(self, task: Task) -> Evaluated:
        """Raises ``WouldBlock``."""
        raise WouldBlock


blocking_evaluator: ContextVar[BlockingEvaluator | None] = ContextVar("elsewhere", default=None)
"""The evaluator of the running function; None if there are no sandbox processes."""


Ask = Callable[[dict[str, str]], tuple[bool, str, str]]


class Evaluator(Protocol):
    """Compiles and evaluates in another process (``sandbox.Sandbox``)."""

    async def run_compile(self, source: Source) -> Compiled:
        """Compile off the event loop. Raises ``Busy``."""

    def compile(self, source: Source) -> Compiled:
        """Compile, blocking the calling thread."""

    async def run(self, task: Task, authorize_check: Ask | None = None) -> Evaluated:
        """Evaluate off the event loop; ``authorize_check`` is called on it. Raises ``Busy``."""

    def evaluate(self, task: Task) -> Evaluated:
        """Evaluate, blocking the calling thread."""


GetEvaluator = Callable[[], Evaluator | None]
"""Returns the evaluator, created with the first call; None if there are no processes."""


def no_evaluator() -> None:
    """The ``GetEvaluator`` of virtual time: there are no processes."""


class AuthorizationChecks:
    """The authorization checks of one evaluation. Each costs a third of the limit of a call."""

    def __init__(self, authorize_check: Ask) -> None:
        self._ask = authorize_check
        self._count = 0

    def ask(self, question: dict[str, str]) -> tuple[bool, str, str]:
        """Check. Raises ``EvaluationError`` if there are too many."""
        self._count += 1
        if self._exceeded:
            raise EvaluationError(COST_EXCEEDED)
        return self._ask(question)

    def charge(self, budget: "Budget") -> None:
        """Charge the checks after the evaluation. Raises ``EvaluationError`` if there were too many, since an
        expression may have ignored the error."""
        budget.charge(self._count * CHECK_COST)
        if self._exceeded:
            raise EvaluationError(COST_EXCEEDED)

    @property
    def _exceeded(self) -> bool:
        return self._count * CHECK_COST > PER_CALL_LIMIT


class Budget:
    """The remaining cost of the expressions for one object."""

    def __init__(self, units: int = BUDGET) -> None:
        self._remaining = units
        self._remaining_inline = MAX_INLINE_WORK_PER_OBJECT

    def may_run_inline(self, work: int) -> bool:
        """Whether so much work may be done in the calling thread; if so, it is charged."""
        if work > min(MAX_INLINE_WORK, self._remaining_inline):
            return False
        self._remaining_inline -= work
        self.charge(work // _WORK_PER_UNIT)
        return True

    def charge(self, units: int) -> None:
        """Charge cost units. Raises ``OutOfBudget``."""
        self._remaining -= units
        if self._remaining < 0:
            raise OutOfBudget

    def charge_bound(self, work: int) -> None:
        """Charge the maximum of an evaluation that cannot be interrupted. Raises ``EvaluationError`` if it may take too
        long."""
        units = work // _WORK_PER_UNIT
        if units > PER_CALL_LIMIT:
            raise EvaluationError(COST_EXCEEDED)
        self.charge(units)

    def charge_seconds(self, seconds: float) -> None:
        """Charge the time of an evaluation in another process."""
        self.charge(int(seconds * UNITS_PER_SECOND))


class Program(Protocol):
    """The parts of ``environment.Program`` that are used here."""

    def work(self, values: Mapping[str, Any], extent: "Extent") -> int:
        """The maximum work of an evaluation, or more than ``MAX_INLINE_WORK``."""
        ...

    def bound(self, values: Mapping[str, Any]) -> int:
        """The maximum work of an evaluation, however long the estimate takes."""
        ...

    def task(self, values: Mapping[str, Any]) -> Task:
        """A task for another process."""
        ...

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """Evaluate. Raises ``EvaluationError``."""
        ...


def evaluate(program: Program, values: Mapping[str, Any], extent: "Extent", budget: Budget) -> Any:
    """Evaluate an expression within the budget. Raises ``EvaluationError``, ``OutOfBudget``, and ``WouldBlock`` on the
    event loop."""
    work = program.work(values, extent)
    if budget.may_run_inline(work):
        return program.evaluate(values)
    evaluator = blocking_evaluator.get()
    if evaluator is not None:
        return charged_value(evaluator.evaluate(program.task(values)), budget)
    budget.charge_bound(program.bound(values))
    return program.evaluate(values)


def charged_value(result: Evaluated, budget: Budget) -> Any:
    """The value of an evaluation in another process, after charging its cost. Raises ``EvaluationError`` and
    ``OutOfBudget``."""
    budget.charge_seconds(result.seconds)
    if result.error:
        raise EvaluationError(result.error)
    return result.value
