"""As kube-scheduler v1.36 ``plugins/tainttoleration/taint_toleration_test.go``."""

from typing import Any

import pytest
from tests.scheduler.build import filter_status, info, node, pod

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.normalize_score import default_normalize_score
from pilothouse.scheduler.plugins.taint_toleration import UNTOLERATED_TAINT, count_intolerable_taints_prefer_no_schedule

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        # tainttoleration/taint_toleration_test.go
        pytest.param(pod(), node(taints=[TAINT]), UNTOLERATED_TAINT, id="a taint without a toleration"),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]),
            node(taints=[TAINT]),
            None,
            id="key, value and effect are tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]),
            node(taints=[TAINT]),
            UNTOLERATED_TAINT,
            id="another value is tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
            node(taints=[TAINT]),
            None,
            id="any value and effect is tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "db", "effect": "NoExecute"}]),
            node(taints=[TAINT]),
            UNTOLERATED_TAINT,
            id="another effect is tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
            node(taints=[TAINT, {"key": "sick", "effect": "NoExecute"}]),
            UNTOLERATED_TAINT,
            id="one of two taints is tolerated",
        ),
        pytest.param(
            pod(), node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), None, id="PreferNoSchedule does not filter"
        ),
    ],
)
def test_filter(wanted: Pod, there: Node, expected: Status | None) -> None:
    assert filter_status(wanted, there) == expected


SOFT = "PreferNoSchedule"


def taint(key: str, value: str = "", effect: str = SOFT) -> dict[str, Any]:
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        # tainttoleration/taint_toleration_test.go: TestTaintTolerationScore
        pytest.param([], [[taint("a")], []], [0, 100], id="a node without taints is better"),
        pytest.param(
            [{"key": "a", "value": "1", "effect": SOFT}],
            [[taint("a", "1")], [taint("a", "2")]],
            [100, 0],
            id="tolerated",
        ),
        pytest.param(
            [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
            [[], [taint("a")], [taint("a"), taint("b")]],
            [100, 100, 100],
            id="all tolerated, however many",
        ),
        pytest.param(
            [{"key": "a", "operator": "Exists"}],
            [[], [taint("a")], [taint("a"), taint("b"), taint("c")]],
            [100, 100, 0],
            id="more intolerable taints are worse",
        ),
        pytest.param(
            [{"key": "a", "effect": "NoSchedule", "operator": "Exists"}],
            [[], [taint("a")]],
            [100, 0],
            id="a toleration of another effect",
        ),
    ],
)
def test_score(tolerations: list[Any], taints: list[list[Any]], expected: list[int]) -> None:
    pod_info = PodInfo(pod(tolerations=tolerations))
    raw = [count_intolerable_taints_prefer_no_schedule(pod_info, info(node(taints=one))) for one in taints]
    assert default_normalize_score(raw, reverse=True) == expected
