"""The newest claims and volumes that the binder knows of: what its informers showed, and what it wrote itself.

Binding is four writes, and their events come back later and in any order. Whoever looked only at the informers would
see half of a binding that is long whole, and write it again, to meet a conflict each time. So each write is put into
the books at once; what an informer shows after that counts only if it is not older (upstream's ``storeObjectUpdate``,
v1.36 ``pkg/controller/volume/persistentvolume/pv_controller_base.go``). Volumes are found by their access modes
(``index.go``). Written by ``controller`` and ``writes``, read by the decisions.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_links import Known
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import object_key
from pilothouse.runtime.cache import Cached
from pilothouse.semantics.volumes import claim_class, find_match, volume_class

T = TypeVar("T", bound=Cached)

_ORDER = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
Modes = tuple[str, ...]


class Book(Generic[T]):
    """Objects of one kind by key."""

    def __init__(self) -> None:
        self._known: dict[str, Known[T]] = {}

    def get(self, key: str) -> Known[T] | None:
        """The newest version known."""
        return self._known.get(key)

    def put(self, found: Known[T]) -> bool:
        """Remember a version, unless a newer one is known. Whether it was taken; the same one again is."""
        key = object_key(found.object.metadata)
        old = self._known.get(key)
        if old is not None and is_newer(old.object.metadata.resource_version, found.object.metadata.resource_version):
            return False
        self._known[key] = found
        self._moved(key, old, found)
        return True

    def drop(self, key: str) -> Known[T] | None:
        """Forget an object that is gone. Returns what was known of it."""
        old = self._known.pop(key, None)
        if old is not None:
            self._moved(key, old, None)
        return old

    def __iter__(self) -> Iterator[T]:
        """All objects, in no particular order: for counting."""
        return (each.object for each in self._known.values())

    def _moved(self, key: str, old: Known[T] | None, new: Known[T] | None) -> None:
        """For indexes."""


ClaimBook = Book[PersistentVolumeClaim]


class Shelf:
    """The volumes with one set of access modes: those that are somebody's by whose they are, the others by class."""

    def __init__(self) -> None:
        self.volumes: dict[str, PersistentVolume] = {}
        self._of_claim: dict[str, dict[str, PersistentVolume]] = {}
        self._free: dict[str, dict[str, PersistentVolume]] = {}

    def put(self, name: str, volume: PersistentVolume) -> None:
        """Add one."""
        self.volumes[name] = volume
        index, place = self._place(volume)
        index.setdefault(place, {})[name] = volume

    def take(self, name: str) -> None:
        """Remove one."""
        index, place = self._place(self.volumes.pop(name))
        del index[place][name]
        if not index[place]:
            del index[place]

    def candidates(self, claim: PersistentVolumeClaim, *, delayed: bool) -> list[PersistentVolume]:
        """Those of which a claim might get one, by name: its own, and if its binding is not ``delayed`` what is free
        in its class. Volumes of others are not even looked at, and there may be many."""
        found = dict(self._of_claim.get(object_key(claim.metadata), {}))
        if not delayed:
            found |= self._free.get(claim_class(claim), {})
        return [found[name] for name in sorted(found)]

    def _place(self, volume: PersistentVolume) -> tuple[dict[str, dict[str, PersistentVolume]], str]:
        reference = volume.spec.claim_ref
        if reference is None:
            return self._free, volume_class(volume)
        return self._of_claim, f"{reference.namespace}/{reference.name}"


class VolumeBook(Book[PersistentVolume]):
    """The volumes, also by the set of their access modes."""

    def __init__(self) -> None:
        super().__init__()
        self._by_modes: dict[Modes, Shelf] = {}

    def _moved(self, key: str, old: Known[PersistentVolume] | None, new: Known[PersistentVolume] | None) -> None:
        if old is not None:
            modes = mode_set(old.object.spec.access_modes)
            shelf = self._by_modes[modes]
            shelf.take(key)
            if not shelf.volumes:
                del self._by_modes[modes]
        if new is not None:
            modes = mode_set(new.object.spec.access_modes)
            found = self._by_modes.get(modes)
            if found is None:
                found = self._by_modes[modes] = Shelf()
            found.put(key, new.object)

    def of_modes(self, *modes: str) -> list[PersistentVolume]:
        """The volumes with these access modes and no others, by name."""
        shelf = self._by_modes.get(mode_set(modes))
        return [shelf.volumes[name] for name in sorted(shelf.volumes)] if shelf is not None else []

    def possible_modes(self, requested: tuple[str, ...]) -> list[Modes]:
        """The sets of modes, of those that volumes have, which have all that is asked for. The fewest modes first.

        Upstream leaves open which of two sets of one size is first; here their order is fixed.
        """
        wanted = set(requested)
        found = [modes for modes in self._by_modes if wanted <= set(modes)]
        return sorted(found, key=lambda modes: (len(modes), [_ORDER.index(m) if m in _ORDER else 9 for m in modes]))

    def best_match(self, claim: PersistentVolumeClaim, *, delayed: bool) -> PersistentVolume | None:
        """The volume that serves the claim best. A set of modes in which one is found ends the search, also where a
        set with more modes has a smaller volume. Raises ``SelectorError``."""
        for modes in self.possible_modes(claim.spec.access_modes):
            candidates = self._by_modes[modes].candidates(claim, delayed=delayed)
            found = find_match(claim, candidates, delayed=delayed)
            if found is not None:
                return found
        return None


def mode_set(modes: tuple[str, ...]) -> Modes:
    """The modes once each, in upstream's order (``GetAccessModesAsString``)."""
    present = set(modes)
    return (*(mode for mode in _ORDER if mode in present), *sorted(present - set(_ORDER)))
