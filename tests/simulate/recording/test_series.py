"""Numbers over time stay bounded, and their extremes are kept."""

import random

import pytest
from tests.tables import cases

from pilothouse.simulate.recording.series import (
    MAX_BUCKETS,
    MAX_POINTS,
    OTHERS,
    Durations,
    RateSeries,
    StepSeries,
)
from pilothouse.simulate.recording.structs import Percentiles, Steps


def _steps(changes: list[tuple[float, int]]) -> Steps:
    series = StepSeries()
    for at, value in changes:
        series.set(at, value)
    return series.steps()


@cases(
    "changes, expected",
    {
        "no changes": ([], Steps([0.0], [0], [0], [0])),
        "one point per instant": ([(1.0, 2), (3.5, 1)], Steps([0.0, 1.0, 3.5], [0, 2, 1], [0, 2, 1], [0, 2, 1])),
        "several changes at one instant": ([(1.0, 5), (1.0, 2), (1.0, 3)], Steps([0.0, 1.0], [0, 3], [0, 2], [0, 5])),
        "equal value": ([(1.0, 2), (2.0, 2)], Steps([0.0, 1.0], [0, 2], [0, 2], [0, 2])),
        "change at the start": ([(0.0, 3)], Steps([0.0], [3], [0], [3])),
    },
)
def test_steps(changes: list[tuple[float, int]], expected: Steps) -> None:
    assert _steps(changes) == expected


@pytest.mark.parametrize("span", [1.0, 3600.0, 7 * 86400.0])
def test_steps_are_bounded_and_keep_their_extremes(span: float) -> None:
    rng = random.Random(span)
    changes = sorted((round(rng.uniform(0, span), 3), rng.randrange(100)) for _ in range(20_000))
    changes[7000] = (changes[7000][0], 999)
    result = _steps(changes)
    assert MAX_POINTS // 4 < len(result.at) <= MAX_POINTS
    assert result.at == sorted(set(result.at))
    assert result.most == 999
    assert result.last[-1] == changes[-1][1]
    for low, last, high in zip(result.low, result.last, result.high, strict=True):
        assert low <= last <= high
    # The last value of any instant lies between the extremes of its point.
    for at, value in list(dict(changes).items())[::97]:
        index = max(i for i, begins in enumerate(result.at) if begins <= at)
        assert result.low[index] <= value <= result.high[index]


def test_rates_are_bounded_without_loss() -> None:
    series = RateSeries(most_names=3)
    for at in range(100_000):
        series.add(float(at), f"client-{at % 7}")
    rates = series.rates()
    assert rates.total == 100_000
    assert set(rates.counts) == {"client-0", "client-1", "client-2", OTHERS}
    assert max(map(len, rates.counts.values())) <= MAX_BUCKETS
    assert rates.width * MAX_BUCKETS < 4 * 100_000


def test_rates_have_the_time_at_which_it_happened() -> None:
    series = RateSeries()
    for at in (0.0, 1.0, 1.1, 600.0):
        series.add(at, "a")
    rates = series.rates()
    result = {index * rates.width: count for index, count in enumerate(rates.counts["a"]) if count}
    assert result == {0.0: 3, 600.0: 1}
    assert rates.width == 2.0


@cases(
    "seconds, expected",
    {
        "empty": ([], Percentiles()),
        "one value": ([2.0], Percentiles(count=1, p50=2.0, p95=2.0, p99=2.0, most=2.0)),
        "a hundred": (
            [float(number) for number in range(1, 101)],
            Percentiles(count=100, p50=50.0, p95=95.0, p99=99.0, most=100.0),
        ),
        "milliseconds": ([1202.23456], Percentiles(count=1, p50=1202.235, p95=1202.235, p99=1202.235, most=1202.235)),
    },
)
def test_durations(seconds: list[float], expected: Percentiles) -> None:
    result = Durations()
    for second in seconds:
        result.add(second)
    assert result.percentiles() == expected
