"""NodeVolumeLimits: a CSI driver attaches a limited number of volumes to a node.

In-tree volumes that are migrated to CSI are not counted. As kube-scheduler v1.36 ``plugins/nodevolumelimits/csi.go``.
"""

from collections.abc import Callable, Mapping

from pilothouse.api.storage import PersistentVolume
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.scheduler.plugins.csi import CSIManager

NAME = "NodeVolumeLimits"
MAX_VOLUME_COUNT_EXCEEDED = Status(NAME, ("node(s) exceed max volume count",))

VolumeId = tuple[str, str]
"""The driver and the handle of a volume."""


class NodeVolumeLimits:
    """The volumes of pods and nodes. ``volume_id`` is that of a claim, by namespace and name; None if it is not counted
    (``getCSIDriverInfo``)."""

    def __init__(
        self,
        csi: CSIManager,
        volume_id: Callable[[str], VolumeId | None],
        find_volume: Callable[[str], PersistentVolume | None],
    ) -> None:
        self._csi = csi
        self._volume_id = volume_id
        self._find_volume = find_volume

    def pre_filter(self, pod_info: PodInfo) -> "PreFilterState | None":
        """The state of the filter for one pod; None if none of its volumes is counted."""
        new = self._volumes(pod_info)
        return PreFilterState(self, new) if new else None

    def filter_node(self, new: frozenset[VolumeId], drivers: frozenset[str], node_info: NodeInfo) -> Status | None:
        """Reject a node to which not all of these volumes of these drivers can be attached."""
        limits = self._csi.volume_limits(node_info.name)
        if limits.keys().isdisjoint(drivers):
            return None
        on_node: set[VolumeId] = set()
        for pod_state in node_info.pods.values():
            if pod_state.pod_info.claim_names:
                on_node |= self._volumes(pod_state.pod_info)
        attached = on_node | self._attached(node_info.name)
        return MAX_VOLUME_COUNT_EXCEEDED if _exceeds(limits, new - on_node, attached) else None

    def _volumes(self, pod_info: PodInfo) -> frozenset[VolumeId]:
        ids = (self._volume_id(f"{pod_info.namespace}/{name}") for name in pod_info.claim_names)
        return frozenset(one for one in ids if one is not None)

    def _attached(self, node_name: str) -> set[VolumeId]:
        attached = set()
        for attachment in self._csi.attachments(node_name):
            volume = self._find_volume(attachment.spec.source.persistent_volume_name or "")
            if volume is not None and volume.spec.csi is not None and attachment.spec.attacher:
                attached.add((attachment.spec.attacher, volume.spec.csi.volume_handle))
        return attached


class PreFilterState:
    """The volumes of one pod, which are looked up once for all nodes."""

    __slots__ = ("_drivers", "_limits", "_new")

    def __init__(self, limits: NodeVolumeLimits, new: frozenset[VolumeId]) -> None:
        self._limits = limits
        self._new = new
        self._drivers = frozenset(driver for driver, _handle in new)

    def filter_node(self, node_info: NodeInfo) -> Status | None:
        """Reject a node to which not all volumes of the pod can be attached."""
        return self._limits.filter_node(self._new, self._drivers, node_info)


def _exceeds(limits: Mapping[str, int], new: frozenset[VolumeId], attached: set[VolumeId]) -> bool:
    drivers = {driver for driver, _handle in new}
    return any(
        sum(one[0] == driver for one in new) + sum(one[0] == driver for one in attached) > limits[driver]
        for driver in drivers & limits.keys()
    )


def is_schedulable_after_pod_removed(_pod_info: PodInfo, removed: PodInfo) -> bool:
    """Whether the pod that was removed from a node has volumes that may be attached."""
    return bool(removed.claim_names)
