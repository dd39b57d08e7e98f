"""The event handlers for claims and volumes, and their syncs.

Two queues with one worker each, as upstream (v1.36 ``pkg/controller/volume/persistentvolume/pv_controller_base.go``):
concurrent syncs of two claims could bind both to one volume. They share the state in ``stores``.
"""

import asyncio

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, PersistentVolumeClaim
from pilothouse.api.storage import PERSISTENT_VOLUMES, STORAGE_CLASSES, PersistentVolume, StorageClass
from pilothouse.client.errors import ApiError, Conflict
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.pauses import pause
from pilothouse.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from pilothouse.controllers.shared.volume_links import Claim, Decoded, Volume, with_annotations
from pilothouse.controllers.shared.volume_plugins import HOST_PATH
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR, BinderOptions, links
from pilothouse.controllers.volumes.persistentvolume_binder.claims import (
    AssignDefaultStorageClass,
    Bind,
    ClaimEvent,
    InvalidClaim,
    MarkLost,
    Provision,
    StayPending,
    decide_claim,
)
from pilothouse.controllers.volumes.persistentvolume_binder.metrics import Metrics
from pilothouse.controllers.volumes.persistentvolume_binder.operations import Operation, Operations
from pilothouse.controllers.volumes.persistentvolume_binder.plugins import NoPluginError, provisioner_of
from pilothouse.controllers.volumes.persistentvolume_binder.provisioning import FAILED, Provisioning
from pilothouse.controllers.volumes.persistentvolume_binder.reclaiming import Reclaiming
from pilothouse.controllers.volumes.persistentvolume_binder.stores import ClaimStore, VolumeStore
from pilothouse.controllers.volumes.persistentvolume_binder.volumes import (
    EnqueueClaim,
    Reclaim,
    RecordModeMismatch,
    SetPhase,
    Unbind,
    decide_volume,
    is_released_or_failed,
    updated_deletion_finalizers,
    updated_migration_annotations,
)
from pilothouse.controllers.volumes.persistentvolume_binder.writes import Writes
from pilothouse.env import TaskGroup
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import quote
from pilothouse.runtime import ControllerContext, Requeue, RetryLater, WorkerPool, WorkQueue, object_key
from pilothouse.runtime.events import WARNING
from pilothouse.semantics.volumes import (
    BETA_STORAGE_PROVISIONER,
    MIGRATED_TO,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
    claim_class,
    default_class,
    has_ended,
)


class InvalidBinding(Exception):
    """Claim and volume refer to each other in contradictory ways; a user must resolve that."""


class BinderController:
    """Create it on the running loop."""

    name = DESCRIPTOR.name

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(BinderOptions)
        env, metrics, log = context.env, context.metrics, context.log
        self._options = options
        self._log = log
        self._claim_informer = context.informer(PERSISTENT_VOLUME_CLAIMS)
        self._volume_informer = context.informer(PERSISTENT_VOLUMES)
        classes = context.informer(STORAGE_CLASSES)
        pods = context.informer(PODS, indexes={CLAIM_INDEX: index_by_claim})
        nodes = context.informer(NODES)
        self._waits_for = context.awaited
        self._classes = classes.cache
        self._pods = pods.cache
        self._claims = ClaimStore(self._claim_informer.cache)
        self._volumes = VolumeStore(self._volume_informer.cache)
        self._writes = Writes(context.client, env, self._claims, self._volumes, log)
        self._metrics = Metrics(metrics, env, self._claims, self._volumes)
        self._operations = Operations(env, self.name, log)
        self._provisioning = Provisioning(env, self._writes, nodes.cache, host_paths=self._options.hostpath_provisioner)
        self._reclaiming = Reclaiming(self._writes, self._claims, self._pods, log)
        self._claim_queue: WorkQueue[str] = WorkQueue(env, "claims", metrics)
        self._volume_queue: WorkQueue[str] = WorkQueue(env, "volumes", metrics)
        self.pools = [
            WorkerPool(
                f"{self.name}-volumes",
                self._volume_queue,
                self._process_volume,
                metrics=metrics,
                log=log,
                component=self.name,
            ),
            WorkerPool(
                f"{self.name}-claims",
                self._claim_queue,
                self._process_claim,
                metrics=metrics,
                log=log,
                component=self.name,
            ),
        ]
        self._has_objects = asyncio.Event()
        """Set once there is a claim or a volume: until then there is nothing to resync."""
        on_any_event(self._claim_informer, lambda claim: self._enqueue(self._claim_queue, claim), 0.0)
        on_any_event(self._volume_informer, lambda volume: self._enqueue(self._volume_queue, volume), 0.0)

    async def run(self) -> None:
        self._log.info("Starting controller", controller=self.name)
        try:
            async with TaskGroup(self.name) as group:
                group.start(self._writes.recorder.run(), name=f"{self.name}-events")
                for informer in self._waits_for:
                    await informer.wait_synced()
                self._initialize_caches()
                self._log.info("Caches are synced", v=2, controller=self.name)
                for pool in (*self.pools, self._operations.pool):
                    group.start(pool.run(), name=pool.name)
                await self._resync()
        finally:
            self._metrics.stop()
            self._claim_queue.shut_down()
            self._volume_queue.shut_down()
            self._log.info("Stopped controller", controller=self.name)

    def _initialize_caches(self) -> None:
        """Fill the caches before the first sync: a volume must not be Released because its claim is not loaded yet."""
        for key in self._volume_informer.cache.snapshot():
            self._store_volume_update(key)
        for key in self._claim_informer.cache.snapshot():
            self._store_claim_update(key)

    async def _resync(self) -> None:
        """Enqueue everything periodically. It is the only trigger for a claim whose class or first consumer was just
        created."""
        while True:
            await self._has_objects.wait()
            claims, volumes = self._claim_informer.cache.list(), self._volume_informer.cache.list()
            for claim in claims:
                self._claim_queue.add(object_key(claim.metadata))
            for volume in volumes:
                self._volume_queue.add(object_key(volume.metadata))
            if not claims and not volumes:
                self._has_objects.clear()
            await asyncio.sleep(pause(self._options.sync_period))

    def _enqueue(self, queue: WorkQueue[str], obj: PersistentVolumeClaim | PersistentVolume) -> None:
        self._has_objects.set()
        queue.add(object_key(obj.metadata))

    def _store_claim_update(self, key: str) -> Claim | None:
        """Store the informer's object; None if the store has a newer one."""
        view, raw = self._claim_informer.cache.get(key), self._claim_informer.cache.raw(key)
        assert view is not None, "it is there"
        assert raw is not None, "what is written back whole is cached with its JSON"
        claim = Decoded(view, raw)
        return claim if self._claims.put(claim) else None

    def _store_volume_update(self, key: str) -> Volume | None:
        view, raw = self._volume_informer.cache.get(key), self._volume_informer.cache.raw(key)
        assert view is not None, "it is there"
        assert raw is not None, "what is written back whole is cached with its JSON"
        volume = Decoded(view, raw)
        return volume if self._volumes.put(volume) else None

    # State for decisions about a claim (``claims.ClaimContext``)

    def volume(self, name: str) -> PersistentVolume | None:
        volume = self._volumes.get(name)
        return volume.object if volume is not None else None

    def find_best_match_for_claim(self, claim: PersistentVolumeClaim, *, delayed: bool) -> PersistentVolume | None:
        return self._volumes.find_best_match_for_claim(claim, delayed=delayed)

    def storage_class(self, name: str) -> StorageClass | None:
        return self._classes.get(name)

    def default_class(self) -> StorageClass | None:
        return default_class(self._classes.list())

    def unscheduled_pods(self, claim: PersistentVolumeClaim) -> list[str]:
        pods = self._pods.by_index(CLAIM_INDEX, object_key(claim.metadata))
        return [pod.metadata.name for pod in pods if not pod.spec.node_name and not has_ended(pod)]

    # Claims

    async def _process_claim(self, key: str) -> Requeue | None:
        if self._claim_informer.cache.get(key) is None:
            self._delete_claim(key)
            return None
        claim = self._store_claim_update(key)
        if claim is None:
            return None
        try:
            await self._sync_claim(key, claim)
        except Conflict as error:
            # Another client wrote first; the cache will receive the result.
            raise RetryLater(str(error)) from error
        return None

    def _delete_claim(self, key: str) -> None:
        deleted = self._claims.drop(key)
        self._metrics.forget("provision", key)
        if deleted is not None and deleted.object.spec.volume_name:
            # Otherwise the volume would not be synced until the resync.
            self._volume_queue.add(deleted.object.spec.volume_name)

    async def _sync_claim(self, key: str, claim: Claim) -> None:
        annotations = claim.object.metadata.annotations
        provisioner = annotations.get(STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER))
        migrated = updated_migration_annotations(annotations, provisioner)
        if migrated is not None:
            record_decision(f"the provisioner of claim {key} has been migrated to a CSI driver")
            claim = await self._writes.update_claim(claim, with_annotations(claim, migrated))
        step = decide_claim(claim.object, self)
        match step:
            case Bind(volume=name):
                await self._bind(key, claim, name)
            case StayPending(event=event):
                self._record_event(claim, event)
                record_decision(f"claim {key} stays Pending: {event.message if event else 'no volume fits it yet'}")
                await self._writes.update_claim_status(claim, links.claim_phase(claim, "Pending"))
            case AssignDefaultStorageClass(name=name):
                await self._assign_default_storage_class(claim, name)
            case Provision():
                self._provision_claim(key, claim)
            case MarkLost(reason=reason, message=message):
                record_decision(f"claim {key} is Lost: {message}")
                if claim.object.status.phase != "Lost" and not await self._live_volume_exists(claim.object):
                    updated_claim = await self._writes.update_claim_status(claim, links.claim_phase(claim, "Lost"))
                    self._record_event(updated_claim, ClaimEvent(WARNING, reason, message))
            case InvalidClaim(event=event, error=error):
                self._record_event(claim, event)
                raise InvalidBinding(error)

    async def _live_volume_exists(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the live volume exists, and is not bound to another claim.

        The store may have started from an old list of volumes, and "data on the volume is lost" is final. Upstream
        (``syncBoundClaim``) only uses its cache.
        """
        name = claim.spec.volume_name
        volume = await self._writes.live_volume(name) if name else None
        if volume is None:
            return False
        reference = volume.object.spec.claim_ref
        if reference is not None and reference.uid != claim.metadata.uid:
            return False
        self._log.info(
            "Volume of a bound claim exists, but is not in the cache yet", v=2,
            PVC=object_key(claim.metadata), volumeName=name,
        )  # fmt: skip
        return True

    def _record_event(self, claim: Claim, event: ClaimEvent | None) -> None:
        if event is not None:
            self._writes.record_claim_event(claim.object, event.type, event.reason, event.message)

    async def _bind(self, key: str, claim: Claim, name: str) -> None:
        volume = self._volumes.get(name)
        assert volume is not None, "best_match found it in the store"
        record_decision(_binding_reason(key, claim.object, volume.object))
        try:
            await self._writes.bind(volume, claim)
        except (ApiError, OSError):
            self._metrics.fail("provision", key)
            raise
        self._metrics.end("provision", key)

    async def _assign_default_storage_class(self, claim: Claim, name: str) -> None:
        record_decision(f"the claim names no StorageClass, and {name} is the default")
        try:
            await self._writes.update_claim(claim, links.claim_with_class(claim, name))
        except (ApiError, OSError):
            self._metrics.retroactive_storage_class_errors.inc()
            raise
        self._metrics.retroactive_storage_class.inc()
        self._log.info(
            "Assigned default storage class to PersistentVolumeClaim", v=2,
            PVC=object_key(claim.object.metadata), storageClassName=name,
        )  # fmt: skip

    def _provision_claim(self, key: str, claim: Claim) -> None:
        if not self._options.dynamic_provisioning:
            return
        name = claim_class(claim.object)
        class_ = self._classes.get(name)
        try:
            if class_ is None:
                raise NoPluginError(f"storageclass.storage.k8s.io {quote(name)} not found")
            provisioner = provisioner_of(class_.provisioner)
        except NoPluginError as error:
            self._record_event(claim, ClaimEvent(WARNING, FAILED, str(error)))
            return

        async def provision() -> None:
            if not self._claim_informer.cache.still_has(claim.object.metadata):
                return  # it was deleted in the meantime
            self._metrics.begin("provision", key, provisioner)
            try:
                if provisioner == HOST_PATH:
                    await self._provisioning.provision_host_path(claim, class_)
                else:
                    await self._provisioning.provision_externally(claim, provisioner)
            except Exception:
                self._metrics.fail("provision", key)
                raise

        self._operations.begin(f"provision-{key}[{claim.object.metadata.uid}]", provision)

    # Volumes

    async def _process_volume(self, key: str) -> Requeue | None:
        if self._volume_informer.cache.get(key) is None:
            self._delete_volume(key)
            return None
        volume = self._store_volume_update(key)
        if volume is None:
            return None
        try:
            await self._sync_volume(volume)
        except Conflict as error:
            raise RetryLater(str(error)) from error
        return None

    def _delete_volume(self, key: str) -> None:
        deleted = self._volumes.drop(key)
        self._metrics.end("delete", key)
        reference = deleted.object.spec.claim_ref if deleted is not None else None
        if reference is not None:
            # Otherwise the claim would not become Lost until the resync.
            self._claim_queue.add(f"{reference.namespace}/{reference.name}")

    async def _sync_volume(self, volume: Volume) -> None:
        volume = await self._update_volume_migration_annotations_and_finalizers(volume)
        claim = await self._claim_of(volume.object)
        step = decide_volume(volume.object, claim)
        match step:
            case SetPhase(phase=phase):
                record_decision(f"the phase of volume {volume.object.metadata.name} is {phase}, by its claimRef")
                await self._writes.set_phase(volume, phase)
            case Reclaim(release=release):
                if release:
                    policy = volume.object.spec.persistent_volume_reclaim_policy
                    self._log.info(
                        "Volume is released and reclaim policy will be executed", v=2,
                        volumeName=volume.object.metadata.name, reclaimPolicy=policy,
                    )  # fmt: skip
                    name = volume.object.metadata.name
                    record_decision(f"the claim of volume {name} was deleted: Released, reclaim policy {policy}")
                    volume = await self._writes.set_phase(volume, "Released")
                await self._reclaim_volume(volume)
            case EnqueueClaim():
                assert claim is not None, "EnqueueClaim requires a claim"
                self._claim_queue.add(object_key(claim.metadata))
            case RecordModeMismatch():
                assert claim is not None, "RecordModeMismatch requires a claim"
                self._record_mode_mismatch(volume.object, claim)
            case Unbind():
                name = volume.object.metadata.name
                record_decision(f"the claim of volume {name} is bound to another volume: unbound")
                await self._writes.unbind(volume)

    async def _update_volume_migration_annotations_and_finalizers(self, volume: Volume) -> Volume:
        """Set the volume's ``migrated-to`` annotation and its finalizers
        (``updateVolumeMigrationAnnotationsAndFinalizers``)."""
        meta = volume.object.metadata
        annotations = updated_migration_annotations(meta.annotations, meta.annotations.get(PROVISIONED_BY))
        finalizers = updated_deletion_finalizers(volume.object)
        if annotations is None and finalizers == meta.finalizers:
            return volume
        body = links.with_finalizers(volume, finalizers, meta.annotations if annotations is None else annotations)
        record_decision(f"volume {meta.name} gets the finalizers of its reclaim policy, or the name of its CSI driver")
        return await self._writes.update_volume(volume, body)

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """The claim to which the volume is bound, None if it was deleted.

        Provisioners and the scheduler bind volumes, possibly before the cache has the claim. Before a volume is
        Released, which may delete it, the claim is read live.
        """
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        key = f"{reference.namespace}/{reference.name}"
        stored = self._claims.get(key)
        claim = stored.object if stored is not None else None
        if claim is None and not is_released_or_failed(volume):
            claim = self._claim_informer.cache.get(key) or await self._writes.live_claim(
                reference.namespace, reference.name
            )
        if claim is not None and claim.metadata.uid != reference.uid:
            # The claim was recreated, or the cached one is stale.
            claim = await self._writes.live_claim(reference.namespace, reference.name)
            if claim is not None and claim.metadata.uid != reference.uid:
                claim = None
        return claim

    def _record_mode_mismatch(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        reason, message = "VolumeMismatch", "due to incompatible volumeMode."
        text = f"Cannot bind PersistentVolume to requested PersistentVolumeClaim {quote(claim.metadata.name)} {message}"
        self._writes.record_volume_event(volume, WARNING, reason, text)
        text = (
            f"Cannot bind PersistentVolume {quote(volume.metadata.name)} to requested PersistentVolumeClaim {message}"
        )
        self._writes.record_claim_event(claim, WARNING, reason, text)

    async def _reclaim_volume(self, volume: Volume) -> None:
        meta = volume.object.metadata
        if meta.annotations.get(MIGRATED_TO):
            return  # its driver deletes it
        name, operation = meta.name, self._reclaiming.recycle
        match volume.object.spec.persistent_volume_reclaim_policy:
            case "Retain":
                return
            case "Delete":
                self._metrics.begin("delete", name, meta.annotations.get(PROVISIONED_BY, ""))
                self._operations.begin(f"delete-{name}[{meta.uid}]", self._delete_volume_operation(volume))
            case "Recycle":
                self._operations.begin(f"recycle-{name}[{meta.uid}]", lambda: operation(name))
            case _:
                text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
                record_decision(text)
                await self._writes.fail_volume(volume, "VolumeUnknownReclaimPolicy", text)

    def _delete_volume_operation(self, volume: Volume) -> Operation:
        async def delete() -> None:
            try:
                await self._reclaiming.delete(volume)
            except Exception:
                self._metrics.fail("delete", volume.object.metadata.name)
                raise

        return delete


def _binding_reason(key: str, claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    size, name = volume.spec.capacity.get("storage", "unknown size"), volume.metadata.name
    requested = claim.spec.resources.requests.get("storage", "any size")
    reference = volume.spec.claim_ref
    if reference is not None and reference.name:
        return f"volume {name} ({size}) was provisioned or reserved for claim {key}, which requests {requested}"
    return f"volume {name} ({size}) is the smallest that fits claim {key}, which requests {requested}"


build = BinderController
