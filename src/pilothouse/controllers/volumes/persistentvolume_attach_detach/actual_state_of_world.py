"""The volumes that are or may be attached to nodes, and what the nodes' status reports. Upstream: v1.36
``pkg/controller/volume/attachdetach/cache/actual_state_of_world.go``."""

from collections.abc import Callable, Iterable

import msgspec

from pilothouse.controllers.volumes.persistentvolume_attach_detach.desired_state_of_world import Pair
from pilothouse.semantics.attachments import Disk


class Attachment(msgspec.Struct):
    """A volume on a node. ``confirmed``: it is attached; otherwise it may be.

    ``disk`` is None if only the name is known. ``since`` is the loop time since which it has not been desired.
    """

    volume: str
    node: str
    disk: Disk | None
    confirmed: bool
    detach_requested_at: float | None = None


class ActualStateOfWorld:
    """The actual state of the world. ``on_change`` is called with every volume and node that changed."""

    def __init__(self, on_change: Callable[[Pair], None]) -> None:
        self._on_change = on_change
        self._volumes: dict[str, dict[str, Attachment]] = {}
        self._in_use: dict[str, set[str]] = {}
        self._unreported: dict[str, set[str]] = {}
        """Volumes of nodes that have not reported since the volumes became known."""
        self._reported: dict[str, dict[str, None]] = {}
        self._status_update_needed: dict[str, None] = {}

    # Attached volumes

    def mark_volume_as_attached(self, pair: Pair, disk: Disk | None) -> None:
        """The volume is attached, and must be in the node's status."""
        self._add_volume_node(pair, disk, confirmed=True)
        self.add_volume_to_report_as_attached(pair)

    def mark_volume_as_uncertain(self, pair: Pair, disk: Disk | None) -> None:
        """The volume may be attached."""
        self._add_volume_node(pair, disk, confirmed=False)

    def _add_volume_node(self, pair: Pair, disk: Disk | None, *, confirmed: bool) -> None:
        volume, node = pair
        nodes = self._volumes.setdefault(volume, {})
        attachment = nodes.get(node)
        if attachment is None:
            nodes[node] = Attachment(volume, node, disk, confirmed)
            # Counts as mounted until the node reports otherwise.
            self._unreported.setdefault(node, set()).add(volume)
        else:
            attachment.confirmed = confirmed
            attachment.disk = disk or attachment.disk
        self._on_change(pair)

    def mark_volume_as_detached(self, pair: Pair) -> None:
        """The volume is not attached, nor in the node's status."""
        volume, node = pair
        nodes = self._volumes.get(volume, {})
        if nodes.pop(node, None) is None:
            return
        if not nodes:
            del self._volumes[volume]
        self._unreported.get(node, set()).discard(volume)
        self.remove_volume_from_report_as_attached(pair)
        self._on_change(pair)

    def get(self, pair: Pair) -> Attachment | None:
        """The attachment, confirmed or uncertain, or None."""
        volume, node = pair
        return self._volumes.get(volume, {}).get(node)

    @property
    def has_attachments(self) -> bool:
        return bool(self._volumes)

    def get_nodes_for_attached_volume(self, volume: str) -> list[str]:
        """The nodes to which it is or may be attached, sorted."""
        return sorted(self._volumes.get(volume, ()))

    def confirmed(self) -> list[Attachment]:
        """All confirmed attachments, sorted."""
        return [attachment for attachment in self.get_attached_volumes() if attachment.confirmed]

    def get_attached_volumes(self) -> list[Attachment]:
        """All attachments, confirmed and uncertain, sorted."""
        attachments = (attachment for nodes in self._volumes.values() for attachment in nodes.values())
        return sorted(attachments, key=lambda attachment: (attachment.volume, attachment.node))

    # Volumes in use

    def set_volumes_in_use(self, node: str, volumes: Iterable[str]) -> None:
        """Replace the volumes that the node reports as in use."""
        self._unreported.pop(node, None)
        if used := set(volumes):
            self._in_use[node] = used
        else:
            self._in_use.pop(node, None)  # the case for most nodes, and for deleted ones

    def is_mounted(self, pair: Pair) -> bool:
        """Whether the node may have the volume mounted."""
        volume, node = pair
        return volume in self._in_use.get(node, ()) or volume in self._unreported.get(node, ())

    def is_unreported_by_node(self, pair: Pair) -> bool:
        """Whether the volume counts as mounted only because the node has not reported since it was attached."""
        volume, node = pair
        return volume in self._unreported.get(node, ()) and volume not in self._in_use.get(node, ())

    # status.volumesAttached

    def add_volume_to_report_as_attached(self, pair: Pair) -> None:
        """Add the volume to the node's ``volumesAttached``."""
        volume, node = pair
        volumes = self._reported.setdefault(node, {})
        if volume not in volumes:
            volumes[volume] = None
            self._status_update_needed[node] = None

    def remove_volume_from_report_as_attached(self, pair: Pair) -> None:
        """Remove the volume from the node's ``volumesAttached``."""
        volume, node = pair
        if node in self._reported and volume in self._reported[node]:
            del self._reported[node][volume]
            self._status_update_needed[node] = None

    def force_removal_from_report(self, pair: Pair) -> None:
        """Write the node's status without the volume, even if another program has added it."""
        volume, node = pair
        self._reported.setdefault(node, {}).pop(volume, None)
        self._status_update_needed[node] = None

    def set_node_status_update_needed(self, node: str) -> None:
        """Write the node's status again, if it was ever written."""
        if node in self._reported:
            self._status_update_needed[node] = None

    def is_status_update_needed(self, node: str) -> bool:
        return node in self._status_update_needed

    def nodes_with_status_update_needed(self) -> list[str]:
        """The nodes whose status must be written, sorted."""
        return sorted(self._status_update_needed)

    def take_volumes_to_report_as_attached(self, node: str) -> list[str]:
        """The volumes for the node's ``volumesAttached``, sorted by name; the node is no longer due."""
        self._status_update_needed.pop(node, None)
        return sorted(self._reported.get(node, ()))
