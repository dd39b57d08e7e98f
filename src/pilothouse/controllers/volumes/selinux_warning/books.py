"""Who uses which volume, and how: what conflicts are found in. Fed and read by the controller and by its metric.

Upstream: v1.36 ``pkg/controller/volume/selinuxwarning/cache/volumecache.go``. There each pod of a volume is compared
with each; here pods that use it alike are one, so that a thousand pods which agree cost as much as one.
"""

from collections.abc import Iterator, Mapping

from pilothouse.controllers.shared.volume_plugins import Place
from pilothouse.controllers.volumes.selinux_warning.decide import Conflict, Use, clashes


class _Volume:
    """The pods of a volume, by how they use it."""

    __slots__ = ("driver", "users")

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.users: dict[Use, dict[str, None]] = {}

    def conflicts(self, pod: str, use: Use) -> Iterator[Conflict]:
        """Those of one pod, by the names of the others."""
        rivals: list[tuple[str, list[tuple[str, str, str]]]] = []
        for used, others in self.users.items():
            differences = list(clashes(use, used))
            if differences:
                rivals += ((other, differences) for other in others)
        for other, differences in sorted(rivals):
            for about, value, other_value in differences:
                yield Conflict(about, pod, value, other, other_value)


class Books:
    """All volumes of all pods that have not ended. Pods are keys, volumes are ``Place.name``."""

    def __init__(self) -> None:
        self._volumes: dict[str, _Volume] = {}
        self._contested: dict[str, None] = {}
        """Volumes that are used in more than one way."""
        self._of_pod: dict[str, tuple[str, dict[str, Use]]] = {}
        """Uid, and its volumes."""

    def set(self, pod: str, uid: str, uses: Mapping[Place, Use], *, complete: bool) -> list[Conflict]:
        """Take down what a pod uses, and tell which conflicts that brings, for both sides of each.

        What is known already is told once only. Unless ``complete``, the pod has volumes of which nothing is known now,
        and what was known of it before stays.
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
        """The pod has ended, or is gone."""
        _uid, known = self._of_pod.pop(pod, ("", {}))
        for name, use in known.items():
            self._leave(pod, name, use)

    def _join(self, pod: str, place: Place, use: Use) -> list[Conflict]:
        volume = self._volumes.get(place.name)
        if volume is None:
            volume = self._volumes[place.name] = _Volume(place.driver)
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

    def pods_of(self, driver: str) -> list[str]:
        """The pods with volumes of the driver. Drivers change rarely, so that all volumes are looked through."""
        volumes = [volume for volume in self._volumes.values() if volume.driver == driver]
        return sorted({pod for volume in volumes for pods in volume.users.values() for pod in pods})

    def conflicts(self) -> Iterator[Conflict]:
        """All that there are, from both sides. Those of pods with several volumes come several times."""
        for name in self._contested:
            volume = self._volumes[name]
            for use, pods in volume.users.items():
                for pod in pods:
                    yield from volume.conflicts(pod, use)
