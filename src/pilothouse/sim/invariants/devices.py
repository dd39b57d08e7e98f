"""Invariants of ResourceClaims: claims in use stay allocated and reserved, unused ones are released, and no device is
allocated to two claims.

Computed from the committed objects after every write.
"""

from pilothouse.api.core import Pod
from pilothouse.api.resource import ResourceClaim
from pilothouse.semantics.devices import ALLOCATION_FINALIZER, ClaimOfEntry, claim_of, is_for_pod, is_reserved_for
from pilothouse.semantics.pods import is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change


class DeviceClaims(Invariant):
    """All ResourceClaims, if schedulers reserve a claim before they bind the pod.

    ``created`` counts claims created for pods, ``cleared`` deallocations (for tests).
    """

    def __init__(self) -> None:
        self._claims = Objects("resource.k8s.io/resourceclaims/", ResourceClaim)
        self._pods = Objects("/pods/", Pod)
        self.created = 0
        self.cleared = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if pod := self._pods.follow(change):
            self._check_pod_change(*pod)
        elif claim := self._claims.follow(change):
            self._check_claim_change(*claim, by_scheduler=origin is not None and origin.program == "scheduler")

    def _check_pod_change(self, key: str, old: Pod | None, new: Pod | None) -> None:
        if new is not None and old is not None and old.metadata.uid == new.metadata.uid and _may_run(old):
            for entry in old.spec.resource_claims:
                old_claim, new_claim = claim_of(old, entry), claim_of(new, entry)
                if isinstance(old_claim, ClaimOfEntry) and old_claim != new_claim:
                    raise Violation(
                        f"pod {key} runs with claim {old_claim.name} for {entry.name}, and its status has {new_claim}"
                    )

    def _check_claim_change(
        self, key: str, old: ResourceClaim | None, new: ResourceClaim | None, *, by_scheduler: bool
    ) -> None:
        if old is None:
            self.created += new is not None and bool(new.metadata.owner_references)
            return
        allocated = new is not None and new.status.allocation is not None
        reserved_uids = {user.uid for user in new.status.reserved_for} if new is not None else set()  # never iterated
        self.cleared += old.status.allocation is not None and not allocated
        namespace = key.partition("/")[0]
        for user in old.status.reserved_for:
            pod = self._pods.get(f"{namespace}/{user.name}")
            if pod is None or pod.metadata.uid != user.uid or not _uses(pod):
                continue
            if by_scheduler and not pod.spec.node_name:
                continue  # the pod could not be bound, and is scheduled again
            if old.status.allocation is not None and not allocated:
                raise Violation(f"claim {key} was deallocated while pod {user.name} uses it")
            if user.uid not in reserved_uids:
                raise Violation(f"claim {key} is not reserved any more for pod {user.name}, which uses it")

    def check_final_state(self) -> None:
        """At the end each pod has its claims, and no claim is reserved for a pod that does not exist."""
        for key, pod in self._pods.items():
            if pod.metadata.deletion_timestamp is None and not is_terminal(pod):
                self._check_pod(key, pod)
        for key, claim in self._claims.items():
            self._check_claim(key, claim)

    def _check_pod(self, key: str, pod: Pod) -> None:
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is not None:
                claim_name = claim_of(pod, entry)
                claim = self._claims.get(f"{pod.metadata.namespace}/{getattr(claim_name, 'name', '')}")
                if claim is None or not is_for_pod(pod, claim):
                    raise Violation(f"pod {key} has no claim for {entry.name}: {claim_name}")

    def _check_claim(self, key: str, claim: ResourceClaim) -> None:
        namespace = claim.metadata.namespace
        users = [self._pods.get(f"{namespace}/{user.name}") for user in claim.status.reserved_for]
        for user, pod in zip(claim.status.reserved_for, users, strict=True):
            if pod is None or pod.metadata.uid != user.uid or is_terminal(pod):
                raise Violation(f"claim {key} is reserved for {user.name}, which does not need it any more")
        terminating = claim.metadata.deletion_timestamp is not None
        if terminating and not users and ALLOCATION_FINALIZER in claim.metadata.finalizers:
            raise Violation(f"claim {key} is being deleted and unused, and still exists")
        for owner in claim.metadata.owner_references:
            pod = self._pods.get(f"{namespace}/{owner.name}")
            if not users and pod is not None and pod.metadata.uid == owner.uid and is_terminal(pod):
                raise Violation(f"claim {key} was created for {owner.name}, which has terminated, and still exists")


class DeviceAllocations(Invariant):
    """All devices that are allocated without admin access or sharing, if all schedulers allocate as the built-in one.

    ``allocated`` counts allocations (for tests).
    """

    def __init__(self) -> None:
        self._claims = Objects("resource.k8s.io/resourceclaims/", ResourceClaim)
        self._pods = Objects("/pods/", Pod)
        self._owners: dict[tuple[str, str, str], str] = {}
        """The claim that has each device."""
        self.allocated = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if pod := self._pods.follow(change):
            self._check_binding(*pod)
        elif claim := self._claims.follow(change):
            self._check_allocation(*claim)

    def _check_binding(self, key: str, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
            return
        for entry in new.spec.resource_claims:
            of_entry = claim_of(new, entry)
            claim = self._claims.get(f"{new.metadata.namespace}/{getattr(of_entry, 'name', '')}")
            if claim is None or claim.status.allocation is None or not is_reserved_for(new, claim):
                raise Violation(f"pod {key} is bound, and its claim for {entry.name} is not allocated and reserved")

    def _check_allocation(self, key: str, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for device in _devices(old):
            self._owners.pop(device, None)
        for device in _devices(new):
            owner = self._owners.setdefault(device, key)
            if owner != key:
                raise Violation(f"device {'/'.join(device)} is allocated to claim {key}, and to claim {owner} already")
        self.allocated += bool(_devices(new)) and not _devices(old)


def _devices(claim: ResourceClaim | None) -> list[tuple[str, str, str]]:
    if claim is None or claim.status.allocation is None:
        return []
    results = claim.status.allocation.devices.results
    return [(one.driver, one.pool, one.device) for one in results if not one.admin_access and one.share_id is None]


def _may_run(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not is_terminal(pod)


def _uses(pod: Pod) -> bool:
    """Whether the pod runs or may be scheduled."""
    return not is_terminal(pod) and (bool(pod.spec.node_name) or pod.metadata.deletion_timestamp is None)
