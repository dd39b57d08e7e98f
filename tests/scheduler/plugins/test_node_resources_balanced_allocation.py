"""As kube-scheduler v1.36 ``plugins/noderesources/balanced_allocation_test.go``."""

from tests.scheduler.build import info, node, pod
from tests.tables import cases

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.node_resources_balanced_allocation import balanced_allocation


@cases(
    "wanted, existing, placed, expected",
    {
        # noderesources/balanced_allocation_test.go as of kubernetes#135573: 75 means no change
        "balanced before and after": (pod("p", "2", "5000"), node(cpu="4", memory="10000"), [], 75),
        "less balanced than before": (
            # 3/4 cpu, 5000/10000 memory: 1 - 0.125 = 87, before 100: 50 + (50 + 87 - 100) // 2
            pod("p", "3", "5000"),
            node(cpu="4", memory="10000"),
            [],
            68,
        ),
        "more balanced than before": (
            # before: 3/6 and 0: 75; after: 3/6 and 5000/10000: 100
            pod("p", "", "5000"),
            node(cpu="6", memory="10000"),
            [pod("q", "3")],
            87,
        ),
        "from balanced to fully unbalanced": (pod("p", "4", ""), node(cpu="4", memory="10000"), [], 50),
        "from fully unbalanced to balanced": (
            pod("p", "", "10000"),
            node(cpu="4", memory="10000"),
            [pod("q", "4")],
            100,
        ),
        "fraction above 1 is capped": (pod("p", "9", "5000"), node(cpu="4", memory="5000"), [], 75),
    },
)
def test_balanced_allocation(wanted: Pod, existing: Node, placed: list[Pod], expected: int) -> None:
    assert balanced_allocation(PodInfo(wanted), info(existing, *placed)) == expected
