"""Which claims for devices a pod uses, and which taints of devices a claim tolerates. Pure.

Sources: v1.36 ``staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/claim.go`` (``Name``, ``IsForPod``,
``IsReservedForPod``, ``CanBeReserved``, ``ToleratesTaint``). Pod groups, which reserve claims behind a gate that is
off, do not exist here.
"""

import enum
from typing import assert_never

import msgspec

from pilothouse.api.core import Pod, PodResourceClaim
from pilothouse.api.resource import DeviceTaint, DeviceToleration, ResourceClaim
from pilothouse.machinery.owners import is_controlled_by

ALLOCATION_FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer of allocated claims; set by the scheduler, removed when the allocation is cleared."""
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
"""The annotation of claims created from templates: the entry of the pod."""
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation, ``true``, of claims that the scheduler created for extended resources."""
MAX_RESERVATIONS = 256
NO_EXECUTE = "NoExecute"


class NoClaim(enum.Enum):
    """Why an entry of a pod has no claim."""

    NOT_MADE_YET = "ResourceClaim not created yet"
    NOT_NEEDED = "claim is not needed"
    UNKNOWN_SOURCE = "none of the supported fields are set"
    """A newer API references claims in a way that is unknown here."""


class ClaimOfEntry(msgspec.Struct, frozen=True):
    """The claim of an entry. A claim that was created ``for_pod`` only counts if the pod is its controller."""

    name: str
    for_pod: bool


def claim_of(pod: Pod, entry: PodResourceClaim) -> ClaimOfEntry | NoClaim:
    """The claim of the pod's entry."""
    if entry.resource_claim_name is not None:
        return ClaimOfEntry(entry.resource_claim_name, for_pod=False)
    if entry.resource_claim_template_name is None:
        return NoClaim.UNKNOWN_SOURCE
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            name = status.resource_claim_name
            return NoClaim.NOT_NEEDED if name is None else ClaimOfEntry(name, for_pod=True)
    return NoClaim.NOT_MADE_YET


def no_claim_message(pod: Pod, entry: PodResourceClaim, reason: NoClaim) -> str:
    """The reason in upstream's words."""
    pod_text = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    match reason:
        case NoClaim.NOT_MADE_YET:
            return f"{pod_text}: {reason.value}"
        case NoClaim.UNKNOWN_SOURCE:
            return f'{pod_text}, spec.resourceClaim "{entry.name}": {reason.value}'
        case NoClaim.NOT_NEEDED:
            return str(reason.value)
        case _:
            assert_never(reason)


def is_for_pod(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the claim was created for this pod."""
    return claim.metadata.namespace == pod.metadata.namespace and is_controlled_by(claim.metadata, pod.metadata.uid)


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether this very pod may use the claim."""
    return any(user.uid == pod.metadata.uid for user in claim.status.reserved_for)


def can_be_reserved(claim: ResourceClaim) -> bool:
    """Whether there is room for one more user."""
    return len(claim.status.reserved_for) < MAX_RESERVATIONS


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether the toleration is about that taint. No key, no effect: about all of them."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def asks_for_admin_access(claim: ResourceClaim) -> bool:
    """Whether a claim requests devices with admin access."""
    return any(request.exactly is not None and request.exactly.admin_access for request in claim.spec.devices.requests)
