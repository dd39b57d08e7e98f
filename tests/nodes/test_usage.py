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
        "spec": {"containers": [{"name": name, "resources": {"requests": asked}} for name, asked in containers]},
        "status": {"containerStatuses": statuses},
    }


ASKED = {"cpu": "500m", "memory": "100Mi"}
A, B = ("a", ASKED), ("b", ASKED)


@cases(
    "of, share, expected",
    {
        "a share of what it requests": (pod(A), {}, [("a", 50, 50 * MI)]),
        "a little where it requests nothing": (pod(("a", {})), {}, [("a", DEFAULT_USAGE.cpu, DEFAULT_USAGE.memory)]),
        "as said, of the pod": (pod(A, cpu_usage="2"), {}, [("a", 2000, 50 * MI)]),
        "in equal parts, nothing lost": (pod(A, B, cpu_usage="101m"), {}, [("a", 51, 50 * MI), ("b", 50, 50 * MI)]),
        "as said, of a container, before what is said of the pod": (
            pod(A, B, cpu_usage="100m", cpu_usage__b="7m"),
            {},
            [("a", 50, 50 * MI), ("b", 7, 50 * MI)],
        ),
        "memory": (pod(A, memory_usage="1Gi"), {}, [("a", 50, 1024 * MI)]),
        "a load comes before the pod": (pod(A, cpu_usage="9"), {"cpu": 333}, [("a", 333, 50 * MI)]),
        "and after the container": (pod(A, cpu_usage__a="9"), {"cpu": 333}, [("a", 9000, 50 * MI)]),
        "only what runs uses anything": (pod(A, B, waiting="a"), {"cpu": 333}, [("b", 333, 50 * MI)]),
        "what cannot be read is unsaid": (pod(A, cpu_usage="lots"), {}, [("a", 50, 50 * MI)]),
        "nobody uses less than nothing": (pod(A, cpu_usage="-1"), {}, [("a", 0, 50 * MI)]),
        "a pod that has not begun": ({"metadata": {}, "spec": {}}, {}, []),
    },
)
def test_usage(of: dict[str, Any], share: dict[str, int], expected: list[tuple[str, int, int]]) -> None:
    assert container_usages(of, share) == [ContainerUsage(n, Usage(cpu, memory)) for n, cpu, memory in expected]
