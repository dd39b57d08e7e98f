"""The volumes that pods on simulated nodes have mounted: the kubelet's part in attaching and detaching.

The containers of a pod start when all volumes that need it are attached: the node lists them in
``status.volumesInUse``, and waits until the attach/detach controller lists them in ``status.volumesAttached``. When the
pod has ended, the node removes them from its list, so that they may be detached. ``pod_workers`` calls. As kubelet
v1.36 ``pkg/kubelet/volumemanager`` and ``pkg/kubelet/nodestatus/setters.go`` (``VolumesInUse``).

Unlike a kubelet, a node does not wait for volumes of a driver without a CSIDriver object: in clusters without an
attacher pods would wait for ever.
"""

from collections.abc import Callable, Mapping

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, Node, PersistentVolumeClaim
from pilothouse.api.storage import CSI_DRIVERS, PERSISTENT_VOLUMES, Driver, DriverSpec, PersistentVolume
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.views import NodePod
from pilothouse.runtime import ExponentialFailureLimiter, InformerFactory, Requeue, WorkerPool, WorkQueue
from pilothouse.semantics.attachments import disk_for
from pilothouse.semantics.volumes import claim_names

_RETRY_SECONDS = (0.2, 7.0)
_WORKERS = 8
_NOT_ATTACHED = Driver(spec=DriverSpec(attach_required=False))


class _Machine:
    """What one node has told of its volumes, and in which version of which Node."""

    __slots__ = ("told", "uid", "version")

    def __init__(self) -> None:
        self.told: tuple[str, ...] = ()
        self.uid = ""
        self.version = ""


class VolumeManager:
    """The pods of the nodes ``index``. ``ring`` is called with the key of a pod whose volumes may be there now."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        *,
        informers: InformerFactory,
        clients: Mapping[str, Client],
        outages: Outages,
        ring: Callable[[str], None],
        log: Log,
    ) -> None:
        self._clients = clients
        self._outages = outages
        self._ring = ring
        self._machines = {name: _Machine() for name in index}
        self._pods: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in index}
        """What each pod on a node uses: volumes by their unique names."""
        self._waiting: dict[str, dict[str, NodePod]] = {}
        """The pods that wait, by node."""
        nodes = informers.informer(NODES)
        claims, volumes = informers.informer(PERSISTENT_VOLUME_CLAIMS), informers.informer(PERSISTENT_VOLUMES)
        drivers = informers.informer(CSI_DRIVERS)
        self._informers = (nodes, claims, volumes, drivers)
        self._nodes, self._drivers = nodes.cache, drivers.cache
        self._claims, self._volumes = claims.cache, volumes.cache
        self._queue: WorkQueue[str] = WorkQueue(env, "node volumes", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool("node volumes", self._queue, self._report_volumes, workers=_WORKERS, log=log)
        nodes.add_handler(lambda node, _initial: self._on_node(node), lambda _old, node: self._on_node(node))
        claims.add_handler(
            lambda claim, _initial: self._wake_pods_of(claim), lambda _old, claim: self._wake_pods_of(claim)
        )
        volumes.add_handler(
            lambda volume, _i: self._wake_pods_with(volume), lambda _old, volume: self._wake_pods_with(volume)
        )
        outages.on_change.append(self._queue.add)

    async def wait_synced(self) -> None:
        """Return once it is known what pods' volumes are."""
        for informer in self._informers:
            await informer.wait_synced()

    async def run(self) -> None:
        """Tell what nodes use until cancelled."""
        await self.wait_synced()
        await self._pool.run()

    # Pods

    def mount(self, key: str, pod: NodePod) -> bool:
        """Whether the volumes of a pod are there. If not, the pod's bell rings when they may be."""
        if not claim_names(pod):
            return True
        node = pod.spec.node_name
        names, open_ = self._volumes_of(pod)
        if self._pods[node].get(key, ()) != names:
            self._pods[node][key] = names
            self._queue.add(node)
        if not open_ and self._are_there(node, names):
            self._stop_waiting(node, key)
            return True
        self._waiting.setdefault(node, {})[key] = pod
        return False

    def unmount(self, node: str, key: str) -> None:
        """A pod uses nothing any more."""
        self._stop_waiting(node, key)
        if self._pods[node].pop(key, ()):
            self._queue.add(node)

    def _stop_waiting(self, node: str, key: str) -> None:
        waiting = self._waiting.get(node)
        if waiting is not None and waiting.pop(key, None) is not None and not waiting:
            del self._waiting[node]

    def _volumes_of(self, pod: NodePod) -> tuple[tuple[str, ...], bool]:
        """What has to be attached for a pod, and whether something of that is not known yet."""
        names: list[str] = []
        open_ = False
        for volume, name in zip(
            (v for v in pod.spec.volumes if v.persistent_volume_claim or v.ephemeral), claim_names(pod), strict=True
        ):
            disk = disk_for(pod, volume, self._claims.get, self._volumes.get, self._driver)
            if disk is not None:
                names.append(disk.name)
                continue
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            open_ = open_ or (claim is not None and self._is_on_its_way(claim))
        return tuple(sorted(names)), open_

    def _is_on_its_way(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is about to have a volume of which it can be said whether it has to be attached."""
        if claim.status.phase != "Bound":
            return bool(claim.spec.volume_name)
        volume = self._volumes.get(claim.spec.volume_name)
        return volume is None or volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid

    def _driver(self, name: str) -> Driver:
        return self._drivers.get(name) or _NOT_ATTACHED

    def _are_there(self, name: str, volumes: tuple[str, ...]) -> bool:
        if not volumes:
            return True
        node, machine = self._nodes.get(name), self._machines[name]
        if node is None or machine.uid != node.metadata.uid or not set(volumes) <= set(machine.told):
            return False
        return set(volumes) <= {each.name for each in node.status.volumes_attached}

    # What happens

    def _on_node(self, node: Node) -> None:
        name, machine = node.metadata.name, self._machines.get(node.metadata.name)
        if machine is None:
            return
        if node.metadata.uid != machine.uid or (
            not is_newer(machine.version, node.metadata.resource_version)
            and tuple(sorted(node.status.volumes_in_use)) != machine.told
        ):
            # A new Node, or somebody else wrote on it.
            machine.uid, machine.version = node.metadata.uid, node.metadata.resource_version
            machine.told = tuple(sorted(node.status.volumes_in_use))
            self._queue.add(name)
        self._wake_node(name)

    def _wake_node(self, name: str) -> None:
        for key in list(self._waiting.get(name, ())):
            self._ring(key)

    def _wake_pods_of(self, claim: PersistentVolumeClaim) -> None:
        namespace, name = claim.metadata.namespace, claim.metadata.name
        for waiting in self._waiting.values():
            for key, pod in list(waiting.items()):
                if pod.metadata.namespace == namespace and name in claim_names(pod):
                    self._ring(key)

    def _wake_pods_with(self, volume: PersistentVolume) -> None:
        if volume.spec.claim_ref is not None:
            for name in self._waiting:
                self._wake_node(name)

    async def _report_volumes(self, name: str) -> Requeue | None:
        """Write what the node uses, if that is not what it has told."""
        machine = self._machines[name]
        if self._outages.is_down(name) or not machine.uid:
            return None
        used = tuple(sorted({volume for volumes in self._pods[name].values() for volume in volumes}))
        if used != machine.told:
            patch = strategic_merge_patch({"status": {"volumesInUse": list(used) or None}})
            try:
                node = await self._clients[name].patch(NODES, name, patch, subresource="status")
            except NotFound:
                return None  # it will be told of the next Node
            if node.metadata.uid == machine.uid:
                machine.told, machine.version = used, node.metadata.resource_version
        self._wake_node(name)
        return None
