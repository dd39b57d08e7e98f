"""Which pods use which volumes with which SELinux labels, to find conflicts.

Upstream: v1.36 ``pkg/controller/volume/selinuxwarning/cache/volumecache.go``. It compares each pod of a volume with
each other; here pods that use it in the same way are one entry. It stores the SELinux support of a CSI driver with each
pod: when that changes, pods are updated one after another, and conflict with those not updated yet. Here it is stored
with the volume, and changes for all pods at once.
"""

from collections.abc import Iterator, Mapping

from pilothouse.controllers.shared.volume_plugins import VolumeIdentity
from pilothouse.controllers.volumes.selinux_warning.decide import Conflict, VolumeUse, conflicts_between


class _Volume:
    """The pods of a volume by how they use it. Conflicts exist only if it is ``mountable`` with an SELinux label."""

    __slots__ = ("driver", "mountable", "users")

    def __init__(self, driver: str, *, mountable: bool) -> None:
        self.driver = driver
        self.mountable = mountable
        self.users: dict[VolumeUse, dict[str, None]] = {}

    def conflicts(self, pod: str, use: VolumeUse) -> Iterator[Conflict]:
        """The conflicts of one pod, ordered by the other pods' names."""
        if not self.mountable:
            return
        conflicting: list[tuple[str, list[tuple[str, str, str]]]] = []
        for used, other_pods in self.users.items():
            differences = list(conflicts_between(use, used))
            if differences:
                conflicting += ((other_pod, differences) for other_pod in other_pods)
        for other_pod, differences in sorted(conflicting):
            for property_name, value, other_value in differences:
                yield Conflict(property_name, pod, value, other_pod, other_value)

    def all_conflicts(self) -> Iterator[Conflict]:
        """The conflicts of all pods, each from both sides."""
        for use, pods in self.users.items():
            for pod in pods:
                yield from self.conflicts(pod, use)


class VolumeCache:
    """All volumes of all pods that are not finished. Pods are identified by key, volumes by ``Place.name``. In-tree
    volumes can be mounted with labels; for CSI drivers ``set_driver_support`` decides."""

    def __init__(self) -> None:
        self._volumes: dict[str, _Volume] = {}
        self._drivers: set[str] = set()  # never iterated
        """CSI drivers that support mounting with labels."""
        self._contested: dict[str, None] = {}
        """Volumes that are used in more than one way."""
        self._of_pod: dict[str, tuple[str, dict[str, VolumeUse]]] = {}
        """By key of the pod: its uid and its volumes."""

    def add_volumes(
        self, pod: str, uid: str, uses: Mapping[VolumeIdentity, VolumeUse], *, complete: bool
    ) -> list[Conflict]:
        """Store the volumes that a pod uses, and return the new conflicts, from both sides (``AddVolume``).

        Unless ``complete``, some volumes of the pod are not bound yet, and those stored before are kept.
        """
        known_uid, cached_uses = self._of_pod.get(pod, (uid, {}))
        if known_uid != uid:
            self.delete_pod(pod)
            cached_uses = {}
        if complete:
            names = {identity.name for identity in uses}  # never iterated
            for removed in [name for name in cached_uses if name not in names]:
                self._remove_from_volume(pod, removed, cached_uses.pop(removed))
        conflicts: list[Conflict] = []
        for identity, use in uses.items():
            old = cached_uses.get(identity.name)
            if old == use:
                continue
            if old is not None:
                self._remove_from_volume(pod, identity.name, old)
            cached_uses[identity.name] = use
            conflicts += self._add_to_volume(pod, identity, use)
        if cached_uses:
            self._of_pod[pod] = (uid, cached_uses)
        else:
            self._of_pod.pop(pod, None)
        return conflicts

    def delete_pod(self, pod: str) -> None:
        _uid, uses = self._of_pod.pop(pod, ("", {}))
        for name, use in uses.items():
            self._remove_from_volume(pod, name, use)

    def uid_of(self, pod: str) -> str:
        """The stored uid of that pod, or ""."""
        return self._of_pod.get(pod, ("", {}))[0]

    def _add_to_volume(self, pod: str, identity: VolumeIdentity, use: VolumeUse) -> list[Conflict]:
        volume = self._volumes.get(identity.name)
        if volume is None:
            mountable = not identity.driver or identity.driver in self._drivers
            volume = self._volumes[identity.name] = _Volume(identity.driver, mountable=mountable)
        volume.users.setdefault(use, {})[pod] = None
        if len(volume.users) > 1:
            self._contested[identity.name] = None
        return [direction for conflict in volume.conflicts(pod, use) for direction in (conflict, conflict.reversed())]

    def _remove_from_volume(self, pod: str, name: str, use: VolumeUse) -> None:
        volume = self._volumes[name]
        del volume.users[use][pod]
        if not volume.users[use]:
            del volume.users[use]
        if len(volume.users) < 2:
            self._contested.pop(name, None)
        if not volume.users:
            del self._volumes[name]

    def set_driver_support(self, driver: str, *, mounts: bool) -> list[Conflict]:
        """Set whether a CSI driver supports mounting with labels. Returns the new conflicts, from both sides. Drivers
        change rarely, so all volumes are searched."""
        if mounts == (driver in self._drivers):
            return []
        (self._drivers.add if mounts else self._drivers.remove)(driver)
        conflicts: list[Conflict] = []
        for volume in self._volumes.values():
            if volume.driver == driver:
                volume.mountable = mounts
                conflicts += volume.all_conflicts()
        return conflicts

    def conflicts(self) -> Iterator[Conflict]:
        """All conflicts, from both sides. Those of pods with several common volumes occur several times."""
        for name in self._contested:
            yield from self._volumes[name].all_conflicts()
