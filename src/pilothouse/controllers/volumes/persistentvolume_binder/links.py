"""The written claims and volumes: the JSON of each object with the changed fields replaced. Pure.

Each function returns the new JSON, or None if nothing changes; ``shared.volume_links`` has the first write of a
binding. Upstream: v1.36 ``pkg/controller/volume/persistentvolume/pv_controller.go``.
"""

from collections.abc import Mapping

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_links import YES, Claim, Volume, with_annotations
from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.machinery.splice import replace_fields
from pilothouse.semantics.volumes import (
    BETA_STORAGE_PROVISIONER,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PRE_RESIZE_CAPACITY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
)

_json = msgspec.json.Encoder().encode


class NoCapacityError(Exception):
    """A volume without a capacity."""


def with_finalizers(volume: Volume, finalizers: tuple[str, ...], annotations: Mapping[str, str]) -> bytes:
    changes = {"metadata.finalizers": _json(finalizers) if finalizers else None}
    return replace_fields(with_annotations(volume, annotations), changes)


# The volume


def unbound_volume(volume: Volume) -> bytes:
    """The volume without the claimRef that the controller set; a claimRef set by a user only loses its uid."""
    annotations = volume.object.metadata.annotations
    if BOUND_BY_CONTROLLER in annotations:
        remaining = {key: value for key, value in annotations.items() if key != BOUND_BY_CONTROLLER}
        return replace_fields(
            volume.raw, {"spec.claimRef": None, "metadata.annotations": _json(remaining) if remaining else None}
        )
    reference = volume.object.spec.claim_ref
    assert reference is not None, "a volume without claimRef is not unbound"
    return replace_fields(volume.raw, {"spec.claimRef": _json(msgspec.structs.replace(reference, uid=""))})


def volume_phase(volume: Volume, phase: str, message: str = "") -> bytes | None:
    if volume.object.status.phase == phase:
        return None
    return replace_fields(
        volume.raw, {"status.phase": _json(phase), "status.message": _json(message) if message else None}
    )


# The claim


def bound_claim(claim: Claim, volume: PersistentVolume) -> bytes | None:
    """The claim, completely bound to the volume."""
    view, name = claim.object, volume.metadata.name
    annotations = dict(view.metadata.annotations)
    changes: dict[str, bytes | None] = {}
    if view.spec.volume_name != name:
        changes["spec.volumeName"] = _json(name)
        annotations.setdefault(BOUND_BY_CONTROLLER, YES)
    annotations.setdefault(BIND_COMPLETED, YES)
    if annotations != view.metadata.annotations:
        changes["metadata.annotations"] = _json(annotations)
    return replace_fields(claim.raw, changes) if changes else None


def claim_with_class(claim: Claim, class_name: str) -> bytes:
    return replace_fields(claim.raw, {"spec.storageClassName": _json(class_name)})


def claim_with_provisioner(claim: Claim, provisioner: str) -> bytes | None:
    """The claim with the provisioner annotation, and its beta form for older provisioners (``setClaimProvisioner``)."""
    annotations = claim.object.metadata.annotations
    if annotations.get(STORAGE_PROVISIONER) == provisioner:
        return None
    annotated = {**annotations, BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
    return with_annotations(claim, annotated)


def claim_without_selected_node(claim: Claim) -> bytes | None:
    """The claim without the selected node, so that the scheduler chooses again (``rescheduleProvisioning``)."""
    annotations = claim.object.metadata.annotations
    if SELECTED_NODE not in annotations:
        return None
    return with_annotations(claim, {key: value for key, value in annotations.items() if key != SELECTED_NODE})


def claim_phase(claim: Claim, phase: str) -> bytes | None:
    """The claim with that phase and without the status fields of a volume."""
    status = claim.object.status
    changes: dict[str, bytes | None] = {}
    if status.phase != phase:
        changes["status.phase"] = _json(phase)
    if status.access_modes:
        changes["status.accessModes"] = None
    if status.capacity:
        changes["status.capacity"] = None
    if status.current_volume_attributes_class_name is not None:
        changes["status.currentVolumeAttributesClassName"] = None
    return replace_fields(claim.raw, changes) if changes else None


def bound_status(claim: Claim, volume: PersistentVolume) -> bytes | None:
    """The claim with phase Bound and the volume's properties.

    Capacity and VolumeAttributesClass are set only when the claim becomes Bound: after that the file system may be
    smaller than the volume for a while, and the resizer sets them. Raises ``NoCapacityError``.
    """
    status, spec = claim.object.status, volume.spec
    changes: dict[str, bytes | None] = {}
    if status.access_modes != spec.access_modes:
        changes["status.accessModes"] = _json(spec.access_modes)
    if status.phase != "Bound":
        changes["status.phase"] = _json("Bound")
        changes.update(_capacity(claim.object, volume))
    desired = spec.volume_attributes_class_name
    if status.phase == "Pending" and status.current_volume_attributes_class_name != desired:
        changes["status.currentVolumeAttributesClassName"] = _json(desired) if desired is not None else None
    return replace_fields(claim.raw, changes) if changes else None


def _capacity(claim: PersistentVolumeClaim, volume: PersistentVolume) -> dict[str, bytes | None]:
    volume_capacity = volume.spec.capacity.get("storage")
    if volume_capacity is None:
        raise NoCapacityError(f'PersistentVolume "{volume.metadata.name}" is without a storage capacity')
    pre_resize_capacity = volume.metadata.annotations.get(PRE_RESIZE_CAPACITY)
    if pre_resize_capacity is not None:
        try:
            parse_quantity(pre_resize_capacity)
        except QuantityError:
            pre_resize_capacity = volume_capacity
        return {"status.capacity": _json({**claim.status.capacity, "storage": pre_resize_capacity})}
    present = claim.status.capacity.get("storage")
    if present is not None and parse_quantity(present) == parse_quantity(volume_capacity):
        return {}
    return {"status.capacity": _json(volume.spec.capacity)}
