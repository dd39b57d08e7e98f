"""Simulated storage: the external-attacher of a CSI driver whose volumes are API objects only.

It reports each VolumeAttachment of its driver as attached immediately, and as detached when it is deleted. Requests,
finalizers and annotation are those of external-attacher v4 (``pkg/controller/{csi_handler,controller}.go``). A client
like any other; works against any API server, and beside the Go manager's attach/detach controller.

Not simulated: that attaching takes time or fails, and how many volumes a node can have.
"""

from typing import Any

import msgspec

from pilothouse.api.storage import PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS, PersistentVolume, VolumeAttachment
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import InformerFactory, Requeue, RetryLater, WorkerPool, WorkQueue
from pilothouse.semantics.attachments import BY_VOLUME, index_by_volume

NODE_ID = "csi.alpha.kubernetes.io/node-id"
_WORKERS = 10
_ATTACHMENT, _VOLUME = "attachment", "volume"
Key = tuple[str, str]


def finalizer_of(driver: str) -> str:
    """The finalizer on attachments and volumes of a driver."""
    return f"external-attacher/{driver.replace('.', '-')}"


class Attacher:
    """Serves the VolumeAttachments of ``driver``."""

    def __init__(
        self, env: Env, driver: str, *, client: Client, informers: InformerFactory, log: Log | None = None
    ) -> None:
        self._client = client
        self._driver = driver
        self._finalizer = finalizer_of(driver)
        attachments, volumes = informers.informer(VOLUME_ATTACHMENTS), informers.informer(PERSISTENT_VOLUMES)
        self._waits_for = (attachments, volumes)
        self._attachments, self._volumes = attachments.cache, volumes.cache
        self._attachments.add_index(BY_VOLUME, index_by_volume)
        self._queue: WorkQueue[Key] = WorkQueue(env, "attacher")
        self._pool = WorkerPool(
            "attacher",
            self._queue,
            self._sync,
            workers=_WORKERS,
            log=log or Log("attacher"),
            component="external-attacher",
        )
        attachments.add_handler(
            lambda attachment, _initial: self._queue.add((_ATTACHMENT, attachment.metadata.name)),
            lambda _old, attachment: self._queue.add((_ATTACHMENT, attachment.metadata.name)),
            lambda attachment, _unknown: self._enqueue_volume(attachment),
            resync_seconds=0.0,
        )
        volumes.add_handler(
            lambda volume, _initial: self._queue.add((_VOLUME, volume.metadata.name)),
            lambda _old, volume: self._queue.add((_VOLUME, volume.metadata.name)),
            resync_seconds=0.0,
        )

    async def run(self) -> None:
        """Sync until cancelled."""
        for informer in self._waits_for:
            await informer.wait_synced()
        await self._pool.run()

    def _enqueue_volume(self, attachment: VolumeAttachment) -> None:
        for name in index_by_volume(attachment):
            self._queue.add((_VOLUME, name))

    async def _sync(self, key: Key) -> Requeue | None:
        what, name = key
        try:
            if what == _ATTACHMENT:
                await self._sync_attachment(name)
            else:
                await self._sync_volume(name)
        except Conflict as error:
            raise RetryLater(str(error)) from error
        except NotFound:
            return None
        return None

    async def _sync_attachment(self, name: str) -> None:
        attachment = self._attachments.get(name)
        if attachment is None or attachment.spec.attacher != self._driver:
            return
        if attachment.metadata.deletion_timestamp is not None:
            await self._detach(attachment)
        elif not attachment.status.attached:
            await self._attach(attachment)

    async def _attach(self, attachment: VolumeAttachment) -> None:
        """Finalizers keep volume and attachment until the attachment is deleted and detached."""
        name = attachment.spec.source.persistent_volume_name or ""
        volume = self._volumes.get(name)
        if volume is None or volume.metadata.deletion_timestamp is not None:
            reason = "is being deleted" if volume is not None else "not found"
            record_decision(f'cannot attach to {attachment.spec.node_name}: persistentvolume "{name}" {reason}')
            await self._patch_status(attachment, {"attachError": {"message": f'persistentvolume "{name}" {reason}'}})
            return
        node = attachment.spec.node_name
        record_decision(f"attaching volume {name} to {node}, {self._finalizer} keeps it until detached")
        if self._finalizer not in volume.metadata.finalizers:
            await self._set_finalizers(volume, (*volume.metadata.finalizers, self._finalizer))
        meta = attachment.metadata
        if self._finalizer not in meta.finalizers:
            changes: dict[str, Any] = {
                "finalizers": [*meta.finalizers, self._finalizer],
                "annotations": {NODE_ID: attachment.spec.node_name},
                "resourceVersion": meta.resource_version,
            }
            raw = await self._client.patch(VOLUME_ATTACHMENTS.raw, meta.name, merge_patch({"metadata": changes}))
            attachment = msgspec.json.decode(raw, type=VolumeAttachment)
        await self._patch_status(attachment, {"attached": True, "attachError": None})

    async def _detach(self, attachment: VolumeAttachment) -> None:
        if self._finalizer not in attachment.metadata.finalizers:
            return
        volume = attachment.spec.source.persistent_volume_name or ""
        record_decision(f"the attachment is being deleted: detaching volume {volume} from {attachment.spec.node_name}")
        if attachment.status.attached:
            raw = await self._patch_status(attachment, {"attached": False, "detachError": None})
            attachment = msgspec.json.decode(raw, type=VolumeAttachment)
        left = [finalizer for finalizer in attachment.metadata.finalizers if finalizer != self._finalizer]
        changes = {"finalizers": left or None, "resourceVersion": attachment.metadata.resource_version}
        await self._client.patch(VOLUME_ATTACHMENTS.raw, attachment.metadata.name, merge_patch({"metadata": changes}))

    async def _patch_status(self, attachment: VolumeAttachment, status: dict[str, Any]) -> bytes:
        meta = {"resourceVersion": attachment.metadata.resource_version}
        patch = merge_patch({"metadata": meta, "status": status})
        name = attachment.metadata.name
        raw = await self._client.patch(VOLUME_ATTACHMENTS.raw, name, patch, subresource="status")
        return bytes(raw)

    async def _sync_volume(self, name: str) -> None:
        """Remove the finalizer of a deleted volume once it is not attached."""
        volume = self._volumes.get(name)
        if volume is None or volume.metadata.deletion_timestamp is None:
            return
        if self._finalizer in volume.metadata.finalizers and not self._attachments.by_index(BY_VOLUME, name):
            left = tuple(finalizer for finalizer in volume.metadata.finalizers if finalizer != self._finalizer)
            record_decision(
                f"volume {name} is being deleted and attached nowhere: its finalizer {self._finalizer} is removed"
            )
            await self._set_finalizers(volume, left)

    async def _set_finalizers(self, volume: PersistentVolume, finalizers: tuple[str, ...]) -> None:
        changes = {"finalizers": list(finalizers) or None, "resourceVersion": volume.metadata.resource_version}
        await self._client.patch(PERSISTENT_VOLUMES.raw, volume.metadata.name, merge_patch({"metadata": changes}))
