"""Whether the cost per object is constant, computed from several sizes."""

from collections.abc import Sequence

import pytest
from bench.report import Figure, figure, growth, table
from tests.tables import cases


def _cost(size: int, pilothouse: Sequence[float], go: Sequence[float] = (), unit: str = "µs") -> Figure:
    name = f"ReplicaSet 0→{size}→0: cost"
    return figure(name, unit, pilothouse, go, other_name="Go", series="ReplicaSet 0→N→0: cost", size=size)


def test_growth_is_the_ratio_of_best_runs() -> None:
    [grown] = growth([_cost(5000, [130, 150], [300]), _cost(20000, [220, 150], [400]), _cost(500, [100, 900], [200])])
    assert grown.value == pytest.approx(1.5)
    assert grown.other == pytest.approx(2.0)
    assert grown.name == "ReplicaSet 0→N→0: cost, 20,000 beside 500"
    assert "1 is flat" in table([grown])


def test_single_program_is_compared_with_itself() -> None:
    [grown] = growth([_cost(500, [100]), _cost(20000, [110])])
    assert grown.value == pytest.approx(1.1)
    assert grown.other is None


@cases(
    "figures",
    {
        "no measurements": [],
        "one size": [_cost(500, [100])],
        "wall time is no cost per object": [_cost(500, [1], unit="s"), _cost(5000, [10], unit="s")],
        "figures of no series": [figure("a", "µs", [1]), figure("b", "µs", [2])],
    },
)
def test_no_growth_is_not_reported(figures: list[Figure]) -> None:
    assert growth(figures) == []
