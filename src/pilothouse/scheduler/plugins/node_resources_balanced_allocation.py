"""NodeResourcesBalancedAllocation: prefer nodes whose use of cpu and memory becomes more even with the pod.

As kube-scheduler v1.36 ``plugins/noderesources/balanced_allocation.go``, where the change counts and no longer the
result (kubernetes#135573).
"""

from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.scheduler.plugins.normalize_score import MAX_NODE_SCORE


def balanced_allocation(pod_info: PodInfo, node_info: NodeInfo) -> int:
    """50 to 100; 75 when the balance stays the same."""
    requested, requests = node_info.requested, pod_info.requests
    cpu, memory = requested.get("cpu", 0), requested.get("memory", 0)
    without_pod = _balance(cpu, memory, node_info)
    with_pod = _balance(cpu + requests.get("cpu", 0), memory + requests.get("memory", 0), node_info)
    return MAX_NODE_SCORE // 2 + (MAX_NODE_SCORE // 2 + with_pod - without_pod) // 2


def _balance(cpu: int, memory: int, node_info: NodeInfo) -> int:
    if not node_info.allocatable_cpu or not node_info.allocatable_memory:
        return MAX_NODE_SCORE
    cpu_fraction = min(cpu / node_info.allocatable_cpu, 1.0)
    memory_fraction = min(memory / node_info.allocatable_memory, 1.0)
    return int((1 - abs(cpu_fraction - memory_fraction) / 2) * MAX_NODE_SCORE)
