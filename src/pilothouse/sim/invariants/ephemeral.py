"""Invariants of generic ephemeral volumes: each has a claim, which is owned by the pod and deleted with it.

Computed from the committed objects after every write.
"""

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.volumes import ephemeral_claim_name
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change


class EphemeralClaims(Invariant):
    """All pods with ephemeral volumes, and all claims owned by pods. Claims of users with such names are not checked.
    ``created`` counts created claims (for tests)."""

    def __init__(self) -> None:
        self._pods = Objects("/pods/", Pod)
        self._claims = Objects("/persistentvolumeclaims/", PersistentVolumeClaim)
        self._expected: dict[str, str] = {}
        """The volume, by pod uid and claim, for every pod that ever existed."""
        self.created = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        _key, _old, pod = self._pods.follow(change) or ("", None, None)
        for volume in pod.spec.volumes if pod is not None else ():
            if pod is not None and volume.ephemeral is not None:
                name = f"{pod.metadata.namespace}/{ephemeral_claim_name(pod, volume)}"
                self._expected[f"{pod.metadata.uid}:{name}"] = volume.name
        key, old, claim = self._claims.follow(change) or ("", None, None)
        if claim is not None:
            self._check(key, old, claim)

    def _check(self, key: str, old: PersistentVolumeClaim | None, claim: PersistentVolumeClaim) -> None:
        owner = controller_of(claim.metadata)
        if old is not None and old.metadata.uid == claim.metadata.uid:
            if controller_of(old.metadata) != owner:
                raise Violation(f"claim {key} has changed its owner: {owner}")
            return
        if owner is None:
            return
        self.created += 1
        if f"{owner.uid}:{key}" not in self._expected:
            raise Violation(f"claim {key} was created for {owner.name}, which has no such volume")

    def check_final_state(self) -> None:
        """At the end each pod has its claims, unless other objects have their names, and no claim remains without its
        pod."""
        pod_uids = {pod.metadata.uid for pod in self._pods.values()}
        for key, pod in self._pods.items():
            if pod.metadata.deletion_timestamp is not None:
                continue
            for volume in pod.spec.volumes:
                name = f"{pod.metadata.namespace}/{ephemeral_claim_name(pod, volume)}"
                if volume.ephemeral is not None and name not in self._claims:
                    raise Violation(f"{key} has no claim for its volume {volume.name}")
        for key, claim in self._claims.items():
            owner = controller_of(claim.metadata)
            if owner is not None and owner.uid not in pod_uids:
                raise Violation(f"claim {key} has outlived its pod {owner.name}")
