"""Invariants of attached volumes: exclusive volumes are attached to one node only, and no volume is detached while a
pod uses it.

Computed from the committed objects after every write.
"""

from pilothouse.api.core import Node, PersistentVolumeClaim, Pod
from pilothouse.api.storage import PersistentVolume, VolumeAttachment
from pilothouse.semantics.attachments import Disk, disk_of
from pilothouse.semantics.nodes import is_node_ready
from pilothouse.semantics.pods import is_terminal
from pilothouse.semantics.volumes import claim_names
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class Attachments(Invariant):
    """All volumes of drivers that attach, in a cluster in which users delete no VolumeAttachments.

    ``attached`` and ``moved`` count attachments (for tests).
    """

    def __init__(self) -> None:
        self._attachments = Objects("storage.k8s.io/volumeattachments/", VolumeAttachment)
        self._claims = Objects("/persistentvolumeclaims/", PersistentVolumeClaim)
        self._volumes = Objects("/persistentvolumes/", PersistentVolume)
        self._nodes = Objects("/nodes/", Node)
        self._pods = Objects("/pods/", Pod)
        self._last: dict[str, str] = {}
        self.attached = self.moved = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if self._claims.follow(change) or self._pods.follow(change):
            return
        if update := self._attachments.follow(change):
            self._check_attachment(*update)
        elif node := self._nodes.follow(change):
            self._check_node(*node)
        elif volume := self._volumes.follow(change):
            self._check_volume(*volume)

    def _check_attachment(self, _name: str, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        was_attached, is_attached = (
            old is not None and old.status.attached,
            new is not None and new.status.attached,
        )
        if new is not None and is_attached and not was_attached:
            self._check_attached(new)
        if old is not None and was_attached and not is_attached:
            self._check_detached(old)

    def _check_attached(self, new: VolumeAttachment) -> None:
        volume, node = new.spec.source.persistent_volume_name or "", new.spec.node_name
        self.attached += 1
        self.moved += self._last.get(volume, node) != node
        self._last[volume] = node
        disk = self._disk(volume)
        other_nodes = sorted(
            attachment.spec.node_name
            for attachment in self._attachments.values()
            if attachment is not new
            and attachment.status.attached
            and attachment.spec.source.persistent_volume_name == volume
        )
        if disk is not None and disk.exclusive and other_nodes:
            raise Violation(f"{volume} is attached to {node}, and to {other_nodes}")

    def _check_detached(self, old: VolumeAttachment) -> None:
        volume, name = old.spec.source.persistent_volume_name or "", old.spec.node_name
        disk, node = self._disk(volume), self._nodes.get(name)
        if disk is None or node is None:
            return
        if disk.name in [attached.name for attached in node.status.volumes_attached]:
            raise Violation(f"{volume} is detached from {name}, which still reports it in volumesAttached")
        if not is_node_ready(node) or any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
            return
        for key, pod in self._pods.items():
            if pod.spec.node_name == name and volume in self._volumes_of(pod) and _runs(pod):
                raise Violation(f"{volume} is detached from {name}, where {key} runs")

    def _check_node(self, name: str, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        attached_before = set() if old is None else {attached.name for attached in old.status.volumes_attached}
        added = [attached.name for attached in new.status.volumes_attached if attached.name not in attached_before]
        attached_disks = {
            disk.name
            for attachment in self._attachments.values()
            if attachment.spec.node_name == name and attachment.status.attached
            for disk in (self._disk(attachment.spec.source.persistent_volume_name or ""),)
            if disk is not None
        }
        for volume in added:
            if volume not in attached_disks:
                raise Violation(f"{name} reports {volume} in volumesAttached, which is not attached")

    def _check_volume(self, name: str, _old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if new is not None:
            return
        for attachment in self._attachments.values():
            if attachment.spec.source.persistent_volume_name == name and attachment.status.attached:
                raise Violation(f"{name} was deleted while it is attached to {attachment.spec.node_name}")

    def _disk(self, volume: str) -> Disk | None:
        persistent_volume = self._volumes.get(volume)
        return disk_of(persistent_volume) if persistent_volume is not None else None

    def _volumes_of(self, pod: Pod) -> list[str]:
        claims = (self._claims.get(f"{pod.metadata.namespace}/{name}") for name in claim_names(pod))
        return [claim.spec.volume_name for claim in claims if claim is not None]

    def check_final_state(self) -> None:
        """At the end attached volumes are used, running pods have their volumes, and no finalizer remains."""
        used = {
            (volume, pod.spec.node_name)
            for pod in self._pods.values()
            if pod.spec.node_name and not is_terminal(pod)
            for volume in self._volumes_of(pod)
        }
        attached_pairs = set()
        for attachment in self._attachments.values():
            pair = (attachment.spec.source.persistent_volume_name or "", attachment.spec.node_name)
            if attachment.metadata.deletion_timestamp is not None:
                raise Violation(
                    f"the attachment of {pair} is being deleted, and still exists: {attachment.metadata.finalizers}"
                )
            if pair not in used:
                raise Violation(f"{pair} is attached and unused")
            if attachment.status.attached:
                attached_pairs.add(pair)
        for key, pod in self._pods.items():
            for volume in self._volumes_of(pod):
                if _runs(pod) and self._disk(volume) is not None and (volume, pod.spec.node_name) not in attached_pairs:
                    raise Violation(f"{key} runs without its volume {volume}")
        for name, node in self._nodes.items():
            names = {disk.name for volume, source in attached_pairs if source == name and (disk := self._disk(volume))}
            if {attached.name for attached in node.status.volumes_attached} != names:
                raise Violation(f"{name} reports {node.status.volumes_attached}, attached are {sorted(names)}")


def _runs(pod: Pod) -> bool:
    return not is_terminal(pod) and any(
        status.state.terminated is None and status.ready for status in pod.status.container_statuses
    )
