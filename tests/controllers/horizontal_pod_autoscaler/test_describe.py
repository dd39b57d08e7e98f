"""The sentence about pods that count differently."""

from msgspec.structs import replace
from tests.controllers.horizontal_pod_autoscaler.builders import doubled, samples, workload
from tests.tables import cases

from pilothouse.controllers.workloads.horizontal_pod_autoscaler.describe import describe_computation
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import (
    Pods,
    Tolerances,
    by_average,
    by_utilization,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import Sample

ONE = ["1.0"] * 7
RUN, FAILED, PENDING = "Running", "Failed", "Pending"


@cases(
    "pods, known, target, expected",
    {
        "all count alike": (workload(3, requests=ONE), doubled(300, 500, 700), 30, ""),
        "up, half without metrics": (
            workload(6, requests=ONE),
            doubled(2500, 2500, 2500),
            70,
            "metrics of 3 of 6 pods count, 3 have none (on node-1, node-2) and count as 0: ratio 1.79, times 6 pods "
            "makes 11",
        ),
        "up, one is not ready yet": (
            workload(3, requests=ONE, ready="nyy"),
            doubled(300, 500, 700),
            30,
            "metrics of 2 of 3 pods count, 1 is not ready yet and counts as 0: ratio 1.33, times 3 pods makes 4",
        ),
        "up, they turn the direction": (
            workload(3, requests=ONE, ready="ynn"),
            doubled(400, 500, 700),
            30,
            "metrics of 1 of 3 pods count, 2 are not ready yet and count as 0: ratio 0.43, which would reverse the "
            "direction, so 3 replicas stay",
        ),
        "up, within the tolerance": (
            workload(3, requests=ONE, tolerances=Tolerances(0.1, 0.5)),
            doubled(400, 500),
            30,
            "metrics of 2 of 3 pods count, 1 has none (on node-1) and counts as 0: ratio 1.00, within the tolerance, "
            "so 3 replicas stay",
        ),
        "down, one without metrics, one not ready": (
            workload(5, requests=ONE, phases=(RUN, RUN, RUN, PENDING, RUN)),
            doubled(100, 100, 100),
            50,
            "metrics of 3 of 5 pods count, 1 has none (on node-1) and counts as 100%, 1 is not ready yet and does not "
            "count: ratio 0.64, times 4 pods makes 3",
        ),
        "down, during a rollout with more pods than desired": (
            workload(2, requests=ONE, phases=[RUN] * 5),
            doubled(100, 100, 100),
            70,
            "metrics of 3 of 5 pods count, 2 have none (on node-1, node-2) and count as 100%: ratio 0.66, which makes "
            "4 replicas, in the opposite direction, so 2 replicas stay",
        ),
        "failed and terminating ones": (
            workload(2, requests=ONE, phases=(RUN, RUN, FAILED, RUN), deleted="nnny"),
            doubled(500, 700),
            30,
            "metrics of 2 of 4 pods count, 2 are being deleted or have failed and do not count: ratio 2.00, times 2 "
            "pods makes 4",
        ),
    },
)
def test_utilization(pods: Pods, known: dict[str, Sample], target: int, expected: str) -> None:
    count = by_utilization(_on_nodes(pods), known, "cpu", "", target)
    assert count.computation is not None
    assert describe_computation(count.computation, pods.current) == expected


def test_average_per_pod() -> None:
    count = by_average(_on_nodes(workload(4)), samples(10000, 10000), 20000)
    assert count.computation is not None
    assert describe_computation(count.computation, 4) == (
        "metrics of 2 of 4 pods count, 2 have none (on node-1, node-2) and count as the target: ratio 0.75, times 4 "
        "pods makes 3"
    )


def _on_nodes(pods: Pods) -> Pods:
    """On node-1 and node-2 in turn."""
    placed = [
        replace(pod, spec=replace(pod.spec, node_name=f"node-{(number % 2) + 1}"))
        for number, pod in enumerate(pods.pods)
    ]
    return replace(pods, pods=placed)
