"""Invariants of the garbage collector: objects with an existing owner are not deleted, objects without one are.

An owner *exists* if an object with that uid has exactly the coordinates of the reference (kind, name, and the
dependent's namespace or none) and does not wait for the deletion of its dependents.
"""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.meta import Object, OwnerReference
from pilothouse.client.interceptor import Observation
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.cached import METADATA_INFORMERS, InformerCache
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

COLLECTOR = "generic-garbage-collector"
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_object = msgspec.json.Decoder(Object).decode

_IGNORED = ("/events/", "coordination.k8s.io/leases/", "/nodes/")


class Garbage(Invariant):
    """Checks each write of the garbage collector. ``kinds`` are the served (apiVersion, kind) pairs, whose references
    can be checked, each with its resource and whether it is namespaced."""

    def __init__(self, kinds: dict[tuple[str, str], tuple[str, bool]]) -> None:
        self._kinds = kinds
        self._objects: dict[str, Object] = {}
        """By key."""
        self._uids: dict[tuple[str, str, str, str], str] = {}
        """The uid at (apiVersion, kind, namespace, name)."""
        self._waiting: set[str] = set()
        """Uids of objects that are or were in foreground deletion."""
        self._orphaning: dict[str, tuple[int, frozenset[str]]] = {}
        """By the uid of an owner with finalizer ``orphan``: the process that was running when its deletion was
        requested, and the keys of the dependents that this process had observed."""
        self._caches: dict[int, dict[str, InformerCache[Object]]] = {}
        self._process = 0
        self.deleted = 0
        self.orphaned = 0

    # Observations

    def started(self, process: "Process") -> None:
        self._process = process.number
        self._caches[process.number] = {
            resource: InformerCache(resource, Object, lambda _old, _new: None, informers=METADATA_INFORMERS)
            for resource, _namespaced in sorted(self._kinds.values())
        }

    def observed(self, process: "Process", observation: Observation) -> None:
        cache = self._caches[process.number].get(observation.call.resource)
        if cache is not None:
            cache.observe(observation)

    # Writes

    def committed(self, change: Change, origin: Origin | None) -> None:
        if change.key.startswith(_IGNORED):
            return
        old = self._objects.get(change.key)
        new = None if change.type == "DELETED" else _object(change.value)
        if origin is not None and origin.controller == COLLECTOR and old is not None:
            self._check(change.key, old, new, origin)
        self._record(change.key, old, new)

    def _check(self, key: str, old: Object, new: Object | None, origin: Origin) -> None:
        is_deleted = old.metadata.deletion_timestamp is None and (
            new is None or new.metadata.deletion_timestamp is not None
        )
        if is_deleted:
            existing_owners = [ref.name for ref in old.metadata.owner_references if self._exists(old, ref)]
            if existing_owners or not old.metadata.owner_references:
                raise Violation(f"{key} is deleted by the garbage collector; its existing owners: {existing_owners}")
            unknown = [
                ref.kind for ref in old.metadata.owner_references if (ref.api_version, ref.kind) not in self._kinds
            ]
            if unknown:
                raise Violation(f"{key} is deleted although its owners {unknown} can't be looked up")
            self.deleted += 1
        if new is None:
            return
        remaining_uids = {ref.uid for ref in new.metadata.owner_references}
        for ref in old.metadata.owner_references:
            if ref.uid in remaining_uids:
                continue
            if ref.uid in self._orphaning:
                self.orphaned += 1
            elif self._exists(old, ref):
                raise Violation(f"{key} loses its existing owner {ref.kind} {ref.name}: {origin}")
        if ORPHAN in old.metadata.finalizers and ORPHAN not in new.metadata.finalizers:
            self._check_orphans(key, old)

    def _check_orphans(self, key: str, owner: Object) -> None:
        process, observed_dependents = self._orphaning.get(owner.metadata.uid, (0, frozenset()))
        if process != self._process:
            return
        dependents = [
            source
            for source in sorted(observed_dependents)
            if source in self._objects and _refers_to(self._objects[source], owner)
        ]
        if dependents:
            raise Violation(f"{key} is released although {dependents} still refer to it and should have been orphaned")

    def _record(self, key: str, old: Object | None, new: Object | None) -> None:
        if old is not None:
            self._uids.pop(_coordinates(old), None)
            del self._objects[key]
        if new is None:
            return
        meta = new.metadata
        self._objects[key] = new
        self._uids[_coordinates(new)] = meta.uid
        if meta.deletion_timestamp is None:
            return
        if FOREGROUND in meta.finalizers:
            self._waiting.add(meta.uid)
        if ORPHAN in meta.finalizers and meta.uid not in self._orphaning:
            self._orphaning[meta.uid] = (self._process, frozenset(self._observed_dependents(new)))

    def _observed_dependents(self, owner: Object) -> list[str]:
        caches = self._caches.get(self._process, {})
        return [
            key
            for key, obj in self._objects.items()
            if _refers_to(obj, owner) and self._was_observed(caches, obj, owner)
        ]

    def _was_observed(self, caches: dict[str, InformerCache[Object]], obj: Object, owner: Object) -> bool:
        resource, _namespaced = self._kinds.get((obj.api_version, obj.kind), ("", False))
        if resource not in caches:
            return False
        cached = caches[resource].objects.get(f"{obj.metadata.namespace}/{obj.metadata.name}")
        return cached is not None and cached.metadata.uid == obj.metadata.uid and _refers_to(cached, owner)

    def _exists(self, dependent: Object, ref: OwnerReference) -> bool:
        return ref.uid not in self._waiting and self._has_owner_object(dependent, ref)

    def _has_owner_object(self, dependent: Object, ref: OwnerReference) -> bool:
        _resource, namespaced = self._kinds.get((ref.api_version, ref.kind), ("", False))
        namespace = dependent.metadata.namespace if namespaced else ""
        if namespaced and not namespace:
            return False
        return self._uids.get((ref.api_version, ref.kind, namespace, ref.name)) == ref.uid

    # Final state

    def check_final_state(self) -> None:
        """At the end each reference is to an existing owner, and no deletion is pending except for objects that cannot
        be collected."""
        excused = self._excused()
        for key, obj in self._objects.items():
            meta = obj.metadata
            pending_finalizers = [finalizer for finalizer in meta.finalizers if finalizer in {FOREGROUND, ORPHAN}]
            if pending_finalizers and meta.uid not in excused:
                raise Violation(f"{key} still has the finalizers {pending_finalizers}")
            if meta.uid in excused or self._cannot_be_collected(obj):
                continue
            absent_owners = [
                f"{ref.kind} {ref.name}"
                for ref in meta.owner_references
                if not self._exists(obj, ref) and not (ref.uid in excused and self._has_owner_object(obj, ref))
            ]
            if absent_owners:
                raise Violation(f"{key} still refers to owners that do not exist: {absent_owners}")

    def _excused(self) -> set[str]:
        """Uids of owners that wait for a dependent that can never be collected, directly or indirectly."""
        excused: set[str] = set()
        while True:
            blocked = {
                ref.uid
                for obj in self._objects.values()
                if obj.metadata.uid in excused or self._cannot_be_collected(obj)
                for ref in obj.metadata.owner_references
                if ref.block_owner_deletion and ref.uid in self._waiting
            } - excused
            if not blocked:
                return excused
            excused |= blocked

    def _cannot_be_collected(self, obj: Object) -> bool:
        """Whether it has a reference to a kind that is not served, or from a cluster-scoped object to a namespaced
        one."""
        return any(
            kind is None or (kind[1] and not obj.metadata.namespace)
            for ref in obj.metadata.owner_references
            for kind in (self._kinds.get((ref.api_version, ref.kind)),)
        )


def _refers_to(dependent: Object, owner: Object) -> bool:
    """Whether the dependent has a reference to this owner. A reference with its uid and another kind or name has no
    owner: the object is garbage, not an orphaned dependent."""
    meta = owner.metadata
    return any(
        (ref.uid, ref.api_version, ref.kind, ref.name) == (meta.uid, owner.api_version, owner.kind, meta.name)
        for ref in dependent.metadata.owner_references
    )


def _coordinates(obj: Object) -> tuple[str, str, str, str]:
    return (obj.api_version, obj.kind, obj.metadata.namespace, obj.metadata.name)
