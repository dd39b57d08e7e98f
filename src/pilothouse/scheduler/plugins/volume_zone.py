"""VolumeZone: the zones and regions in the labels of volumes must match those of the node.

As kube-scheduler v1.36 ``plugins/volumezone``.
"""

from collections.abc import Iterable

from pilothouse.api.storage import PersistentVolume
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import REGION, ZONE, NodeChange, NodeInfo, PodInfo

NAME = "VolumeZone"
CONFLICT = Status(NAME, ("node(s) had no available volume zone",), unresolvable=True)
_DELIMITER = "__"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
_TOPOLOGY_LABELS = {_BETA_ZONE: ZONE, _BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
"""The labels that are compared, and their names since they are stable."""

Topologies = tuple[tuple[str, frozenset[str]], ...]
"""Labels and their allowed values."""


def topologies(volumes: Iterable[PersistentVolume]) -> Topologies:
    """What the labels of the volumes require. A value may be several zones; one that is empty is ignored."""
    zone_topologies = []
    for volume in volumes:
        labels = volume.metadata.labels
        for key in _TOPOLOGY_LABELS:
            values = frozenset(zone.strip() for zone in labels[key].split(_DELIMITER)) if key in labels else frozenset()
            if values and "" not in values:
                zone_topologies.append((key, values))
    return tuple(zone_topologies)


def filter_node(required: Topologies, node_info: NodeInfo) -> Status | None:
    """Reject a node in another zone or region. A node without any of the labels is in a cluster of one zone."""
    labels = node_info.labels
    if _TOPOLOGY_LABELS.keys().isdisjoint(labels):
        return None
    for key, values in required:
        if labels.get(key, labels.get(_TOPOLOGY_LABELS[key])) not in values:
            return CONFLICT
    return None


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added or has other labels."""
    return change.added or change.labels
