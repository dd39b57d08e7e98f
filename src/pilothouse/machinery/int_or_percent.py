"""Fields that are a number or a percentage (``IntOrString``): ``maxUnavailable``, ``maxSurge``.

As apimachinery's ``pkg/util/intstr/intstr.go`` (v0.36). Used by controllers with rolling updates.
"""

import math


class InvalidBound(ValueError):
    """The text is no percentage. API validation rejects such objects."""


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """The number, or the percentage of ``total`` rounded ``up`` or down; 0 for ``None``.

    Raises ``InvalidBound`` (``GetScaledValueFromIntOrPercent``).
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if digits == value or not digits.isascii() or not digits.isdecimal():
        raise InvalidBound(f'invalid value for IntOrString: invalid type: string is not a percentage: "{value}"')
    share = int(digits) * total / 100
    return math.ceil(share) if up else math.floor(share)
