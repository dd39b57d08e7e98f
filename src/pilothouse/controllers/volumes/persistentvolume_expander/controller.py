"""Syncs a bound claim when it is added, requests more, or has more capacity. Upstream: v1.36
``pkg/controller/volume/expand/expand_controller.go``."""

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.storage import PERSISTENT_VOLUMES, PersistentVolume
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import ApiError
from pilothouse.controllers.shared.volume_plugins import csi_name_of, migrated_plugin_of
from pilothouse.controllers.volumes.persistentvolume_expander import DESCRIPTOR
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.volumes import PRE_RESIZE_CAPACITY, capacity_now, request_of


class NoExpansionNeeded(msgspec.Struct, frozen=True):
    """The claim has the requested capacity."""


class NotBound(msgspec.Struct, frozen=True):
    """Volume and claim are not bound to each other."""


class WaitForResizer(msgspec.Struct, frozen=True):
    """An external controller expands the volume. ``resizer``, if not empty, is set in the claim's annotation."""

    message: str
    resizer: str = ""


Step = NoExpansionNeeded | NotBound | WaitForResizer


def has_grown(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
    """Whether the request or the capacity has grown."""
    return request_of(new) > request_of(old) or capacity_now(new) > capacity_now(old)


def decide(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Step:
    """The decision for a claim. ``volume`` is its live volume."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.uid) != (meta.namespace, meta.uid):
        return NotBound()
    if request_of(claim) <= capacity_now(claim) and PRE_RESIZE_CAPACITY not in volume.metadata.annotations:
        return NoExpansionNeeded()
    plugin = migrated_plugin_of(volume)
    if plugin:
        message = f"CSI migration enabled for {plugin}; waiting for external resizer to expand the pvc"
        return WaitForResizer(message, csi_name_of(plugin))
    return WaitForResizer("waiting for an external controller to expand this PVC")


COMPONENT = "volume_expand"
RESIZER = "volume.kubernetes.io/storage-resizer"
WORKERS = 10


class ExpansionFailed(Exception):
    """The volume could not be read, or the annotation could not be written. Retried."""


class ExpanderController(ManagedController):
    """Keys of the queue are PersistentVolumeClaims."""

    def __init__(self, context: ControllerContext) -> None:
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        super().__init__(context, DESCRIPTOR.name, workers=WORKERS, queue_name=COMPONENT)
        self._client = context.client
        self._claims = claims.cache
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        claims.add_handler(lambda claim, _initial: self._enqueue_pvc(claim), self._update_pvc, resync_seconds=0.0)

    def _enqueue_pvc(self, claim: PersistentVolumeClaim) -> None:
        if claim.status.phase == "Bound":
            self.queue.add(object_key(claim.metadata))

    def _update_pvc(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        if has_grown(old, new):
            self._enqueue_pvc(new)

    async def reconcile(self, key: str) -> Requeue | None:
        claim = self._claims.get(key)
        if claim is None:
            return None
        name = claim.spec.volume_name
        if not name:
            raise ExpansionFailed(f'failed to get PV "{name}": resource name may not be empty')
        try:
            volume = await self._client.get(PERSISTENT_VOLUMES, name)
        except ApiError as error:
            raise ExpansionFailed(f'failed to get PV "{name}": {error}') from error
        match decide(claim, volume):
            case NoExpansionNeeded():
                return None
            case NotBound():
                raise ExpansionFailed(f"persistent Volume is not bound to PVC being updated : {key}")
            case WaitForResizer(message=message, resizer=resizer):
                self._record_event(claim, NORMAL, message)
                if resizer and claim.metadata.annotations.get(RESIZER) != resizer:
                    await self._set_resizer_annotation(claim, key, resizer)
                else:
                    self.log.info("Waiting for an external controller to expand the PVC", claim=key)
        return None

    async def _set_resizer_annotation(self, claim: PersistentVolumeClaim, key: str, resizer: str) -> None:
        """Set the resizer annotation: at the version that was read, through the status subresource, as upstream."""
        meta = claim.metadata
        changes = {"annotations": {RESIZER: resizer}, "resourceVersion": meta.resource_version}
        patch = strategic_merge_patch({"metadata": changes})
        requested = claim.spec.resources.requests.get("storage", "")
        record_decision(f"claim {key} requests {requested}, more than its capacity: expanded by {resizer}")
        try:
            await self._client.patch(
                PERSISTENT_VOLUME_CLAIMS.raw, meta.name, patch, meta.namespace, subresource="status"
            )
        except (ApiError, OSError) as error:
            message = f"error setting resizer annotation to pvc {key}, with error {error}"
            self._record_event(claim, WARNING, message)
            raise ExpansionFailed(message) from error

    def _record_event(self, claim: PersistentVolumeClaim, type_: str, message: str) -> None:
        reference = object_reference(PERSISTENT_VOLUME_CLAIMS, claim.metadata)
        self._recorder.event(reference, type_, "ExternalExpanding", message)


build = ExpanderController
