"""What evaluations may cost when they run (k8s.io/apiserver ``pkg/apis/cel/config.go``, v0.36), and who evaluates.

Upstream's cost units are not counted here. An expression that may take long, as ``work`` says, is left to a process
that is ended when its time is over (``sandbox``); what it took is charged. Where there are no processes, in virtual
time, the bound itself is charged, so that the same writes are rejected every time.
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
"""Of one question to the authorizer (``pkg/cel/library/cost.go``)."""

UNITS_PER_SECOND = 2_000_000
"""Upstream does five times as much in a second: it has its values in the form that it needs, and no copies."""
AT_ONCE = 50_000
"""Work (``work``) that one evaluation may do where it stands, some 2.5 ms."""
ALL_AT_ONCE = 200_000
"""Work of all that are evaluated about one object where they stand. Few take what they might."""
_WORK_PER_UNIT = 10
"""20 million of ``work`` are a second."""
COMPILED_AT_ONCE = 1024
"""How large an expression and the types of its variables are, in characters and bytes, that are compiled where they
stand: some 5 ms. The library keeps the interpreter's lock, so that no thread helps."""
COMPILE_SECONDS = 4.0
"""What compiling may take. The largest expressions that there may be (100,000 characters) take one second."""

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"
TOO_LONG_TO_COMPILE = "ERROR: <input>:-1:0: compiling the expression takes too much time or memory"
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class EvaluationError(ValueError):
    """An expression that came to no value: a missing key, an overflow, a type that could not be known before."""


class OutOfBudget(ValueError):
    """The expressions about one object cost too much together."""

    def __init__(self, text: str = OUT_OF_BUDGET) -> None:
        super().__init__(text)


class Busy(Exception):  # no error: come again later
    """Too many evaluations wait."""


class WouldBlock(Exception):  # no error: it says who is to evaluate
    """An expression may take long, and the caller must not block the loop."""


class Task(msgspec.Struct, frozen=True):
    """What another process needs for an evaluation."""

    checked: bytes
    maybe: str
    values: Mapping[str, Any]


class Evaluated(msgspec.Struct, frozen=True):
    """What an evaluation came to: a value, or an error."""

    value: Any = None
    error: str = ""
    seconds: float = 0.0


class Source(msgspec.Struct, frozen=True):
    """What another process needs to compile an expression: see ``environment.Environment``."""

    text: str
    variables: Mapping[str, Any]
    messages: bytes | None = None
    lines_before: int = 0
    """Of the text, which is generated: the positions in messages are those of the source."""
    runs: bool = True
    """Whether it is to be evaluated, or only checked."""

    @property
    def size(self) -> int:
        """What decides how long it takes."""
        return len(self.text) + len(self.messages or b"") // 16


class Compiled(msgspec.Struct, frozen=True):
    """A checked expression, serialized, and the name of its type in small letters; or the compiler's message."""

    checked: bytes = b""
    kind: str = ""
    error: str = ""


class Elsewhere(Protocol):
    """Does what takes long in another process and waits for it. Raises ``WouldBlock`` where it must not wait."""

    def compiles_here(self, size: int) -> bool:
        """Whether a ``Source`` of this size is compiled where it stands."""

    def compile(self, source: Source) -> Compiled:
        """Compile."""

    def evaluate(self, task: Task) -> Evaluated:
        """Evaluate."""


class OnLoop:
    """``Elsewhere`` for one computation on the loop, which must not wait. What it compiles adds up."""

    def __init__(self) -> None:
        self._left = COMPILED_AT_ONCE

    def compiles_here(self, size: int) -> bool:
        """Raises ``WouldBlock`` for what is too much together; the caller starts again elsewhere."""
        self._left -= size
        if self._left < 0:
            raise WouldBlock
        return True

    def compile(self, source: Source) -> Compiled:
        """Left to another process."""
        raise WouldBlock

    def evaluate(self, task: Task) -> Evaluated:
        """Left to another process."""
        raise WouldBlock


elsewhere: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)
"""Who compiles and evaluates what takes long; None where there are no processes."""


Ask = Callable[[dict[str, str]], tuple[bool, str, str]]


class Evaluator(Protocol):
    """Compiles and evaluates what may take long (``sandbox.Sandbox``)."""

    async def run_compile(self, source: Source) -> Compiled:
        """Compile off the event loop. Raises ``Busy``."""

    def compile(self, source: Source) -> Compiled:
        """The same for a thread that may wait."""

    async def run(self, task: Task, ask: Ask | None = None) -> Evaluated:
        """Evaluate off the event loop, which ``ask`` is called on. Raises ``Busy``."""

    def evaluate(self, task: Task) -> Evaluated:
        """The same for a thread that may wait."""


Hire = Callable[[], Evaluator | None]
"""Gives the evaluator, which is made with the first use; None where there are no processes."""


def no_process() -> None:
    """Of virtual time."""


class Questions:
    """What one evaluation asks the authorizer. Each question costs a third of a call's limit."""

    def __init__(self, answer: Ask) -> None:
        self._answer = answer
        self._asked = 0

    def ask(self, question: dict[str, str]) -> tuple[bool, str, str]:
        """The answer. Raises ``EvaluationError`` for one question too many."""
        self._asked += 1
        if self._exceeded:
            raise EvaluationError(COST_EXCEEDED)
        return self._answer(question)

    def charge(self, budget: "Budget") -> None:
        """Afterwards. Raises ``EvaluationError`` when there was one too many: expressions may have gone on without its
        answer."""
        budget.charge(self._asked * CHECK_COST)
        if self._exceeded:
            raise EvaluationError(COST_EXCEEDED)

    @property
    def _exceeded(self) -> bool:
        return self._asked * CHECK_COST > PER_CALL_LIMIT


class Budget:
    """What the expressions about one object may still cost."""

    def __init__(self, units: int = BUDGET) -> None:
        self._left = units
        self._at_once = ALL_AT_ONCE

    def may_run_inline(self, work: int) -> bool:
        """Whether so much work may be done where it stands; if so, it is charged."""
        if work > min(AT_ONCE, self._at_once):
            return False
        self._at_once -= work
        self.charge(work // _WORK_PER_UNIT)
        return True

    def charge(self, units: int) -> None:
        """Raises ``OutOfBudget``."""
        self._left -= units
        if self._left < 0:
            raise OutOfBudget

    def charge_bound(self, work: int) -> None:
        """Of an evaluation that cannot be stopped. Raises ``EvaluationError`` before one that may take too long."""
        units = work // _WORK_PER_UNIT
        if units > PER_CALL_LIMIT:
            raise EvaluationError(COST_EXCEEDED)
        self.charge(units)

    def charge_seconds(self, seconds: float) -> None:
        """Of an evaluation elsewhere."""
        self.charge(int(seconds * UNITS_PER_SECOND))


class Program(Protocol):
    """A compiled expression, as far as limits are concerned: ``environment.Program``."""

    def work(self, values: Mapping[str, Any], extent: "Extent") -> int:
        """The most that an evaluation may take, or more than ``AT_ONCE``."""
        ...

    def bound(self, values: Mapping[str, Any]) -> int:
        """The most that an evaluation may take, however long it takes to find out."""
        ...

    def task(self, values: Mapping[str, Any]) -> Task:
        """An evaluation for another process."""
        ...

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value. Raises ``EvaluationError``."""
        ...


def evaluate(program: Program, values: Mapping[str, Any], extent: "Extent", budget: Budget) -> Any:
    """The value of an expression. Raises ``EvaluationError``, ``OutOfBudget``, and ``WouldBlock`` on the loop."""
    work = program.work(values, extent)
    if budget.may_run_inline(work):
        return program.evaluate(values)
    others = elsewhere.get()
    if others is not None:
        return settled(others.evaluate(program.task(values)), budget)
    budget.charge_bound(program.bound(values))
    return program.evaluate(values)


def settled(result: Evaluated, budget: Budget) -> Any:
    """The value that another process has come to, charged. Raises ``EvaluationError`` and ``OutOfBudget``."""
    budget.charge_seconds(result.seconds)
    if result.error:
        raise EvaluationError(result.error)
    return result.value
