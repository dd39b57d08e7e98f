"""What pods and claims need. Pure. Upstream: v1.36 ``pkg/controller/resourceclaim/controller.go``."""

import enum
from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.core import Pod, PodResourceClaim
from pilothouse.api.meta import ObjectMeta
from pilothouse.api.resource import ConsumerReference, ResourceClaim, ResourceClaimTemplate
from pilothouse.semantics.devices import (
    ALLOCATION_FINALIZER,
    POD_CLAIM_NAME,
    ClaimOfEntry,
    NoClaim,
    can_be_reserved,
    claim_of,
    is_for_pod,
    is_reserved_for,
)
from pilothouse.semantics.pods import is_terminal

Known = Callable[[str], ResourceClaim | None]
"""The claim of that name in the pod's namespace."""

MAX_BASE = 57
"""The longest base of ``generateName``: a hyphen and five characters follow, and names have at most 63."""


# Pods


def is_done(pod: Pod) -> bool:
    """Whether no container of the pod runs or will run: it has finished, or was deleted before it was bound."""
    return is_terminal(pod) or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def claim_names(pod: Pod) -> list[str]:
    claims = (claim_of(pod, entry) for entry in pod.spec.resource_claims)
    return [claim.name for claim in claims if isinstance(claim, ClaimOfEntry)]


def claims_to_release(pod: Pod) -> list[str]:
    """The claims that the pod releases when it finishes, including the one for extended resources."""
    extended = pod.status.extended_resource_claim_status
    return [*claim_names(pod), *((extended.resource_claim_name,) if extended is not None else ())]


def needs_reservation(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether a pod with a node cannot start because its claim is not reserved: it was bound without the DRA scheduler
    plugin."""
    return claim.status.allocation is not None and not is_reserved_for(pod, claim) and can_be_reserved(claim)


def needs_sync(pod: Pod, get_claim: Known) -> bool:
    """Whether the pod needs a sync: a claim must be created or reserved. Never after it has finished, because its
    claims are being deleted and must not be created again."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return False
    for entry in pod.spec.resource_claims:
        claim_or_reason = claim_of(pod, entry)
        if claim_or_reason is NoClaim.NOT_NEEDED:
            continue
        if isinstance(claim_or_reason, NoClaim):
            return True
        claim = get_claim(claim_or_reason.name)
        if claim is None:
            # Only those from templates are created here. Entries need not wait for claims that users must create.
            if entry.resource_claim_template_name is not None:
                return True
            continue
        if claim_or_reason.for_pod and not is_for_pod(pod, claim):
            continue  # Nothing can be done before that claim is deleted.
        if pod.spec.node_name and needs_reservation(pod, claim):
            return True
    return False


# Making claims


def generate_name(pod: str, entry: str) -> str:
    """The ``generateName`` of the claim: both names, shortened in proportion where they are too long, but not right
    behind a dot, which would be invalid."""
    full = f"{pod}-{entry}-"
    if len(full) <= MAX_BASE:
        return full
    shortened = pod[: len(pod) * MAX_BASE // len(full)].rstrip(".-")
    return f"{shortened}-{entry[: len(entry) * MAX_BASE // len(full)]}"


def new_claim(pod: Pod, entry: PodResourceClaim, template: ResourceClaimTemplate) -> dict[str, Any]:
    """The claim for an entry, from its template."""
    template_meta = template.spec.metadata
    metadata: dict[str, Any] = {
        "generateName": generate_name(pod.metadata.name, entry.name),
        "annotations": {**template_meta.annotations, POD_CLAIM_NAME: entry.name},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
                "controller": True,
            }
        ],
    }
    if template_meta.labels:
        metadata["labels"] = template_meta.labels
    return {"metadata": metadata, "spec": template.spec.spec}


def claim_statuses_to_apply(pod: Pod, created: dict[str, str]) -> dict[str, str | None] | None:
    """The resourceClaimStatuses to apply, by entry; None if the pod has them all. The list is complete, because entries
    that an applied list omits are removed."""
    current = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    if all(current.get(entry) == name for entry, name in created.items()):
        return None
    entries = {entry.name for entry in pod.spec.resource_claims}  # never iterated
    return {**{entry: name for entry, name in current.items() if entry in entries}, **created}


# Claims


class Reservation(enum.Enum):
    KEEP = "keep"
    DROP = "drop"
    READ_LIVE = "read the pod live: the cache cannot prove that it does not exist"


def decide_reservation(user: ConsumerReference, pod: Pod | None, *, observed_deleted: bool) -> Reservation:
    """Whether the claim stays reserved for ``user``. ``pod`` is the cached pod with its name. Consumers that are not
    pods keep their reservation."""
    if user.api_group or user.resource != "pods":
        return Reservation.KEEP
    if observed_deleted:
        return Reservation.DROP
    if pod is None or pod.metadata.uid != user.uid:
        # Not known yet, or the cache still has its predecessor.
        return Reservation.READ_LIVE
    return Reservation.DROP if is_done(pod) else Reservation.KEEP


class Step(enum.Enum):
    """The changes of a claim's reservations, allocation and finalizer."""

    NOTHING = "nothing"
    RELEASE = "remove some reservations"
    DEALLOCATE = "clear the allocation, then remove the finalizer"
    REMOVE_FINALIZER = "remove the finalizer"


def next_step(claim: ResourceClaim, remaining: int, *, cleared: bool) -> Step:
    """The changes if only ``kept`` of its reservations remain.

    A claim is deallocated when its last consumer is removed, and when it is deleted; one that was never used keeps its
    allocation. ``cleared``: this controller cleared the allocation and the claim has not changed since, so the
    finalizer is not that of a scheduler that is about to allocate.
    """
    allocated_here = ALLOCATION_FINALIZER in claim.metadata.finalizers
    if remaining < len(claim.status.reserved_for):
        return Step.DEALLOCATE if remaining == 0 and allocated_here else Step.RELEASE
    if not allocated_here or remaining:
        return Step.NOTHING
    if claim.metadata.deletion_timestamp is not None:
        return Step.REMOVE_FINALIZER if claim.status.allocation is None else Step.DEALLOCATE
    return Step.REMOVE_FINALIZER if cleared and claim.status.allocation is None else Step.NOTHING


class Owner(msgspec.Struct, frozen=True):
    name: str
    uid: str


def owner_of(meta: ObjectMeta) -> Owner | None:
    for owner in meta.owner_references:
        if owner.controller and owner.api_version == "v1" and owner.kind == "Pod":
            return Owner(owner.name, owner.uid)
    return None


def decide_owner(owner: Owner, pod: Pod | None, *, observed_deleted: bool) -> Reservation:
    """Whether an unused claim is kept for the pod that it was created for. ``pod`` is the cached pod with the owner's
    name. If there is none it may not be observed yet; if it does not exist, the garbage collector deletes the claim."""
    if pod is None:
        return Reservation.KEEP
    if pod.metadata.uid == owner.uid:
        return Reservation.DROP if is_done(pod) else Reservation.KEEP
    return Reservation.DROP if observed_deleted else Reservation.READ_LIVE
