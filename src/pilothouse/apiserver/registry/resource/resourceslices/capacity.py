"""Validation of the capacities of shared devices, and of their request policies.

After ``validateRequestPolicy`` in kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36).
"""

import itertools
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.resource.validation import validate_set
from pilothouse.machinery.quantities import Quantity, QuantityError, parse_quantity

_MAX_VALUES = 10


def validate_device_capacity(capacity: Object, path: str, *, is_shared: bool) -> ErrorList:
    policy, child_path = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return []
    if not is_shared:
        return [forbidden(child_path, "allowMultipleAllocations must be true")]
    values, bounds = policy.get("validValues") or [], policy.get("validRange")
    if values and bounds is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(child_path, detail)]
    for field in ("validValues", "validRange"):
        if policy.get(field) and policy.get("default") is None:
            return [required(f"{child_path}.default", f"required when {field} is defined")]
    try:
        capacity_value = _quantity(capacity.get("value"))
        if values:
            return _validate_value(values, _quantity(policy["default"]), capacity_value, f"{child_path}.validValues")
        return (
            _validate_range(bounds, policy.get("default"), capacity_value, f"{child_path}.validRange") if bounds else []
        )
    except QuantityError:
        return []  # reported when the type is decoded


def _quantity(value: Any) -> Quantity:
    return parse_quantity(str(value))


def _validate_value(values: list[Any], default: Quantity, capacity_value: Quantity, path: str) -> ErrorList:
    """``validateRequestPolicyValidValues``: sorted and unique, none above the capacity."""
    quantities = [_quantity(value) for value in values]
    errors = [
        invalid(f"{path}[{position}]", str(current), "values must be sorted in ascending order")
        for position, (previous, current) in enumerate(itertools.pairwise(quantities), 1)
        if previous > current
    ]

    def validate(quantity: Quantity, path: str) -> ErrorList:
        return (
            [invalid(path, str(quantity), f"option is larger than capacity value: {capacity_value}")]
            if quantity > capacity_value
            else []
        )

    errors += validate_set(quantities, _MAX_VALUES, path, validate, lambda amount: str(amount.value))
    if default not in quantities:
        errors.append(invalid(path, str(default), "default value is not valid according to the requestPolicy"))
    return errors


def _validate_range(bounds: Object, default_text: Any, capacity_value: Quantity, path: str) -> ErrorList:
    """``validateRequestPolicyRange``: a minimum, with optional maximum and step."""
    if bounds.get("min") is None:
        return [required(f"{path}.min", "required when validRange is defined")]
    default, minimum = _quantity(default_text), _quantity(bounds["min"])
    maximum = _quantity(bounds["max"]) if bounds.get("max") is not None else None
    errors: ErrorList = []

    def report(field: str, quantity: Quantity, detail: str) -> None:
        errors.append(invalid(f"{path}.{field}", str(quantity), detail))

    if minimum > capacity_value:
        report("min", minimum, f"min is larger than capacity value: {capacity_value}")
    if default < minimum:
        report("default", default, f"default is less than min: {minimum}")
    if maximum is not None:
        if minimum > maximum:
            report("max", minimum, f"min is larger than max: {maximum}")
        if maximum > capacity_value:
            report("max", maximum, f"max is larger than capacity value: {capacity_value}")
        if default > maximum:
            report("default", default, f"default is more than max: {maximum}")
    if bounds.get("step") is None:
        return errors
    step = _quantity(bounds["step"])
    if step.value <= 0:
        report("step", step, "must be greater than zero")
        return errors
    if minimum + step > capacity_value:
        report("step", step, f"one step {minimum + step} is larger than capacity value: {capacity_value}")
    for quantity in (default, maximum):
        if quantity is not None and (quantity.value - minimum.value) % step.value:
            report("step", quantity, f"value is not a multiple of a given step ({step}) from ({minimum})")
    return errors
