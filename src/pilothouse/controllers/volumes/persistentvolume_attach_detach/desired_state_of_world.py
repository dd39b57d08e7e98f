"""The volumes that pods on managed nodes use. Upstream: v1.36
``pkg/controller/volume/attachdetach/cache/desired_state_of_world.go``.

Upstream looks up a pod's volumes again when it is deleted, which fails if its claims are gone; here they are stored
with the pod.
"""

from collections.abc import Callable, Iterable

import msgspec

from pilothouse.api.core import Pod
from pilothouse.semantics.attachments import Disk

Pair = tuple[str, str]
"""A volume, by its unique name, and a node."""


class DesiredVolume(msgspec.Struct):
    """A volume on a node, with the pods that use it, by uid. ``reported``: the multi-attach event was recorded."""

    disk: Disk
    pods: dict[str, Pod] = {}
    reported: bool = False


class DesiredStateOfWorld:
    """The desired state of the world. ``on_change`` is called with every volume and node that changed."""

    def __init__(self, on_change: Callable[[Pair], None]) -> None:
        self._on_change = on_change
        self._nodes: dict[str, dict[str, DesiredVolume]] = {}
        self._of_pod: dict[str, dict[Pair, None]] = {}

    def add_node(self, node: str) -> bool:
        """Attach volumes to the node from now on. Returns False if the node is already managed."""
        if node in self._nodes:
            return False
        self._nodes[node] = {}
        return True

    def delete_node(self, node: str) -> None:
        """The node was deleted. As long as pods need volumes there it stays managed."""
        if not self._nodes.get(node):
            self._nodes.pop(node, None)

    def node_exists(self, node: str) -> bool:
        return node in self._nodes

    def add_pod(self, pod: Pod, disk: Disk) -> None:
        """The pod uses the volume on its node, which must be managed."""
        volumes = self._nodes[pod.spec.node_name]
        desired, pair = volumes.get(disk.name), (disk.name, pod.spec.node_name)
        if desired is None:
            desired = volumes[disk.name] = DesiredVolume(disk)
            self._on_change(pair)
        desired.pods.setdefault(pod.metadata.uid, pod)
        self._of_pod.setdefault(pod.metadata.uid, {})[pair] = None

    def delete_pod(self, uid: str) -> None:
        """The pod uses no volumes any more."""
        for pair in self._of_pod.pop(uid, {}):
            self._delete_pod_from_volume(uid, pair)

    def delete_volume(self, pair: Pair) -> None:
        """The volume need not be attached, although pods use it."""
        desired = self.get(pair)
        for uid in list(desired.pods) if desired is not None else ():
            pairs = self._of_pod[uid]
            del pairs[pair]
            if not pairs:
                del self._of_pod[uid]
            self._delete_pod_from_volume(uid, pair)

    def _delete_pod_from_volume(self, uid: str, pair: Pair) -> None:
        volume, node = pair
        volumes = self._nodes[node]
        del volumes[volume].pods[uid]
        if not volumes[volume].pods:
            del volumes[volume]
            self._on_change(pair)

    def get(self, pair: Pair) -> DesiredVolume | None:
        volume, node = pair
        return self._nodes.get(node, {}).get(volume)

    def get_volume_pods_on_nodes(self, nodes: Iterable[str], volume: str) -> list[Pod]:
        """The pods that use the volume on these nodes."""
        return [
            pod
            for node in nodes
            for desired in (self.get((volume, node)),)
            if desired is not None
            for pod in desired.pods.values()
        ]

    def get_volumes_to_attach(self) -> list[Pair]:
        return sorted((volume, node) for node, volumes in self._nodes.items() for volume in volumes)

    @property
    def has_pods(self) -> bool:
        return bool(self._of_pod)

    def pods(self) -> list[Pod]:
        pods: dict[str, Pod] = {}
        for volumes in self._nodes.values():
            for desired in volumes.values():
                pods |= desired.pods
        return [pods[uid] for uid in sorted(pods)]
