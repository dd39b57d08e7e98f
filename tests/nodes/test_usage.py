"""What simulated containers use, from annotations and requests."""

from typing import Any

import pytest

from pilothouse.api.usage import ContainerUsage, Usage
from pilothouse.nodes.usage import UNSAID, container_usages

MI = 1 << 20
KEY = "simulated.pilothouse.dev/"


def pod(*containers: tuple[str, dict[str, str]], waiting: str = "", **annotations: str) -> dict[str, Any]:
    statuses = [{"name": n, "state": {"waiting": {}} if n == waiting else {"running": {}}} for n, _ in containers]
    return {
        "metadata": {
            "annotations": {KEY + key.replace("__", ".").replace("_", "-"): v for key, v in annotations.items()}
        },
        "spec": {"containers": [{"name": name, "resources": {"requests": asked}} for name, asked in containers]},
        "status": {"containerStatuses": statuses},
    }


ASKED = {"cpu": "500m", "memory": "100Mi"}
A, B = ("a", ASKED), ("b", ASKED)


@pytest.mark.parametrize(
    ("of", "share", "expected"),
    [
        pytest.param(pod(A), {}, [("a", 50, 50 * MI)], id="a share of what it requests"),
        pytest.param(pod(("a", {})), {}, [("a", UNSAID.cpu, UNSAID.memory)], id="a little where it requests nothing"),
        pytest.param(pod(A, cpu_usage="2"), {}, [("a", 2000, 50 * MI)], id="as said, of the pod"),
        pytest.param(
            pod(A, B, cpu_usage="101m"), {}, [("a", 51, 50 * MI), ("b", 50, 50 * MI)], id="in equal parts, nothing lost"
        ),
        pytest.param(
            pod(A, B, cpu_usage="100m", cpu_usage__b="7m"),
            {},
            [("a", 50, 50 * MI), ("b", 7, 50 * MI)],
            id="as said, of a container, before what is said of the pod",
        ),
        pytest.param(pod(A, memory_usage="1Gi"), {}, [("a", 50, 1024 * MI)], id="memory"),
        pytest.param(pod(A, cpu_usage="9"), {"cpu": 333}, [("a", 333, 50 * MI)], id="a load comes before the pod"),
        pytest.param(pod(A, cpu_usage__a="9"), {"cpu": 333}, [("a", 9000, 50 * MI)], id="and after the container"),
        pytest.param(pod(A, B, waiting="a"), {"cpu": 333}, [("b", 333, 50 * MI)], id="only what runs uses anything"),
        pytest.param(pod(A, cpu_usage="lots"), {}, [("a", 50, 50 * MI)], id="what cannot be read is unsaid"),
        pytest.param(pod(A, cpu_usage="-1"), {}, [("a", 0, 50 * MI)], id="nobody uses less than nothing"),
        pytest.param({"metadata": {}, "spec": {}}, {}, [], id="a pod that has not begun"),
    ],
)
def test_usage(of: dict[str, Any], share: dict[str, int], expected: list[tuple[str, int, int]]) -> None:
    assert container_usages(of, share) == [ContainerUsage(n, Usage(cpu, memory)) for n, cpu, memory in expected]
