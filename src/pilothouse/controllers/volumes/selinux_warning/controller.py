"""Syncs a pod when it is added, finishes or is deleted, when a claim of it is bound, and when its CSIDriver changes.

All reads are from caches, so a sync never waits; the only writes are events.
"""

import asyncio

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, PersistentVolumeClaim
from pilothouse.api.storage import CSI_DRIVERS, PERSISTENT_VOLUMES, PersistentVolume
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from pilothouse.controllers.volumes.selinux_warning import DESCRIPTOR
from pilothouse.controllers.volumes.selinux_warning.decide import (
    Conflict,
    decide,
    message_of,
    mixed_labels_message,
    mounts_with_label,
    reason_of,
)
from pilothouse.controllers.volumes.selinux_warning.views import MOUNTING_PODS, MountingPod
from pilothouse.controllers.volumes.selinux_warning.volume_cache import VolumeCache
from pilothouse.machinery.names import split_key
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import NORMAL, WARNING

COMPONENT = "selinux_warning"


class SELinuxWarningController(ManagedController):
    """Keys of the queue are pods, and names of CSI drivers, which contain no slash."""

    def __init__(self, context: ControllerContext) -> None:
        pods = context.informer(MOUNTING_PODS, indexes={CLAIM_INDEX: index_by_claim})
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        volumes = context.informer(PERSISTENT_VOLUMES)
        drivers = context.informer(CSI_DRIVERS)
        super().__init__(context, DESCRIPTOR.name, queue_name="selinux_warning")
        self._pods = pods.cache
        self._claims = claims.cache
        self._volumes = volumes.cache
        self._drivers = drivers.cache
        self._volume_cache = VolumeCache()
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        self._metrics = context.metrics
        self._conflicts = context.metrics.gauge(
            "selinux_warning_controller_selinux_volume_conflict",
            "[ALPHA] Conflict between two Pods using the same volume",
            ("property", "pod1_namespace", "pod1_name", "pod1_value", "pod2_namespace", "pod2_name", "pod2_value"),
        )
        self.add_runnable("metrics", self._register_metric)
        pods.add_handler(
            lambda pod, _initial: self.queue.add(object_key(pod.metadata)),
            self._update_pod,
            lambda pod, _unknown: self.queue.add(object_key(pod.metadata)),
            resync_seconds=0.0,
        )
        claims.add_handler(lambda claim, _initial: self._add_pvc(claim), self._update_pvc, resync_seconds=0.0)
        volumes.add_handler(lambda volume, _initial: self._add_pv(volume), self._update_pv, resync_seconds=0.0)
        on_any_event(drivers, lambda driver: self.queue.add(driver.metadata.name), 0.0)

    # Event handlers

    def _update_pod(self, old: MountingPod, new: MountingPod) -> None:
        previous, after = old.metadata.uid, new.metadata.uid
        if previous != after or _has_ended(old) != _has_ended(new) or old.spec != new.spec:
            self.queue.add(object_key(new.metadata))

    def _add_pvc(self, claim: PersistentVolumeClaim) -> None:
        if claim.spec.volume_name:
            self._enqueue_all_pods_for_pvc(object_key(claim.metadata))

    def _update_pvc(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        if _bound_volume(old) != _bound_volume(new):
            self._add_pvc(new)

    def _add_pv(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid:
            self._enqueue_all_pods_for_pvc(f"{reference.namespace}/{reference.name}")

    def _update_pv(self, old: PersistentVolume, new: PersistentVolume) -> None:
        if old.metadata.uid != new.metadata.uid or _owner(old) != _owner(new):
            self._add_pv(new)

    def _enqueue_all_pods_for_pvc(self, claim: str) -> None:
        for pod in self._pods.by_index(CLAIM_INDEX, claim):
            self.queue.add(object_key(pod.metadata))

    # Sync

    async def reconcile(self, key: str) -> Requeue | None:
        """Update the volume cache for the pod or the driver, and record events for new conflicts."""
        for conflict in self._sync_pod(key) if "/" in key else self._sync_csi_driver(key):
            self._record_event(conflict)
        return None

    def _sync_csi_driver(self, name: str) -> list[Conflict]:
        return self._volume_cache.set_driver_support(name, mounts=mounts_with_label(self._drivers.get(name)))

    def _sync_pod(self, key: str) -> list[Conflict]:
        pod = self._pods.get(key)
        if pod is None or _has_ended(pod):
            self._volume_cache.delete_pod(key)
            return []
        used = decide(pod, self._claims.get, self._volumes.get)
        if used.unbound:
            # The event of the missing claim or volume enqueues the pod again.
            self.log.info("Volumes are not bound yet", v=4, pod=key, volumes=", ".join(used.unbound))
        for name in used.mixed:
            reference = object_reference(PODS, pod.metadata)
            self._recorder.event(reference, WARNING, "MultipleSELinuxLabels", mixed_labels_message(name))
        return self._volume_cache.add_volumes(key, pod.metadata.uid, used.uses, complete=not used.unbound)

    def _record_event(self, conflict: Conflict) -> None:
        pod = self._pods.get(conflict.pod)
        # A deleted pod gets no event, and one that replaced it has its own sync. (Upstream records it on the latter,
        # and skips the remaining conflicts because of the former.)
        if pod is not None and pod.metadata.uid == self._volume_cache.uid_of(conflict.pod):
            reference = object_reference(PODS, pod.metadata)
            self._recorder.event(reference, NORMAL, reason_of(conflict), message_of(conflict))

    async def _register_metric(self) -> None:
        """Report the conflicts at collection, as long as the controller runs."""
        show = self._conflicts.show
        stop = self._metrics.on_collect(lambda: show(dict.fromkeys(map(_labels, self._volume_cache.conflicts()), 1.0)))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stop()
            show({})


def _has_ended(pod: MountingPod) -> bool:
    """Whether its kubelet is unmounting, or has unmounted, its volumes."""
    return pod.status.phase in ("Succeeded", "Failed")


def _bound_volume(claim: PersistentVolumeClaim) -> tuple[str, str, bool]:
    return claim.metadata.uid, claim.spec.volume_name, claim.status.phase == "Bound"


def _owner(volume: PersistentVolume) -> str:
    return volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""


def _labels(conflict: Conflict) -> tuple[str, ...]:
    pod, other_pod = split_key(conflict.pod), split_key(conflict.other)
    return (conflict.property_name, *pod, conflict.value, *other_pod, conflict.other_value)


build = SELinuxWarningController
