"""Invariants of VolumeAttributesClasses: the finalizer of a class is not removed while claims or volumes use the class.

Computed from the committed objects after every write.
"""

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, VolumeAttributesClass
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_claim = msgspec.json.Decoder(PersistentVolumeClaim).decode
_volume = msgspec.json.Decoder(PersistentVolume).decode

FINALIZER = "kubernetes.io/vac-protection"


class AttributesClasses(Invariant):
    """All VolumeAttributesClasses, if caches have all claims and volumes when classes are deleted. Classes that no
    manager has observed are not checked. ``kept`` counts deletions that were delayed."""

    def __init__(self) -> None:
        self._classes = Objects("storage.k8s.io/volumeattributesclasses/", VolumeAttributesClass)
        self._names: dict[str, tuple[str, ...]] = {}
        """By claim or volume: the names of its classes."""
        self.kept = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        _group, sort, name = change.key.split("/", 2)
        if update := self._classes.follow(change):
            self._check(*update)
        elif change.key.startswith(("/persistentvolumeclaims/", "/persistentvolumes/")):
            self._names.pop(f"{sort} {name}", None)
            if change.type != "DELETED":
                self._names[f"{sort} {name}"] = _class_names(sort, change.value)

    def _check(self, name: str, old: VolumeAttributesClass | None, new: VolumeAttributesClass | None) -> None:
        if old is None:
            return
        users = self._users(name)
        if old.metadata.deletion_timestamp is None:
            if new is not None and new.metadata.deletion_timestamp is not None:
                self.kept += bool(users)
            return
        released = FINALIZER in old.metadata.finalizers and (new is None or FINALIZER not in new.metadata.finalizers)
        if released and users:
            raise Violation(f"class {name} was released while {users} use it")

    def _users(self, name: str) -> list[str]:
        return sorted(user for user, names in self._names.items() if name in names)

    def check_final_state(self) -> None:
        """At the end classes that are not being deleted have the finalizer, and unused ones are deleted."""
        for name, attributes_class in self._classes.items():
            protected = FINALIZER in attributes_class.metadata.finalizers
            if attributes_class.metadata.deletion_timestamp is None and not protected:
                raise Violation(f"class {name} has no finalizer")
            if attributes_class.metadata.deletion_timestamp is not None and protected and not self._users(name):
                raise Violation(f"class {name} is being deleted and unused, and still exists")


def _class_names(sort: str, value: bytes) -> tuple[str, ...]:
    if sort == "persistentvolumes":
        return (_volume(value).spec.volume_attributes_class_name or "",)
    claim = _claim(value)
    modified = claim.status.modify_volume_status
    return (
        claim.spec.volume_attributes_class_name or "",
        claim.status.current_volume_attributes_class_name or "",
        modified.target_volume_attributes_class_name if modified is not None else "",
    )
