"""Simulated storage: a provisioner as those of CSI drivers are, for volumes that are nothing but their objects.

It creates a volume for each claim that the binder requests, immediately or on the node that the scheduler has selected,
and deletes released volumes with policy Delete. Requests, names, annotations, the finalizer and the events are those of
sig-storage-lib-external-provisioner v13 (``controller/controller.go``) and external-provisioner v6. A client like any
other; works with any API server.

``driver`` puts it together with the other parts of a driver. Not simulated: how much room there is, copies of snapshots
and other claims.
"""

import asyncio
from typing import Any

import msgspec

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.storage import (
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    PersistentVolume,
    StorageClass,
    VolumeAttachment,
)
from pilothouse.client import Client
from pilothouse.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from pilothouse.controllers.shared.volume_links import Decoded, decode_object, with_annotations
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.causes import begin_sync, record_decision
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import (
    EventRecorder,
    InformerFactory,
    Requeue,
    RetryLater,
    WorkerPool,
    WorkQueue,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.attachments import BY_VOLUME, index_by_volume
from pilothouse.semantics.volumes import (
    BETA_STORAGE_PROVISIONER,
    DEFAULT_CLASS,
    EXTERNAL_FINALIZER,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    claim_class,
    waits_for_consumer,
)

PROVISIONER = "simulated.pilothouse.dev"
"""The provisioner of StorageClasses, and the CSI driver of the volumes."""
CLASS = "standard"
HOSTNAME = "kubernetes.io/hostname"
_WORKERS = 8
_CLAIM, _VOLUME = "claim", "volume"
_json = msgspec.json.Encoder().encode
Key = tuple[str, str]


def default_class() -> dict[str, Any]:
    """The default class."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }


def volume_for(
    claim: PersistentVolumeClaim, class_: StorageClass, topology: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """The volume for a claim. ``topology`` are the terms of which a node must match one to use it."""
    spec, meta = claim.spec, claim.metadata
    name = f"pvc-{meta.uid}"
    metadata: dict[str, Any] = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
    if class_.reclaim_policy == "Delete":
        # So that the storage is deleted with the object, in whichever order both are deleted.
        metadata["finalizers"] = [EXTERNAL_FINALIZER]
    volume_spec: dict[str, Any] = {
        "capacity": {"storage": spec.resources.requests["storage"]},
        "accessModes": list(spec.access_modes),
        "claimRef": object_reference(PERSISTENT_VOLUME_CLAIMS, meta),
        "persistentVolumeReclaimPolicy": class_.reclaim_policy,
        "storageClassName": claim_class(claim),
        "volumeMode": spec.volume_mode or "Filesystem",
        "csi": {"driver": PROVISIONER, "volumeHandle": name, "volumeAttributes": dict(class_.parameters)},
    }
    if not class_.parameters:
        del volume_spec["csi"]["volumeAttributes"]
    if class_.mount_options:
        volume_spec["mountOptions"] = list(class_.mount_options)
    if spec.volume_attributes_class_name:
        volume_spec["volumeAttributesClassName"] = spec.volume_attributes_class_name
    if topology:
        volume_spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": topology}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": volume_spec}


class Provisioner:
    """Creates and deletes volumes of ``PROVISIONER``, and creates a default class at the start."""

    def __init__(self, env: Env, *, client: Client, informers: InformerFactory, log: Log | None = None) -> None:
        self._client = client
        self._log = log or Log("provisioner")
        self._claims = informers.informer(PERSISTENT_VOLUME_CLAIMS, keep_raw=True)
        self._volumes = informers.informer(PERSISTENT_VOLUMES, keep_raw=True)
        self._classes = informers.informer(STORAGE_CLASSES)
        self._nodes = informers.informer(NODES)
        self._attachments = informers.informer(VOLUME_ATTACHMENTS)
        self._attachments.cache.add_index(BY_VOLUME, index_by_volume)
        self._recorder = EventRecorder(client, env, f"{PROVISIONER}_pilothouse")
        self.ready = asyncio.Event()
        """Set once there is a default class."""
        self._queue: WorkQueue[Key] = WorkQueue(env, "provisioner")
        self._pool = WorkerPool(
            "provisioner", self._queue, self._sync, workers=_WORKERS, log=self._log, component="external-provisioner"
        )
        self._claims.add_handler(
            lambda claim, _initial: self._queue.add((_CLAIM, object_key(claim.metadata))),
            lambda _old, claim: self._queue.add((_CLAIM, object_key(claim.metadata))),
        )
        self._volumes.add_handler(
            lambda volume, _initial: self._queue.add((_VOLUME, volume.metadata.name)),
            lambda _old, volume: self._queue.add((_VOLUME, volume.metadata.name)),
        )
        self._attachments.add_handler(on_delete=lambda attachment, _unknown: self._detached(attachment))

    def _detached(self, attachment: VolumeAttachment) -> None:
        for name in index_by_volume(attachment):
            self._queue.add((_VOLUME, name))

    async def run(self) -> None:
        """Serve claims until cancelled."""
        async with TaskGroup("provisioner") as group:
            group.start(self._recorder.run(), name="provisioner events")
            for informer in (self._claims, self._volumes, self._classes, self._nodes, self._attachments):
                await informer.wait_synced()
            await self._create_default_class()
            self.ready.set()
            await self._pool.run()

    async def _create_default_class(self) -> None:
        """Only at the start: an administrator may delete it or make another one the default."""
        if self._classes.cache.list():
            return
        begin_sync("external-provisioner", PROVISIONER)
        record_decision("there is no StorageClass at the start: the default one is created")
        try:
            await self._client.create(STORAGE_CLASSES.raw, default_class())
        except AlreadyExists:
            return
        except (ApiError, OSError) as error:
            self._log.error("Failed to create the default StorageClass", error=error)

    async def _sync(self, key: Key) -> Requeue | None:
        what, name = key
        try:
            if what == _CLAIM:
                await self._sync_claim(name)
            else:
                await self._sync_volume(name)
        except Conflict as error:
            raise RetryLater(str(error)) from error
        except NotFound:
            return None
        return None

    # Claims

    async def _sync_claim(self, key: str) -> None:
        claim = self._claims.cache.get(key)
        if claim is None or not self._should_provision(claim) or f"pvc-{claim.metadata.uid}" in self._volumes.cache:
            return
        class_ = self._classes.cache.get(claim_class(claim))
        if class_ is None or class_.provisioner != PROVISIONER:
            return
        chosen = claim.metadata.annotations.get(SELECTED_NODE, "")
        if waits_for_consumer(class_) and not chosen:
            return
        self._record_event(
            claim, NORMAL, "Provisioning", f"External provisioner is provisioning volume for claim {quote(key)}"
        )
        if chosen and self._nodes.cache.get(chosen) is None:
            await self._reschedule(claim, class_, chosen)
            return
        body = volume_for(claim, class_, self._topology(class_, chosen))
        suffix = f" for {chosen}, which the scheduler chose" if chosen else ""
        record_decision(f"claim {key} is provisioned by {PROVISIONER}, StorageClass {class_.metadata.name}{suffix}")
        try:
            await self._client.create(PERSISTENT_VOLUMES.raw, body)
        except AlreadyExists:
            return
        name = body["metadata"]["name"]
        self._record_event(claim, NORMAL, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _should_provision(self, claim: PersistentVolumeClaim) -> bool:
        annotations = claim.metadata.annotations
        wanted = annotations.get(STORAGE_PROVISIONER, annotations.get(BETA_STORAGE_PROVISIONER))
        return wanted == PROVISIONER and not claim.spec.volume_name and claim.metadata.deletion_timestamp is None

    def _topology(self, class_: StorageClass, chosen: str) -> list[dict[str, Any]] | None:
        """From which nodes the volume is accessible: the selected node, like a local disk; else those of the class."""
        if chosen:
            node = self._nodes.cache.get(chosen)
            hostname = node.metadata.labels.get(HOSTNAME, chosen) if node is not None else chosen
            return [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [hostname]}]}]
        return [
            {
                "matchExpressions": [
                    {"key": requirement.key, "operator": "In", "values": list(requirement.values)}
                    for requirement in term.match_label_expressions
                ]
            }
            for term in class_.allowed_topologies
        ] or None

    async def _reschedule(self, claim: PersistentVolumeClaim, class_: StorageClass, chosen: str) -> None:
        """The selected node was deleted: let the scheduler select another one."""
        why = f"failed to get target node: node {quote(chosen)} not found"
        text = f"failed to provision volume with StorageClass {quote(class_.metadata.name)}: {why}"
        self._record_event(claim, WARNING, "ProvisioningFailed", text)
        raw = self._claims.cache.raw(object_key(claim.metadata))
        if raw is not None:
            left = {key: value for key, value in claim.metadata.annotations.items() if key != SELECTED_NODE}
            body = with_annotations(Decoded(claim, raw), left)
            meta = claim.metadata
            record_decision(f"{text}: the scheduler is to choose another one")
            await self._client.update(PERSISTENT_VOLUME_CLAIMS.raw, meta.name, body, meta.namespace)

    def _record_event(self, claim: PersistentVolumeClaim, type_: str, reason: str, message: str) -> None:
        self._recorder.event(object_reference(PERSISTENT_VOLUME_CLAIMS, claim.metadata), type_, reason, message)

    # Volumes

    async def _sync_volume(self, name: str) -> None:
        volume, raw = self._volumes.cache.get(name), self._volumes.cache.raw(name)
        if volume is None or raw is None or volume.metadata.annotations.get(PROVISIONED_BY) != PROVISIONER:
            return
        meta = volume.metadata
        protected, going = EXTERNAL_FINALIZER in meta.finalizers, meta.deletion_timestamp is not None
        delete = volume.spec.persistent_volume_reclaim_policy == "Delete"
        if delete and volume.status.phase == "Released" and (protected or not going):
            if self._attachments.cache.by_index(BY_VOLUME, name):
                return  # an attached volume is not deleted; there will be an event when it is detached
            record_decision(
                f"volume {name} is released, reclaim policy Delete, and attached nowhere: its storage is deleted"
            )
            if not going:
                await self._client.delete(PERSISTENT_VOLUMES, name)
            await self._release(name)
        elif delete and not protected and not going:
            record_decision(f"volume {name} has reclaim policy Delete: it gets the finalizer {EXTERNAL_FINALIZER}")
            await self._set_finalizers(Decoded(volume, raw), (*meta.finalizers, EXTERNAL_FINALIZER))
        elif not delete and protected:
            record_decision(
                f"volume {name} is not to be deleted with its claim: its finalizer {EXTERNAL_FINALIZER} is removed"
            )
            await self._set_finalizers(Decoded(volume, raw), _without(meta.finalizers))

    async def _release(self, name: str) -> None:
        """The storage is deleted; remove this program's finalizer."""
        answer = await self._client.get(PERSISTENT_VOLUMES.raw, name)
        newest = decode_object(bytes(answer), PersistentVolume)
        finalizers = newest.object.metadata.finalizers
        if EXTERNAL_FINALIZER in finalizers:
            await self._set_finalizers(newest, _without(finalizers))

    async def _set_finalizers(self, volume: Decoded[PersistentVolume], finalizers: tuple[str, ...]) -> None:
        body = replace_fields(volume.raw, {"metadata.finalizers": _json(finalizers)})
        await self._client.update(PERSISTENT_VOLUMES.raw, volume.object.metadata.name, body)


def _without(finalizers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(finalizer for finalizer in finalizers if finalizer != EXTERNAL_FINALIZER)
