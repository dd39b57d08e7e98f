"""The volumes that pods on simulated nodes have mounted: the kubelet's part in attaching and detaching.

The containers of a pod start when all volumes that must be attached are: the node lists them in
``status.volumesInUse``, and waits until the attach/detach controller lists them in ``status.volumesAttached``. When the
pod has terminated, the node removes them from its list, so that they may be detached. Called by ``pod_workers``. As
kubelet v1.36 ``pkg/kubelet/volumemanager`` and ``pkg/kubelet/nodestatus/setters.go`` (``VolumesInUse``).

Unlike a kubelet, a node does not wait for volumes of a driver without a CSIDriver object: in clusters without an
attacher pods would wait forever.
"""

from collections.abc import Callable, Mapping

import msgspec

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, Node, PersistentVolumeClaim
from pilothouse.api.storage import CSI_DRIVERS, PERSISTENT_VOLUMES, Driver, DriverSpec, PersistentVolume
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.profile import KUBELET
from pilothouse.nodes.views import NodePod
from pilothouse.runtime import ExponentialFailureLimiter, InformerFactory, Requeue, WorkerPool, WorkQueue
from pilothouse.semantics.attachments import disk_for
from pilothouse.semantics.volumes import claim_names

_RETRY_SECONDS = (0.2, 7.0)
_WORKERS = 8
_NOT_ATTACHED = Driver(spec=DriverSpec(attach_required=False))


class _Reported(msgspec.Struct):
    """The ``volumesInUse`` that one node last wrote, and the version of which Node that was."""

    volumes: tuple[str, ...] = ()
    uid: str = ""
    version: str = ""


class VolumeManager:
    """The pods of the nodes ``index``. ``enqueue_pod`` is called with a pod's key when its volumes may be attached."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        *,
        informers: InformerFactory,
        clients: Mapping[str, Client],
        outages: Outages,
        enqueue_pod: Callable[[str], None],
        log: Log,
    ) -> None:
        self._clients = clients
        self._outages = outages
        self._enqueue_pod = enqueue_pod
        self._reported = {name: _Reported() for name in index}
        self._pods: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in index}
        """The unique names of the volumes of each pod, by node."""
        self._waiting: dict[str, dict[str, NodePod]] = {}
        """Pods that wait for volumes, by node."""
        nodes = informers.informer(NODES)
        claims, volumes = informers.informer(PERSISTENT_VOLUME_CLAIMS), informers.informer(PERSISTENT_VOLUMES)
        drivers = informers.informer(CSI_DRIVERS)
        self._informers = (nodes, claims, volumes, drivers)
        self._nodes, self._drivers = nodes.cache, drivers.cache
        self._claims, self._volumes = claims.cache, volumes.cache
        self._queue: WorkQueue[str] = WorkQueue(env, "node volumes", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool(
            "node volumes", self._queue, self._report_volumes, workers=_WORKERS, log=log, component=KUBELET
        )
        nodes.add_handler(lambda node, _initial: self._on_node(node), lambda _old, node: self._on_node(node))
        claims.add_handler(
            lambda claim, _initial: self._enqueue_pods_of_claim(claim),
            lambda _old, claim: self._enqueue_pods_of_claim(claim),
        )
        volumes.add_handler(
            lambda volume, _i: self._enqueue_pods_of_volume(volume),
            lambda _old, volume: self._enqueue_pods_of_volume(volume),
        )
        outages.on_change.append(self._queue.add)

    async def wait_synced(self) -> None:
        """Return once all informers have synced."""
        for informer in self._informers:
            await informer.wait_synced()

    async def run(self) -> None:
        """Report ``volumesInUse`` until cancelled."""
        await self.wait_synced()
        await self._pool.run()

    # Pods

    def mount(self, key: str, pod: NodePod) -> bool:
        """Whether the volumes of a pod are attached. If not, the pod is enqueued when they may be."""
        if not claim_names(pod):
            return True
        node = pod.spec.node_name
        names, undecided = self._volumes_of(pod)
        if self._pods[node].get(key, ()) != names:
            self._pods[node][key] = names
            self._queue.add(node)
        if not undecided and self._are_attached(node, names):
            self._stop_waiting(node, key)
            return True
        self._waiting.setdefault(node, {})[key] = pod
        return False

    def unmount(self, node: str, key: str) -> None:
        """Drop the volumes of a pod that has terminated."""
        self._stop_waiting(node, key)
        if self._pods[node].pop(key, ()):
            self._queue.add(node)

    def _stop_waiting(self, node: str, key: str) -> None:
        waiting = self._waiting.get(node)
        if waiting is not None and waiting.pop(key, None) is not None and not waiting:
            del self._waiting[node]

    def _volumes_of(self, pod: NodePod) -> tuple[tuple[str, ...], bool]:
        """The volumes that have to be attached for a pod, and whether some are not known yet."""
        names: list[str] = []
        undecided = False
        for volume, name in zip(
            (v for v in pod.spec.volumes if v.persistent_volume_claim or v.ephemeral), claim_names(pod), strict=True
        ):
            disk = disk_for(pod, volume, self._claims.get, self._volumes.get, self._driver)
            if disk is not None:
                names.append(disk.name)
                continue
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            undecided = undecided or (claim is not None and self._is_binding(claim))
        return tuple(sorted(names)), undecided

    def _is_binding(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim will be bound to a volume that is not in the cache yet."""
        if claim.status.phase != "Bound":
            return bool(claim.spec.volume_name)
        volume = self._volumes.get(claim.spec.volume_name)
        return volume is None or volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid

    def _driver(self, name: str) -> Driver:
        return self._drivers.get(name) or _NOT_ATTACHED

    def _are_attached(self, name: str, volumes: tuple[str, ...]) -> bool:
        if not volumes:
            return True
        node, reported = self._nodes.get(name), self._reported[name]
        if node is None or reported.uid != node.metadata.uid or not set(volumes) <= set(reported.volumes):
            return False
        return set(volumes) <= {attached.name for attached in node.status.volumes_attached}

    # Events of the watch

    def _on_node(self, node: Node) -> None:
        name, reported = node.metadata.name, self._reported.get(node.metadata.name)
        if reported is None:
            return
        if node.metadata.uid != reported.uid or (
            not is_newer(reported.version, node.metadata.resource_version)
            and tuple(sorted(node.status.volumes_in_use)) != reported.volumes
        ):
            # A new Node, or another client changed the list.
            reported.uid, reported.version = node.metadata.uid, node.metadata.resource_version
            reported.volumes = tuple(sorted(node.status.volumes_in_use))
            self._queue.add(name)
        self._enqueue_waiting_pods(name)

    def _enqueue_waiting_pods(self, name: str) -> None:
        for key in list(self._waiting.get(name, ())):
            self._enqueue_pod(key)

    def _enqueue_pods_of_claim(self, claim: PersistentVolumeClaim) -> None:
        namespace, name = claim.metadata.namespace, claim.metadata.name
        for waiting in self._waiting.values():
            for key, pod in list(waiting.items()):
                if pod.metadata.namespace == namespace and name in claim_names(pod):
                    self._enqueue_pod(key)

    def _enqueue_pods_of_volume(self, volume: PersistentVolume) -> None:
        if volume.spec.claim_ref is not None:
            for name in self._waiting:
                self._enqueue_waiting_pods(name)

    async def _report_volumes(self, name: str) -> Requeue | None:
        """Write ``volumesInUse``, if it has changed."""
        reported = self._reported[name]
        if self._outages.is_down(name) or not reported.uid:
            return None
        used = tuple(sorted({volume for volumes in self._pods[name].values() for volume in volumes}))
        if used != reported.volumes:
            record_decision(f"volumesInUse of {name}: its pods use {len(used)} volumes: {', '.join(used) or 'none'}")
            patch = strategic_merge_patch({"status": {"volumesInUse": list(used) or None}})
            try:
                node = await self._clients[name].patch(NODES, name, patch, subresource="status")
            except NotFound:
                return None  # reported when there is a Node again
            if node.metadata.uid == reported.uid:
                reported.volumes, reported.version = used, node.metadata.resource_version
        self._enqueue_waiting_pods(name)
        return None
