"""Evaluations in another process, which is killed when it exceeds its limits."""

import asyncio
import datetime
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.cel import sandbox as sandboxes
from pilothouse.cel.authorizers import AUTHORIZER
from pilothouse.cel.environment import CompileError, Environment
from pilothouse.cel.limits import COST_EXCEEDED, TOO_LONG_TO_COMPILE, Busy, Source, Task
from pilothouse.cel.sandbox import Sandbox
from pilothouse.cel.schemas import PACKAGE, Types

DYNAMIC = Environment({"object": "dyn", "authorizer": "kubernetes.authorization.Authorizer"})
REPEATED = "(a{1,100}b?){1,10}c"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.stop()


def task(expression: str, **values: Any) -> Task:
    return DYNAMIC.compile(expression).task({"authorizer": AUTHORIZER, **values})


@cases(
    "expression, value",
    {
        "time": (f"object.matches('{REPEATED}')", "a" * 1_000_000),
        "memory": ("object.map(a, object).size()", list(range(9_999))),
        "the size of the result": ("object + object", "a" * 3_000_000),
    },
)
def test_process_is_replaced_after_exceeding_its_limits(sandbox: Sandbox, expression: str, value: Any) -> None:
    assert sandbox.evaluate(task(expression, object=value)).error == COST_EXCEEDED
    assert sandbox.evaluate(task("object + 1", object=1)).value == 2


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "[dyn(1), dyn(2u), dyn(1.5), dyn('a'), dyn(b'b'), dyn(true), dyn(null), dyn({'a': [1]})]",
            [1, 2, 1.5, "a", b"b", True, None, {"a": [1]}],
        ),
        ("timestamp('2026-01-01T00:00:00Z')", datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        ("duration('90s')", datetime.timedelta(seconds=90)),
    ],
)
def test_results_are_transferred_unchanged(sandbox: Sandbox, expression: str, expected: Any) -> None:
    assert sandbox.evaluate(task(expression)).value == expected == DYNAMIC.compile(expression).evaluate({})


def test_errors_are_transferred_unchanged(sandbox: Sandbox) -> None:
    assert sandbox.evaluate(task("object.a", object={})).error == "no such key: a"


@pytest.mark.parametrize("expression", ["type(1)", "optional.of(1)", "[optional.of(1)]"])
def test_unusable_values_are_errors(sandbox: Sandbox, expression: str) -> None:
    assert "is of no use here" in sandbox.evaluate(task(expression)).error


@pytest.mark.real_loop
async def test_authorization_checks_run_on_the_loop(sandbox: Sandbox) -> None:
    def evaluate(question: dict[str, str]) -> tuple[bool, str, str]:
        return question["path"] == "/a", threading.current_thread().name, ""

    checks = task("[authorizer.path('/a').check('get')].map(d, [dyn(d.allowed()), dyn(d.reason())])")
    assert (await sandbox.run(checks, evaluate)).value == [[True, threading.current_thread().name]]


@pytest.mark.real_loop
async def test_number_of_queued_evaluations_is_limited(sandbox: Sandbox) -> None:
    evaluations = [sandbox.run(task("1")) for _ in range(20)]
    answers = await asyncio.gather(*evaluations, return_exceptions=True)
    assert sum(isinstance(answer, Busy) for answer in answers) == 12


def _get_evaluator(sandbox: Sandbox | None) -> Sandbox | None:
    return sandbox


LARGE = f"[{','.join(['1'] * 45_000)}].size() == object"


@pytest.mark.real_loop
async def test_large_expression_is_compiled_and_evaluated_in_the_process(sandbox: Sandbox) -> None:
    compiling = asyncio.ensure_future(DYNAMIC.compile_in_background(LARGE, lambda: sandbox, return_types=["bool"]))
    slowest, before = 0.0, time.perf_counter()
    while not compiling.done():
        await asyncio.sleep(0.001)
        slowest, before = max(slowest, time.perf_counter() - before), time.perf_counter()
    large = (await compiling).task({"object": 45_000})
    assert sandbox.evaluate(large).value is True
    assert sandbox.evaluate(large).seconds < 0.1  # the second time nothing of the expression is read again
    assert slowest < 0.2  # compiling takes much longer


@cases(
    "expression, problem",
    {
        "type": (f"object ==\n{' ' * 2000}nobody",
                     "ERROR: <input>:2:2001: undeclared reference to 'nobody'"),
        "size": ("'" + "a" * 100_000 + "'",
                     "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100002, limit 100000"),
        "depth of the expression after macros": ("[1].map(a, " * 20 + "a" + ")" * 20 + " " * 2000,
                     "ERROR: <input>:-1:0: expression recursion limit exceeded"),
        "depth": ("[" * 200 + "]" * 200 + " " * 2000,
                     "ERROR: <input>:-1:0: expression recursion limit exceeded: 32"),
    },
)  # fmt: skip
@pytest.mark.real_loop
async def test_errors_are_the_same_with_and_without_the_process(
    sandbox: Sandbox, expression: str, problem: str
) -> None:
    result = []
    for evaluator in (sandbox, None):
        with pytest.raises(CompileError) as error:
            await DYNAMIC.compile_in_background(expression, partial(_get_evaluator, evaluator))
        result.append(str(error.value))
    assert result[0] == result[1]
    assert result[0].startswith(problem)


@pytest.mark.real_loop
async def test_too_large_types_are_an_error(sandbox: Sandbox) -> None:
    types = Types()
    types.messages.append(("Variables", {f"v{number}": "dyn" for number in range(10_000)}))
    environment = Environment({"variables": f"{PACKAGE}.Variables"}, types.serialized())
    with pytest.raises(CompileError, match="the types of the variables are too large"):
        await environment.compile_in_background("variables.v1", lambda: sandbox)


def test_compile_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_COMPILE_PATIENCE_SECONDS", 0.01)
    sandbox = Sandbox()
    try:
        assert sandbox.compile(Source(LARGE, {"object": "dyn"})).error == TOO_LONG_TO_COMPILE
        assert sandbox.evaluate(task("1 + 1")).value == 2
    finally:
        sandbox.stop()


@pytest.mark.real_loop
async def test_result_of_an_unsupported_type_is_an_error(sandbox: Sandbox) -> None:
    with pytest.raises(CompileError, match=r"^int$"):
        await DYNAMIC.compile_in_background("1" + " " * 5000, lambda: sandbox, return_types=["bool"])
