"""Invariants of claims and volumes: they are bound one to one, and no bound volume is lost.

Computed from the committed objects after every write.
"""

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.semantics.volumes import is_fully_bound
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_claim = msgspec.json.Decoder(PersistentVolumeClaim).decode
_volume = msgspec.json.Decoder(PersistentVolume).decode

_CLAIMS, _VOLUMES = "/persistentvolumeclaims/", "/persistentvolumes/"


class Volumes(Invariant):
    """All claims and volumes of a cluster in which users delete no volumes and remove no links.

    ``bound`` counts bound volumes (for tests).
    """

    def __init__(self) -> None:
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self.bound = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        deleted = change.type == "DELETED"
        if change.key.startswith(_CLAIMS):
            key = change.key.removeprefix(_CLAIMS)
            previous = self._claims.pop(key, None)
            if not deleted:
                self._claims[key] = now = _claim(change.value)
                self._check_claim(key, previous, now)
        elif change.key.startswith(_VOLUMES):
            name = change.key.removeprefix(_VOLUMES)
            old = self._volumes.pop(name, None)
            if not deleted:
                self._volumes[name] = new = _volume(change.value)
                self._check_volume(name, old, new)
            elif old is not None:
                owner = self._owner(name, old)
                if owner is not None:
                    raise Violation(f"volume {name} was deleted while {owner} is bound to it")

    def _owner(self, name: str, volume: PersistentVolume) -> str | None:
        """The existing claim that the volume and the claim agree on."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        key = f"{reference.namespace}/{reference.name}"
        claim = self._claims.get(key)
        if claim is None or claim.metadata.uid != reference.uid or claim.spec.volume_name != name:
            return None
        return key

    def _check_claim(self, key: str, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> None:
        name = new.spec.volume_name
        if new.status.phase == "Bound":
            bound_claims = [
                claim_key
                for claim_key, claim in self._claims.items()
                if claim_key != key and claim.spec.volume_name == name and claim.status.phase == "Bound"
            ]
            if bound_claims:
                raise Violation(f"{key} and {sorted(bound_claims)} are both bound to {name}")
            if old is None or old.status.phase != "Bound":
                self.bound += 1
                volume = self._volumes.get(name)
                reference = volume.spec.claim_ref if volume is not None else None
                if reference is None or reference.uid != new.metadata.uid:
                    raise Violation(f"{key} is Bound to {name}, which does not refer to it")
        if new.status.phase == "Lost" and name in self._volumes:
            reference = self._volumes[name].spec.claim_ref
            if reference is not None and reference.uid == new.metadata.uid:
                raise Violation(f"{key} is Lost, and {name} exists")

    def _check_volume(self, name: str, old: PersistentVolume | None, new: PersistentVolume) -> None:
        owner = self._owner(name, old) if old is not None else None
        if owner is not None and self._owner(name, new) != owner:
            raise Violation(f"{owner} is bound to {name}, which now refers to another claim: {new.spec.claim_ref}")
        if new.status.phase not in ("Released", "Failed", "Available"):
            return
        if old is not None and old.status.phase == new.status.phase:
            return
        owner = self._owner(name, new)
        claim = self._claims.get(owner) if owner is not None else None
        if claim is not None and is_fully_bound(claim) and new.status.phase != "Available":
            raise Violation(f"{name} is {new.status.phase} while {owner} is bound to it")

    def check_final_state(self) -> None:
        """Bound claims and volumes refer to each other; no volume refers to a claim with another volume."""
        for key, claim in self._claims.items():
            if claim.status.phase != "Bound":
                continue
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None or self._owner(claim.spec.volume_name, volume) != key or volume.status.phase != "Bound":
                raise Violation(f"{key} is Bound to {claim.spec.volume_name}, which is {volume and volume.status}")
        for name, volume in self._volumes.items():
            owner = self._owner(name, volume)
            if volume.status.phase == "Bound" and owner is None:
                raise Violation(f"{name} is Bound to a claim that does not exist: {volume.spec.claim_ref}")
            if volume.metadata.deletion_timestamp is not None and owner is None:
                raise Violation(f"{name} is being deleted, and still exists: {volume.metadata.finalizers}")
