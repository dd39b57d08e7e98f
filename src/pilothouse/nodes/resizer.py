"""Simulated storage: a driver's resizer, for volumes that are nothing but their objects.

A bound claim that requests more is expanded: conditions, the volume's new capacity, the claim's, and the events in the
order of external-resizer v2 (``pkg/controller/{controller,expand_and_recover}.go``) for a driver without node
expansion. A client like any other; works with any API server.

Not simulated: file systems that have to grow on a node, how much room there is, classes of attributes.
"""

from typing import Any

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.storage import PERSISTENT_VOLUMES
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.times import format_time
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
from pilothouse.runtime.events import NORMAL
from pilothouse.semantics.volumes import capacity_now, capacity_of, request_of

_WORKERS = 4


class Resizer:
    """Serves the claims whose volumes are ``driver``'s."""

    def __init__(
        self, env: Env, driver: str, *, client: Client, informers: InformerFactory, log: Log | None = None
    ) -> None:
        self._env = env
        self._client = client
        self._driver = driver
        claims, volumes = informers.informer(PERSISTENT_VOLUME_CLAIMS), informers.informer(PERSISTENT_VOLUMES)
        self._waits_for = (claims, volumes)
        self._claims, self._volumes = claims.cache, volumes.cache
        self._recorder = EventRecorder(client, env, f"external-resizer {driver}")
        self._queue: WorkQueue[str] = WorkQueue(env, "resizer")
        self._pool = WorkerPool(
            "resizer",
            self._queue,
            self._sync,
            workers=_WORKERS,
            log=log or Log("resizer"),
            component="external-resizer",
        )
        claims.add_handler(
            lambda claim, _initial: self._on_update(claim),
            lambda _old, claim: self._on_update(claim),
            resync_seconds=0.0,
        )

    async def run(self) -> None:
        """Serve claims until cancelled."""
        async with TaskGroup("resizer") as group:
            group.start(self._recorder.run(), name="resizer events")
            for informer in self._waits_for:
                await informer.wait_synced()
            await self._pool.run()

    def _on_update(self, claim: PersistentVolumeClaim) -> None:
        if claim.status.phase == "Bound" and request_of(claim) > capacity_now(claim):
            self._queue.add(object_key(claim.metadata))

    async def _sync(self, key: str) -> Requeue | None:
        claim = self._claims.get(key)
        if claim is None or claim.status.phase != "Bound" or claim.metadata.deletion_timestamp is not None:
            return None
        if request_of(claim) <= capacity_now(claim):
            return None
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            raise RetryLater(f"volume {claim.spec.volume_name} is not known yet")
        reference, source = volume.spec.claim_ref, volume.spec.csi
        if source is None or source.driver != self._driver or reference is None:
            return None
        if reference.uid != claim.metadata.uid:
            return None
        size = claim.spec.resources.requests["storage"]
        now = capacity_now(claim)
        record_decision(f"claim {key} requests {size} and has {now} bytes: volume {claim.spec.volume_name} is resized")
        try:
            claim = await self._begin(claim, size)
            if capacity_of(volume) < request_of(claim):
                changes: dict[str, Any] = {"spec": {"capacity": {"storage": size}}}
                changes["metadata"] = {"resourceVersion": volume.metadata.resource_version}
                await self._client.patch(PERSISTENT_VOLUMES.raw, volume.metadata.name, merge_patch(changes))
            await self._finish(claim, size)
        except (Conflict, NotFound) as error:
            raise RetryLater(str(error)) from error
        return None

    async def _begin(self, claim: PersistentVolumeClaim, size: str) -> PersistentVolumeClaim:
        condition = {"type": "Resizing", "status": "True", "lastTransitionTime": format_time(self._env.now())}
        status = {
            "conditions": [condition],
            "allocatedResources": {"storage": size},
            "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
        }
        claim = await self._write(claim, status)
        self._record_event(claim, "Resizing", f"External resizer is resizing volume {claim.spec.volume_name}")
        return claim

    async def _finish(self, claim: PersistentVolumeClaim, size: str) -> None:
        status = {"conditions": None, "capacity": {"storage": size}, "allocatedResourceStatuses": None}
        claim = await self._write(claim, status)
        self._record_event(claim, "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _write(self, claim: PersistentVolumeClaim, status: dict[str, Any]) -> PersistentVolumeClaim:
        meta = claim.metadata
        patch = merge_patch({"metadata": {"resourceVersion": meta.resource_version}, "status": status})
        return await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, meta.name, patch, meta.namespace, subresource="status"
        )

    def _record_event(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        self._recorder.event(object_reference(PERSISTENT_VOLUME_CLAIMS, claim.metadata), NORMAL, reason, message)
