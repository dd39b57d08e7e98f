"""The next step for a claim. Pure. Upstream: ``syncUnboundClaim`` and ``syncBoundClaim``, v1.36
``pkg/controller/volume/persistentvolume/pv_controller.go``."""

from typing import Protocol

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume, StorageClass
from pilothouse.machinery.go_text import quote
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    claim_class,
    has_class,
    refers_to,
    unsatisfied_reason,
    waits_for_consumer,
)

LOST_REFERENCE = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
LOST_VOLUME = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"
NOTHING_TO_BIND = "no persistent volumes available for this claim and no storage class is set"


class ClaimContext(Protocol):
    """The state that a decision needs in addition to the claim."""

    def volume(self, name: str) -> PersistentVolume | None: ...

    def find_best_match_for_claim(self, claim: PersistentVolumeClaim, *, delayed: bool) -> PersistentVolume | None:
        """The volume that matches the claim best."""
        ...

    def storage_class(self, name: str) -> StorageClass | None: ...

    def default_class(self) -> StorageClass | None: ...

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> list[str]:
        """The names of the pods that use the claim, have not finished, and are not scheduled yet."""
        ...


class ClaimEvent(msgspec.Struct, frozen=True):
    """An event on the claim."""

    type: str
    reason: str
    message: str


class Bind(msgspec.Struct, frozen=True):
    """Bind the claim to this volume, or complete the binding."""

    volume: str


class StayPending(msgspec.Struct, frozen=True):
    """The claim stays Pending, mostly with an event."""

    event: ClaimEvent | None = None


class AssignDefaultStorageClass(msgspec.Struct, frozen=True):
    """Assign the default StorageClass (``assignDefaultStorageClass``)."""

    name: str


class Provision(msgspec.Struct, frozen=True):
    """Request provisioning. The status does not change."""


class MarkLost(msgspec.Struct, frozen=True):
    """The claim is Lost: its volume was deleted."""

    reason: str
    message: str


class InvalidClaim(msgspec.Struct, frozen=True):
    """The binding is invalid: record an event and retry."""

    event: ClaimEvent
    error: str


ClaimStep = Bind | StayPending | AssignDefaultStorageClass | Provision | MarkLost | InvalidClaim


def decide_claim(claim: PersistentVolumeClaim, context: ClaimContext) -> ClaimStep:
    """The next step for a claim. Raises ``SelectorError`` for an invalid selector."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _sync_bound_claim(claim, context)
    if claim.spec.volume_name:
        return _sync_unbound_claim_with_volume(claim, context)
    return _sync_unbound_claim_without_volume(claim, context)


def _sync_unbound_claim_without_volume(claim: PersistentVolumeClaim, context: ClaimContext) -> ClaimStep:
    """A claim without ``volumeName``."""
    class_name = claim_class(claim)
    delayed = bool(class_name) and waits_for_consumer(context.storage_class(class_name))
    match = context.find_best_match_for_claim(claim, delayed=delayed)
    if match is not None:
        return Bind(match.metadata.name)
    if not has_class(claim):
        default = context.default_class()
        if default is not None:
            return AssignDefaultStorageClass(default.metadata.name)
    if delayed and SELECTED_NODE not in claim.metadata.annotations:
        return StayPending(_waiting_event(context.unscheduled_pods(claim)))
    if class_name:
        return Provision()
    return StayPending(ClaimEvent(NORMAL, "FailedBinding", NOTHING_TO_BIND))


def _waiting_event(pods: list[str]) -> ClaimEvent:
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return ClaimEvent(NORMAL, "WaitForFirstConsumer", text)
    # The scheduler handles one pod at a time, in unknown order, so all are named.
    text = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
    return ClaimEvent(NORMAL, "WaitForPodScheduled", text)


def _sync_unbound_claim_with_volume(claim: PersistentVolumeClaim, context: ClaimContext) -> ClaimStep:
    """A claim with ``volumeName`` that is not completely bound."""
    name = claim.spec.volume_name
    volume = context.volume(name)
    if volume is None:
        return StayPending()
    if volume.spec.claim_ref is None:
        reason = unsatisfied_reason(volume, claim)
        if reason:
            return StayPending(
                ClaimEvent(WARNING, "VolumeMismatch", f"Cannot bind to requested volume {quote(name)}: {reason}")
            )
        return Bind(name)
    if refers_to(volume, claim):
        return Bind(name)
    event = ClaimEvent(WARNING, "FailedBinding", f"volume {quote(name)} already bound to a different claim.")
    if BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        return StayPending(event)
    # The bind-completed annotation was removed.
    reference, meta = volume.spec.claim_ref, claim.metadata
    key, claimed_by = f"{meta.namespace}/{meta.name}", f"{reference.namespace}/{reference.name}"
    return InvalidClaim(
        event,
        f"invalid binding of claim {quote(key)} to volume {quote(name)}: volume already claimed by {quote(claimed_by)}",
    )


def _sync_bound_claim(claim: PersistentVolumeClaim, context: ClaimContext) -> ClaimStep:
    """``syncBoundClaim``."""
    if not claim.spec.volume_name:
        return MarkLost("ClaimLost", LOST_REFERENCE)
    volume = context.volume(claim.spec.volume_name)
    if volume is None:
        return MarkLost("ClaimLost", LOST_VOLUME)
    reference = volume.spec.claim_ref
    # A missing claimRef was removed, or the cached volume is stale; binding again repairs both. Otherwise this
    # completes the binding, mostly without a write.
    if reference is None or reference.uid == claim.metadata.uid:
        return Bind(volume.metadata.name)
    return MarkLost("ClaimMisbound", MISBOUND)
