"""VolumeBinding: whether the volumes of a pod can be reached from a node, bound there, or provisioned there. Pure.

``volume_binder`` reads the claims and writes the decisions. As kube-scheduler v1.36 ``plugins/volumebinding``
(``FindPodVolumes`` in ``binder.go``).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from pilothouse.api.core import Node, PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, StorageClass
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, PodInfo
from pilothouse.scheduler.plugins import volume_zone
from pilothouse.semantics.volumes import (
    NO_PROVISIONER,
    find_match,
    fits_topologies,
    is_reachable,
    request_of,
)

NAME = "VolumeBinding"
ERR_REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
ERR_REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
ERR_REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
ERR_REASON_PV_NOT_EXIST = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class UnboundClaim(msgspec.Struct, frozen=True):
    """A claim whose binding waits for its first consumer. ``selected_node`` is the node for which its volume will be
    provisioned, if that was decided; ``candidates`` are the volumes that it could be bound to."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    selected_node: str
    candidates: tuple[PersistentVolume, ...]


HasEnoughCapacity = Callable[[StorageClass, int, Mapping[str, str]], bool]
"""Whether a volume of a class and size can be provisioned for a node with these labels."""


class PodVolumes(msgspec.Struct, frozen=True):
    """What has to be written before the pod can be bound to a node: volumes for claims, and claims whose volume is to
    be provisioned for that node."""

    node_name: str
    static_bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    dynamic_provisions: tuple[PersistentVolumeClaim, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.static_bindings or self.dynamic_provisions)


class PodVolumeClaims:
    """The claims of one pod, as of now.

    ``error`` of ``plugin`` rejects the pod on all nodes. ``bound`` are the volumes of bound claims, None where the
    volume does not exist; ``assumed`` the names of volumes that were assumed for other claims;
    ``read_write_once_pod_claims`` those that only one pod may use, by namespace and name.
    """

    def __init__(
        self,
        *,
        error: str = "",
        plugin: str = NAME,
        bound: Sequence[PersistentVolume | None] = (),
        unbound: Sequence[UnboundClaim] = (),
        assumed: frozenset[str] = frozenset(),
        has_enough_capacity: HasEnoughCapacity = lambda _class, _size, _labels: True,
        read_write_once_pod_claims: Sequence[str] = (),
    ) -> None:
        self.rejection = Status(plugin, (error,), unresolvable=True) if error else None
        self.read_write_once_pod_claims = read_write_once_pod_claims
        self.topologies = volume_zone.topologies(volume for volume in bound if volume is not None)
        self._has_enough_capacity = has_enough_capacity
        self._bound = bound
        self._unbound = sorted(unbound, key=lambda unbound_claim: request_of(unbound_claim.claim))
        self._assumed = assumed

    def filter_node(self, node: Node) -> Status | None:
        """Reject a node that cannot have all volumes of the pod."""
        if self.rejection is not None:
            return self.rejection
        pod_volumes = self._find_pod_volumes(node)
        return None if isinstance(pod_volumes, PodVolumes) else _status(pod_volumes)

    def find_pod_volumes(self, node: Node) -> PodVolumes:
        """The writes needed if the pod is placed on this node, which ``filter_node`` accepts."""
        pod_volumes = self._find_pod_volumes(node)
        assert isinstance(pod_volumes, PodVolumes), "a node was chosen that cannot have the volumes of the pod"
        return pod_volumes

    def _find_pod_volumes(self, node: Node) -> PodVolumes | tuple[str, ...]:
        labels = node.metadata.labels
        reasons: tuple[str, ...] = ()
        missing = False
        for volume in self._bound:
            if volume is None:
                missing = True
                break
            if not is_reachable(volume, labels):
                reasons = (ERR_REASON_NODE_CONFLICT,)
                break
        pod_volumes = self._bind_or_provision(node, labels)
        if isinstance(pod_volumes, str):
            reasons = (*reasons, pod_volumes)
        if missing:
            reasons = (*reasons, ERR_REASON_PV_NOT_EXIST)
        if reasons:
            return reasons
        assert isinstance(pod_volumes, PodVolumes), "without a reason the volumes were found"
        return pod_volumes

    def _bind_or_provision(self, node: Node, labels: Mapping[str, str]) -> PodVolumes | str:
        """A volume for each unbound claim, smallest claim first; the remaining claims are to be provisioned. Or why the
        node cannot have them."""
        if not self._unbound:
            return PodVolumes(node.metadata.name)
        static_bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        to_provision = [unbound for unbound in self._unbound if unbound.selected_node]
        if any(unbound.selected_node != node.metadata.name for unbound in to_provision):
            return ERR_REASON_BIND_CONFLICT
        taken = set(self._assumed)
        for unbound in self._unbound:
            if unbound.selected_node:
                continue
            volume = find_match(unbound.claim, unbound.candidates, node=labels, used_volumes=taken)
            if volume is not None:
                taken.add(volume.metadata.name)
                static_bindings.append((volume, unbound.claim))
            else:
                to_provision.append(unbound)
        for unbound in to_provision:
            if not can_provision(unbound.storage_class, labels):
                return ERR_REASON_BIND_CONFLICT
            size = request_of(unbound.claim).value
            if not self._has_enough_capacity(unbound.storage_class, size, labels):
                return ERR_REASON_NOT_ENOUGH_SPACE
        return PodVolumes(node.metadata.name, tuple(static_bindings), tuple(one.claim for one in to_provision))


def can_provision(storage_class: StorageClass, labels: Mapping[str, str]) -> bool:
    """Whether the class has a provisioner, and allows the topology of a node with these labels."""
    return storage_class.provisioner not in ("", NO_PROVISIONER) and fits_topologies(
        storage_class.allowed_topologies, labels
    )


@lru_cache(maxsize=16)
def _status(reasons: tuple[str, ...]) -> Status:
    # Fewer pods on the node would not make a volume available there.
    return Status(NAME, reasons, unresolvable=True)


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added or has other labels."""
    return change.added or change.labels
