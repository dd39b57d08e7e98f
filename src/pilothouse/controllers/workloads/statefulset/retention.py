"""The owners of a claim by the retention policy; the garbage collector deletes it with them. Pure.

========  ===========  ===================  ==============================
scaled    deleted      the pod is wanted    the pod is one too many
========  ===========  ===================  ==============================
Retain    Retain       nobody               nobody
Retain    Delete       the StatefulSet      the StatefulSet
Delete    Retain       nobody               the pod
Delete    Delete       the StatefulSet      the pod
========  ===========  ===================  ==============================

Upstream: ``isClaimOwnerUpToDate``, ``updateClaimOwnerRefForSetAndPod`` and around, v1.36
``pkg/controller/statefulset/stateful_set_utils.go``.
"""

import msgspec

from pilothouse.api.apps import STATEFUL_SETS, StatefulSet
from pilothouse.api.core import PODS
from pilothouse.api.meta import OwnerReference

RETAIN = "Retain"
DELETE = "Delete"

Owners = tuple[OwnerReference, ...]


class Policy(msgspec.Struct, frozen=True):
    """``persistentVolumeClaimRetentionPolicy``. Any other value counts as Retain, for both."""

    when_deleted: str = RETAIN
    when_scaled: str = RETAIN

    @property
    def retains(self) -> bool:
        """Whether claims always stay."""
        return DELETE not in (self.when_deleted, self.when_scaled)

    @property
    def retains_when_scaled(self) -> bool:
        """Whether the claim of a condemned pod stays."""
        return self.when_scaled == RETAIN


def policy_of(owner: StatefulSet) -> Policy:
    written = owner.spec.persistent_volume_claim_retention_policy
    if written is None:
        return Policy()
    if {written.when_deleted, written.when_scaled} <= {RETAIN, DELETE}:
        return Policy(written.when_deleted, written.when_scaled)
    return Policy()


class Holder(msgspec.Struct, frozen=True):
    """The StatefulSet or the pod that may own a claim."""

    api_version: str
    kind: str
    name: str
    uid: str

    def is_named_by(self, reference: OwnerReference) -> bool:
        """Whether the reference has this kind and name, with any uid."""
        return (reference.api_version, reference.kind, reference.name) == (self.api_version, self.kind, self.name)

    def reference(self) -> OwnerReference:
        return OwnerReference(
            api_version=self.api_version,
            kind=self.kind,
            name=self.name,
            uid=self.uid,
            controller=True,
            block_owner_deletion=True,
        )


def set_holder(name: str, uid: str) -> Holder:
    return Holder(STATEFUL_SETS.api_version, STATEFUL_SETS.kind, name, uid)


def pod_holder(name: str, uid: str) -> Holder:
    """A pod; without uid one that does not exist yet."""
    return Holder(PODS.api_version, PODS.kind, name, uid)


class ClaimRetention(msgspec.Struct, frozen=True):
    """The input for the owners of one pod's claims."""

    policy: Policy
    owner: Holder
    pod: Holder
    desired: bool
    """Whether the pod's ordinal is in the range of replicas."""

    def desired_owners(self) -> tuple[Holder, ...]:
        policy = self.policy
        if self.desired or policy.when_scaled != DELETE:
            return (self.owner,) if policy.when_deleted == DELETE else ()
        return (self.pod,)


def has_stale_owner_ref(owners: Owners, holder: Holder) -> bool:
    """Whether the claim is owned by an earlier object of that name."""
    for reference in owners:
        if holder.is_named_by(reference):
            return reference.uid != holder.uid
    return False


def has_unexpected_controller(owners: Owners, keeping: ClaimRetention) -> bool:
    """Whether a claim that is not to be retained has another controller. Then its owners are not changed."""
    if keeping.policy.retains:
        return False
    for reference in owners:
        holder_of_reference = next(
            (holder for holder in (keeping.owner, keeping.pod) if holder.is_named_by(reference)), None
        )
        if holder_of_reference is not None:
            if reference.uid != holder_of_reference.uid:
                return True
        elif reference.controller:
            return True
    return False


def is_claim_owner_updated_properly(owners: Owners, keeping: ClaimRetention) -> bool:
    """Whether the claim's owners need no change. A claim of an earlier object of our name is not changed."""
    owner, pod = keeping.owner, keeping.pod
    if has_stale_owner_ref(owners, owner) or has_stale_owner_ref(owners, pod):
        return True
    by_set = [reference for reference in owners if reference.uid == owner.uid]
    by_pod = [reference for reference in owners if pod.uid and reference.uid == pod.uid]
    if has_unexpected_controller(owners, keeping):
        return not (by_set or by_pod)
    if any(not reference.controller for reference in by_set + by_pod):
        return False
    desired = keeping.desired_owners()
    return (bool(by_set), bool(by_pod)) == (owner in desired, pod in desired)


def updated_owner_refs(owners: Owners, keeping: ClaimRetention) -> Owners:
    """The owners that the claim should have. Others' references stay."""
    kept_references = tuple(
        reference
        for reference in owners
        if not keeping.owner.is_named_by(reference) and not keeping.pod.is_named_by(reference)
    )
    if has_unexpected_controller(owners, keeping):
        return kept_references
    other_uids = {reference.uid for reference in kept_references}
    return kept_references + tuple(
        holder.reference() for holder in keeping.desired_owners() if holder.uid not in other_uids
    )
