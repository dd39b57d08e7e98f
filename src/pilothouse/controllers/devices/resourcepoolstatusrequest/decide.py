"""Counts the devices of a driver's pools. Pure. Upstream: ``calculatePoolStatus`` and ``shouldDeleteRequest``, v1.36
``pkg/controller/resourcepoolstatusrequest/controller.go``."""

import datetime
from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.api.resource import Device, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice

COMPLETE, FAILED = "Complete", "Failed"
COMPLETED_TTL = datetime.timedelta(hours=1)
PENDING_TTL = datetime.timedelta(hours=24)
_UNSCHEDULABLE_EFFECTS = ("NoSchedule", "NoExecute")


class Counts(msgspec.Struct, frozen=True):
    """A pool all of whose slices exist."""

    slices: int
    total: int
    allocated: int
    unavailable: int
    """Devices that are free, and tainted so that nothing can be scheduled on them."""

    @property
    def available(self) -> int:
        """Never negative, though claims may have devices that the pool no longer has."""
        return max(0, self.total - self.allocated - self.unavailable)


class Incomplete(msgspec.Struct, frozen=True):
    """A pool whose driver has not published all slices of the newest generation."""

    observed: int
    expected: int


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """``node`` is empty unless all slices are of one node."""

    driver: str
    name: str
    generation: int
    node: str
    found: Counts | Incomplete


def pools_of(
    driver: str, name: str, slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim]
) -> tuple[Pool, ...]:
    """The pools of the driver by name, or only the one called ``name``."""
    published: dict[str, list[ResourceSlice]] = {}
    for resource_slice in slices:
        if resource_slice.spec.driver == driver and name in ("", resource_slice.spec.pool.name):
            published.setdefault(resource_slice.spec.pool.name, []).append(resource_slice)
    allocated = _allocated_devices(driver, claims)
    return tuple(_pool(driver, pool, published[pool], allocated.get(pool, set())) for pool in sorted(published))


def _allocated_devices(driver: str, claims: Iterable[ResourceClaim]) -> dict[str, set[str]]:
    """Names of allocated devices by pool. A shared device counts once; admin access allocates nothing."""
    allocated: dict[str, set[str]] = {}
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if result.driver == driver and not result.admin_access:
                allocated.setdefault(result.pool, set()).add(result.device)
    return allocated


def _pool(driver: str, name: str, slices: Sequence[ResourceSlice], allocated: set[str]) -> Pool:
    newest = max(resource_slice.spec.pool.generation for resource_slice in slices)
    current = [resource_slice.spec for resource_slice in slices if resource_slice.spec.pool.generation == newest]
    nodes = {spec.node_name for spec in current}
    # The slices should agree. Where they don't, the pool is complete if it is by all of them.
    expected = max(spec.pool.resource_slice_count for spec in current)
    result: Counts | Incomplete
    if len(current) < expected:
        result = Incomplete(len(current), expected)
    else:
        devices = [device for spec in current for device in spec.devices]
        unavailable = sum(is_tainted(device) and device.name not in allocated for device in devices)
        result = Counts(len(current), len(devices), len(allocated), unavailable)
    return Pool(driver=driver, name=name, generation=newest, node=nodes.pop() if len(nodes) == 1 else "", found=result)


def is_tainted(device: Device) -> bool:
    return any(taint.effect in _UNSCHEDULABLE_EFFECTS for taint in device.taints)


def should_delete_request(request: ResourcePoolStatusRequest, now: datetime.datetime) -> bool:
    """Whether the request has expired: by the time of its status if it has one, else of its creation."""
    since, ttl = request.metadata.creation_timestamp, PENDING_TTL
    if request.status is not None:
        ttl = COMPLETED_TTL
        for condition in request.status.conditions:
            if condition.type in (COMPLETE, FAILED):
                since = condition.last_transition_time
                break
    return since is not None and now - since > ttl
