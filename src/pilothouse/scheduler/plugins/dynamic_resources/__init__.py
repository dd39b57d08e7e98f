"""DynamicResources: allocates the devices of resource claims.

As kube-scheduler v1.36 ``plugins/dynamicresources`` with its default feature gates: prioritized lists, partitionable
devices, device taints, consumable capacity, binding conditions and extended resources are on; ``DRADeviceTaintRules``,
``DRAListTypeAttributes``, ``DRANodeAllocatableResources`` and ``DRAWorkloadResourceClaims`` are off.

``plugin`` has the extension points, ``dra_manager`` what they know of the cluster, ``pod_claims`` the state of one pod,
``structured`` the allocator, ``claim_binding`` the requests.
"""

from pilothouse.scheduler.framework.types import NodeChange, PodInfo

NAME = "DynamicResources"
NO_CLAIMS_TO_DEALLOCATE = "no new claims to deallocate"
"""The message of PostFilter for a pod without claims."""
STATE_NOT_FOUND = "not found"
"""The message for a pod that another plugin rejected on all nodes before the PreFilter of this one. It is upstream's
error about the missing state, after which preemption is not tried."""


def is_device_available_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added, or has other labels or allocatable resources."""
    return change.added or change.labels or change.allocatable


class ClaimBindingError(Exception):
    """A claim could not be allocated, reserved or used."""

    def __init__(self, reason: str) -> None:
        super().__init__(f'running PreBind plugin "{NAME}": {reason}')
