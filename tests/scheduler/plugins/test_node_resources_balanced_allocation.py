"""As kube-scheduler v1.36 ``plugins/noderesources/balanced_allocation_test.go``."""

import pytest
from tests.scheduler.build import info, node, pod

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.node_resources_balanced_allocation import balanced_allocation


@pytest.mark.parametrize(
    ("wanted", "there", "placed", "expected"),
    [
        # noderesources/balanced_allocation_test.go as of kubernetes#135573: 75 stands for no change
        pytest.param(pod("p", "2", "5000"), node(cpu="4", memory="10000"), [], 75, id="balanced before and after"),
        pytest.param(
            # 3/4 cpu, 5000/10000 memory: 1 - 0.125 = 87, before 100: 50 + (50 + 87 - 100) // 2
            pod("p", "3", "5000"),
            node(cpu="4", memory="10000"),
            [],
            68,
            id="less balanced than before",
        ),
        pytest.param(
            # before: 3/6 and 0: 75; after: 3/6 and 5000/10000: 100
            pod("p", "", "5000"),
            node(cpu="6", memory="10000"),
            [pod("q", "3")],
            87,
            id="more balanced than before",
        ),
        pytest.param(pod("p", "4", ""), node(cpu="4", memory="10000"), [], 50, id="from balanced to fully unbalanced"),
        pytest.param(
            pod("p", "", "10000"),
            node(cpu="4", memory="10000"),
            [pod("q", "4")],
            100,
            id="from fully unbalanced to balanced",
        ),
        pytest.param(pod("p", "9", "5000"), node(cpu="4", memory="5000"), [], 75, id="a fraction above 1 counts as 1"),
    ],
)
def test_balanced_allocation(wanted: Pod, there: Node, placed: list[Pod], expected: int) -> None:
    assert balanced_allocation(PodInfo(wanted), info(there, *placed)) == expected
