"""The binder's requests. Results of writes are in the store when the call returns. All raise the API server's
errors."""

from typing import Any, TypeVar

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.kinds import Kind
from pilothouse.api.storage import PERSISTENT_VOLUMES, PersistentVolume
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.controllers.shared.volume_links import Claim, Decoded, Volume, bound_volume, decode_object
from pilothouse.controllers.volumes.persistentvolume_binder import links
from pilothouse.controllers.volumes.persistentvolume_binder.stores import ClaimStore, Store, VolumeStore
from pilothouse.env import Env, Log
from pilothouse.runtime import EventRecorder, object_reference
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

COMPONENT = "persistentvolume-controller"
"""The component of upstream's events."""


class Writes:
    """``recorder`` must run."""

    def __init__(self, client: Client, env: Env, claims: ClaimStore, volumes: VolumeStore, log: Log) -> None:
        self._client = client
        self._claims = claims
        self._volumes = volumes
        self._log = log
        self.recorder = EventRecorder(client, env, COMPONENT)

    # Events

    def record_claim_event(self, claim: PersistentVolumeClaim, type_: str, reason: str, message: str) -> None:
        self.recorder.event(object_reference(PERSISTENT_VOLUME_CLAIMS, claim.metadata), type_, reason, message)

    def record_volume_event(self, volume: PersistentVolume, type_: str, reason: str, message: str) -> None:
        self.recorder.event(object_reference(PERSISTENT_VOLUMES, volume.metadata), type_, reason, message)

    # Live reads

    async def live_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """The live claim, None if it does not exist."""
        try:
            return await self._client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        except NotFound:
            return None

    async def live_volume(self, name: str) -> Volume | None:
        """The live volume, None if it does not exist."""
        try:
            raw = await self._client.get(PERSISTENT_VOLUMES.raw, name)
        except NotFound:
            return None
        return decode_object(bytes(raw), PersistentVolume)

    # Volumes

    async def update_volume(self, volume: Volume, body: bytes | None) -> Volume:
        """Write the volume if it differs. Returns the result."""
        return await self._update(PERSISTENT_VOLUMES, self._volumes, volume, body)

    async def set_phase(self, volume: Volume, phase: str, message: str = "") -> Volume:
        body = links.volume_phase(volume, phase, message)
        written = await self._update(PERSISTENT_VOLUMES, self._volumes, volume, body, "status")
        if body is not None:
            self._log.info("Volume entered phase", v=2, volumeName=volume.object.metadata.name, phase=phase)
        return written

    async def fail_volume(self, volume: Volume, reason: str, message: str) -> None:
        """Set the volume's phase to Failed with the message and record an event, unless it is Failed already
        (``updateVolumePhaseWithEvent``)."""
        if volume.object.status.phase != "Failed":
            written = await self.set_phase(volume, "Failed", message)
            self.record_volume_event(written.object, "Warning", reason, message)

    async def unbind(self, volume: Volume) -> None:
        """Remove the claimRef and make the volume Available."""
        unbound = await self.update_volume(volume, links.unbound_volume(volume))
        await self.set_phase(unbound, "Available")

    async def create_volume(self, body: dict[str, Any]) -> None:
        raw = await self._client.create(PERSISTENT_VOLUMES.raw, body)
        self._volumes.put_written(decode_object(bytes(raw), PersistentVolume))

    async def delete_volume(self, name: str) -> None:
        await self._client.delete(PERSISTENT_VOLUMES, name)

    # Claims

    async def update_claim(self, claim: Claim, body: bytes | None) -> Claim:
        """Write the claim if it differs. Returns the result."""
        return await self._update(PERSISTENT_VOLUME_CLAIMS, self._claims, claim, body)

    async def update_claim_status(self, claim: Claim, body: bytes | None) -> Claim:
        return await self._update(PERSISTENT_VOLUME_CLAIMS, self._claims, claim, body, "status")

    # Both

    async def bind(self, volume: Volume, claim: Claim) -> None:
        """Bind the two, in four writes, each omitted if it would change nothing.

        The volume is first: the resourceVersion in its write keeps two claims from getting one volume.
        """
        volume = await self.update_volume(volume, bound_volume(volume, claim.object))
        volume = await self.set_phase(volume, "Bound")
        claim = await self.update_claim(claim, links.bound_claim(claim, volume.object))
        await self.update_claim_status(claim, links.bound_status(claim, volume.object))

    async def _update(
        self, kind: Kind[T], store: Store[T], existing: Decoded[T], body: bytes | None, subresource: str = ""
    ) -> Decoded[T]:
        if body is None:
            return existing
        meta = existing.object.metadata
        raw = await self._client.update(kind.raw, meta.name, body, meta.namespace, subresource=subresource)
        written = decode_object(bytes(raw), kind.view)
        store.put_written(written)
        return written
