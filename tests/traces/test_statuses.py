"""The comparison of status sequences."""

from typing import Any

from tests.tables import cases
from tests.traces.statuses import COUNTS, State, turning_points


def state(ready: int, terminating: int = 0, **more: Any) -> State:
    return {**dict.fromkeys(COUNTS, 3), "readyReplicas": ready, "terminatingReplicas": terminating, **more}


@cases(
    "statuses, expected",
    {
        "pods that become ready one by one or at once": ([(0,), (1,), (2,), (3,)], [(0,), (3,)]),
        "one step": ([(0,), (3,)], [(0,), (3,)]),
        "turning point": ([(3,), (1,), (3,)], [(3,), (1,), (3,)]),
        "other count changes": ([(0,), (2,), (2, 1), (2, 0)], [(0,), (2,), (2, 1), (2, 0)]),
    },
)
def test_turning_points(statuses: list[tuple[int, ...]], expected: list[tuple[int, ...]]) -> None:
    assert turning_points([state(*step) for step in statuses]) == [state(*step) for step in expected]


def test_non_count_change_is_a_turning_point() -> None:
    states = [state(0, object="generation 1"), state(1, object="generation 2"), state(2, object="generation 2")]
    assert turning_points(states) == states
