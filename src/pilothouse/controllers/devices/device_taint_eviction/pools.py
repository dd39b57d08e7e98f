"""All devices by driver and pool, with their NoExecute taints.

A pool consists of the slices of its highest generation. Upstream: ``pool``, v1.36
``pkg/controller/devicetainteviction/device_taint_eviction.go``.
"""

from collections.abc import Iterator

from pilothouse.api.resource import AllocatedDevice, DeviceTaint, ResourceSlice
from pilothouse.controllers.devices.device_taint_eviction.decide import Reason, Tainted
from pilothouse.semantics.devices import NO_EXECUTE

PoolId = tuple[str, str]
DeviceId = tuple[str, str, str]
"""Driver, pool, name."""


class Pools:
    """The ResourceSlices of the informer's cache, grouped by pool. ``update`` must be called for every event."""

    def __init__(self) -> None:
        self._slices: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._tainted: dict[PoolId, dict[str, tuple[Tainted, ...]]] = {}

    def update(self, old: ResourceSlice | None, new: ResourceSlice | None) -> list[DeviceId]:
        """Handle the event of a slice: added (``old`` is None), updated, or deleted (``new`` is None). Returns the
        devices whose NoExecute taints changed."""
        changed_pools: dict[PoolId, None] = {}
        if old is not None:
            changed_pools[_pool_of(old)] = None
            slices = self._slices.get(_pool_of(old), {})
            slices.pop(old.metadata.name, None)
        if new is not None:
            changed_pools[_pool_of(new)] = None
            self._slices.setdefault(_pool_of(new), {})[new.metadata.name] = new
        return [device for pool in changed_pools for device in self._refresh(pool)]

    def _refresh(self, pool: PoolId) -> list[DeviceId]:
        old = self._tainted.pop(pool, {})
        if not self._slices.get(pool):
            self._slices.pop(pool, None)
        new: dict[str, tuple[Tainted, ...]] = {}
        for resource_slice in self._current(pool):
            for device in resource_slice.spec.devices:
                tainted = tuple(
                    (Reason(True, "", "", *pool, device.name, index, resource_slice.metadata.name), taint)
                    for index, taint in enumerate(device.taints)
                    if taint.effect == NO_EXECUTE
                )
                if tainted:
                    new.setdefault(device.name, tainted)
        if new:
            self._tainted[pool] = new
        changed = [name for name in sorted({**old, **new}) if _taints_of(old, name) != _taints_of(new, name)]
        return [(*pool, name) for name in changed]

    def taints_of(self, device: AllocatedDevice) -> tuple[Tainted, ...]:
        return self._tainted.get((device.driver, device.pool), {}).get(device.device, ())

    def devices(self) -> Iterator[DeviceId]:
        for pool in self._slices:
            for resource_slice in self._current(pool):
                for device in resource_slice.spec.devices:
                    yield (*pool, device.name)

    def _current(self, pool: PoolId) -> list[ResourceSlice]:
        slices = self._slices.get(pool, {})
        newest = max((resource_slice.spec.pool.generation for resource_slice in slices.values()), default=0)
        return [slices[name] for name in sorted(slices) if slices[name].spec.pool.generation == newest]


def _pool_of(resource_slice: ResourceSlice) -> PoolId:
    return resource_slice.spec.driver, resource_slice.spec.pool.name


def _taints_of(tainted: dict[str, tuple[Tainted, ...]], device: str) -> list[DeviceTaint]:
    return [taint for _reason, taint in tainted.get(device, ())]
