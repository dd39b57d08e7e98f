"""Adds the volumes that earlier managers attached. Upstream: v1.36
``pkg/controller/volume/attachdetach/attach_detach_controller.go`` (``populateActualStateOfWorld``,
``processVolumeAttachments``).

Upstream reads its caches, once. A cache may start with an old list: volumes attached after that would never be found,
not be detached, and be attached to other nodes as well. Here VolumeAttachments are listed live.
"""

from collections.abc import Mapping

from pilothouse.api.core import Node
from pilothouse.api.storage import VOLUME_ATTACHMENTS, PersistentVolume, VolumeAttachment
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.controllers.volumes.persistentvolume_attach_detach.actual_state_of_world import ActualStateOfWorld
from pilothouse.controllers.volumes.persistentvolume_attach_detach.desired_state_of_world import (
    DesiredStateOfWorld,
    Pair,
)
from pilothouse.runtime import RetryLater
from pilothouse.runtime.cache import Cache
from pilothouse.semantics.attachments import attachment_name, disk_of, driver_and_handle


class ActualStatePopulator:
    """Volumes known only by the name of their PersistentVolume wait for that to be observed."""

    def __init__(
        self,
        client: Client,
        nodes: Cache[Node],
        volumes: Cache[PersistentVolume],
        *,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._volumes = volumes
        self._desired = desired
        self._actual = actual
        self._unplaced: dict[str, dict[str, None]] = {}
        """Nodes, by the names of PersistentVolumes."""
        self.is_over = False

    async def learn(self) -> None:
        """Run once, before the first round. Raises ``RetryLater`` if the API server does not respond."""
        try:
            # One that cannot be parsed is not in the cache, either, whose reflector logs it.
            page = await self._client.list_all(VOLUME_ATTACHMENTS, on_undecodable=lambda _found: None)
        except (ApiError, OSError) as error:
            raise RetryLater(f"it is not known yet what is attached: {error}") from error
        there = {entry.object.metadata.name: entry.object for entry in page.items}
        for node in self._nodes.list():
            name = node.metadata.name
            for attached in node.status.volumes_attached:
                self._see_report((attached.name, name), there)
            self._actual.set_in_use(name, node.status.volumes_in_use)
        for found in there.values():
            name = found.spec.source.persistent_volume_name or ""
            volume = self._volumes.get(name)
            if volume is not None:
                self._doubt(volume, found.spec.node_name)
            elif name:
                self._unplaced.setdefault(name, {})[found.spec.node_name] = None
        self.is_over = True

    def see_volume(self, volume: PersistentVolume) -> None:
        """Must be called with every observed PersistentVolume."""
        for node in self._unplaced.pop(volume.metadata.name, ()):
            self._doubt(volume, node)

    def _see_report(self, pair: Pair, there: Mapping[str, VolumeAttachment]) -> None:
        """The node's status had the volume as attached, when the cache was last updated."""
        volume, node = pair
        desired, parts = self._desired.get(pair), driver_and_handle(volume)
        disk = desired.disk if desired is not None else None
        found = there.get(attachment_name(*parts, node)) if parts is not None else None
        if parts is None or (found is not None and found.status.attached and found.metadata.deletion_timestamp is None):
            self._actual.attach(pair, disk)
        else:
            self._actual.doubt(pair, disk)
            self._actual.deny(pair)

    def _doubt(self, volume: PersistentVolume, node: str) -> None:
        """There is a VolumeAttachment, with unknown result."""
        disk = disk_of(volume)
        if disk is not None and self._actual.get((disk.name, node)) is None:
            self._actual.doubt((disk.name, node), disk)
