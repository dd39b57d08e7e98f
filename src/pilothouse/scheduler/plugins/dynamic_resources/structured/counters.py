"""The shared counters of partitionable devices."""

from typing import Any

from pilothouse.api.resource import Device
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.scheduler.plugins.dynamic_resources.structured.pools import Pool
from pilothouse.scheduler.plugins.dynamic_resources.structured.requests import Candidate
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import AllocatedState

CounterSets = dict[str, dict[str, Quantity]]
"""Amounts by counter set and counter."""
_ZERO = Quantity(0)


class Counters:
    """The counters that the devices of one search consume.

    ``available`` is what allocated devices have left, by the name of the pool: as upstream without the driver, so the
    counters of pools of the same name are those of the pool that was used first.
    """

    def __init__(self, available: dict[str, CounterSets], allocated: AllocatedState) -> None:
        self._available = available
        self._allocated = allocated
        self._consumed: dict[str, CounterSets] = {}

    def consume(self, candidate: Candidate) -> bool:
        """Consume what the device needs, if its pool has it; else nothing (``checkAvailableCounters``)."""
        pool = candidate.pool
        available = self._available.get(pool.name)
        if available is None:
            available = self._available[pool.name] = available_counters(pool, self._allocated)
        consumed = self._consumed.setdefault(pool.name, {})
        _add(consumed, candidate.device)
        for name, counters in available.items():
            of_set = consumed.get(name, {})
            if any(amount < of_set.get(counter, _ZERO) for counter, amount in counters.items()):
                self.release(candidate)
                return False
        return True

    def release(self, candidate: Candidate) -> None:
        """Give back what the device has consumed."""
        _add(self._consumed[candidate.pool.name], candidate.device, -1)


def available_counters(pool: Pool, allocated: AllocatedState) -> CounterSets:
    """What the counters of the pool have left: possibly less than nothing, if devices were allocated elsewhere."""
    available = {
        name: {counter: parse_quantity(amount.value) for counter, amount in counter_set.counters.items()}
        for name, counter_set in pool.counter_sets.items()
    }
    for slices in (pool.slices, pool.other_slices):
        for one in slices:
            for device in one.spec.devices:
                device_id: tuple[Any, ...] = pool.driver, pool.name, device.name
                if device_id in allocated.devices or device_id in allocated.shared_devices:
                    _add(available, device, -1, only_known=True)
    return available


def _add(counter_sets: CounterSets, device: Device, sign: int = 1, *, only_known: bool = False) -> None:
    for consumption in device.consumes_counters:
        counters = counter_sets.setdefault(consumption.counter_set, {})
        for name, counter in consumption.counters.items():
            if only_known and name not in counters:
                continue
            amount = parse_quantity(counter.value)
            counters[name] = counters.get(name, _ZERO) + (amount if sign > 0 else -amount)
