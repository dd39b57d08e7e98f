"""How a pod uses its volumes, when two uses conflict, and the events. Pure. Upstream: v1.36
``pkg/controller/volume/selinuxwarning`` (``selinux_warning_controller.go``, ``cache``, ``translator``,
``internal/parse``), ``pkg/volume/util/selinux.go`` (``GetMountSELinuxLabel``) and ``pkg/volume/util/util.go``
(``GetPodVolumeNames``).

A kubelet completes labels from its ``/etc/selinux``; a manager does not run there.
"""

from collections.abc import Callable, Iterator

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import Driver, PersistentVolume
from pilothouse.controllers.shared.volume_plugins import VolumeIdentity, volume_identity
from pilothouse.controllers.volumes.selinux_warning.views import MountingPod, PodSecurityContext, SELinuxOptions
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import split_key
from pilothouse.semantics.volumes import volume_for

_PARTS = 4
_EMPTY = ":" * (_PARTS - 1)


def label_of(options: SELinuxOptions) -> str:
    """``user:role:type:level``, or "" if all are empty."""
    label = f"{options.user}:{options.role}:{options.type}:{options.level}"
    return "" if label == _EMPTY else label


def parts_of(label: str) -> tuple[str, ...]:
    """User, role, type and level, empty where unset. A level has colons of its own."""
    parts = label.split(":", _PARTS - 1)
    return (*parts, *[""] * (_PARTS - len(parts)))


def labels_conflict(label_a: str, label_b: str) -> bool:
    """Whether one node cannot mount a volume with both labels (``ControllerSELinuxTranslator.Conflicts``). An unset
    user, role or type matches any, since the node completes it. An unset level does not: it is not completed
    (kubernetes#133425)."""
    *other_parts, level = zip(parts_of(label_a), parts_of(label_b), strict=True)
    return level[0] != level[1] or any(a != b for a, b in other_parts if a and b)


MOUNT_OPTION = "MountOption"
RECURSIVE = "Recursive"
_SAME_NODE = ". If both pods land on the same node, only one of them may access the volume."


class VolumeUse(msgspec.Struct, frozen=True, gc=False):
    """How a pod uses a volume whose driver supports SELinux mounts: mounted with this label, or relabeled recursively,
    with an empty label."""

    label: str
    policy: str


class VolumeUses(msgspec.Struct, frozen=True):
    """How a pod uses its volumes. By volume name in the pod: ``unbound`` are claims that are not bound, ``mixed`` have
    different labels within the pod."""

    uses: dict[VolumeIdentity, VolumeUse]
    unbound: tuple[str, ...]
    mixed: tuple[str, ...]


class Conflict(msgspec.Struct, frozen=True, gc=False):
    """A conflict of ``pod`` with ``other`` (keys) about one volume, in this ``property_name``. Each conflict also
    exists with the pods swapped."""

    property_name: str
    pod: str
    value: str
    other: str
    other_value: str

    def reversed(self) -> "Conflict":
        return Conflict(self.property_name, self.other, self.other_value, self.pod, self.value)


def mounts_with_label(driver: Driver | None) -> bool:
    return driver is not None and driver.spec.se_linux_mount is True


def mounted(pod: MountingPod) -> dict[str, list[str]]:
    """The volumes that any container mounts, by their names in the pod, with the distinct labels of those containers
    that have one."""
    spec = pod.spec
    labels_by_volume: dict[str, dict[str, None]] = {}
    of_pod = spec.security_context.se_linux_options if spec.security_context is not None else None
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        of_container = container.security_context.se_linux_options if container.security_context is not None else None
        options = of_container if of_container is not None else of_pod
        for mount in container.volume_mounts:
            labels = labels_by_volume.setdefault(mount.name, {})
            if options is not None:
                labels[label_of(options)] = None
    return {name: list(labels) for name, labels in labels_by_volume.items()}


def decide(
    pod: MountingPod,
    find_claim: Callable[[str], PersistentVolumeClaim | None],
    find_volume: Callable[[str], PersistentVolume | None],
) -> VolumeUses:
    """How a pod uses those of its volumes that can be mounted with a label, if their drivers support it. Claims are
    found by key, volumes by name."""
    uses: dict[VolumeIdentity, VolumeUse] = {}
    unbound, conflicting = [], []
    labels = mounted(pod)
    for volume in pod.spec.volumes:
        if volume.name not in labels:
            continue
        resolved = volume_for(pod, volume, find_claim, find_volume)
        if resolved is None and (volume.persistent_volume_claim is not None or volume.ephemeral is not None):
            unbound.append(volume.name)
            continue
        desired = labels[volume.name]
        if len(desired) > 1:
            conflicting.append(volume.name)
            continue
        identity = (
            volume_identity(resolved.spec, resolved.spec.csi) if resolved is not None else volume_identity(volume, None)
        )
        if identity is not None:
            uses[identity] = use_of(pod.spec.security_context, desired[0] if desired else "")
    return VolumeUses(uses, tuple(unbound), tuple(conflicting))


def use_of(context: PodSecurityContext | None, label: str) -> VolumeUse:
    """How a pod with that label uses a volume. Without a label the volume is relabeled recursively, whatever the policy
    is (kubernetes#135629)."""
    policy = (context.se_linux_change_policy if context is not None else None) or MOUNT_OPTION
    return VolumeUse("", RECURSIVE) if policy == RECURSIVE or not label else VolumeUse(label, policy)


def conflicts_between(pod_use: VolumeUse, other_use: VolumeUse) -> Iterator[tuple[str, str, str]]:
    """The properties in which two uses of a volume conflict, with both values."""
    if pod_use.policy != other_use.policy:
        yield "SELinuxChangePolicy", pod_use.policy, other_use.policy
    if labels_conflict(pod_use.label, other_use.label):
        yield "SELinuxLabel", pod_use.label, other_use.label


def reason_of(conflict: Conflict) -> str:
    return f"{conflict.property_name}Conflict"


def message_of(conflict: Conflict) -> str:
    """The message for the pod. Name and label of a pod in another namespace are not revealed."""
    property_name, value = conflict.property_name, f'"{conflict.value}"'
    namespace, other_pod = split_key(conflict.other)
    if split_key(conflict.pod)[0] != namespace:
        # Upstream has no space here.
        subject = f"another pod that uses the same volume as this pod with a different {property_name}"
        return f"{property_name}{value} conflicts with {subject}{_SAME_NODE}"
    subject = f'pod {other_pod} that uses the same volume as this pod with {property_name} "{conflict.other_value}"'
    return f"{property_name} {value} conflicts with {subject}{_SAME_NODE}"


def mixed_labels_message(volume: str) -> str:
    """The message for a pod whose containers have different labels for one volume."""
    return f"Volume {quote(volume)} is mounted twice with different SELinux labels inside this pod"
