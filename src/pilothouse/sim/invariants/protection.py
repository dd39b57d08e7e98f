"""Invariants of the protection of claims and volumes: the finalizer is not removed before the last user is removed, and
soon after that.

Computed from the committed objects after every write.
"""

import msgspec

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.api.meta import ObjectMeta
from pilothouse.api.storage import PersistentVolume
from pilothouse.semantics.volumes import claim_names, is_claim_for_pod
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_pod = msgspec.json.Decoder(Pod).decode

_PODS = "/pods/"
CLAIM, VOLUME = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


class Protection(Invariant):
    """All claims and volumes, if users do not remove finalizers of objects that are being deleted.

    A pod that gets its node after the deletion of its claim does not count: a real kubelet would not start it.
    ``kept`` counts claims that were deleted while pods used them (for tests).
    """

    def __init__(self) -> None:
        self._clock = 0
        self._claims = Objects("/persistentvolumeclaims/", PersistentVolumeClaim)
        self._volumes = Objects("/persistentvolumes/", PersistentVolume)
        self._pods: dict[str, tuple[int, Pod]] = {}
        """Scheduled pods, with the time of scheduling."""
        self._deleted: dict[str, int] = {}
        self.kept = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        self._clock += 1
        deleted = change.type == "DELETED"
        if change.key.startswith(_PODS):
            self._record_pod(change.key.removeprefix(_PODS), None if deleted else _pod(change.value))
        elif claim := self._claims.follow(change):
            self._check_claim(*claim)
        elif volume := self._volumes.follow(change):
            self._check_volume(*volume)

    def _record_pod(self, key: str, pod: Pod | None) -> None:
        old = self._pods.pop(key, None)
        if pod is not None and pod.spec.node_name:
            self._pods[key] = (old[0] if old is not None else self._clock, pod)

    def _users(self, key: str, claim: PersistentVolumeClaim) -> dict[str, int]:
        """The scheduled pods that use a claim, with the time of scheduling."""
        namespace = key.partition("/")[0]
        return {
            name: since
            for name, (since, pod) in self._pods.items()
            if pod.metadata.namespace == namespace and _uses(pod, claim)
        }

    def _check_claim(self, key: str, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is None:
            return
        if old.metadata.deletion_timestamp is None:
            if new is not None and new.metadata.deletion_timestamp is not None:
                self._deleted[key] = self._clock
                self.kept += bool(self._users(key, new))
            return
        if CLAIM in old.metadata.finalizers and not _has(new, CLAIM):
            deleted = self._deleted.pop(key)
            users = sorted(pod for pod, since in self._users(key, old).items() if since < deleted)
            if users:
                raise Violation(f"claim {key} was released while {users} use it")

    def _check_volume(self, name: str, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is None or old.metadata.deletion_timestamp is None or VOLUME not in old.metadata.finalizers:
            return
        if not _has(new, VOLUME) and old.status.phase == "Bound":
            raise Violation(f"volume {name} was released while it is bound")

    def check_final_state(self) -> None:
        """At the end objects that are not being deleted have the finalizer, and unused ones are deleted."""
        for key, claim in self._claims.items():
            self._check(f"claim {key}", claim.metadata, CLAIM, used=bool(self._users(key, claim)))
        for name, volume in self._volumes.items():
            self._check(f"volume {name}", volume.metadata, VOLUME, used=volume.status.phase == "Bound")

    def _check(self, description: str, meta: ObjectMeta, finalizer: str, *, used: bool) -> None:
        if meta.deletion_timestamp is None:
            if finalizer not in meta.finalizers:
                raise Violation(f"{description} has no finalizer")
        elif finalizer in meta.finalizers and not used:
            raise Violation(f"{description} is being deleted and unused, and still exists")


def _uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod uses the claim, by name or as a generic ephemeral volume, until the pod is removed."""
    name, meta = claim.metadata.name, pod.metadata
    if any(
        v.persistent_volume_claim is not None and v.persistent_volume_claim.claim_name == name for v in pod.spec.volumes
    ):
        return True
    terminated = meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0
    return name in claim_names(pod) and is_claim_for_pod(claim, pod) and not terminated


def _has(obj: PersistentVolumeClaim | PersistentVolume | None, finalizer: str) -> bool:
    return obj is not None and finalizer in obj.metadata.finalizers
