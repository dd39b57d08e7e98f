"""The linearizability checker accepts valid histories and finds every injected violation."""

import random
from collections.abc import Sequence

import msgspec
import pytest
from tests.robustness.linearizability import (
    NotPossible,
    Operation,
    Outcome,
    State,
    Verb,
    linearized,
    step,
    with_revisions,
)

OK, CONFLICT, NOT_FOUND, UNKNOWN = Outcome.OK, Outcome.CONFLICT, Outcome.NOT_FOUND, Outcome.UNKNOWN


def create(call: int, end: int, outcome: Outcome = OK, value: str = "", revision: int = 0) -> Operation:
    return Operation(verb=Verb.CREATE, outcome=outcome, call=call, end=end, value=value, revision=revision)


def get(call: int, end: int, value: str = "", revision: int = 0) -> Operation:
    outcome = OK if value else NOT_FOUND
    return Operation(verb=Verb.GET, outcome=outcome, call=call, end=end, value=value, revision=revision)


def update(call: int, end: int, expected: int, outcome: Outcome = OK, value: str = "", revision: int = 0) -> Operation:
    return Operation(
        verb=Verb.UPDATE, outcome=outcome, call=call, end=end, value=value, revision=revision, expected=expected
    )


def delete(call: int, end: int, outcome: Outcome = OK, expected: int = 0) -> Operation:
    return Operation(verb=Verb.DELETE, outcome=outcome, call=call, end=end, expected=expected)


A, B = create(0, 1, value="a", revision=1), update(2, 3, 1, value="b", revision=2)
LOST = update(2, 3, 1, UNKNOWN, value="b")


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="empty history"),
        pytest.param([A, get(2, 3, "a", 1), delete(4, 5), get(6, 7)], id="sequential"),
        pytest.param([A, B, get(2, 3, "a", 1), get(2, 3, "b", 2)], id="reads concurrent with a write"),
        pytest.param([A, B, update(2, 3, 1, CONFLICT)], id="two updates of one revision: one conflict"),
        pytest.param([A, B, update(4, 5, 1, CONFLICT), get(6, 7, "b", 2)], id="an update of an old revision fails"),
        pytest.param([create(0, 9, CONFLICT), create(1, 2, value="a", revision=1)], id="two creates: one conflict"),
        pytest.param([A, LOST, get(4, 5, "a", 1), get(6, 7, "b", 2)], id="a write without an answer happens later"),
        pytest.param([A, LOST, get(4, 5, "a", 1)], id="a write without response never happens"),
        pytest.param(
            [A, delete(2, 3, UNKNOWN), get(4, 5, "a", 1), get(6, 7)], id="a deletion without response happens later"
        ),
        pytest.param([A, delete(2, 3, CONFLICT, expected=7), delete(4, 5, expected=1)], id="preconditions"),
        pytest.param([update(0, 1, 5, NOT_FOUND), delete(2, 3, NOT_FOUND)], id="not found"),
        pytest.param([A, get(1, 2, "a", 1), delete(1, 1)], id="equal times are concurrent"),
    ],
)
def test_linearizable_histories_are_accepted(history: Sequence[Operation]) -> None:
    fits, order = linearized(with_revisions(history))
    assert fits
    assert len(order) >= sum(operation.outcome is not UNKNOWN for operation in history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([A, B, get(4, 5, "a", 1)], id="a stale read"),
        pytest.param([A, B, get(2, 5, "b", 2), get(6, 7, "a", 1)], id="a non-monotonic read"),
        pytest.param([A, get(2, 3)], id="a lost create"),
        pytest.param([A, B, delete(4, 5), get(6, 7, "b", 2)], id="a lost deletion"),
        pytest.param([A, B, update(4, 5, 1, value="c", revision=3)], id="a lost update: two succeed on one revision"),
        pytest.param([A, create(2, 3, value="c", revision=2)], id="created twice"),
        pytest.param([A, get(2, 3, "z", 9)], id="a value that was not written"),
        pytest.param([A, get(2, 3, "a", 2)], id="a revision that was not written"),
        pytest.param([A, LOST, delete(4, 5), get(6, 7), get(8, 9, "b", 2)], id="duplicate write"),
        pytest.param([A, update(2, 3, 1, CONFLICT)], id="a conflict with nothing"),
        pytest.param([create(0, 1, CONFLICT)], id="a conflict of a create without object"),
        pytest.param([A, update(2, 3, 1, NOT_FOUND)], id="not found although it exists"),
        pytest.param([A, delete(2, 3, expected=7)], id="a deletion in spite of its precondition"),
    ],
)
def test_injected_violations_are_detected(history: Sequence[Operation]) -> None:
    fits, _order = linearized(with_revisions(history))
    assert not fits


def simulated(rng: random.Random, size: int) -> list[Operation]:
    """What six clients see of a correct object: each operation happens at one moment between call and return, and of
    some the answer is lost."""
    state: State | None = None
    history: list[Operation] = []
    known = [0]
    free_at = [0] * 6
    for number in range(1, size + 1):
        moment = number * 10
        client = min(range(6), key=lambda one: (free_at[one] > moment - 1, rng.random()))
        call = max(free_at[client], moment - rng.randrange(1, 60))
        end = moment + rng.randrange(60)
        if call >= moment:
            continue
        free_at[client] = end + 1
        operation = Operation(
            verb=rng.choice([Verb.CREATE, Verb.GET, Verb.UPDATE, Verb.UPDATE, Verb.DELETE]),
            outcome=OK,
            call=call,
            end=end,
            value=f"v{number}",
            revision=number,
            client=client,
        )
        if operation.verb is Verb.UPDATE or (operation.verb is Verb.DELETE and rng.random() < 0.5):
            operation = msgspec.structs.replace(operation, expected=rng.choice(known[-3:]) or 999_999)
        if operation.verb is Verb.GET and state is not None:
            operation = msgspec.structs.replace(operation, value=state.value, revision=state.revision)
        for outcome in (OK, CONFLICT, NOT_FOUND):
            answered = msgspec.structs.replace(operation, outcome=outcome)
            after = step(state, answered)
            if not isinstance(after, NotPossible):
                break
        else:
            raise AssertionError("every operation has an answer")
        lost = rng.random() < 0.08
        if lost:  # its revision is unknown unless it is read
            answered = msgspec.structs.replace(answered, outcome=UNKNOWN, revision=0)
            if rng.random() < 0.5:
                after = state  # it was never carried out
        state = after
        if state is not None and answered.outcome is OK and not lost:
            known.append(state.revision)
        if not (lost and answered.verb is Verb.GET):
            history.append(answered)
    return history


def damaged(rng: random.Random, history: Sequence[Operation]) -> list[Operation]:
    """The history with one answer that is another one."""
    result = list(history)
    at = rng.randrange(len(result))
    one = result[at]
    values = [item.value for item in result if item.verb is not Verb.DELETE and item.revision]
    value = rng.choice(values or [""])
    revision = next((item.revision for item in result if item.value == value and item.revision), 0)
    if one.verb is Verb.GET:
        result[at] = msgspec.structs.replace(one, outcome=OK, value=value, revision=revision)
    else:
        result[at] = msgspec.structs.replace(one, outcome=rng.choice([OK, CONFLICT, NOT_FOUND]))
    return result


def by_all_orders(history: Sequence[Operation]) -> bool:
    """The definition itself, for small histories: tries every order, and every set of unknown operations."""

    def search(state: State | None, left: tuple[Operation, ...]) -> bool:
        if all(one.outcome is UNKNOWN for one in left):
            return True
        deadline = min(one.end for one in left if one.outcome is not UNKNOWN)
        for item in left:
            if item.call <= deadline:
                after = step(state, item)
                if not isinstance(after, NotPossible) and search(after, tuple(x for x in left if x is not item)):
                    return True
        return False

    return search(None, tuple(history))


def test_checker_agrees_with_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    verdicts = set()
    for _ in range(60):
        history = with_revisions(simulated(rng, 9))
        assert linearized(history)[0]
        if history:
            other = with_revisions(damaged(rng, history))
            verdict, _order = linearized(other)
            assert verdict == by_all_orders(other), other
            verdicts.add(verdict)
    assert verdicts == {True, False}


def test_long_histories_are_checked_quickly() -> None:
    history = with_revisions(simulated(random.Random(1), 1500))
    assert len(history) > 1000
    assert linearized(history)[0]
