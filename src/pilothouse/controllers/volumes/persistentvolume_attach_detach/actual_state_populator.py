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
    """A VolumeAttachment whose PersistentVolume is not in the cache yet is processed when the volume is observed."""

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
        self._waiting: dict[str, dict[str, None]] = {}
        """By name of a PersistentVolume that is not in the cache yet: the nodes of its attachments."""
        self.is_populated = False

    async def populate_actual_state_of_world(self) -> None:
        """Run once, before the first round. Raises ``RetryLater`` if the API server does not respond."""
        try:
            # Objects that cannot be decoded are not in the cache, either; its reflector logs them.
            page = await self._client.list_all(VOLUME_ATTACHMENTS, on_undecodable=lambda _found: None)
        except (ApiError, OSError) as error:
            raise RetryLater(f"the VolumeAttachments cannot be listed yet: {error}") from error
        attachments = {entry.object.metadata.name: entry.object for entry in page.items}
        for node in self._nodes.list():
            name = node.metadata.name
            for attached in node.status.volumes_attached:
                self._process_volumes_attached((attached.name, name), attachments)
            self._actual.set_volumes_in_use(name, node.status.volumes_in_use)
        for va in attachments.values():
            name = va.spec.source.persistent_volume_name or ""
            volume = self._volumes.get(name)
            if volume is not None:
                self._mark_uncertain(volume, va.spec.node_name)
            elif name:
                self._waiting.setdefault(name, {})[va.spec.node_name] = None
        self.is_populated = True

    def process_volume(self, volume: PersistentVolume) -> None:
        """Must be called with every observed PersistentVolume."""
        for node in self._waiting.pop(volume.metadata.name, ()):
            self._mark_uncertain(volume, node)

    def _process_volumes_attached(self, pair: Pair, attachments: Mapping[str, VolumeAttachment]) -> None:
        """The volume was in the node's ``volumesAttached`` when the cache was last updated."""
        volume, node = pair
        desired, parts = self._desired.get(pair), driver_and_handle(volume)
        disk = desired.disk if desired is not None else None
        va = attachments.get(attachment_name(*parts, node)) if parts is not None else None
        if parts is None or (va is not None and va.status.attached and va.metadata.deletion_timestamp is None):
            self._actual.mark_volume_as_attached(pair, disk)
        else:
            self._actual.mark_volume_as_uncertain(pair, disk)
            self._actual.force_removal_from_report(pair)

    def _mark_uncertain(self, volume: PersistentVolume, node: str) -> None:
        """There is a VolumeAttachment; its result is unknown."""
        disk = disk_of(volume)
        if disk is not None and self._actual.get((disk.name, node)) is None:
            self._actual.mark_volume_as_uncertain((disk.name, node), disk)
