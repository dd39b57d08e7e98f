"""As kube-scheduler v1.36 ``plugins/tainttoleration/taint_toleration_test.go``."""

from typing import Any

from tests.scheduler.build import filter_status, info, node, pod
from tests.tables import cases

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.normalize_score import default_normalize_score
from pilothouse.scheduler.plugins.taint_toleration import UNTOLERATED_TAINT, count_intolerable_taints_prefer_no_schedule

TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@cases(
    "wanted, existing, expected",
    {
        # tainttoleration/taint_toleration_test.go
        "a taint without a toleration": (pod(), node(taints=[TAINT]), UNTOLERATED_TAINT),
        "key, value and effect are tolerated": (
            pod(tolerations=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]),
            node(taints=[TAINT]),
            None,
        ),
        "toleration of another value": (
            pod(tolerations=[{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]),
            node(taints=[TAINT]),
            UNTOLERATED_TAINT,
        ),
        "toleration of any value and effect": (
            pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
            node(taints=[TAINT]),
            None,
        ),
        "toleration of another effect": (
            pod(tolerations=[{"key": "dedicated", "value": "db", "effect": "NoExecute"}]),
            node(taints=[TAINT]),
            UNTOLERATED_TAINT,
        ),
        "one of two taints tolerated": (
            pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
            node(taints=[TAINT, {"key": "sick", "effect": "NoExecute"}]),
            UNTOLERATED_TAINT,
        ),
        "PreferNoSchedule does not filter": (pod(), node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), None),
    },
)
def test_filter(wanted: Pod, existing: Node, expected: Status | None) -> None:
    assert filter_status(wanted, existing) == expected


SOFT = "PreferNoSchedule"


def taint(key: str, value: str = "", effect: str = SOFT) -> dict[str, Any]:
    return {"key": key, "value": value, "effect": effect}


@cases(
    "tolerations, taints, expected",
    {
        # tainttoleration/taint_toleration_test.go: TestTaintTolerationScore
        "a node without taints is better": ([], [[taint("a")], []], [0, 100]),
        "tolerated": ([{"key": "a", "value": "1", "effect": SOFT}], [[taint("a", "1")], [taint("a", "2")]], [100, 0]),
        "all taints tolerated": (
            [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
            [[], [taint("a")], [taint("a"), taint("b")]],
            [100, 100, 100],
        ),
        "more intolerable taints score lower": (
            [{"key": "a", "operator": "Exists"}],
            [[], [taint("a")], [taint("a"), taint("b"), taint("c")]],
            [100, 100, 0],
        ),
        "a toleration of another effect": (
            [{"key": "a", "effect": "NoSchedule", "operator": "Exists"}],
            [[], [taint("a")]],
            [100, 0],
        ),
    },
)
def test_score(tolerations: list[Any], taints: list[list[Any]], expected: list[int]) -> None:
    pod_info = PodInfo(pod(tolerations=tolerations))
    raw = [count_intolerable_taints_prefer_no_schedule(pod_info, info(node(taints=item))) for item in taints]
    assert default_normalize_score(raw, reverse=True) == expected
