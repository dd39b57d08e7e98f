"""VolumeAttachments, and the driver's result in their status. Pure. Upstream: v1.36 ``pkg/volume/csi/csi_attacher.go``,
which polls; here the watch delivers changes."""

from typing import Any

import msgspec

from pilothouse.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from pilothouse.semantics.attachments import Disk, attachment_name

DRIVER_SECONDS = 120.0
"""The timeout for drivers."""


class Done(msgspec.Struct, frozen=True):
    """The desired state is reached."""


class Failed(msgspec.Struct, frozen=True):
    reason: str


def new_attachment(disk: Disk, node: str) -> dict[str, Any]:
    """The VolumeAttachment that requests a volume to be attached to a node."""
    kind = VOLUME_ATTACHMENTS
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": attachment_name(disk.driver, disk.handle, node)},
        "spec": {
            "attacher": disk.driver,
            "nodeName": node,
            "source": {"persistentVolumeName": disk.volume},
        },
    }


def verify_attachment_status(va: VolumeAttachment | None) -> Done | Failed | None:
    """The result of the request; None as long as it is pending, or the cache does not have it yet."""
    if va is None:
        return None
    if va.metadata.deletion_timestamp is not None:
        return Failed("volume attachment is being deleted")
    if va.status.attached:
        return Done()
    error = va.status.attach_error
    return Failed(error.message) if error is not None else None


def verify_detachment_status(va: VolumeAttachment | None) -> Done | Failed | None:
    """The result of the deletion; None as long as it is pending."""
    if va is None:
        return Done()
    error = va.status.detach_error
    return Failed(error.message) if error is not None else None


def timeout_message(kind: str, driver: str, handle: str) -> str:
    """The error if the driver has not responded."""
    return f"timed out waiting for external-attacher of {driver} CSI driver to {kind} volume {handle}"
