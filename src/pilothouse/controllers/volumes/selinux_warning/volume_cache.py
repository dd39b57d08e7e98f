"""Who uses which volume, and how: what conflicts are found in. Fed and read by the controller and by its metric.

Upstream: v1.36 ``pkg/controller/volume/selinuxwarning/cache/volumecache.go``. There each pod of a volume is compared
with each; here pods that use it alike are one, so that a thousand pods which agree cost as much as one. And there what
a driver can do is stored with each of its pods; when it changes the pods are updated one after the other, and each
conflicts with those that are not updated yet. Here it is stored with the volume, and changes for all at once.
"""

from collections.abc import Iterator, Mapping

from pilothouse.controllers.shared.volume_plugins import Place
from pilothouse.controllers.volumes.selinux_warning.decide import Conflict, Use, clashes


class _Volume:
    """The pods of a volume, by how they use it. Unless it is ``mountable`` with a label there are no conflicts."""

    __slots__ = ("driver", "mountable", "users")

    def __init__(self, driver: str, *, mountable: bool) -> None:
        self.driver = driver
        self.mountable = mountable
        self.users: dict[Use, dict[str, None]] = {}

    def conflicts(self, pod: str, use: Use) -> Iterator[Conflict]:
        """Those of one pod, by the names of the others."""
        if not self.mountable:
            return
        conflicting: list[tuple[str, list[tuple[str, str, str]]]] = []
        for used, others in self.users.items():
            differences = list(clashes(use, used))
            if differences:
                conflicting += ((other, differences) for other in others)
        for other, differences in sorted(conflicting):
            for about, value, other_value in differences:
                yield Conflict(about, pod, value, other, other_value)

    def all_conflicts(self) -> Iterator[Conflict]:
        """Those of all pods, so that each is there from both sides."""
        for use, pods in self.users.items():
            for pod in pods:
                yield from self.conflicts(pod, use)


class VolumeCache:
    """All volumes of all pods that have not ended. Pods are keys, volumes are ``Place.name``. In-tree volumes can be
    mounted with labels; of drivers ``let_mount`` says so."""

    def __init__(self) -> None:
        self._volumes: dict[str, _Volume] = {}
        self._drivers: set[str] = set()  # never iterated
        """Those that support mounting with labels."""
        self._contested: dict[str, None] = {}
        """Volumes that are used in more than one way."""
        self._of_pod: dict[str, tuple[str, dict[str, Use]]] = {}
        """Uid, and its volumes."""

    def set(self, pod: str, uid: str, uses: Mapping[Place, Use], *, complete: bool) -> list[Conflict]:
        """Store what a pod uses, and return the new conflicts, from both sides.

        Unless ``complete``, some volumes of the pod are unknown, and what was stored of it before stays.
        """
        known_uid, known = self._of_pod.get(pod, (uid, {}))
        if known_uid != uid:
            self.forget(pod)
            known = {}
        if complete:
            names = {place.name for place in uses}  # never iterated
            for gone in [name for name in known if name not in names]:
                self._leave(pod, gone, known.pop(gone))
        found: list[Conflict] = []
        for place, use in uses.items():
            before = known.get(place.name)
            if before == use:
                continue
            if before is not None:
                self._leave(pod, place.name, before)
            known[place.name] = use
            found += self._join(pod, place, use)
        if known:
            self._of_pod[pod] = (uid, known)
        else:
            self._of_pod.pop(pod, None)
        return found

    def forget(self, pod: str) -> None:
        _uid, known = self._of_pod.pop(pod, ("", {}))
        for name, use in known.items():
            self._leave(pod, name, use)

    def uid_of(self, pod: str) -> str:
        """The stored uid of that pod, or ""."""
        return self._of_pod.get(pod, ("", {}))[0]

    def _join(self, pod: str, place: Place, use: Use) -> list[Conflict]:
        volume = self._volumes.get(place.name)
        if volume is None:
            mountable = not place.driver or place.driver in self._drivers
            volume = self._volumes[place.name] = _Volume(place.driver, mountable=mountable)
        volume.users.setdefault(use, {})[pod] = None
        if len(volume.users) > 1:
            self._contested[place.name] = None
        return [side for found in volume.conflicts(pod, use) for side in (found, found.reversed())]

    def _leave(self, pod: str, name: str, use: Use) -> None:
        volume = self._volumes[name]
        del volume.users[use][pod]
        if not volume.users[use]:
            del volume.users[use]
        if len(volume.users) < 2:
            self._contested.pop(name, None)
        if not volume.users:
            del self._volumes[name]

    def let_mount(self, driver: str, *, mounts: bool) -> list[Conflict]:
        """The driver supports mounting with labels, or does not. Returns the new conflicts, from both sides. Drivers
        change rarely, so all volumes are searched."""
        if mounts == (driver in self._drivers):
            return []
        (self._drivers.add if mounts else self._drivers.remove)(driver)
        found: list[Conflict] = []
        for volume in self._volumes.values():
            if volume.driver == driver:
                volume.mountable = mounts
                found += volume.all_conflicts()
        return found

    def conflicts(self) -> Iterator[Conflict]:
        """All conflicts, from both sides. Those of pods with several volumes come several times."""
        for name in self._contested:
            yield from self._volumes[name].all_conflicts()
