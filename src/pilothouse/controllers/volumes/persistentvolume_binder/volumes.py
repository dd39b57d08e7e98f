"""The next step for a volume. Pure. Upstream: ``syncVolume``, ``isVolumeReleased`` and ``modifyDeletionFinalizers``,
v1.36 ``pkg/controller/volume/persistentvolume/pv_controller.go`` and ``pv_controller_base.go``."""

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_plugins import csi_name_of, is_in_tree
from pilothouse.semantics.volumes import (
    EXTERNAL_FINALIZER,
    IN_TREE_FINALIZER,
    MIGRATED_TO,
    PROVISIONED_BY,
    modes_differ,
)


class SetPhase(msgspec.Struct, frozen=True):
    phase: str


class Reclaim(msgspec.Struct, frozen=True):
    """The volume has no claim: it becomes Released, unless it is already or has Failed, then the reclaim policy is
    applied."""

    release: bool


class EnqueueClaim(msgspec.Struct, frozen=True):
    """Enqueue the claim, which does not have the volume yet."""


class RecordModeMismatch(msgspec.Struct, frozen=True):
    """The volume modes differ: record an event on both objects."""


class Unbind(msgspec.Struct, frozen=True):
    """The claim is bound to another volume. Remove the claimRef if the controller set it; a user's loses only the
    uid."""


VolumeStep = SetPhase | Reclaim | EnqueueClaim | RecordModeMismatch | Unbind


def is_released_or_failed(volume: PersistentVolume) -> bool:
    """Whether its phase is Released or Failed."""
    return volume.status.phase in ("Released", "Failed")


def decide_volume(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumeStep:
    """The next step for a volume. ``claim`` is the one to which it refers by name and uid, None if that was deleted."""
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        # Available, or pre-bound to a claim that is not bound to it yet.
        return SetPhase("Available")
    if claim is None:
        return Reclaim(release=not is_released_or_failed(volume))
    if not claim.spec.volume_name:
        return RecordModeMismatch() if modes_differ(claim, volume) else EnqueueClaim()
    if claim.spec.volume_name == volume.metadata.name:
        return SetPhase("Bound")
    spec = volume.spec
    if PROVISIONED_BY in volume.metadata.annotations and spec.persistent_volume_reclaim_policy == "Delete":
        # Provisioned for this claim, which has been bound to another volume.
        return Reclaim(release=not is_released_or_failed(volume))
    return Unbind()


def is_released(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> bool:
    """Whether the volume may be reclaimed. ``claim`` is the current claim of that name."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return False
    if claim is not None and claim.metadata.uid == reference.uid:
        return claim.spec.volume_name not in ("", volume.metadata.name)
    return True


# Migration to CSI


def updated_migration_annotations(annotations: dict[str, str], provisioner: str | None) -> dict[str, str] | None:
    """The annotations with the correct driver in ``migrated-to``, or None if it is correct already."""
    if provisioner is None:
        return None
    driver, migrated_to = csi_name_of(provisioner), annotations.get(MIGRATED_TO, "")
    if driver:
        return {**annotations, MIGRATED_TO: driver} if migrated_to != driver else None
    if migrated_to:
        return {key: value for key, value in annotations.items() if key != MIGRATED_TO}
    return None


def updated_deletion_finalizers(volume: PersistentVolume) -> tuple[str, ...]:
    """The finalizers that a volume should have. Only dynamically provisioned volumes are protected until the storage is
    deleted: either by the in-tree finalizer or by the external provisioner's."""
    provisioner = volume.metadata.annotations.get(PROVISIONED_BY)
    present = volume.metadata.finalizers
    if provisioner is None:
        return present
    if csi_name_of(provisioner):
        return tuple(finalizer for finalizer in present if finalizer != IN_TREE_FINALIZER)
    if not is_in_tree(provisioner):
        return present
    policy = volume.spec.persistent_volume_reclaim_policy
    desired = [finalizer for finalizer in present if finalizer != EXTERNAL_FINALIZER]
    if policy == "Delete" and IN_TREE_FINALIZER not in desired:
        # No finalizer can be added to an object that is being deleted. Upstream retries until it is gone.
        if volume.metadata.deletion_timestamp is None:
            desired.append(IN_TREE_FINALIZER)
    elif policy in ("Retain", "Recycle"):
        desired = [finalizer for finalizer in desired if finalizer != IN_TREE_FINALIZER]
    return tuple(desired)
