"""The shared counters of partitionable devices."""

from typing import Any

import msgspec

from pilothouse.api.resource import Device
from pilothouse.machinery.quantities import Quantity, parse_quantity
from pilothouse.scheduler.plugins.dynamic_resources.structured.pools import Pool
from pilothouse.scheduler.plugins.dynamic_resources.structured.requests import Candidate
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import AllocatedState, Work

CounterSets = dict[str, dict[str, Quantity]]
"""Amounts by counter set and counter."""
_ZERO = Quantity(0)
_COUNTER_UNITS = 4


class Available(msgspec.Struct, frozen=True):
    """What the counters of a pool have left."""

    counter_sets: CounterSets
    is_exceeded: bool
    """Whether devices consume more than there is: then no more are allocated."""


class Counters:
    """The counters that the devices of one search consume.

    ``available`` is what allocated devices have left, by the name of the pool: as upstream without the driver, so the
    counters of pools of the same name are those of the pool that was used first.
    """

    def __init__(self, available: dict[str, Available], allocated: AllocatedState, work: Work) -> None:
        self._available = available
        self._allocated = allocated
        self._work = work
        self._consumed: dict[str, CounterSets] = {}

    def consume(self, candidate: Candidate) -> bool:
        """Consume what the device needs, if its pool has it; else nothing (``checkAvailableCounters``)."""
        pool, device = candidate.pool, candidate.device
        available = self._available.get(pool.name)
        if available is None:
            self._work.charge(sum(len(one.spec.devices) for one in (*pool.slices, *pool.other_slices)))
            available = self._available[pool.name] = available_counters(pool, self._allocated)
        if available.is_exceeded:
            return False
        consumed = self._consumed.setdefault(pool.name, {})
        _add(consumed, device)
        for consumption in device.consumes_counters:
            of_set = consumed[consumption.counter_set]
            left = available.counter_sets.get(consumption.counter_set, {})
            self._work.charge(_COUNTER_UNITS * len(consumption.counters))
            if any(name in left and left[name] < of_set[name] for name in consumption.counters):
                self.release(candidate)
                return False
        return True

    def release(self, candidate: Candidate) -> None:
        """Give back what the device has consumed."""
        _add(self._consumed[candidate.pool.name], candidate.device, -1)


def available_counters(pool: Pool, allocated: AllocatedState) -> Available:
    """What the counters of the pool have left."""
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
    return Available(available, any(amount < _ZERO for counters in available.values() for amount in counters.values()))


def _add(counter_sets: CounterSets, device: Device, sign: int = 1, *, only_known: bool = False) -> None:
    for consumption in device.consumes_counters:
        counters = counter_sets.setdefault(consumption.counter_set, {})
        for name, counter in consumption.counters.items():
            if only_known and name not in counters:
                continue
            amount = parse_quantity(counter.value)
            counters[name] = counters.get(name, _ZERO) + (amount if sign > 0 else -amount)
