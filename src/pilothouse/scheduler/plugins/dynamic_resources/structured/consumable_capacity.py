"""What a request consumes of a device's capacity (``consumable_capacity.go``)."""

from collections.abc import Mapping

from pilothouse.api.resource import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    CapacityRequirements,
    Device,
    DeviceCapacity,
)
from pilothouse.machinery.quantities import BINARY, Quantity, parse_quantity

ConsumedCapacity = dict[str, Quantity]
"""Amounts by the name of the capacity."""
_ZERO = Quantity(0)


class UndefinedCapacity(ValueError):
    """A request names a capacity that the device does not have."""


def add_capacity(consumed: ConsumedCapacity, added: Mapping[str, Quantity]) -> None:
    for name, amount in added.items():
        consumed[name] = consumed[name] + amount if name in consumed else amount


def subtract_capacity(consumed: ConsumedCapacity, subtracted: Mapping[str, Quantity]) -> None:
    for name, amount in subtracted.items():
        if name in consumed:
            consumed[name] = consumed[name] - amount


def fits_capacity(
    device: Device,
    requirements: CapacityRequirements | None,
    allocated: Mapping[str, Quantity],
    allocating: Mapping[str, Quantity],
) -> bool:
    """Whether the device has what is requested in addition to what is consumed, in a way that its policies allow
    (``CmpRequestOverCapacity``). Raises ``UndefinedCapacity``."""
    requests = requirements.requests if requirements is not None else {}
    if any(name not in device.capacity for name in requests):
        raise UndefinedCapacity("some requested capacity has not been defined")
    for name, capacity in device.capacity.items():
        consumed = calculate_consumed_capacity(requests.get(name), capacity)
        if violates_policy(consumed, capacity.request_policy):
            return False
        total = allocated.get(name, _ZERO) + allocating.get(name, _ZERO) + consumed
        if total > parse_quantity(capacity.value):
            return False
    return True


def consumed_capacity(device: Device, requirements: CapacityRequirements | None) -> ConsumedCapacity:
    """What a request consumes of each capacity (``GetConsumedCapacityFromRequest``)."""
    requests = requirements.requests if requirements is not None else {}
    return {
        name: calculate_consumed_capacity(requests.get(name), capacity) for name, capacity in device.capacity.items()
    }


def calculate_consumed_capacity(requested: str | None, capacity: DeviceCapacity) -> Quantity:
    """The requested amount, rounded up to what the policy allows; without a request the policy's default, or the
    whole capacity."""
    policy = capacity.request_policy
    if requested is None:
        return parse_quantity(policy.default if policy is not None and policy.default is not None else capacity.value)
    amount = parse_quantity(requested)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _round_up_range(amount, policy.valid_range)
    for value in map(parse_quantity, policy.valid_values):
        if amount <= value:
            return value
    return amount


def _round_up_range(requested: Quantity, valid_range: CapacityRequestPolicyRange) -> Quantity:
    """To ``min`` plus a multiple of ``step``. With min 2Gi and step 1Gi, 2500Mi is rounded to 3Gi."""
    assert valid_range.min is not None, "checked by the caller"
    least = parse_quantity(valid_range.min)
    if requested < least:
        return least
    if not valid_range.step:
        return requested
    step = parse_quantity(valid_range.step).value
    steps = -(-(requested.value - least.value) // step)
    return Quantity(least.value + step * steps, notation=BINARY)


def violates_policy(amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
    """Whether the policy does not allow this amount."""
    if policy is None or (policy.default is not None and amount == parse_quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        return _violates_range(amount, policy.valid_range)
    return bool(policy.valid_values) and all(amount != value for value in map(parse_quantity, policy.valid_values))


def _violates_range(amount: Quantity, valid_range: CapacityRequestPolicyRange) -> bool:
    if valid_range.max is not None and amount > parse_quantity(valid_range.max):
        return True
    if not valid_range.step:
        return False
    least = parse_quantity(valid_range.min).value if valid_range.min is not None else 0
    return (amount.value - least) % parse_quantity(valid_range.step).value != 0
