"""Limits of evaluations, and where expressions are evaluated: in the calling thread or in another process."""

import time
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.cel.environment import Environment
from pilothouse.cel.limits import (
    COST_EXCEEDED,
    MAX_INLINE_WORK,
    MAX_INLINE_WORK_PER_OBJECT,
    OUT_OF_BUDGET,
    Budget,
    EvaluationError,
    EventLoopEvaluator,
    OutOfBudget,
    WouldBlock,
    blocking_evaluator,
    evaluate,
)
from pilothouse.cel.work import Extent, combined, measure, round_up

DYNAMIC = Environment({"object": "dyn"}, bindings=True)
REPEATED = "(a{1,100}b?){1,10}c"
CONTAINERS = [
    {"name": f"c{number}", "image": "example.com/i", "env": [{"name": "A", "value": "b"}]} for number in range(4)
]
POD = {"metadata": {"annotations": {"last": "x" * 2_000}}, "spec": {"containers": CONTAINERS}}


def doubled(times: int, doubling: str) -> str:
    """An expression that doubles ``object`` so often."""
    text = f"v{times}.size()"
    for number in range(times, 0, -1):
        text = f"cel.bind(v{number}, {doubling.format(f'v{number - 1}')}, {text})"
    return f"cel.bind(v0, object, {text})"


@cases(
    "expression, value, inline",
    {
        "a plain rule": ("object.spec.containers.all(c, c.image.startsWith('example.com/'))", POD, True),
        "a loop in a loop over a small object": (
            "object.spec.containers.all(c, c.env.all(e, e.value.matches('^[a-z]+$')))",
            POD,
            True,
        ),
        "list built by map": (
            "has(object.spec) && object.spec.containers.map(c, c.name).join(',').size() < 99",
            POD,
            True,
        ),
        "a part of a large object": ("object.name == 'a'", {"name": "a", "large": "x" * 200_000}, True),
        "a text of some length": ("object.matches('^a+$')", "a" * 10_000, True),
        "counted repetitions over a long text": (f"object.matches('{REPEATED}')", "a" * 100_000, False),
        "searches in a loop": (
            "object.texts.all(t, object.text.contains(t))",
            {"text": "a" * 10_000, "texts": ["a" * 99 + "b"] * 50},
            False,
        ),
        "three loops": ("object.all(a, object.all(b, object.exists(c, a + b == c)))", list(range(20)), False),
        "a list of copies of a list": ("object.map(a, object).size() > 0", list(range(1_000)), False),
        "a text doubled": (doubled(12, "{0} + {0}"), "a" * 100, False),
        "a list doubled": (doubled(12, "{0} + {0}"), [1] * 10, False),
        "a tree doubled": (doubled(14, "[{0}, {0}]").replace(".size()", ""), 1, False),
        "replacement of every character": ("object.replace('', object).size()", "a" * 1_000, False),
        "a list as text": ("'%s%s%s'.format([object, object, object])", list(range(5_000)), False),
        "findAll": ("object.findAll('a').size()", "a" * 5_000, False),
        "a range of known length": ("lists.range(100).all(i, i < object)", 100, True),
        "a long range": ("lists.range(1000000).size() > 0", 1, False),
        "a range of unknown length": ("lists.range(int(object)).size() > 0", "9", False),
        "a sorted list": ("object.sort() == object", list(range(500)), True),
        "a list without duplicates": ("object.distinct() == object", list(range(5_000)), False),
    },
)
def test_long_evaluations_are_estimated_before(expression: str, value: Any, *, inline: bool) -> None:
    work = DYNAMIC.compile(expression).work({"object": value}, measure(value))
    assert (work <= MAX_INLINE_WORK) is inline, work


def test_estimates_are_cached_for_similar_sizes() -> None:
    assert round_up(Extent(5, 100, 1_000)) == round_up(Extent(8, 128, 1_024)) == Extent(8, 128, 1_024)


def test_measuring_a_large_value_is_bounded() -> None:
    assert measure(list(range(1_000_000))) == measure([["x"]] * 500_000)


def test_large_expression_is_not_estimated_on_the_loop() -> None:
    large = DYNAMIC.compile(" && ".join(["object.all(x, x == 'abc')"] * 500).join("()"))
    began = time.process_time()
    assert large.work({"object": []}, measure([])) > MAX_INLINE_WORK
    assert time.process_time() - began < 0.02
    assert large.bound({"object": []}) < MAX_INLINE_WORK


HEAVY = DYNAMIC.compile(f"object.matches('{REPEATED}')")
LONG = {"object": "a" * 200_000}
MEDIUM = {"object": "a" * 8_000}


def test_without_processes_long_evaluations_are_rejected() -> None:
    with pytest.raises(EvaluationError, match=COST_EXCEEDED):
        evaluate(HEAVY, LONG, measure(LONG), Budget())


def test_without_processes_the_estimate_is_charged() -> None:
    budget = Budget(1_000_000)
    assert evaluate(HEAVY, MEDIUM, measure(MEDIUM), budget) is False
    with pytest.raises(OutOfBudget, match=OUT_OF_BUDGET):
        [evaluate(HEAVY, MEDIUM, measure(MEDIUM), budget) for _ in range(10)]


def test_cheap_evaluations_add_up() -> None:
    budget = Budget()
    assert [budget.may_run_inline(MAX_INLINE_WORK) for _ in range(5)] == [True] * (
        MAX_INLINE_WORK_PER_OBJECT // MAX_INLINE_WORK
    ) + [False]


def test_long_evaluations_do_not_block_the_loop() -> None:
    token = blocking_evaluator.set(EventLoopEvaluator())
    try:
        with pytest.raises(WouldBlock):
            evaluate(HEAVY, LONG, measure(LONG), Budget())
    finally:
        blocking_evaluator.reset(token)


@pytest.mark.parametrize("other", [None, "a" * 500, [1] * 50, {"a": {"b": "c" * 40}}])
def test_combined_extent_covers_both_values(other: Any) -> None:
    values = {"object": {"data": {"a": "1" * 30}}}
    apart, whole = combined(measure(values), measure(other)), measure({**values, "variables": {"v": other}})
    inner = measure(other)  # the names of the variables are no value of an expression
    assert (apart.items, apart.chars) == (max(1, inner.items), max(30, inner.chars))
    assert apart.weight >= whole.weight
