"""Which pods a node admits, and the reasons of rejections.

Mirrors kubelet v1.36 ``pkg/kubelet/lifecycle/predicate_test.go``, ``handlers_test.go`` and
``pkg/kubelet/eviction/eviction_manager_test.go`` (``*Admit*``).
"""

from typing import Any

import msgspec
from tests.nodes.pods import pod
from tests.tables import cases

from pilothouse.api.core import Node
from pilothouse.nodes.admission import NodeInfo, admit, new_pod_info
from pilothouse.nodes.views import NodePod

ROOM = {"cpu": "2", "memory": "1Gi", "pods": "3"}


def node(*taints: dict[str, str], labels: Any = None, gpu: str = "", **room: str) -> Node:
    return msgspec.convert(
        {"metadata": {"name": "n", "labels": labels or {}}, "spec": {"taints": taints},
         "status": {"allocatable": {**ROOM, **room, **({"example.com/gpu": gpu} if gpu else {})}}},
        Node,
    )  # fmt: skip


def wants(
    qos: str = "Burstable", port: int = 0, host: str = "", gpu: str = "", more: Any = None, **requests: str
) -> NodePod:
    requests |= {"example.com/gpu": gpu} if gpu else {}
    container: dict[str, Any] = {"name": "c", "resources": {"requests": requests}}
    if port:
        container["ports"] = [{"containerPort": 80, "hostPort": port, "hostIP": host}]
    return pod(containers=[container], status={"qosClass": qos}, **(more or {}))


AFFINE = {"nodeSelector": {"disk": "ssd"}}
NO_EXECUTE = {"key": "k", "effect": "NoExecute"}
NO_SCHEDULE = {"key": "k", "effect": "NoSchedule"}
TOLERANT = {"tolerations": [{"operator": "Exists"}]}
CRITICAL = {"priority": 2_000_000_000}
OTHER = wants(cpu="1500m", memory="512Mi", port=8080)


@cases(
    "wanted, others, on, pressures, reason, message",
    {
        "exact fit": (wants(cpu="2"), 0, node(), [], "", ""),
        "cpu": (
            wants(cpu="600m"), 1, node(), [], "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"),
        "memory": (
            wants(memory="513Mi"), 1, node(), [], "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 537919488, used: 536870912, capacity: 1073741824"),
        "cpu and memory: cpu is reported": (
            wants(cpu="3", memory="9Gi"), 0, node(), [], "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"),
        "pods": (
            wants(), 3, node(cpu="99", memory="9Gi"), [], "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"),
        "extended": (
            wants(gpu="2"), 0, node(gpu="1"), [], "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1"),
        "unknown extended resource is ignored": (wants(gpu="2"), 0, node(), [], "", ""),
        "node selector": (
            wants(more=AFFINE), 0, node(), [], "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"),
        "node affinity matches": (wants(more=AFFINE), 0, node(labels={"disk": "ssd"}), [], "", ""),
        "host port": (
            wants(port=8080), 1, node(), [], "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"),
        "host port of one address, in use on all": (wants(port=8080, host="10.0.0.9"), 1, node(), [], "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"),
        "different host port": (wants(port=8081), 1, node(), [], "", ""),
        "NoExecute": (
            wants(), 0, node(NO_EXECUTE), [], "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"),
        "NoExecute tolerated": (wants(more=TOLERANT), 0, node(NO_EXECUTE), [], "", ""),
        "NoSchedule is the scheduler's business": (wants(), 0, node(NO_SCHEDULE), [], "", ""),
        "memory pressure: best effort": (
            wants(qos="BestEffort"), 0, node(), ["MemoryPressure"], "Evicted",
            "The node had condition: [MemoryPressure]. "),
        "memory pressure: guaranteed pod": (wants(), 0, node(), ["MemoryPressure"], "", ""),
        "memory pressure: tolerated": (
            wants(qos="BestEffort", more=TOLERANT), 0, node(), ["MemoryPressure"], "", ""),
        "disk pressure: any pod": (
            wants(more=TOLERANT), 0, node(), ["DiskPressure"], "Evicted", "The node had condition: [DiskPressure]. "),
        "disk pressure: but critical ones": (wants(more=CRITICAL), 0, node(), ["DiskPressure"], "", ""),
    },
)  # fmt: skip
def test_admission(wanted: NodePod, others: int, on: Node, pressures: list[str], reason: str, message: str) -> None:
    node_info = NodeInfo()
    for number in range(others):
        node_info.add(f"ns/o{number}", new_pod_info(OTHER if number == 0 else wants()))
    failure = admit(wanted, "ns/p", new_pod_info(wanted), node_info, on, pressures)
    assert (failure.reason, failure.message) == (reason, message) if failure else reason == ""


def test_removed_pods_free_their_resources() -> None:
    node_info = NodeInfo()
    node_info.add("ns/o", new_pod_info(OTHER))
    node_info.add("ns/o", new_pod_info(OTHER))
    assert node_info.requests["cpu"] == 1500, "counted once"
    node_info.drop("ns/o")
    node_info.drop("ns/o")
    assert admit(wants(cpu="2"), "ns/p", new_pod_info(wants(cpu="2")), node_info, node(), []) is None
