"""The report of a run finds injected violations."""

import msgspec
import pytest
from tests.robustness.linearizability import Operation, Outcome, Verb
from tests.robustness.report import check
from tests.robustness.watch_guarantees import Event, Snapshot, Stored, Watch

A = Operation(verb=Verb.CREATE, outcome=Outcome.OK, call=0, end=1, value="a", revision=2)
B = Operation(verb=Verb.UPDATE, outcome=Outcome.OK, call=2, end=3, value="b", expected=2, revision=3)
READ = Operation(verb=Verb.GET, outcome=Outcome.OK, call=4, end=5, value="b", revision=3)
STORED = [Stored(2, "k", "a"), Stored(3, "k", "b")]
WATCH = Watch(0, [Event("ADDED", 2, "k", "a"), Event("MODIFIED", 3, "k", "b")])


def _replaced(operation: Operation, **changes: object) -> Operation:
    return msgspec.structs.replace(operation, **changes)


@pytest.mark.parametrize(
    ("operations", "stored", "message"),
    [
        pytest.param([A, B, READ], STORED, "", id="no anomaly"),
        pytest.param(
            [A, _replaced(B, outcome=Outcome.UNKNOWN, revision=0), READ], STORED, "", id="unknown outcome, executed"
        ),
        pytest.param(
            [A, _replaced(B, outcome=Outcome.UNKNOWN), _replaced(READ, value="a", revision=2)],
            STORED[:1],
            "",
            id="unknown outcome, not executed",
        ),
        pytest.param([A, B], STORED[:1], "lost write: update k = b at 3", id="a lost write"),
        pytest.param([A, B], [*STORED, Stored(4, "k", "b")], "doubled write: b", id="a doubled write"),
        pytest.param([A, B, _replaced(READ, value="a", revision=2)], STORED, "not linearizable: k", id="a stale read"),
        pytest.param(
            [A, _replaced(B, outcome=Outcome.UNKNOWN, revision=0), READ],
            STORED[:1],
            "not linearizable: k",
            id="dirty read",
        ),
    ],
)
def test_operations_are_summarized(operations: list[Operation], stored: list[Stored], message: str) -> None:
    result = check([("k", operation) for operation in operations], stored, [], [])
    assert any(message in item for item in result) if message else result == []


def test_list_and_watch_violations_are_reported() -> None:
    assert check([], STORED, [WATCH], [Snapshot(3, {"k": "b"}, 3)]) == []
    result = check([], [*STORED, Stored(4, "l", "c")], [Watch(1, WATCH.events[1:])], [Snapshot(3, {"k": "a"}, 4)])
    assert len(result) == 3
