"""Series become paths that are no longer than the picture is wide, and no extreme is lost."""

import re

from tests.simulate.report.recordings import steps, zigzag
from tests.tables import cases

from pilothouse.simulate.recording import Rates, Steps
from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.curves import (
    Column,
    Scale,
    area_path,
    columns_of,
    line_path,
    rate_columns,
    stacked_paths,
)

AXIS = Axis(0.0, 800.0)
"""A second is a pixel; 0 is at 236."""
SCALE = Scale(100.0, 100.0, 10.0)


@cases(
    "points, expected",
    {
        "empty": (Steps(), []),
        "one value": (steps((0, 3)), [Column(236, 3, 3, 3)]),
        "a change": (steps((0, 3), (10, 5)), [Column(236, 3, 3, 3), Column(246, 5, 5, 5)]),
        "two changes in a column": (steps((0, 3), (10, 9), (10.2, 1)), [Column(236, 3, 3, 3), Column(246, 1, 9, 1)]),
        "merged steps": (
            Steps([0.0, 5.0], [1, 1], [1, 0], [1, 8]),
            [Column(236, 1, 1, 1), Column(241, 0, 8, 1)],
        ),
        "beyond the end": (steps((0, 3), (900, 5)), [Column(236, 3, 3, 3), Column(1036, 5, 5, 5)]),
    },
)  # fmt: skip
def test_columns(points: Steps, expected: list[Column]) -> None:
    assert columns_of(points, AXIS) == expected


@cases(
    "points, expected",
    {
        "empty": (Steps(), ""),
        "a step up": (steps((0, 0), (10, 5)), "M236 100H246V50H1036"),
        "peak within a column": (steps((0, 2), (10, 9), (10.1, 2)), "M236 80H246V10V80H1036"),
    },
)
def test_lines(points: Steps, expected: str) -> None:
    assert line_path(points, AXIS, SCALE) == expected


@cases(
    "points, expected",
    {
        "always 0": (steps((0, 0)), ""),
        "interval": (steps((0, 0), (10, 5), (20, 0)), "M246 100V50H256V100H246Z"),
        "a peak within a column": (steps((0, 0), (10, 9), (10.1, 0)), "M246 100V10H247.2V100H246Z"),
    },
)
def test_areas(points: Steps, expected: str) -> None:
    assert area_path(points, AXIS, SCALE) == expected


def test_bands_lie_upon_each_other() -> None:
    lower, upper = steps((0, 4), (10, 2)), steps((0, 0), (10, 3))
    first, second = stacked_paths([lower, upper], AXIS, SCALE)
    assert first == "M236 100V60H246V80H1036V100H246V100H236Z"
    assert second == "M246 80V50H1036V80H246Z"


def test_a_band_that_is_away_for_a_while_has_two_parts() -> None:
    (path,) = stacked_paths([steps((0, 1), (10, 0), (20, 1))], AXIS, SCALE)
    assert path.count("M") == path.count("Z") == 2


def test_paths_are_no_longer_than_the_picture_is_wide() -> None:
    long = zigzag(points=5_000, seconds=800.0)
    for path in (line_path(long, AXIS, SCALE), area_path(long, AXIS, SCALE), *stacked_paths([long, long], AXIS, SCALE)):
        assert len(re.findall("[HV]", path)) < 5 * 800


@cases(
    "width, counts, expected",
    {
        "wide buckets": (10.0, [0, 20, 0, 5], [(246, 10, 2.0), (266, 10, 0.5)]),
        "buckets of one column are merged": (
            0.5,
            [1, 2, 3, 4, 0, 0, 0, 6],
            [(236, 2, 4.0), (238, 2, 2.0), (240, 1.5, 12.0)],
        ),
        "the last one is drawn": (0.5, [3], [(236, 1.5, 6.0)]),
        "beyond the end": (500.0, [500, 500], [(236, 500, 1.0), (736, 300, 1.0)]),
    },
)
def test_rates(width: float, counts: list[int], expected: list[tuple[float, float, float]]) -> None:
    assert rate_columns(Rates(width=width), counts, AXIS) == expected
