"""VolumeRestrictions: a claim with the access mode ReadWriteOncePod is used by one pod only.

The conflicts of volumes that pods name themselves (GCE, AWS, iSCSI, RBD) are not considered. As kube-scheduler v1.36
``plugins/volumerestrictions``.
"""

from collections.abc import Sequence

from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, PodInfo

NAME = "VolumeRestrictions"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
READ_WRITE_ONCE_POD_CONFLICT = Status(
    NAME,
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another "
        "pod",
    ),
)


def filter_pod(cache: Cache, claims: Sequence[str]) -> Status | None:
    """Reject all nodes if a pod on any node uses one of these ReadWriteOncePod claims, given as namespace and name."""
    used = cache.claim_users
    return READ_WRITE_ONCE_POD_CONFLICT if any(claim in used for claim in claims) else None


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added."""
    return change.added


def is_schedulable_after_pod_removed(pod_info: PodInfo, removed: PodInfo) -> bool:
    """Whether the pod that was removed from a node used a claim of the rejected pod."""
    return pod_info.namespace == removed.namespace and not set(pod_info.claim_names).isdisjoint(removed.claim_names)
