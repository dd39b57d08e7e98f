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


class Surroundings(Protocol):
    """The state that a decision needs in addition to the claim."""

    def volume(self, name: str) -> PersistentVolume | None: ...

    def best_match(self, claim: PersistentVolumeClaim, *, delayed: bool) -> PersistentVolume | None:
        """The volume that matches the claim best."""
        ...

    def storage_class(self, name: str) -> StorageClass | None: ...

    def default_class(self) -> StorageClass | None: ...

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> list[str]:
        """The names of the pods that use the claim, have not finished, and are not scheduled yet."""
        ...


class Note(msgspec.Struct, frozen=True):
    """An event on the claim."""

    type: str
    reason: str
    message: str


class Bind(msgspec.Struct, frozen=True):
    """Bind the claim to this volume, or complete that."""

    volume: str


class StayPending(msgspec.Struct, frozen=True):
    """The claim stays Pending, mostly with an event."""

    note: Note | None = None


class UseClass(msgspec.Struct, frozen=True):
    """The claim gets the default class, which was created since, or was missing when the claim was created."""

    name: str


class Provision(msgspec.Struct, frozen=True):
    """A volume must be provisioned. The status stays: it will be Bound soon."""


class Lose(msgspec.Struct, frozen=True):
    """The claim is Lost: its volume was deleted."""

    reason: str
    message: str


class Reject(msgspec.Struct, frozen=True):
    """The binding is invalid: an event, and a retry."""

    note: Note
    error: str


ClaimStep = Bind | StayPending | UseClass | Provision | Lose | Reject


def decide_claim(claim: PersistentVolumeClaim, around: Surroundings) -> ClaimStep:
    """The next step for a claim. Raises ``SelectorError`` for an invalid selector."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _decide_bound(claim, around)
    if claim.spec.volume_name:
        return _decide_requested(claim, around)
    return _decide_free(claim, around)


def _decide_free(claim: PersistentVolumeClaim, around: Surroundings) -> ClaimStep:
    """The claim requests no specific volume."""
    class_name = claim_class(claim)
    delayed = bool(class_name) and waits_for_consumer(around.storage_class(class_name))
    match = around.best_match(claim, delayed=delayed)
    if match is not None:
        return Bind(match.metadata.name)
    if not has_class(claim):
        default = around.default_class()
        if default is not None:
            return UseClass(default.metadata.name)
    if delayed and SELECTED_NODE not in claim.metadata.annotations:
        return StayPending(_waiting(around.unscheduled_pods(claim)))
    if class_name:
        return Provision()
    return StayPending(Note(NORMAL, "FailedBinding", NOTHING_TO_BIND))


def _waiting(pods: list[str]) -> Note:
    if not pods:
        text = "waiting for first consumer to be created before binding"
        return Note(NORMAL, "WaitForFirstConsumer", text)
    # The scheduler handles one pod at a time, in unknown order: all are named.
    text = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
    return Note(NORMAL, "WaitForPodScheduled", text)


def _decide_requested(claim: PersistentVolumeClaim, around: Surroundings) -> ClaimStep:
    """The claim, or its author, requests one specific volume."""
    name = claim.spec.volume_name
    volume = around.volume(name)
    if volume is None:
        return StayPending()
    if volume.spec.claim_ref is None:
        reason = unsatisfied_reason(volume, claim)
        if reason:
            return StayPending(
                Note(WARNING, "VolumeMismatch", f"Cannot bind to requested volume {quote(name)}: {reason}")
            )
        return Bind(name)
    if refers_to(volume, claim):
        return Bind(name)
    note = Note(WARNING, "FailedBinding", f"volume {quote(name)} already bound to a different claim.")
    if BOUND_BY_CONTROLLER not in claim.metadata.annotations:
        return StayPending(note)
    # The annotation that the binding is complete was removed.
    reference, meta = volume.spec.claim_ref, claim.metadata
    key, other = f"{meta.namespace}/{meta.name}", f"{reference.namespace}/{reference.name}"
    return Reject(
        note, f"invalid binding of claim {quote(key)} to volume {quote(name)}: volume already claimed by {quote(other)}"
    )


def _decide_bound(claim: PersistentVolumeClaim, around: Surroundings) -> ClaimStep:
    """The claim is bound."""
    if not claim.spec.volume_name:
        return Lose("ClaimLost", LOST_REFERENCE)
    volume = around.volume(claim.spec.volume_name)
    if volume is None:
        return Lose("ClaimLost", LOST_VOLUME)
    reference = volume.spec.claim_ref
    # Without a claimRef it was removed, or the volume's cache is stale: both are repaired by binding again. With it,
    # this repairs whatever is missing, mostly nothing.
    if reference is None or reference.uid == claim.metadata.uid:
        return Bind(volume.metadata.name)
    return Lose("ClaimMisbound", MISBOUND)
