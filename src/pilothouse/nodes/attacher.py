"""Simulated storage: the external-attacher of a CSI driver whose volumes are API objects only.

It reports each VolumeAttachment of its driver as attached at once, and as detached when it is deleted. Requests,
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
            lambda found, _initial: self._queue.add((_ATTACHMENT, found.metadata.name)),
            lambda _old, found: self._queue.add((_ATTACHMENT, found.metadata.name)),
            lambda found, _unknown: self._enqueue_volume(found),
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

    def _enqueue_volume(self, found: VolumeAttachment) -> None:
        for name in index_by_volume(found):
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
        found = self._attachments.get(name)
        if found is None or found.spec.attacher != self._driver:
            return
        if found.metadata.deletion_timestamp is not None:
            await self._detach(found)
        elif not found.status.attached:
            await self._attach(found)

    async def _attach(self, found: VolumeAttachment) -> None:
        """Finalizers keep volume and attachment until the attachment is deleted and detached."""
        name = found.spec.source.persistent_volume_name or ""
        volume = self._volumes.get(name)
        if volume is None or volume.metadata.deletion_timestamp is not None:
            reason = "is being deleted" if volume is not None else "not found"
            record_decision(f'cannot attach to {found.spec.node_name}: persistentvolume "{name}" {reason}')
            await self._patch_status(found, {"attachError": {"message": f'persistentvolume "{name}" {reason}'}})
            return
        record_decision(f"attaching volume {name} to {found.spec.node_name}, {self._finalizer} keeps it until detached")
        if self._finalizer not in volume.metadata.finalizers:
            await self._set_finalizers(volume, (*volume.metadata.finalizers, self._finalizer))
        meta = found.metadata
        if self._finalizer not in meta.finalizers:
            changes: dict[str, Any] = {
                "finalizers": [*meta.finalizers, self._finalizer],
                "annotations": {NODE_ID: found.spec.node_name},
                "resourceVersion": meta.resource_version,
            }
            raw = await self._client.patch(VOLUME_ATTACHMENTS.raw, meta.name, merge_patch({"metadata": changes}))
            found = msgspec.json.decode(raw, type=VolumeAttachment)
        await self._patch_status(found, {"attached": True, "attachError": None})

    async def _detach(self, found: VolumeAttachment) -> None:
        if self._finalizer not in found.metadata.finalizers:
            return
        volume = found.spec.source.persistent_volume_name or ""
        record_decision(f"the attachment is being deleted: detaching volume {volume} from {found.spec.node_name}")
        if found.status.attached:
            raw = await self._patch_status(found, {"attached": False, "detachError": None})
            found = msgspec.json.decode(raw, type=VolumeAttachment)
        left = [each for each in found.metadata.finalizers if each != self._finalizer]
        changes = {"finalizers": left or None, "resourceVersion": found.metadata.resource_version}
        await self._client.patch(VOLUME_ATTACHMENTS.raw, found.metadata.name, merge_patch({"metadata": changes}))

    async def _patch_status(self, found: VolumeAttachment, status: dict[str, Any]) -> bytes:
        meta = {"resourceVersion": found.metadata.resource_version}
        patch = merge_patch({"metadata": meta, "status": status})
        name = found.metadata.name
        raw = await self._client.patch(VOLUME_ATTACHMENTS.raw, name, patch, subresource="status")
        return bytes(raw)

    async def _sync_volume(self, name: str) -> None:
        """Remove the finalizer of a deleted volume once it is not attached."""
        volume = self._volumes.get(name)
        if volume is None or volume.metadata.deletion_timestamp is None:
            return
        if self._finalizer in volume.metadata.finalizers and not self._attachments.by_index(BY_VOLUME, name):
            left = tuple(each for each in volume.metadata.finalizers if each != self._finalizer)
            record_decision(
                f"volume {name} is being deleted and attached nowhere: its finalizer {self._finalizer} goes"
            )
            await self._set_finalizers(volume, left)

    async def _set_finalizers(self, volume: PersistentVolume, finalizers: tuple[str, ...]) -> None:
        changes = {"finalizers": list(finalizers) or None, "resourceVersion": volume.metadata.resource_version}
        await self._client.patch(PERSISTENT_VOLUMES.raw, volume.metadata.name, merge_patch({"metadata": changes}))
