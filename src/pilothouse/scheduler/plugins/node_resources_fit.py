"""NodeResourcesFit: the requests of a pod must fit; LeastAllocated scores the remaining resources.

As kube-scheduler v1.36 ``plugins/noderesources/fit.go`` and ``least_allocated.go``.
"""

from collections.abc import Mapping
from functools import lru_cache

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo
from pilothouse.scheduler.plugins.normalize_score import MAX_NODE_SCORE

NAME = "NodeResourcesFit"
_ORDER = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject nodes that lack a resource or already have all the pods that they allow."""
    if len(node_info.pods) >= node_info.allowed_pod_number:
        return _insufficient_resources(pod_info, node_info)
    allocatable, requested = node_info.allocatable, node_info.requested
    for name, amount in pod_info.positive_requests:
        if amount > allocatable.get(name, 0) - requested.get(name, 0) and not _is_delegated(
            pod_info, name, allocatable
        ):
            return _insufficient_resources(pod_info, node_info)
    return None


def _is_delegated(pod_info: PodInfo, name: str, allocatable: Mapping[str, int]) -> bool:
    """Whether DynamicResources allocates devices for the resource, which the node does not have itself."""
    return name in pod_info.delegated_resources and not allocatable.get(name)


def _insufficient_resources(pod_info: PodInfo, node_info: NodeInfo) -> Status:
    """Everything that is insufficient, in upstream's order: pods, cpu, memory, ephemeral storage, the rest by name."""
    reasons = ["Too many pods"] if len(node_info.pods) >= node_info.allowed_pod_number else []
    unresolvable = False
    for name, amount in sorted(pod_info.positive_requests, key=_rank):
        allocatable = node_info.allocatable.get(name, 0)
        if amount > allocatable - node_info.requested.get(name, 0) and not _is_delegated(
            pod_info, name, node_info.allocatable
        ):
            reasons.append(f"Insufficient {name}")
            # More than the empty node has: no preemption would help.
            unresolvable = unresolvable or amount > allocatable
    return _status(tuple(reasons), unresolvable)


@lru_cache(maxsize=1024)
def _status(reasons: tuple[str, ...], unresolvable: bool) -> Status:
    return Status(NAME, reasons, unresolvable)


def _rank(request: tuple[str, int]) -> tuple[int, str]:
    return _ORDER.get(request[0], 3), request[0]


def least_allocated(pod_info: PodInfo, node_info: NodeInfo) -> int:
    """0 to 100: the remaining share of cpu and memory, as the mean over the resources that the node has.

    4 of 32 cpus and 64 of 256 GiB are used, the pod requests one cpu and 200 MiB count for its memory:
    (32-5)/32 = 84, (256-64.2)/256 = 74, so 79.
    """
    total = weights = 0
    if node_info.allocatable_cpu:
        weights = 1
        left = node_info.allocatable_cpu - node_info.non_zero_requested_cpu - pod_info.score_cpu
        if left > 0:
            total = left * MAX_NODE_SCORE // node_info.allocatable_cpu
    if node_info.allocatable_memory:
        weights += 1
        left = node_info.allocatable_memory - node_info.non_zero_requested_memory - pod_info.score_memory
        if left > 0:
            total += left * MAX_NODE_SCORE // node_info.allocatable_memory
    return total // weights if weights else 0


def is_schedulable_after_node_change(pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether the pod would fit the node if it were empty, and the node was added or has more of what the pod requests,
    or more room for pods."""
    if change.new is None or not (change.added or change.allocatable):
        return False
    old, new = change.old_allocatable, change.new_allocatable
    if new.get("pods", 0) < 1 or any(
        amount > new.get(name, 0) and not _is_delegated(pod_info, name, new)
        for name, amount in pod_info.positive_requests
    ):
        return False
    return (
        change.added
        or new.get("pods", 0) > old.get("pods", 0)
        or any(new.get(name, 0) > old.get(name, 0) for name, _amount in pod_info.positive_requests)
    )


def is_schedulable_after_pod_update(pod_info: PodInfo, old: PodInfo, new: PodInfo) -> bool:
    """Whether a pod on a node requests less of something that the rejected pod requests."""
    return any(old.requests.get(name, 0) > new.requests.get(name, 0) for name, _amount in pod_info.positive_requests)
