"""Views of pods for this controller: the mounts of their containers, and SELinux labels.

A separate view, so that mounts and labels are not decoded where the controller is off, which is the default.
"""

from pilothouse.api.core import PODS, EphemeralVolumeSource, PersistentVolumeClaimVolumeSource
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.api.storage import Sources


class SELinuxOptions(View, frozen=True):
    """The label of a container's process; unset parts are completed on the node."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SecurityContext(View, frozen=True):
    """A container's. Its SELinux options replace the pod's as a whole."""

    se_linux_options: SELinuxOptions | None = None


class PodSecurityContext(View, frozen=True):
    """A pod's. The policy is ``MountOption``, the default, or ``Recursive``."""

    se_linux_options: SELinuxOptions | None = None
    se_linux_change_policy: str | None = None


class VolumeMount(View, frozen=True):
    name: str = ""


class MountingContainer(View, frozen=True):
    volume_mounts: tuple[VolumeMount, ...] = ()
    security_context: SecurityContext | None = None


class PodVolume(Sources, frozen=True):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class MountingPodSpec(View, frozen=True):
    """Immutable, apart from ephemeral containers."""

    volumes: tuple[PodVolume, ...] = ()
    init_containers: tuple[MountingContainer, ...] = ()
    containers: tuple[MountingContainer, ...] = ()
    ephemeral_containers: tuple[MountingContainer, ...] = ()
    security_context: PodSecurityContext | None = None


class MountingPodStatus(View, frozen=True):
    phase: str = ""


class MountingPod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: MountingPodSpec = MountingPodSpec()
    status: MountingPodStatus = MountingPodStatus()


MOUNTING_PODS = PODS.read_as(MountingPod)
