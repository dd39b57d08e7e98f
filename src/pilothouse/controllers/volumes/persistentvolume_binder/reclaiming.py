"""Reclaims released volumes by their policy. Both operations read the volume live, because they may have waited and
cannot be undone.

Upstream: ``deleteVolumeOperation`` and ``recycleVolumeOperation``, v1.36
``pkg/controller/volume/persistentvolume/pv_controller.go``. No plugin here recycles, which is deprecated: such a volume
Fails, as upstream does for all but host path and NFS.
"""

from pilothouse.api.core import Pod
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.shared.pods_by_claim import CLAIM_INDEX
from pilothouse.controllers.shared.volume_links import Volume
from pilothouse.controllers.volumes.persistentvolume_binder import links
from pilothouse.controllers.volumes.persistentvolume_binder.operations import OperationFailed
from pilothouse.controllers.volumes.persistentvolume_binder.plugins import (
    NoPluginError,
    deleter_of,
    not_deletable_reason,
)
from pilothouse.controllers.volumes.persistentvolume_binder.stores import ClaimStore
from pilothouse.controllers.volumes.persistentvolume_binder.volumes import is_released
from pilothouse.controllers.volumes.persistentvolume_binder.writes import Writes
from pilothouse.env import Log
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import Cache, object_key
from pilothouse.runtime.events import NORMAL
from pilothouse.semantics.volumes import IN_TREE_FINALIZER, has_ended


class Reclaiming:
    """The operations on released volumes."""

    def __init__(self, writes: Writes, claims: ClaimStore, pods: Cache[Pod], log: Log) -> None:
        self._writes = writes
        self._claims = claims
        self._pods = pods
        self._log = log

    async def delete(self, released: Volume) -> None:
        """Delete the volume and then its object, unless that is an external provisioner's task."""
        name = released.object.metadata.name
        try:
            if not deleter_of(released.object):
                self._log.info("External deleter for volume requested, ignoring", v=3, volumeName=name)
                return
        except NoPluginError as error:
            # Not a failed operation: no backoff before the next one.
            record_decision(f"volume {name} is released and cannot be deleted: {error}")
            await self._writes.fail_volume(released, "VolumeFailedDelete", str(error))
            return
        volume = await self._writes.live_volume(name)
        if volume is None or not self._is_released(volume):
            self._log.info("Volume no longer needs deletion, skipping", v=3, volumeName=name)
            return
        reason = not_deletable_reason(volume.object)
        if reason:
            record_decision(f"volume {name} is released and cannot be deleted: {reason}")
            await self._writes.fail_volume(volume, "VolumeFailedDelete", reason)
            raise OperationFailed(reason)
        meta = volume.object.metadata
        record_decision(f"volume {name} is released, reclaim policy Delete: deleted")
        if IN_TREE_FINALIZER in meta.finalizers:
            finalizers = tuple(finalizer for finalizer in meta.finalizers if finalizer != IN_TREE_FINALIZER)
            await self._writes.update_volume(volume, links.with_finalizers(volume, finalizers, meta.annotations))
        try:
            await self._writes.delete_volume(name)
        except NotFound:
            pass
        except ApiError as error:
            # The next sync of the volume retries.
            self._log.info("Failed to delete volume from database", v=3, volumeName=name, err=str(error))

    async def recycle(self, name: str) -> None:
        """Not supported. A volume that pods still use waits; any other one is Failed."""
        volume = await self._writes.live_volume(name)
        if volume is None or not self._is_released(volume):
            self._log.info("Volume no longer needs recycling, skipping", v=3, volumeName=name)
            return
        reference = volume.object.spec.claim_ref
        assert reference is not None, "a released volume has a claimRef"
        key = f"{reference.namespace}/{reference.name}"
        users = sorted(object_key(pod.metadata) for pod in self._pods.by_index(CLAIM_INDEX, key) if not has_ended(pod))
        # A claim with that name is a new one with a volume of its own, which those pods use.
        if users and self._claims.get(key) is None:
            text = f"Volume is used by pods: {','.join(users)}"
            self._writes.record_volume_event(volume.object, NORMAL, "VolumeFailedRecycle", text)
            return
        record_decision(f"volume {name} is released, reclaim policy Recycle: no plugin recycles it")
        await self._writes.fail_volume(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")

    def _is_released(self, volume: Volume) -> bool:
        reference = volume.object.spec.claim_ref
        claim = self._claims.get(f"{reference.namespace}/{reference.name}") if reference is not None else None
        return is_released(volume.object, claim.object if claim is not None else None)
