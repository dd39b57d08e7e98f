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
    since: float | None = None


class ActualStateOfWorld:
    """The actual state of the world. ``touched`` is called with every volume and node that changed."""

    def __init__(self, touched: Callable[[Pair], None]) -> None:
        self._touched = touched
        self._volumes: dict[str, dict[str, Attachment]] = {}
        self._in_use: dict[str, set[str]] = {}
        self._assumed: dict[str, set[str]] = {}
        """Volumes of nodes that have not reported since the volumes became known."""
        self._reported: dict[str, dict[str, None]] = {}
        self._due: dict[str, None] = {}

    # Attached volumes

    def attach(self, pair: Pair, disk: Disk | None) -> None:
        """The volume is attached, and must be in the node's status."""
        self._put(pair, disk, confirmed=True)
        self.report(pair)

    def doubt(self, pair: Pair, disk: Disk | None) -> None:
        """The volume may be attached."""
        self._put(pair, disk, confirmed=False)

    def _put(self, pair: Pair, disk: Disk | None, *, confirmed: bool) -> None:
        volume, node = pair
        nodes = self._volumes.setdefault(volume, {})
        found = nodes.get(node)
        if found is None:
            nodes[node] = Attachment(volume, node, disk, confirmed)
            # Mounted until the node reports otherwise.
            self._assumed.setdefault(node, set()).add(volume)
        else:
            found.confirmed = confirmed
            found.disk = disk or found.disk
        self._touched(pair)

    def detach(self, pair: Pair) -> None:
        """The volume is not attached, nor in the node's status."""
        volume, node = pair
        nodes = self._volumes.get(volume, {})
        if nodes.pop(node, None) is None:
            return
        if not nodes:
            del self._volumes[volume]
        self._assumed.get(node, set()).discard(volume)
        self.unreport(pair)
        self._touched(pair)

    def get(self, pair: Pair) -> Attachment | None:
        """The volume on the node, if it is or may be attached."""
        volume, node = pair
        return self._volumes.get(volume, {}).get(node)

    @property
    def is_anything_there(self) -> bool:
        return bool(self._volumes)

    def nodes_of(self, volume: str) -> list[str]:
        """The nodes to which it is or may be attached; sorted."""
        return sorted(self._volumes.get(volume, ()))

    def confirmed(self) -> list[Attachment]:
        """All that is attached, sorted."""
        return [each for each in self.all() if each.confirmed]

    def all(self) -> list[Attachment]:
        """All that is or may be attached, sorted."""
        found = (each for nodes in self._volumes.values() for each in nodes.values())
        return sorted(found, key=lambda each: (each.volume, each.node))

    # Volumes in use

    def set_in_use(self, node: str, volumes: Iterable[str]) -> None:
        """The node reports exactly these volumes as in use."""
        self._assumed.pop(node, None)
        if used := set(volumes):
            self._in_use[node] = used
        else:
            self._in_use.pop(node, None)  # as for most nodes, and deleted ones

    def is_mounted(self, pair: Pair) -> bool:
        """Whether the node may have the volume mounted."""
        volume, node = pair
        return volume in self._in_use.get(node, ()) or volume in self._assumed.get(node, ())

    def is_silent(self, pair: Pair) -> bool:
        """Whether that is so only because the node has not reported since the volume became known."""
        volume, node = pair
        return volume in self._assumed.get(node, ()) and volume not in self._in_use.get(node, ())

    # The nodes' status

    def report(self, pair: Pair) -> None:
        """The volume must be in the node's status as attached."""
        volume, node = pair
        volumes = self._reported.setdefault(node, {})
        if volume not in volumes:
            volumes[volume] = None
            self._due[node] = None

    def unreport(self, pair: Pair) -> None:
        """The volume must not be in the node's status as attached."""
        volume, node = pair
        if node in self._reported and volume in self._reported[node]:
            del self._reported[node][volume]
            self._due[node] = None

    def deny(self, pair: Pair) -> None:
        """The volume must not be in the node's status, even if another program has added it."""
        volume, node = pair
        self._reported.setdefault(node, {}).pop(volume, None)
        self._due[node] = None

    def repeat(self, node: str) -> None:
        """Write the node's status again, if anything was ever in it."""
        if node in self._reported:
            self._due[node] = None

    def is_due(self, node: str) -> bool:
        return node in self._due

    def due(self) -> list[str]:
        """The nodes whose status must be written, sorted."""
        return sorted(self._due)

    def take_report(self, node: str) -> list[str]:
        """The volumesAttached to write into the node's status: the volumes by name."""
        self._due.pop(node, None)
        return sorted(self._reported.get(node, ()))
