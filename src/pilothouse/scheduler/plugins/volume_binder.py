"""VolumeBinding: the claims and volumes of pods, assumed bindings, and writing them.

A decision counts immediately, as in upstream's assume caches: a volume that was chosen for a claim is not available to
others, and a claim with a chosen node keeps it, before the API server has either. As kube-scheduler v1.36
``plugins/volumebinding/binder.go``.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, Node, PersistentVolumeClaim
from pilothouse.api.storage import PERSISTENT_VOLUMES, STORAGE_CLASSES, PersistentVolume
from pilothouse.client import Client
from pilothouse.controllers.shared.volume_links import Decoded, bound_volume, decode_object, with_annotations
from pilothouse.env import Log
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import InformerFactory, object_key
from pilothouse.runtime.informer import SharedInformer
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins import volume_zone
from pilothouse.scheduler.plugins.csi import CSIManager
from pilothouse.scheduler.plugins.node_volume_limits import NodeVolumeLimits, VolumeId
from pilothouse.scheduler.plugins.volume_binding import PodVolumeClaims, PodVolumes, UnboundClaim
from pilothouse.scheduler.plugins.volume_restrictions import READ_WRITE_ONCE_POD
from pilothouse.semantics.volumes import (
    SELECTED_NODE,
    claim_class,
    is_claim_for_pod,
    is_fully_bound,
    is_reachable,
    refers_to,
    volume_class,
    waits_for_consumer,
)

BIND_SECONDS = 600.0
"""How long a pod waits for its volumes before it is scheduled again (``bindTimeoutSeconds``)."""
ERR_UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
CLASS_INDEX = "class"


class BindingError(Exception):
    """The volumes were not bound, or cannot be reached from the node."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"binding volumes: {reason}")


class BindingPreempted(BindingError):
    """A pod of higher priority gets the room of the pod that waits for its volumes."""

    def __init__(self) -> None:
        Exception.__init__(self, "preempted by DefaultPreemption")


class AssumedVolumes(msgspec.Struct):
    """Volumes that are being bound for a pod. ``written`` has, by the key of the claim, the resource version of our
    write to it, or an empty text where the volume was written instead."""

    pod_volumes: PodVolumes
    uid: str
    written: dict[str, str]


def _by_class(volume: PersistentVolume) -> tuple[str]:
    return (volume_class(volume),)


class VolumeBinder:
    """See the module."""

    def __init__(self, client: Client, informers: InformerFactory, log: Log) -> None:
        self._client = client
        self.csi = CSIManager(client, informers, log)
        self.csi.on_change = lambda: self._on_change("", "")
        self._handlers: list[Callable[[str, str], None]] = []
        self._claims = informers.informer(PERSISTENT_VOLUME_CLAIMS, keep_raw=True)
        self._volumes = informers.informer(PERSISTENT_VOLUMES, keep_raw=True)
        self._classes = informers.informer(STORAGE_CLASSES)
        self._volumes.cache.add_index(CLASS_INDEX, _by_class)
        self.volume_limits = NodeVolumeLimits(self.csi, self._volume_id, self._volumes.cache.get)
        self._assumed_volumes: dict[str, str] = {}
        """The claim that each volume was chosen for, by volume name, until the volume has the ``claimRef``."""
        self._assumed_nodes: dict[str, str] = {}
        """The node that was chosen for the volume of each claim, until the claim has the annotation."""
        self._wakeups: dict[str, asyncio.Event] = {}
        """Set when a pod that waits for its volumes should check them, by the uid of the pod."""
        self._canceled: set[str] = set()
        """The uids of waiting pods that were preempted."""
        self._waiting_pods: dict[str, dict[str, None]] = {}
        """The uids of the pods that wait for a claim, by the key of the claim."""
        self.version = 0
        """Increases with every change, so that cached results can be compared."""
        self._claims.add_handler(
            lambda claim, _initial: self._on_claim(claim),
            lambda _old, claim: self._on_claim(claim),
            lambda claim, _unknown: self._on_claim(claim),
            resync_seconds=0.0,
        )
        self._volumes.add_handler(
            lambda volume, _initial: self._on_volume(volume),
            lambda _old, volume: self._on_volume(volume),
            lambda volume, _unknown: self._on_volume(volume),
            resync_seconds=0.0,
        )
        self._classes.add_handler(
            lambda _class, _initial: self._on_change("", ""),
            lambda _old, _class: self._on_change("", ""),
            resync_seconds=0.0,
        )

    def add_handler(self, handler: Callable[[str, str], None]) -> None:
        """Call the handler with the namespace and name of a claim that was added or changed, and with two empty texts
        after a change of volumes or storage classes."""
        self._handlers.append(handler)

    @property
    def informers(self) -> tuple[SharedInformer[Any], ...]:
        """What has to be synced before."""
        return self._claims, self._volumes, self._classes

    # Events

    def _on_claim(self, claim: PersistentVolumeClaim) -> None:
        key = object_key(claim.metadata)
        if claim.spec.volume_name or SELECTED_NODE in claim.metadata.annotations:
            self._assumed_nodes.pop(key, None)
        self._activate_pods_of(key)
        self._on_change(claim.metadata.namespace, claim.metadata.name)

    def _on_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            self._assumed_volumes.pop(volume.metadata.name, None)
            self._activate_pods_of(f"{reference.namespace}/{reference.name}")
        self._on_change("", "")

    def _activate_pods_of(self, claim: str) -> None:
        for uid in self._waiting_pods.get(claim, ()):
            self._wakeups[uid].set()

    def _on_change(self, namespace: str, name: str) -> None:
        self.version += 1
        for handler in self._handlers:
            handler(namespace, name)

    def pod_deleted(self, uid: str) -> None:
        """Stop waiting for the volumes of the pod."""
        activation = self._wakeups.get(uid)
        if activation is not None:
            activation.set()

    def cancel_binding(self, uid: str) -> bool:
        """Have the pod stop waiting for its volumes, as it is preempted. Returns whether it was waiting."""
        activation = self._wakeups.get(uid)
        if activation is None:
            return False
        self._canceled.add(uid)
        activation.set()
        return True

    def node_deleted(self) -> None:
        """Check for waiting pods whether their node still exists."""
        for activation in self._wakeups.values():
            activation.set()

    # Before the decision

    def get_pod_volume_claims(self, pod_info: PodInfo) -> PodVolumeClaims:
        """The claims of a pod, as of now."""
        bound: list[PersistentVolume | None] = []
        unbound: list[UnboundClaim] = []
        once: list[str] = []
        missing_volume = ""
        has_immediate = False
        for name in pod_info.claim_names:
            claim = self._claims.cache.get(f"{pod_info.namespace}/{name}")
            error = _validate_claim(claim, name, ephemeral=name in pod_info.ephemeral_claim_names, pod_info=pod_info)
            if claim is None or error:
                return PodVolumeClaims(error=error)
            ephemeral = name in pod_info.ephemeral_claim_names
            if READ_WRITE_ONCE_POD in claim.spec.access_modes and not ephemeral:
                once.append(object_key(claim.metadata))
            if is_fully_bound(claim):
                bound.append(self._volumes.cache.get(claim.spec.volume_name))
                if bound[-1] is None and not ephemeral:
                    missing_volume = missing_volume or claim.spec.volume_name
                continue
            storage_class = self._classes.cache.get(claim_class(claim))
            # A claim with a volume name is bound immediately, whatever its class.
            if storage_class is None or not waits_for_consumer(storage_class) or claim.spec.volume_name:
                has_immediate = True
                continue
            key = object_key(claim.metadata)
            node = claim.metadata.annotations.get(SELECTED_NODE) or self._assumed_nodes.get(key, "")
            unbound.append(UnboundClaim(claim, storage_class, node, () if node else self._candidates(claim)))
        if has_immediate:
            return PodVolumeClaims(error=ERR_UNBOUND_IMMEDIATE)
        if missing_volume:
            return PodVolumeClaims(error=f'persistentvolume "{missing_volume}" not found', plugin=volume_zone.NAME)
        return PodVolumeClaims(
            bound=bound,
            unbound=unbound,
            assumed=frozenset(self._assumed_volumes),
            has_enough_capacity=self.csi.has_enough_capacity,
            read_write_once_pod_claims=once,
        )

    def _volume_id(self, key: str) -> VolumeId | None:
        """The driver and the handle of the claim's volume; of a claim that is not bound, the provisioner of its class
        and the claim itself."""
        claim = self._claims.cache.get(key)
        if claim is None:
            return None
        volume = self._volumes.cache.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi is not None and csi.driver and csi.volume_handle else None
        storage_class = self._classes.cache.get(claim_class(claim))
        return (storage_class.provisioner, f"claim {key}") if storage_class is not None else None

    def _candidates(self, claim: PersistentVolumeClaim) -> tuple[PersistentVolume, ...]:
        """The volumes of its class that have no claim, or are reserved for this one."""
        return tuple(
            volume
            for volume in self._volumes.cache.by_index(CLASS_INDEX, claim_class(claim))
            if volume.spec.claim_ref is None or refers_to(volume, claim)
        )

    # After the decision

    def assume_pod_volumes(self, pod_info: PodInfo, pod_volumes: PodVolumes) -> AssumedVolumes:
        """From now on count the volumes as bound and the nodes of the claims as selected."""
        for volume, claim in pod_volumes.static_bindings:
            self._assumed_volumes[volume.metadata.name] = object_key(claim.metadata)
        for claim in pod_volumes.dynamic_provisions:
            self._assumed_nodes[object_key(claim.metadata)] = pod_volumes.node_name
        self.version += 1
        return AssumedVolumes(pod_volumes, pod_info.pod.metadata.uid, {})

    def revert_assumed_pod_volumes(self, assumed_volumes: AssumedVolumes) -> None:
        """Release assumed bindings that were not written."""
        for volume, _claim in assumed_volumes.pod_volumes.static_bindings:
            self._assumed_volumes.pop(volume.metadata.name, None)
        for claim in assumed_volumes.pod_volumes.dynamic_provisions:
            self._assumed_nodes.pop(object_key(claim.metadata), None)
        self._on_change("", "")

    async def bind_api_update(self, assumed_volumes: AssumedVolumes) -> None:
        """Write volumes and claims. Raises API errors; earlier writes remain, and the next attempt finds them."""
        pod_volumes = assumed_volumes.pod_volumes
        for volume, claim in pod_volumes.static_bindings:
            name = volume.metadata.name
            raw = self._volumes.cache.raw(name)
            if raw is None:
                raise BindingError(f'failed to check binding: could not find v1.PersistentVolume "{name}"')
            body = bound_volume(Decoded(volume, raw), claim)
            if body is not None:
                record_decision(
                    f"reserving volume {name} for claim {object_key(claim.metadata)} of the pod, which goes to "
                    f"{pod_volumes.node_name}"
                )
                await self._client.update(PERSISTENT_VOLUMES.raw, name, body)
            assumed_volumes.written[object_key(claim.metadata)] = ""
        for claim in pod_volumes.dynamic_provisions:
            key, meta = object_key(claim.metadata), claim.metadata
            raw = self._claims.cache.raw(key)
            if raw is None:
                raise BindingError(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
            newest = decode_object(raw, PersistentVolumeClaim)
            version = newest.object.metadata.resource_version
            annotations = newest.object.metadata.annotations
            if annotations.get(SELECTED_NODE) != pod_volumes.node_name:
                record_decision(
                    f"claim {key} of the pod is to be provisioned for {pod_volumes.node_name}, the pod's node"
                )
                body = with_annotations(newest, {**annotations, SELECTED_NODE: pod_volumes.node_name})
                answer = await self._client.update(PERSISTENT_VOLUME_CLAIMS.raw, meta.name, body, meta.namespace)
                version = decode_object(bytes(answer), PersistentVolumeClaim).object.metadata.resource_version
            assumed_volumes.written[key] = version

    async def wait_for_bindings(
        self, assumed_volumes: AssumedVolumes, node: Callable[[], Node | None], desired: Callable[[], bool]
    ) -> None:
        """Return once all claims are bound. Raises ``BindingError`` if they will not be: the pod is not ``desired`` any
        more or was preempted, its node was deleted, the provisioner gave up, or it takes too long."""
        uid = assumed_volumes.uid
        activation = self._wakeups[uid] = asyncio.Event()
        for claim in assumed_volumes.written:
            self._waiting_pods.setdefault(claim, {})[uid] = None
        try:
            async with asyncio.timeout(BIND_SECONDS):
                while not self._check_bindings(assumed_volumes, node(), desired()):
                    activation.clear()
                    await activation.wait()
                    if uid in self._canceled:
                        raise BindingPreempted
        except TimeoutError:
            raise BindingError("context deadline exceeded") from None
        finally:
            del self._wakeups[uid]
            self._canceled.discard(uid)
            for claim in assumed_volumes.written:
                pods = self._waiting_pods[claim]
                del pods[uid]
                if not pods:
                    del self._waiting_pods[claim]

    def _check_bindings(self, assumed_volumes: AssumedVolumes, node: Node | None, desired: bool) -> bool:
        """Whether all claims are bound in the caches of the informers, without assumed bindings."""
        pod_volumes = assumed_volumes.pod_volumes
        if not desired:
            raise BindingError("pod does not exist any more")
        if node is None:
            name = quote(pod_volumes.node_name)
            raise BindingError(f"failed to get node {name}: node {name} not found")
        for key, version in assumed_volumes.written.items():
            claim = self._claims.cache.get(key)
            if claim is None:
                raise BindingError(f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"')
            if version:
                if is_newer(version, claim.metadata.resource_version):
                    return False  # the watch has not shown our write yet
                if claim.metadata.annotations.get(SELECTED_NODE) != pod_volumes.node_name:
                    # The provisioner removes the annotation when it cannot provision the volume for that node.
                    raise BindingError(f"provisioning failed for PVC {quote(claim.metadata.name)}")
            if not is_fully_bound(claim):
                return False
            volume = self._volumes.cache.get(claim.spec.volume_name)
            if volume is None:
                return False  # the watch has not shown it yet
            if not is_reachable(volume, node.metadata.labels):
                names = f"{quote(volume.metadata.name)} node affinity doesn't match node {quote(pod_volumes.node_name)}"
                raise BindingError(f"pv {names}: no matching NodeSelectorTerms")
        return True


def _validate_claim(claim: PersistentVolumeClaim | None, name: str, *, ephemeral: bool, pod_info: PodInfo) -> str:
    """Why the claim rejects the pod on all nodes, or an empty text (``podHasPVCs``)."""
    if claim is None:
        if ephemeral:
            return f"waiting for ephemeral volume controller to create the persistentvolumeclaim {quote(name)}"
        return f"persistentvolumeclaim {quote(name)} not found"
    if claim.status.phase == "Lost":
        volume = quote(claim.spec.volume_name)
        return f"persistentvolumeclaim {quote(name)} bound to non-existent persistentvolume {volume}"
    if claim.metadata.deletion_timestamp is not None:
        return f"persistentvolumeclaim {quote(name)} is being deleted"
    if ephemeral and not is_claim_for_pod(claim, pod_info.pod):
        meta = pod_info.pod.metadata
        return f"PVC {meta.namespace}/{name} was not created for pod {meta.namespace}/{meta.name} (pod is not owner)"
    return ""
