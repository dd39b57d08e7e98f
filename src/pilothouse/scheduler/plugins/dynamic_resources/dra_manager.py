"""The claims, slices and classes of the cluster, and the allocations that are not written yet.

The informers start with the first pod that has claims or requests an extended resource: most clusters have none. On
servers without ``resource.k8s.io/v1`` (before v1.34), or that do not permit to list it, claims are ignored, as by a
scheduler without the plugin. As kube-scheduler v1.36 ``plugins/dynamicresources/dra_manager.go`` and
``util/assumecache``.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.api.resource import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from pilothouse.client import Client
from pilothouse.env import Log
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import InformerFactory, object_key
from pilothouse.runtime.cache import Cache
from pilothouse.scheduler.cache_sync import is_listed
from pilothouse.scheduler.plugins.dynamic_resources.allocated_devices import AllocatedDevices
from pilothouse.scheduler.plugins.dynamic_resources.device_class_resolver import DeviceClassResolver

_KINDS = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES)
_NODE_INDEX, _POOL_INDEX, _OWNER_INDEX = "node", "pool", "owning pod"
_SHARED = ""
"""In the index of slices: those of no particular node."""


class DecodedClaim(msgspec.Struct, frozen=True):
    """A claim, and its JSON, which is written back."""

    claim: ResourceClaim
    raw: bytes


class DRAManager:
    """See the module. ``on_claim``, ``on_slice`` and ``on_class`` are called after changes."""

    def __init__(self, client: Client, informers: InformerFactory, log: Log) -> None:
        self._client = client
        self._informers = informers
        self._log = log
        self.started = False
        self.version = 0
        """Increases with every event that may help a pod."""
        self.slice_version = 0
        """Increases with every change of a slice."""
        self.enabled = False
        """Whether the server has the kinds."""
        self.allocated = AllocatedDevices()
        """Including what is pending."""
        self.classes = DeviceClassResolver()
        self._claims: Cache[ResourceClaim] = Cache()
        self._slices: Cache[ResourceSlice] = Cache()
        self._device_classes: Cache[DeviceClass] = Cache()
        self._assumed: dict[str, DecodedClaim] = {}
        """Claims as they were written, by key, until the informer has them."""
        self._pending: dict[str, None] = {}
        """The uids of claims whose allocation is being written."""
        self.waiting_pods: dict[str, asyncio.Event] = {}
        """Set to cancel the binding of a pod that waits for its devices, by uid."""
        self.on_claim: Callable[[ResourceClaim | None, ResourceClaim], None] = lambda _old, _new: None
        self.on_slice: Callable[[], None] = lambda: None
        self.on_class: Callable[[DeviceClass | None, DeviceClass], None] = lambda _old, _new: None

    async def start(self) -> None:
        """Start the informers, and wait until they have synced."""
        for kind in _KINDS:
            without = "Scheduling pods without their resource claims"
            if not await is_listed(self._client, kind.raw, self._log, otherwise=without):
                self.started = True
                return
        claims = self._informers.informer(RESOURCE_CLAIMS, keep_raw=True)
        slices = self._informers.informer(RESOURCE_SLICES)
        classes = self._informers.informer(DEVICE_CLASSES)
        claims.cache.add_index(_OWNER_INDEX, _owners_of)
        slices.cache.add_index(_NODE_INDEX, _node_of)
        slices.cache.add_index(_POOL_INDEX, _pool_of)
        self._claims, self._slices, self._device_classes = claims.cache, slices.cache, classes.cache
        claims.add_handler(
            lambda claim, _initial: self._put_claim(None, claim),
            self._put_claim,
            lambda claim, _unknown: self._remove_claim(claim),
            resync_seconds=0.0,
        )
        # Fewer devices help nobody: as upstream, no event for slices and classes that are deleted.
        slices.add_handler(
            lambda _slice, _initial: self._put_slice(),
            lambda _old, _slice: self._put_slice(),
            lambda _slice, _unknown: self._remove_slice(),
            resync_seconds=0.0,
        )
        classes.add_handler(
            lambda device_class, _initial: self._put_class(None, device_class),
            self._put_class,
            lambda device_class, _unknown: self.classes.remove(device_class),
            resync_seconds=0.0,
        )
        for informer in (claims, slices, classes):
            await informer.wait_synced()
        self.started = self.enabled = True

    # Claims

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """The newest version: the one that was written last, or that of the informer."""
        key = f"{namespace}/{name}"
        assumed = self._assumed.get(key)
        return assumed.claim if assumed is not None else self._claims.get(key)

    def decoded(self, claim: ResourceClaim) -> DecodedClaim | None:
        """The claim with its JSON; None if there is another one of that name now."""
        key = object_key(claim.metadata)
        assumed = self._assumed.get(key)
        if assumed is None:
            raw, cached = self._claims.raw(key), self._claims.get(key)
            if raw is None or cached is None:
                return None
            assumed = DecodedClaim(cached, raw)
        return assumed if assumed.claim.metadata.uid == claim.metadata.uid else None

    def claims_of(self, pod_uid: str) -> Sequence[ResourceClaim]:
        """The claims that the pod controls."""
        return self._claims.by_index(_OWNER_INDEX, pod_uid)

    def assume(self, written: DecodedClaim, *, created: bool = False) -> None:
        """The claim was written. It counts until the informer has this version or a newer one; not if it has been
        deleted since, which is a claim that the informer does not have and that was not ``created`` just now."""
        key, meta = object_key(written.claim.metadata), written.claim.metadata
        cached = self._claims.get(key)
        if cached is None:
            if not created and key not in self._assumed:
                return
        elif not is_newer(meta.resource_version, than=cached.metadata.resource_version):
            return
        self._assumed[key] = written
        self._count(key, written.claim)

    def _put_claim(self, old: ResourceClaim | None, claim: ResourceClaim) -> None:
        key, meta = object_key(claim.metadata), claim.metadata
        assumed = self._assumed.get(key)
        if assumed is not None and not (
            assumed.claim.metadata.uid == meta.uid
            and is_newer(assumed.claim.metadata.resource_version, than=meta.resource_version)
        ):
            del self._assumed[key]
            assumed = None
        newest = assumed.claim if assumed is not None else claim
        self._count(key, newest)
        self.version += 1
        self.on_claim(old, claim)

    def _count(self, key: str, claim: ResourceClaim) -> None:
        self.allocated.put(key, claim.status.allocation)
        if claim.status.allocation is not None:
            # Shared capacity must not count twice: no event would follow that helps the pods that it rejects.
            self.allocated.put(_pending_owner(claim.metadata.uid), None)

    def _remove_claim(self, claim: ResourceClaim) -> None:
        key = object_key(claim.metadata)
        self._assumed.pop(key, None)
        self.allocated.put(key, None)

    # Allocations that are being written

    def is_pending(self, uid: str) -> bool:
        """Whether an allocation of the claim is being written (``GetPendingAllocation``)."""
        return uid in self._pending

    def put_pending(self, uid: str, allocation: AllocationResult) -> None:
        """The allocation counts from now on (``SignalClaimPendingAllocation``)."""
        self._pending[uid] = None
        self.allocated.put(_pending_owner(uid), allocation)

    def remove_pending(self, uid: str) -> None:
        """The allocation was written, or will not be (``MaybeRemoveClaimPendingAllocation``)."""
        self._pending.pop(uid, None)
        self.allocated.put(_pending_owner(uid), None)

    def cancel_binding(self, uid: str) -> bool:
        """Have the pod stop waiting for its devices, as it is preempted. Returns whether it was waiting."""
        canceled = self.waiting_pods.get(uid)
        if canceled is None:
            return False
        canceled.set()
        return True

    # Slices and classes

    def on_node(self, node_name: str) -> Sequence[ResourceSlice]:
        """``structured.types.SliceLister``."""
        return self._slices.by_index(_NODE_INDEX, node_name)

    def shared(self) -> Sequence[ResourceSlice]:
        return self._slices.by_index(_NODE_INDEX, _SHARED)

    def in_pool(self, driver: str, pool: str) -> Sequence[ResourceSlice]:
        return self._slices.by_index(_POOL_INDEX, f"{driver}/{pool}")

    def device_class(self, name: str) -> DeviceClass | None:
        return self._device_classes.get(name)

    def _put_slice(self) -> None:
        self.version += 1
        self.slice_version += 1
        self.on_slice()

    def _remove_slice(self) -> None:
        self.slice_version += 1

    def _put_class(self, old: DeviceClass | None, device_class: DeviceClass) -> None:
        self.version += 1
        self.classes.update(old, device_class)
        self.on_class(old, device_class)


def _pending_owner(claim_uid: str) -> str:
    """In ``DRAManager.allocated``: the allocation of a claim that is not written yet."""
    return f"pending {claim_uid}"


def _node_of(one: ResourceSlice) -> tuple[str]:
    return (_SHARED if one.spec.shared_counters else one.spec.node_name,)


def _pool_of(one: ResourceSlice) -> tuple[str]:
    return (f"{one.spec.driver}/{one.spec.pool.name}",)


def _owners_of(claim: ResourceClaim) -> tuple[str, ...]:
    return tuple(owner.uid for owner in claim.metadata.owner_references if owner.controller)
