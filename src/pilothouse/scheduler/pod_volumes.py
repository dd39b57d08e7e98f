"""What the claims of one pod say to a node: which volumes it can reach there, get there, or have made there. Pure.

``volumes`` gathers what is known and carries out what was planned. As kube-scheduler v1.36
``pkg/scheduler/framework/plugins/volumebinding`` (``FindPodVolumes`` in ``binder.go``).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from pilothouse.api.core import Node, PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, StorageClass
from pilothouse.scheduler.refusals import Refusal
from pilothouse.semantics.volumes import (
    NO_PROVISIONER,
    find_match,
    fits_topologies,
    is_reachable,
    request_of,
)

VOLUME_BINDING = "VolumeBinding"
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NOT_THERE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class Waiting(msgspec.Struct, frozen=True):
    """A claim that gets its volume with its first pod. ``node`` is where, if that is settled; ``free`` the volumes that
    it might get."""

    claim: PersistentVolumeClaim
    class_: StorageClass
    node: str
    free: tuple[PersistentVolume, ...]


class Plan(msgspec.Struct, frozen=True):
    """What has to be written before the pod can be bound: volumes given to claims, and claims told of the node."""

    node_name: str
    given: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    told: tuple[PersistentVolumeClaim, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.given or self.told)


class PodVolumes:
    """The claims of one pod, as they are now. ``problem`` is what no node can help with."""

    def __init__(
        self,
        *,
        problem: str = "",
        bound: Sequence[PersistentVolume | None] = (),
        waiting: Sequence[Waiting] = (),
        taken: frozenset[str] = frozenset(),
    ) -> None:
        self.problem = problem
        self._bound = bound
        self._waiting = sorted(waiting, key=lambda each: request_of(each.claim))
        self._taken = taken

    def refusal(self, node: Node) -> Refusal | None:
        """What speaks against the node."""
        reasons = self._judge(node)
        return _refusal(reasons) if isinstance(reasons, tuple) else None

    def plan(self, node: Node) -> Plan:
        """What is to be done if the pod goes to this node, against which nothing speaks."""
        plan = self._judge(node)
        assert isinstance(plan, Plan), "a node was chosen that does not do"
        return plan

    def _judge(self, node: Node) -> Plan | tuple[str, ...]:
        labels = node.metadata.labels
        reasons: tuple[str, ...] = ()
        missing = False
        for volume in self._bound:
            if volume is None:
                missing = True
                break
            if not is_reachable(volume, labels):
                reasons = (OUT_OF_REACH,)
                break
        plan = self._find(node, labels)
        if plan is None:
            reasons = (*reasons, NONE_TO_BIND)
        if missing:
            reasons = (*reasons, NOT_THERE)
        if reasons:
            return reasons
        assert plan is not None, "nothing speaks against the node"
        return plan

    def _find(self, node: Node, labels: Mapping[str, str]) -> Plan | None:
        """Volumes for the claims that wait, the smallest claim first; what is not found has to be made."""
        given: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        told: list[PersistentVolumeClaim] = []
        taken = set(self._taken)
        for each in self._waiting:
            if each.node:
                if each.node != node.metadata.name:
                    return None
                told.append(each.claim)
                continue
            volume = find_match(each.claim, each.free, node=labels, taken=taken)
            if volume is not None:
                taken.add(volume.metadata.name)
                given.append((volume, each.claim))
            elif can_be_made(each.class_, labels):
                told.append(each.claim)
            else:
                return None
        return Plan(node.metadata.name, tuple(given), tuple(told))


def can_be_made(class_: StorageClass, labels: Mapping[str, str]) -> bool:
    """Whether somebody makes volumes of the class for a node with these labels. Nobody asks whether there is room."""
    return class_.provisioner not in ("", NO_PROVISIONER) and fits_topologies(class_.allowed_topologies, labels)


@lru_cache(maxsize=16)
def _refusal(reasons: tuple[str, ...]) -> Refusal:
    # Fewer pods on the node would not bring a volume there.
    return Refusal(VOLUME_BINDING, reasons, final=True)
