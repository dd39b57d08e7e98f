"""How far a rollout may stray. Cases of ``TestResolveFenceposts``, ``TestMaxUnavailable`` and ``TestNewRSNewReplicas``,
v1.36 ``pkg/controller/deployment/util/deployment_util_test.go``."""

import pytest
from tests.controllers.deployment.builders import deployment

from pilothouse.controllers.workloads.deployment.bounds import Bounds, bounds_of, wanted
from pilothouse.controllers.workloads.deployment.rolling import new_size
from pilothouse.machinery.int_or_percent import InvalidBound, scaled


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        pytest.param("0%", "0%", 0, Bounds(0, 0), id="of nothing, nothing is missing"),
        pytest.param("39%", "39%", 10, Bounds(3, 4), id="a surge is rounded up, what may be missing down"),
        pytest.param("oops", "39%", 10, Bounds(0, 0), id="no percentage: no surge"),
        pytest.param("55%", "urg", 10, Bounds(0, 0), id="no percentage: nothing may be missing"),
        pytest.param(5, 1, 7, Bounds(1, 5), id="numbers are what they are"),
        pytest.param(None, "39%", 10, Bounds(3, 0), id="no surge given"),
        pytest.param("39%", None, 10, Bounds(0, 4), id="nothing given about what may be missing"),
        pytest.param(None, None, 10, Bounds(1, 0), id="both 0: one may be missing"),
        pytest.param("0%", "1%", 10, Bounds(1, 0), id="both rounded to 0: one may be missing"),
        pytest.param(1, 20, 10, Bounds(10, 1), id="no more may be missing than there are"),
        pytest.param("25%", "25%", 1, Bounds(0, 1), id="the default, with one replica"),
        pytest.param("25%", "25%", 4, Bounds(1, 1), id="the default, with four"),
    ],
)
def test_bounds(surge: int | str | None, unavailable: int | str | None, replicas: int, expected: Bounds) -> None:
    assert bounds_of(deployment(replicas, surge, unavailable)) == expected


def test_recreate_has_no_bounds() -> None:
    assert bounds_of(deployment(5, strategy="Recreate")) == Bounds(0, 0)


def test_a_number_that_is_not_given_is_one() -> None:
    assert wanted(deployment(None)) == 1


@pytest.mark.parametrize("text", ["", "%", "5", "-1%", "1.5%", "x%", "٣%"])
def test_what_is_no_percentage(text: str) -> None:
    with pytest.raises(InvalidBound):
        scaled(text, 10, up=True)


@pytest.mark.parametrize(
    ("strategy", "replicas", "surge", "total", "new", "expected"),
    [
        pytest.param("RollingUpdate", 1, 1, 1, 0, 1, id="rolling: one beside the old one"),
        pytest.param("RollingUpdate", 1, 0, 1, 0, 0, id="rolling without surge: the old one has to go first"),
        pytest.param("RollingUpdate", 5, 0, 3, 1, 3, id="rolling: as many as there is room for"),
        pytest.param("RollingUpdate", 5, 5, 5, 0, 5, id="rolling: no more than wanted"),
        pytest.param("RollingUpdate", 5, 1, 9, 3, 3, id="rolling: too many already, nothing is taken away"),
        pytest.param("Recreate", 3, 0, 1, 1, 3, id="recreate: all at once"),
        pytest.param("Recreate", 0, 0, 1, 2, 0, id="recreate: also when none are wanted"),
    ],
)
def test_the_new_ones_size(strategy: str, replicas: int, surge: int, total: int, new: int, expected: int) -> None:
    assert new_size(deployment(replicas, surge, 0, strategy=strategy), total, new) == expected
