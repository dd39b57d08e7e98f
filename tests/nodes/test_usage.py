"""What simulated containers use, from annotations and requests."""

from typing import Any

from tests.tables import cases

from pilothouse.api.usage import ContainerUsage, Usage
from pilothouse.nodes.usage import DEFAULT_USAGE, container_usages

MI = 1 << 20
KEY = "simulated.pilothouse.dev/"


def pod(*containers: tuple[str, dict[str, str]], waiting: str = "", **annotations: str) -> dict[str, Any]:
    statuses = [{"name": n, "state": {"waiting": {}} if n == waiting else {"running": {}}} for n, _ in containers]
    return {
        "metadata": {
            "annotations": {KEY + key.replace("__", ".").replace("_", "-"): v for key, v in annotations.items()}
        },
        "spec": {
            "containers": [{"name": name, "resources": {"requests": container}} for name, container in containers]
        },
        "status": {"containerStatuses": statuses},
    }


ASKED = {"cpu": "500m", "memory": "100Mi"}
A, B = ("a", ASKED), ("b", ASKED)


@cases(
    "of, share, expected",
    {
        "a share of what it requests": (pod(A), {}, [("a", 50, 50 * MI)]),
        "default without requests": (pod(("a", {})), {}, [("a", DEFAULT_USAGE.cpu, DEFAULT_USAGE.memory)]),
        "usage annotation of the pod": (pod(A, cpu_usage="2"), {}, [("a", 2000, 50 * MI)]),
        "pod's usage is divided among the containers": (
            pod(A, B, cpu_usage="101m"),
            {},
            [("a", 51, 50 * MI), ("b", 50, 50 * MI)],
        ),
        "container's usage precedes the pod's": (
            pod(A, B, cpu_usage="100m", cpu_usage__b="7m"),
            {},
            [("a", 50, 50 * MI), ("b", 7, 50 * MI)],
        ),
        "memory": (pod(A, memory_usage="1Gi"), {}, [("a", 50, 1024 * MI)]),
        "load precedes the pod's usage": (pod(A, cpu_usage="9"), {"cpu": 333}, [("a", 333, 50 * MI)]),
        "container's usage precedes load": (pod(A, cpu_usage__a="9"), {"cpu": 333}, [("a", 9000, 50 * MI)]),
        "only running containers": (pod(A, B, waiting="a"), {"cpu": 333}, [("b", 333, 50 * MI)]),
        "invalid usage": (pod(A, cpu_usage="lots"), {}, [("a", 50, 50 * MI)]),
        "negative usage": (pod(A, cpu_usage="-1"), {}, [("a", 0, 50 * MI)]),
        "a pod that has not begun": ({"metadata": {}, "spec": {}}, {}, []),
    },
)
def test_usage(of: dict[str, Any], share: dict[str, int], expected: list[tuple[str, int, int]]) -> None:
    assert container_usages(of, share) == [ContainerUsage(n, Usage(cpu, memory)) for n, cpu, memory in expected]
