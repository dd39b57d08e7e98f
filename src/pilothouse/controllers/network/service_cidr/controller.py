"""The event handlers, and the sync of a ServiceCIDR. Upstream: v1.36
``pkg/controller/servicecidrs/servicecidrs_controller.go``."""

from collections.abc import Sequence

from pilothouse.api.meta import Object
from pilothouse.api.networking import IP_ADDRESSES, SERVICE_CIDRS, IPAddress, ServiceCIDR
from pilothouse.client import Patch, apply_patch, strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.network.service_cidr import DESCRIPTOR
from pilothouse.controllers.network.service_cidr.decide import (
    FINALIZER,
    MANAGED_BY,
    MANAGER,
    address_of,
    containing_service_cidrs,
    has_finalizer,
    is_contained,
    is_deleting,
    orphaned_address,
    overlapping_service_cidrs,
)
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.machinery.times import format_time
from pilothouse.runtime import (
    BucketLimiter,
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    ManagedController,
    MaxOfLimiter,
    Requeue,
    RetryLater,
    object_reference,
)

WORKERS = 5
GRACE_SECONDS = 10.0
"""The minimum duration of a deletion: until then some API server may still allocate addresses."""

_BLOCKED = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
_FIELD_MANAGER = "service-cidr-controller"
_META = SERVICE_CIDRS.read_as(Object)
_PROTECT = strategic_merge_patch({"metadata": {"finalizers": [FINALIZER]}})


class ServiceCIDRController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        cidrs = context.informer(SERVICE_CIDRS)
        addresses = context.informer(IP_ADDRESSES)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=WORKERS,
            limiter=MaxOfLimiter[str](ExponentialFailureLimiter(0.005, 1000.0), BucketLimiter(context.env, 10.0, 100)),
            queue_name="ipaddresses",
        )
        self._client = context.client
        self._cidrs = cidrs.cache
        self._addresses = addresses.cache
        self._recorder = EventRecorder(context.client, context.env, "service-cidr-controller")
        self.add_runnable("events", self._recorder.run)
        self._written: dict[str, str] = {}
        """Versions of our own last writes, until the cache has read them."""
        cidrs.add_handler(
            lambda cidr, _initial: self._enqueue_overlapping_service_cidrs(cidr),
            self._update_service_cidr,
            lambda cidr, _unknown: self._written.pop(cidr.metadata.name, None),
        )
        addresses.add_handler(
            lambda ip_address, _initial: self._enqueue_containing_service_cidrs(ip_address),
            None,
            self._delete_ip_address,
        )

    # Event handlers

    def _enqueue_overlapping_service_cidrs(self, cidr: ServiceCIDR) -> None:
        """Enqueue it and those that overlap with it."""
        self.queue.add(cidr.metadata.name)
        for name in overlapping_service_cidrs(cidr, self._cidrs.list()):
            self.queue.add(name)

    def _update_service_cidr(self, old: ServiceCIDR, new: ServiceCIDR) -> None:
        if old.spec == new.spec and has_finalizer(old) == has_finalizer(new):
            self.queue.add(new.metadata.name)
        else:
            self._enqueue_overlapping_service_cidrs(new)

    def _enqueue_containing_service_cidrs(self, ip_address: IPAddress) -> None:
        address = address_of(ip_address)
        if address is not None:
            for cidr in containing_service_cidrs(address, self._cidrs.list()):
                self.queue.add(cidr.metadata.name)

    def _delete_ip_address(self, ip_address: IPAddress, _unknown: bool) -> None:
        self._enqueue_containing_service_cidrs(ip_address)

    # One sync

    async def reconcile(self, key: str) -> Requeue | None:
        """Set the condition Ready of one ServiceCIDR, or remove its finalizer when that is safe."""
        cidr = self._cidrs.get(key)
        if cidr is None or is_newer(self._written.get(key, ""), cidr.metadata.resource_version):
            # Deleted, or the cache is older than the controller's own write, whose event enqueues the key again.
            return None
        if is_deleting(cidr):
            return await self._remove_finalizer(cidr)
        if not has_finalizer(cidr):
            record_decision(f"ServiceCIDR {key} gets the finalizer {FINALIZER}")
        if not has_finalizer(cidr) and not await self._write(key, _PROTECT):
            return None
        try:
            await self._set_ready_condition(cidr, "True", "", "Kubernetes Service CIDR is ready")
        except (ApiError, OSError):
            reference = object_reference(SERVICE_CIDRS, cidr.metadata)
            text = "The ServiceCIDR Status can not be set to Ready=True"
            self._recorder.event(reference, "Warning", "KubernetesServiceCIDRError", text)
            raise
        return None

    async def _remove_finalizer(self, cidr: ServiceCIDR) -> Requeue | None:
        key, deleted_at = cidr.metadata.name, cidr.metadata.deletion_timestamp
        assert deleted_at is not None, "it is being deleted"
        if await self._is_blocked(cidr, self._addresses.list()):
            return None
        remaining = GRACE_SECONDS - (self.env.now() - deleted_at).total_seconds()
        if remaining > 0:
            return Requeue(after=remaining)
        # The cache of addresses may be old, and a deletion is final: the last check is live.
        if not is_contained(cidr, self._cidrs.list()):
            page = await self._client.list_all(IP_ADDRESSES, label_selector=f"{MANAGED_BY}={MANAGER}")
            if await self._is_blocked(cidr, [entry.object for entry in page.items]):
                return None
        if has_finalizer(cidr):
            record_decision(
                f"ServiceCIDR {key} has been deleted for {GRACE_SECONDS:g} s, and no IPAddress needs it: its "
                "finalizer is removed"
            )
            try:
                await self._write(key, _patch_finalizer(cidr))
            except Conflict as error:
                raise RetryLater(str(error)) from error  # the cache will have its current state
            self._written.pop(key, None)  # there will be no newer one to wait for
            self.log.info("Removed protection finalizer from ServiceCIDR", v=4, ServiceCIDR=key)
        return None

    async def _is_blocked(self, cidr: ServiceCIDR, addresses: Sequence[IPAddress]) -> bool:
        """Whether it must stay; then its status has the reason."""
        address = orphaned_address(cidr, self._cidrs.list(), addresses)
        if not address:
            return False
        name = cidr.metadata.name
        self.log.info("Deleting ServiceCIDR blocked by IP address", ServiceCIDR=name, IPAddress=address)
        await self._set_ready_condition(cidr, "False", "Terminating", _BLOCKED)
        return True

    async def _set_ready_condition(self, cidr: ServiceCIDR, status: str, reason: str, message: str) -> None:
        """Set the condition Ready, if it differs."""
        for existing in cidr.status.conditions:
            if existing.type == "Ready" and (existing.status, existing.reason, existing.message) == (
                status,
                reason,
                message,
            ):
                return
        condition = {
            "type": "Ready",
            "status": status,
            "lastTransitionTime": format_time(self.env.now()),
            "reason": reason,
            "message": message,
        }
        name = cidr.metadata.name
        body = {
            "kind": SERVICE_CIDRS.kind,
            "apiVersion": SERVICE_CIDRS.api_version,
            "metadata": {"name": name},
            "status": {"conditions": [condition]},
        }
        self.log.info("Updating ServiceCIDR condition", v=2, ServiceCIDR=name, newStatus=status, newReason=reason)
        record_decision(f"Ready of ServiceCIDR {name} is {status}{f', {reason}' if reason else ''}: {message}")
        await self._write(name, apply_patch(body), subresource="status", field_manager=_FIELD_MANAGER, force=True)

    async def _write(
        self, key: str, patch: Patch, *, subresource: str = "", field_manager: str = "", force: bool | None = None
    ) -> bool:
        """Send a patch; False if the object does not exist."""
        try:
            written = await self._client.patch(
                _META, key, patch, subresource=subresource, field_manager=field_manager, force=force
            )
        except NotFound:
            return False  # it was deleted
        if self._cidrs.still_has(written.metadata):
            self._written[key] = written.metadata.resource_version
        return True


def _patch_finalizer(cidr: ServiceCIDR) -> Patch:
    """Remove the finalizer, with the resourceVersion that was read: a ServiceCIDR that has changed in the meantime, or
    another one with its name, keeps it."""
    meta = {
        "resourceVersion": cidr.metadata.resource_version,
        "$deleteFromPrimitiveList/finalizers": [FINALIZER],
    }
    return strategic_merge_patch({"metadata": meta})


build = ServiceCIDRController
