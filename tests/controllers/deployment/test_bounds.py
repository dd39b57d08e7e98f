"""maxSurge and maxUnavailable of a rollout.

Cases of ``TestResolveFenceposts``, ``TestMaxUnavailable`` and ``TestNewRSNewReplicas``, v1.36
``pkg/controller/deployment/util/deployment_util_test.go``.
"""

import pytest
from tests.controllers.deployment.builders import deployment
from tests.tables import cases

from pilothouse.controllers.workloads.deployment.bounds import Bounds, bounds_of, desired_replicas
from pilothouse.controllers.workloads.deployment.rolling import new_rs_new_replicas
from pilothouse.machinery.int_or_percent import InvalidBound, scaled


@cases(
    "surge, unavailable, replicas, expected",
    {
        "zero replicas": ("0%", "0%", 0, Bounds(0, 0)),
        "maxSurge is rounded up, maxUnavailable down": ("39%", "39%", 10, Bounds(3, 4)),
        "maxSurge is not a percentage": ("oops", "39%", 10, Bounds(0, 0)),
        "maxUnavailable is not a percentage": ("55%", "urg", 10, Bounds(0, 0)),
        "numbers are what they are": (5, 1, 7, Bounds(1, 5)),
        "no maxSurge": (None, "39%", 10, Bounds(3, 0)),
        "no maxUnavailable": ("39%", None, 10, Bounds(0, 4)),
        "both unset: maxUnavailable 1": (None, None, 10, Bounds(1, 0)),
        "both round to 0: maxUnavailable 1": ("0%", "1%", 10, Bounds(1, 0)),
        "maxUnavailable above replicas": (1, 20, 10, Bounds(10, 1)),
        "the default, with one replica": ("25%", "25%", 1, Bounds(0, 1)),
        "the default, with four": ("25%", "25%", 4, Bounds(1, 1)),
    },
)
def test_resolve_fenceposts(
    surge: int | str | None, unavailable: int | str | None, replicas: int, expected: Bounds
) -> None:
    assert bounds_of(deployment(replicas, surge, unavailable)) == expected


def test_recreate_has_no_max_surge_or_max_unavailable() -> None:
    assert bounds_of(deployment(5, strategy="Recreate")) == Bounds(0, 0)


def test_missing_replicas_default_to_one() -> None:
    assert desired_replicas(deployment(None)) == 1


@pytest.mark.parametrize("text", ["", "%", "5", "-1%", "1.5%", "x%", "٣%"])
def test_invalid_percentages_are_errors(text: str) -> None:
    with pytest.raises(InvalidBound):
        scaled(text, 10, up=True)


@cases(
    "strategy, replicas, surge, total, new, expected",
    {
        "rolling: maxSurge 1": ("RollingUpdate", 1, 1, 1, 0, 1),
        "rolling: no surge": ("RollingUpdate", 1, 0, 1, 0, 0),
        "rolling: up to maxSurge": ("RollingUpdate", 5, 0, 3, 1, 3),
        "rolling: up to replicas": ("RollingUpdate", 5, 5, 5, 0, 5),
        "rolling: above replicas and maxSurge": ("RollingUpdate", 5, 1, 9, 3, 3),
        "recreate: all at once": ("Recreate", 3, 0, 1, 1, 3),
        "recreate: also with zero replicas": ("Recreate", 0, 0, 1, 2, 0),
    },
)
def test_new_rs_new_replicas(strategy: str, replicas: int, surge: int, total: int, new: int, expected: int) -> None:
    assert new_rs_new_replicas(deployment(replicas, surge, 0, strategy=strategy), total, new) == expected
