"""Validation of LimitRanges. After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36)."""

import math

from pilothouse.apiserver.field_errors import ErrorList, duplicate, forbidden, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import (
    container_resource_name_errors,
    is_overcommit_allowed,
    resource_name_errors,
)
from pilothouse.machinery.names import qualified_name_errors
from pilothouse.machinery.quantities import Quantity, parse_quantity

QUANTITY_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")


def validate_limit_range(obj: Object) -> ErrorList:
    errors: ErrorList = []
    kinds: list[str] = []
    for position, item in enumerate(obj["spec"].get("limits") or ()):
        path, kind = f"spec.limits[{position}]", item.get("type") or ""
        msgs = qualified_name_errors(kind)
        if not msgs and "/" not in kind and kind not in _LIMIT_TYPES:
            msgs = ["must be a standard limit type or fully qualified"]
        errors += [invalid(f"{path}.type", kind, msg) for msg in msgs]
        if kind in kinds:
            errors.append(duplicate(f"{path}.type", kind))
        kinds.append(kind)
        errors += _validate_limit_range_item(item, kind, path)
    return errors


_COMPARISONS = (
    ("min", "min", "max", "min", "min value {} is greater than max value {}"),
    (
        "defaultRequest",
        "min",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "defaultRequest",
        "max",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("default", "min", "default", "min", "min value {} is greater than default value {}"),
    ("default", "default", "max", "max", "default value {} is greater than max value {}"),
)
"""(the field of the error, the field with the smaller value, the field with the larger value, the field whose value is
reported, the message)."""
_RATIO = "maxLimitRequestRatio"


def _validate_limit_range_item(item: Object, kind: str, path: str) -> ErrorList:
    errors: ErrorList = []
    values: dict[str, Object] = {}
    for field in QUANTITY_FIELDS:
        if field == _RATIO and kind == "PersistentVolumeClaim":
            bounds = {**(item.get("min") or {}), **(item.get("max") or {})}
            if "storage" not in bounds:
                detail = "either minimum or maximum storage value is required, but neither was provided"
                errors.append(required(f"{path}.limits", detail))
        quantities: Object = item.get(field) or {}
        if kind == "Pod" and field in ("default", "defaultRequest"):
            if quantities:
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        values[field] = quantities
        for name in sorted(quantities):
            errors += _validate_limit_range_resource_name(name, kind, f"{path}.{field}[{name}]")
    for name in sorted({name for quantities in values.values() for name in quantities}):
        errors += _validate_limits_of(
            name,
            {
                field: quantities_of_field[name]
                for field, quantities_of_field in values.items()
                if name in quantities_of_field
            },
            path,
        )
    return errors


def _validate_limits_of(name: str, values: Object, path: str) -> ErrorList:
    """The errors in the relations between the limits of one resource (minimum, maximum, defaults and ratio)."""
    errors: ErrorList = []
    quantities = {field: parse_quantity(value) for field, value in values.items()}
    for field, low, high, reported, message in _COMPARISONS:
        if low in quantities and high in quantities and quantities[low] > quantities[high]:
            detail = message.format(values[low], values[high])
            errors.append(invalid(f"{path}.{field}[{name}]", values[reported], detail))
    ratio = quantities.get(_RATIO)
    if ratio is not None:
        child_path, ratio_text = f"{path}.{_RATIO}[{name}]", values[_RATIO]
        if ratio < parse_quantity("1"):
            errors.append(invalid(child_path, ratio_text, f"ratio {ratio_text} is less than 1"))
        if "min" in quantities and "max" in quantities:
            value, limit = _ratios(ratio, quantities["min"], quantities["max"])
            if value > limit:
                limit_text = "+Inf" if limit == math.inf else f"{limit:f}"
                errors.append(
                    invalid(child_path, ratio_text, f"ratio {ratio_text} is greater than max/min = {limit_text}")
                )
    request, default = values.get("defaultRequest"), values.get("default")
    if request is None or default is None or is_overcommit_allowed(name):
        return errors
    if quantities["defaultRequest"] != quantities["default"]:
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request, detail))
    return errors


_MAX_MILLI_VALUE = ((1 << 63) - 1) // 1000


def _ratios(ratio: Quantity, low: Quantity, high: Quantity) -> tuple[float, float]:
    """``maxLimitRequestRatio`` and its maximum, max/min, as floats."""
    value, minimum, maximum = float(ratio.value), low.value, high.value
    if max(ratio.value, minimum, maximum) < _MAX_MILLI_VALUE:
        value, minimum, maximum = ratio.milli_value / 1000, low.milli_value, high.milli_value
    if minimum:
        return value, maximum / minimum
    return value, math.copysign(math.inf, maximum) if maximum else math.nan


def _validate_limit_range_resource_name(name: str, kind: str, path: str) -> ErrorList:
    msgs = container_resource_name_errors(name) if kind in ("Container", "Pod") else resource_name_errors(name)
    return [invalid(path, name, msg) for msg in msgs]
