"""Whether a claim waits to be expanded, and by whom. Pure.

Upstream: ``syncHandler`` and ``enqueuePVC``, v1.36 ``pkg/controller/volume/expand/expand_controller.go``.
"""

import msgspec

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_plugins import csi_name_of, migrated_plugin_of
from pilothouse.semantics.volumes import PRE_RESIZE_CAPACITY, capacity_now, request_of


class Stay(msgspec.Struct, frozen=True):
    """It has what it asks for."""


class NotBound(msgspec.Struct, frozen=True):
    """The volume that it names is somebody else's, or has not been told of it yet."""


class Wait(msgspec.Struct, frozen=True):
    """Somebody else expands it. ``resizer`` is to be written on the claim, if it is not empty."""

    message: str
    resizer: str = ""


Step = Stay | NotBound | Wait


def has_grown(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Whether a change is worth a sync: more is asked for, or there is more."""
    return request_of(new) > request_of(old) or capacity_now(new) > capacity_now(old)


def decide(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Step:
    """What is to be said of a claim. ``volume`` is the one it names, as the API server knows it."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.uid) != (meta.namespace, meta.uid):
        return NotBound()
    if request_of(claim) <= capacity_now(claim) and PRE_RESIZE_CAPACITY not in volume.metadata.annotations:
        return Stay()
    plugin = migrated_plugin_of(volume)
    if plugin:
        message = f"CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
        return Wait(message, csi_name_of(plugin))
    return Wait("waiting for an external controller to expand this PVC")
