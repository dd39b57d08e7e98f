"""Which devices are allocated, and how much of the capacity of those that are shared.

As kube-scheduler v1.36 ``plugins/dynamicresources/allocateddevices.go``. Updated with each claim, instead of collected
for each pod.
"""

from collections.abc import Mapping, Set

import msgspec

from pilothouse.api.resource import AllocationResult
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.scheduler.framework.types import update_count
from pilothouse.scheduler.plugins.dynamic_resources.structured.consumable_capacity import (
    ConsumedCapacity,
    add_capacity,
    subtract_capacity,
)
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import DeviceID


class _Allocated(msgspec.Struct, frozen=True):
    """What one claim has."""

    devices: tuple[DeviceID, ...]
    shared: tuple[tuple[DeviceID, ConsumedCapacity], ...]


class AllocatedDevices:
    """``structured.types.AllocatedState``, as of now."""

    def __init__(self) -> None:
        self._by_owner: dict[str, _Allocated] = {}
        self._devices: dict[DeviceID, int] = {}
        self._shared: dict[DeviceID, int] = {}
        self._capacities: dict[DeviceID, ConsumedCapacity] = {}

    @property
    def devices(self) -> Set[DeviceID]:
        return self._devices.keys()

    @property
    def shared_devices(self) -> Set[DeviceID]:
        return self._shared.keys()

    @property
    def capacities(self) -> Mapping[DeviceID, Mapping[str, Quantity]]:
        return self._capacities

    def put(self, owner: str, allocation: AllocationResult | None) -> None:
        """Replace what an owner has."""
        old = self._by_owner.pop(owner, None)
        new = _allocated(allocation) if allocation is not None else None
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._by_owner[owner] = new
            self._count(new, 1)

    def _count(self, allocated: _Allocated, sign: int) -> None:
        for device_id in allocated.devices:
            update_count(self._devices, device_id, sign)
        for device_id, consumed in allocated.shared:
            update_count(self._shared, device_id, sign)
            if sign > 0:
                add_capacity(self._capacities.setdefault(device_id, {}), consumed)
                continue
            subtract_capacity(self._capacities[device_id], consumed)
            if device_id not in self._shared:
                del self._capacities[device_id]


def _allocated(allocation: AllocationResult) -> _Allocated:
    devices: list[DeviceID] = []
    shared: list[tuple[DeviceID, ConsumedCapacity]] = []
    for result in allocation.devices.results:
        if result.admin_access:
            continue  # it is available to others
        device_id = result.driver, result.pool, result.device
        if result.share_id is None:
            devices.append(device_id)
        else:
            shared.append((device_id, {key: parse_quantity(text) for key, text in result.consumed_capacity.items()}))
    return _Allocated(tuple(devices), tuple(shared))
