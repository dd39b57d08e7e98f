"""The requests for claims: allocation and reservation before the pod is bound, and undoing them.

As kube-scheduler v1.36 ``plugins/dynamicresources/dynamicresources.go`` (``PreBind``, ``bindClaim``, ``Unreserve``,
``PostFilter``) and ``extendeddynamicresources.go``, with the same requests. Objects are written whole, as JSON.
"""

import asyncio
import contextlib
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pilothouse.api.core import PODS
from pilothouse.api.resource import RESOURCE_CLAIMS, AllocationResult, ConsumerReference, ResourceClaim
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.decode import Decoders
from pilothouse.client.errors import ApiError, Conflict, UndecodableObject
from pilothouse.env import Env, Log
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import Json, replace_fields, take_field, without_managed_fields
from pilothouse.runtime import EventRecorder, object_reference
from pilothouse.scheduler.plugins.dynamic_resources import ClaimBindingError
from pilothouse.scheduler.plugins.dynamic_resources.binding_conditions import (
    BINDING_SECONDS,
    DeviceBindingFailed,
    has_binding_conditions,
    is_claim_timeout,
    is_ready_for_binding,
)
from pilothouse.scheduler.plugins.dynamic_resources.dra_manager import DecodedClaim, DRAManager
from pilothouse.scheduler.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME
from pilothouse.scheduler.plugins.dynamic_resources.pod_claims import NodeAllocation, PodClaims
from pilothouse.semantics.devices import ALLOCATION_FINALIZER, is_reserved_for

_ATTEMPTS, _RETRY_SECONDS = 5, 0.01
"""After conflicts (client-go's ``retry.DefaultRetry``)."""
_POLL_SECONDS = 5.0
_DEALLOCATED: dict[str, Json | None] = {
    "status.allocation": None,
    "status.reservedFor": None,
    "status.devices": None,
}
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
STILL_NOT_SCHEDULABLE = "still not schedulable"

_encode = msgspec.json.Encoder().encode
_users = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decoders = Decoders(ResourceClaim)


class ClaimBinding:
    """The allocations of one pod for one node, from its decision until it is bound (``reserve`` … ``bind``) or not
    (``unreserve``)."""

    def __init__(
        self,
        env: Env,
        client: Client,
        manager: DRAManager,
        recorder: EventRecorder,
        log: Log,
        pod_claims: PodClaims,
        node_name: str,
    ) -> None:
        self._env = env
        self._client = client
        self._manager = manager
        self._recorder = recorder
        self._log = log
        self._pod = pod_claims.pod_info.pod
        self._node_name = node_name
        self._claims = list(pod_claims.claims)
        self._extended_index = pod_claims.extended_index
        self._of_node = pod_claims.allocation(node_name) or NodeAllocation()
        self._new = pod_claims.new_allocations(node_name)
        self._uids = {index: self._claims[index].metadata.uid for index in self._new}

    def reserve(self) -> None:
        """From now on the devices are not available to other pods."""
        for index, allocation in self._new.items():
            self._manager.put_pending(self._uids[index], allocation)

    async def bind(self, is_desired: Callable[[], bool]) -> None:
        """Write allocations and reservations, and wait for binding conditions while the pod ``is_desired``. Raises
        ``ClaimBindingError``."""
        for index, claim in enumerate(self._claims):
            if not is_reserved_for(self._pod, claim):
                try:
                    await self._bind_claim(index)
                finally:
                    if index in self._uids:
                        self._manager.remove_pending(self._uids[index])
        if any(map(has_binding_conditions, self._claims)):
            self._recorder.event(
                object_reference(PODS, self._pod.metadata),
                "Normal",
                "BindingConditionsPending",
                f"waiting for binding conditions for device on node {self._node_name}",
            )
            await self._wait_for_binding_conditions(is_desired)

    async def _bind_claim(self, index: int) -> None:
        claim, allocation = self._claims[index], self._new.get(index)
        is_extended = index == self._extended_index
        if is_extended and allocation is None and not claim.spec.devices.requests:
            return  # the node has all extended resources itself
        if is_extended and claim.metadata.name == IN_MEMORY_NAME:
            decoded = await self._create_extended_claim()
            self._manager.assume(decoded, created=True)
            self._claims[index] = decoded.claim
            if allocation is not None:
                # The claim has a uid of its own now.
                self._manager.put_pending(decoded.claim.metadata.uid, allocation)
                self._manager.remove_pending(self._uids[index])
                self._uids[index] = decoded.claim.metadata.uid
        else:
            found = self._manager.decoded(claim)
            if found is None:
                raise ClaimBindingError(f'resourceclaims.resource.k8s.io "{claim.metadata.name}" not found')
            decoded = found
        key = f"{claim.metadata.namespace}/{decoded.claim.metadata.name}"
        for attempt in range(_ATTEMPTS):
            try:
                decoded = await self._write(decoded, key, allocation)
                break
            except Conflict as error:
                if attempt == _ATTEMPTS - 1:
                    action = "add allocation and reservation" if allocation is not None else "add reservation"
                    raise ClaimBindingError(f"{action} to claim {key}: {error}") from error
                await asyncio.sleep(_RETRY_SECONDS)
                decoded = await self._get(decoded.claim, key)
        self._manager.assume(decoded)
        self._claims[index] = decoded.claim
        if is_extended:
            await self._patch_pod_status(decoded.claim)

    async def _write(self, decoded: DecodedClaim, key: str, allocation: AllocationResult | None) -> DecodedClaim:
        """Add the finalizer, allocation and reservation that the claim lacks. Raises ``Conflict``."""
        claim, pod = decoded.claim, self._pod.metadata
        meta = claim.metadata
        if meta.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {key} got deleted in the meantime")
        if allocation is not None:
            if claim.status.allocation is not None:
                raise ClaimBindingError(f"claim {key} got allocated elsewhere in the meantime")
            if ALLOCATION_FINALIZER not in meta.finalizers:
                record_decision(f"claim {key} is about to be allocated for pod {pod.name}: it is protected first")
                body = replace_fields(
                    decoded.raw, {"metadata.finalizers": _encode([*meta.finalizers, ALLOCATION_FINALIZER])}
                )
                decoded = await self._send(f"add finalizer to claim {key}", claim, body)
                claim = decoded.claim
        elif claim.status.allocation is None:
            raise ClaimBindingError(f"claim {key} got deallocated elsewhere in the meantime")
        changes = self._status_changes(decoded, allocation)
        action = "add allocation and reservation" if allocation is not None else "add reservation"
        record_decision(f"claim {key} is used by pod {pod.name} on node {self._node_name}")
        return await self._send(
            f"{action} to claim {key}", claim, replace_fields(decoded.raw, changes), subresource="status"
        )

    def _status_changes(self, decoded: DecodedClaim, allocation: AllocationResult | None) -> dict[str, Json | None]:
        users = take_field(decoded.raw, "status.reservedFor")
        pod = self._pod.metadata
        user = ConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        present = _users(users) if users is not None else []
        changes: dict[str, Json | None] = {"status.reservedFor": _encode([*present, user])}
        now = self._env.now().replace(microsecond=0)
        if allocation is not None:
            changes["status.allocation"] = _encode(msgspec.structs.replace(allocation, allocation_timestamp=now))
        else:
            current, raw = decoded.claim.status.allocation, take_field(decoded.raw, "status.allocation")
            if current is not None and current.allocation_timestamp is None and raw is not None:
                changes["status.allocation"] = replace_fields(raw, {"allocationTimestamp": _encode(now)})
        return changes

    async def _send(self, action: str, claim: ResourceClaim, body: bytes, *, subresource: str = "") -> DecodedClaim:
        """Replace the claim. Raises ``Conflict`` and ``ClaimBindingError``."""
        meta = claim.metadata
        try:
            raw = await self._client.update(
                RESOURCE_CLAIMS.raw, meta.name, body, meta.namespace, subresource=subresource
            )
        except Conflict:
            raise
        except (ApiError, OSError) as error:
            raise ClaimBindingError(f"{action}: {error}") from error
        return _decoded(raw)

    async def _get(self, claim: ResourceClaim, key: str) -> DecodedClaim:
        try:
            return _decoded(await self._client.get(RESOURCE_CLAIMS.raw, claim.metadata.name, claim.metadata.namespace))
        except (ApiError, OSError) as error:
            raise ClaimBindingError(f"get updated claim {key} after conflict: {error}") from error

    # Extended resources

    async def _create_extended_claim(self) -> DecodedClaim:
        claim = self._of_node.extended_claim
        if claim is None:
            raise ClaimBindingError(f"extended resource claim not found for node {self._node_name}")
        meta = msgspec.structs.replace(claim.metadata, name="", uid="")
        body = msgspec.to_builtins(ResourceClaim(metadata=meta, spec=claim.spec))
        record_decision(f"extended resources of pod {self._pod.metadata.name} are devices on node {self._node_name}")
        try:
            return _decoded(await self._client.create(RESOURCE_CLAIMS.raw, body, meta.namespace))
        except (ApiError, OSError) as error:
            raise ClaimBindingError(f"create claim for extended resources {meta.namespace}/: {error}") from error

    async def _patch_pod_status(self, claim: ResourceClaim) -> None:
        meta, mappings = self._pod.metadata, self._of_node.mappings
        if not mappings:
            raise ClaimBindingError(
                f"nil or empty request mappings, no update of pod {meta.namespace}/{meta.name} "
                "ExtendedResourceClaimStatus"
            )
        status = {"requestMappings": msgspec.to_builtins(mappings), "resourceClaimName": claim.metadata.name}
        patch: dict[str, Any] = {
            "metadata": {"uid": meta.uid},
            "status": {"extendedResourceClaimStatus": status},
        }
        try:
            await self._client.patch(
                PODS.raw, meta.name, strategic_merge_patch(patch), meta.namespace, subresource="status"
            )
        except (ApiError, OSError) as error:
            raise ClaimBindingError(
                f"update pod {meta.namespace}/{meta.name} ExtendedResourceClaimStatus: {error}"
            ) from error

    # Binding conditions

    async def _wait_for_binding_conditions(self, is_desired: Callable[[], bool]) -> None:
        uid, canceled = self._pod.metadata.uid, asyncio.Event()
        self._manager.waiting_pods[uid] = canceled
        try:
            async with asyncio.timeout(BINDING_SECONDS):
                while not self._is_ready(self._env.now()):
                    await _wait(canceled, _POLL_SECONDS)
                    if canceled.is_set():
                        raise ClaimBindingError("preempted by DefaultPreemption")
                    if not is_desired():
                        raise ClaimBindingError("pod does not exist any more")
        except TimeoutError:
            raise ClaimBindingError("device binding timeout: context deadline exceeded") from None
        finally:
            del self._manager.waiting_pods[uid]

    def _is_ready(self, now: datetime.datetime) -> bool:
        for index, claim in enumerate(self._claims):
            meta = claim.metadata
            newest = self._manager.claim(meta.namespace, meta.name)
            if newest is None:
                raise ClaimBindingError(f'could not find ResourceClaim "{meta.namespace}/{meta.name}"')
            self._claims[index] = newest
            try:
                ready = is_ready_for_binding(newest)
            except DeviceBindingFailed as error:
                raise ClaimBindingError(str(error)) from None
            if not ready:
                if is_claim_timeout(newest, now):
                    raise ClaimBindingError(f"device binding timeout: claim={meta.name}")
                return False
        return True

    @property
    def waits(self) -> bool:
        """Whether binding may take long."""
        return any(
            one.binding_conditions for allocation in self._new.values() for one in allocation.devices.results
        ) or any(map(has_binding_conditions, self._claims))

    # Undoing

    async def unreserve(self) -> None:
        """The pod is not bound: the devices that are not written yet are available again, and written reservations are
        removed. Failures are logged; the next attempt finds what is left."""
        for uid in self._uids.values():
            self._manager.remove_pending(uid)
        for index, claim in enumerate(self._claims):
            if index == self._extended_index:
                if claim.metadata.name != IN_MEMORY_NAME:
                    await self._logged("delete", delete_claim(self._client, self._manager, claim))
            elif claim.status.allocation is not None and is_reserved_for(self._pod, claim):
                await self._logged("unreserve", self._remove_reservation(claim))

    async def _remove_reservation(self, claim: ResourceClaim) -> None:
        meta = claim.metadata
        patch = {
            "metadata": {"uid": meta.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": self._pod.metadata.uid}]},
        }
        record_decision(f"claim {meta.namespace}/{meta.name} is not used by pod {self._pod.metadata.name} after all")
        await self._client.patch(
            RESOURCE_CLAIMS.raw, meta.name, strategic_merge_patch(patch), meta.namespace, subresource="status"
        )

    async def _logged(self, action: str, request: Awaitable[None]) -> None:
        try:
            await request
        except (ApiError, OSError, ClaimBindingError) as error:
            self._log.error(f"Failed to {action} ResourceClaim", error=error, pod=self._pod.metadata.name)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or for so long."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


class Deallocation(msgspec.Struct, frozen=True):
    """What PostFilter does: deallocate a claim, delete that for extended resources, or nothing."""

    message: str
    claim: ResourceClaim | None = None
    delete: bool = False


def post_filter(pod_claims: PodClaims) -> Deallocation:
    """A claim whose allocation cannot be used from some node, and that nobody else uses, is deallocated."""
    pod, extended = pod_claims.pod_info.pod, pod_claims.extended_claim
    is_written = extended is not None and extended.metadata.name != IN_MEMORY_NAME
    for index in pod_claims.unavailable:
        claim = pod_claims.claims[index]
        users = claim.status.reserved_for
        if index != pod_claims.extended_index and (not users or (len(users) == 1 and users[0].uid == pod.metadata.uid)):
            return Deallocation(DEALLOCATED, claim)
    if is_written:
        return Deallocation(DELETED, extended, delete=True)
    return Deallocation(STILL_NOT_SCHEDULABLE)


async def deallocate(client: Client, manager: DRAManager, deallocation: Deallocation) -> None:
    """Carry it out. Raises API errors."""
    claim = deallocation.claim
    if claim is None:
        return
    meta = claim.metadata
    if deallocation.delete:
        await delete_claim(client, manager, claim)
        return
    decoded = manager.decoded(claim)
    if decoded is not None:
        record_decision(f"the devices of claim {meta.namespace}/{meta.name} cannot be used by the pod that needs it")
        body = replace_fields(decoded.raw, _DEALLOCATED)
        await client.update(RESOURCE_CLAIMS.raw, meta.name, body, meta.namespace, subresource="status")


async def delete_claim(client: Client, manager: DRAManager, claim: ResourceClaim) -> None:
    """Remove the finalizer, and delete the claim for extended resources. Raises API errors."""
    meta, decoded = claim.metadata, manager.decoded(claim)
    for attempt in range(_ATTEMPTS):
        if decoded is None:
            decoded = _decoded(await client.get(RESOURCE_CLAIMS.raw, meta.name, meta.namespace))
        finalizers = [one for one in decoded.claim.metadata.finalizers if one != ALLOCATION_FINALIZER]
        body = replace_fields(decoded.raw, {"metadata.finalizers": _encode(finalizers) if finalizers else None})
        record_decision(
            f"claim {meta.namespace}/{meta.name} was made for extended resources of a pod that is not bound"
        )
        try:
            await client.update(RESOURCE_CLAIMS.raw, meta.name, body, meta.namespace)
            break
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_RETRY_SECONDS)
            decoded = None
    await client.delete(RESOURCE_CLAIMS, meta.name, meta.namespace)


def _decoded(raw: msgspec.Raw) -> DecodedClaim:
    """Raises ``ClaimBindingError``."""
    body = without_managed_fields(bytes(raw))
    try:
        # Upstream's API server writes null for a claim without requests.
        return DecodedClaim(_decoders.one(body, lambda: "a ResourceClaim that was written"), body)
    except UndecodableObject as error:
        raise ClaimBindingError(str(error)) from error
