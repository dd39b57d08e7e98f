"""The latest claims and volumes: from the informers, and from the binder's own writes.

Binding takes four writes, whose events arrive later. In the informers' caches a complete binding would appear
incomplete, and be repeated with conflicts. So each write is stored immediately, and an informer's object only if it is
not older (``storeObjectUpdate``, v1.36 ``pkg/controller/volume/persistentvolume/pv_controller_base.go``). Volumes
are indexed by access modes (``index.go``), and here also by the other matched fields and by size.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.meta import ObjectMeta
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_links import Decoded
from pilothouse.machinery.quantities import Quantity
from pilothouse.machinery.resource_versions import compare, is_newer
from pilothouse.runtime import Cache, object_key
from pilothouse.runtime.cache import Cached
from pilothouse.semantics.volumes import capacity_of, claim_class, find_match, request_of, volume_class

T = TypeVar("T", bound=Cached)

_ORDER = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
Modes = tuple[str, ...]
MatchKey = tuple[str, str, str]
"""StorageClass, volume mode and VolumeAttributesClass: equal in a claim and a matching volume."""


class Store(Generic[T]):
    """Objects of one kind by key. ``informer_cache`` is the informer's cache of the same kind."""

    def __init__(self, informer_cache: Cache[T] | None = None) -> None:
        self._informer_cache = informer_cache
        self._objects: dict[str, Decoded[T]] = {}

    def get(self, key: str) -> Decoded[T] | None:
        return self._objects.get(key)

    def put(self, new: Decoded[T]) -> bool:
        """Store the object unless the stored version is newer. Returns whether it was stored (equal ones are)."""
        key = object_key(new.object.metadata)
        old = self._objects.get(key)
        if old is not None and is_newer(old.object.metadata.resource_version, new.object.metadata.resource_version):
            return False
        self._objects[key] = new
        self._update_index(key, old, new)
        return True

    def put_written(self, written: Decoded[T]) -> None:
        """Store a written object, unless it was deleted since: the response may arrive after the event of the deletion,
        and then nothing would ever drop it."""
        if not self._was_deleted(written.object.metadata):
            self.put(written)

    def _was_deleted(self, meta: ObjectMeta) -> bool:
        """Whether the informer is newer than that version and does not have the object."""
        if self._informer_cache is None or object_key(meta) in self._informer_cache:
            return False
        order = compare(self._informer_cache.resource_version, meta.resource_version)
        return order is not None and order >= 0

    def drop(self, key: str) -> Decoded[T] | None:
        """Drop a deleted object. Returns the stored one."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._update_index(key, old, None)
        return old

    def __iter__(self) -> Iterator[T]:
        """All objects, unordered: for counting."""
        return (stored.object for stored in self._objects.values())

    def _update_index(self, key: str, old: Decoded[T] | None, new: Decoded[T] | None) -> None:
        """Hook for indexes."""


ClaimStore = Store[PersistentVolumeClaim]


class VolumesBySize:
    """Available volumes with equal ``MatchKey``, sorted by size, then by name."""

    def __init__(self) -> None:
        self._sizes: list[tuple[int, str]] = []
        self._volumes: dict[str, PersistentVolume] = {}

    def __bool__(self) -> bool:
        return bool(self._sizes)

    def put(self, name: str, volume: PersistentVolume) -> None:
        insort(self._sizes, (capacity_of(volume).billionths, name))
        self._volumes[name] = volume

    def remove(self, name: str) -> None:
        volume = self._volumes.pop(name)
        del self._sizes[bisect_left(self._sizes, (capacity_of(volume).billionths, name))]

    def from_size(self, min_size: Quantity) -> Iterator[PersistentVolume]:
        """The volumes of at least this size. Do not modify the index during iteration."""
        for position in range(bisect_left(self._sizes, (min_size.billionths, "")), len(self._sizes)):
            yield self._volumes[self._sizes[position][1]]


class AccessModeIndex:
    """The volumes with one set of access modes: bound ones by claim, free ones by the fields that a claim must match,
    and by size."""

    def __init__(self) -> None:
        self.volumes: dict[str, PersistentVolume] = {}
        self._of_claim: dict[str, dict[str, PersistentVolume]] = {}
        self._free: dict[MatchKey, VolumesBySize] = {}

    def put(self, name: str, volume: PersistentVolume) -> None:
        self.volumes[name] = volume
        reference = volume.spec.claim_ref
        if reference is not None:
            self._of_claim.setdefault(f"{reference.namespace}/{reference.name}", {})[name] = volume
        elif _is_free(volume):
            by_size = self._free.get(_match_key(volume))
            if by_size is None:
                by_size = self._free[_match_key(volume)] = VolumesBySize()
            by_size.put(name, volume)

    def remove(self, name: str) -> None:
        volume = self.volumes.pop(name)
        reference = volume.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            del self._of_claim[key][name]
            if not self._of_claim[key]:
                del self._of_claim[key]
        elif _is_free(volume):
            by_size = self._free[_match_key(volume)]
            by_size.remove(name)
            if not by_size:
                del self._free[_match_key(volume)]

    def candidates(self, claim: PersistentVolumeClaim, *, delayed: bool) -> Iterator[PersistentVolume]:
        """The volumes that may match the claim: those with a claimRef to it, sorted by name; then, unless binding is
        ``delayed``, the available ones that are large enough, the smallest first."""
        prebound = self._of_claim.get(object_key(claim.metadata), {})
        yield from (prebound[name] for name in sorted(prebound))
        by_size = None if delayed else self._free.get(_match_key_of_claim(claim))
        if by_size is not None:
            yield from by_size.from_size(request_of(claim))


def _is_free(volume: PersistentVolume) -> bool:
    return volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None


def _match_key(volume: PersistentVolume) -> MatchKey:
    spec = volume.spec
    return volume_class(volume), spec.volume_mode or "Filesystem", spec.volume_attributes_class_name or ""


def _match_key_of_claim(claim: PersistentVolumeClaim) -> MatchKey:
    spec = claim.spec
    return claim_class(claim), spec.volume_mode or "Filesystem", spec.volume_attributes_class_name or ""


class VolumeStore(Store[PersistentVolume]):
    """Volumes, indexed by their access modes (``persistentVolumeOrderedIndex``)."""

    def __init__(self, informer_cache: Cache[PersistentVolume] | None = None) -> None:
        super().__init__(informer_cache)
        self._by_modes: dict[Modes, AccessModeIndex] = {}

    def _update_index(
        self, key: str, old: Decoded[PersistentVolume] | None, new: Decoded[PersistentVolume] | None
    ) -> None:
        if old is not None:
            modes = mode_set(old.object.spec.access_modes)
            index = self._by_modes[modes]
            index.remove(key)
            if not index.volumes:
                del self._by_modes[modes]
        if new is not None:
            modes = mode_set(new.object.spec.access_modes)
            mode_index = self._by_modes.get(modes)
            if mode_index is None:
                mode_index = self._by_modes[modes] = AccessModeIndex()
            mode_index.put(key, new.object)

    def volumes_with_modes(self, *modes: str) -> list[PersistentVolume]:
        """The volumes with exactly these access modes, by name."""
        index = self._by_modes.get(mode_set(modes))
        return [index.volumes[name] for name in sorted(index.volumes)] if index is not None else []

    def all_possible_matching_access_modes(self, requested: tuple[str, ...]) -> list[Modes]:
        """The sets of modes, of those that volumes have, that include all requested ones; the fewest modes first.

        In upstream the order of sets of the same size is random; here it is fixed.
        """
        desired = set(requested)
        matching = [modes for modes in self._by_modes if desired <= set(modes)]
        return sorted(matching, key=lambda modes: (len(modes), [_ORDER.index(m) if m in _ORDER else 9 for m in modes]))

    def find_best_match_for_claim(self, claim: PersistentVolumeClaim, *, delayed: bool) -> PersistentVolume | None:
        """The best matching volume for the claim. The first set of modes with a match ends the search, even if a set
        with more modes has a smaller volume. Raises ``SelectorError``."""
        for modes in self.all_possible_matching_access_modes(claim.spec.access_modes):
            candidates = self._by_modes[modes].candidates(claim, delayed=delayed)
            volume = find_match(claim, candidates, delayed=delayed, ascending=True)
            if volume is not None:
                return volume
        return None


def mode_set(modes: tuple[str, ...]) -> Modes:
    """The modes without duplicates, in upstream's order (``GetAccessModesAsString``)."""
    present = set(modes)
    return (*(mode for mode in _ORDER if mode in present), *sorted(present - set(_ORDER)))
