"""How workloads replace their pods, and what they report about it: validation.

After kubernetes' ``pkg/apis/apps/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import NON_NEGATIVE, go_named, number_problems

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def count_problems(value: Any, path: str) -> list[FieldError]:
    """What is wrong with a number or a percentage of up to a hundred."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        if digits == value or not (digits.isascii() and digits.isdigit()):
            return [errors.invalid_value(path, value, _PERCENT)]
        if int(digits) > 100:
            return [errors.invalid_value(path, value, "must not be greater than 100%")]
    elif isinstance(value, int) and value < 0:
        return [errors.invalid_value(path, value, NON_NEGATIVE)]
    return []


def _is_zero(value: Any) -> bool:
    """Whether it comes to nothing, as what is no percentage does (``getIntOrPercentValue``)."""
    if isinstance(value, str):
        found = re.fullmatch("([0-9]+)%", value)
        return found is None or not int(found[1])
    return not value


def _shown(strategy: Object) -> Object:
    # The type is judged, the whole strategy is shown.
    return {"Type": strategy["type"], "RollingUpdate": go_named(strategy.get("rollingUpdate"))}


def deployment_strategy_problems(strategy: Object) -> list[FieldError]:
    """``spec.strategy`` of a Deployment."""
    kind, rolling = strategy["type"], strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is None:
            return []
        return [errors.not_allowed(path, "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        return [errors.not_supported("spec.strategy", _shown(strategy), ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    problems = count_problems(unavailable, f"{path}.maxUnavailable")
    if isinstance(surge, int) or surge is None:
        problems += count_problems(surge, f"{path}.maxSurge")
    else:
        # There may be more than twice as many.
        problems += [found for found in count_problems(surge, f"{path}.maxSurge") if "100%" not in found.text]
    if _is_zero(unavailable) and _is_zero(surge):
        problems.append(
            errors.invalid_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
        )
    return problems


def daemon_set_strategy_problems(strategy: Object) -> list[FieldError]:
    """``spec.updateStrategy`` of a DaemonSet."""
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        supported = ("RollingUpdate", "OnDelete")
        return [errors.not_supported("spec.updateStrategy", _shown(strategy), supported)]
    path = "spec.updateStrategy.rollingUpdate"
    rolling = strategy.get("rollingUpdate") or {}
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    problems = count_problems(unavailable, f"{path}.maxUnavailable") + count_problems(surge, f"{path}.maxSurge")
    if not _is_zero(unavailable) and not _is_zero(surge):
        told = "may not be set when maxUnavailable is non-zero"
        problems.append(errors.invalid_value(f"{path}.maxSurge", surge, told))
    elif _is_zero(unavailable) and _is_zero(surge):
        problems.append(errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return problems


def stateful_set_problems(spec: Object) -> list[FieldError]:
    """What only StatefulSets have."""
    problems: list[FieldError] = []
    policy = spec["podManagementPolicy"]
    if policy not in ("OrderedReady", "Parallel"):
        told = "must be 'OrderedReady' or 'Parallel'"
        problems.append(errors.invalid_value("spec.podManagementPolicy", policy, told))
    strategy = spec["updateStrategy"]
    path, rolling = "spec.updateStrategy", strategy.get("rollingUpdate")
    if strategy["type"] == "OnDelete":
        if rolling is not None:
            told = "only allowed for updateStrategy 'RollingUpdate'"
            problems.append(errors.invalid_value(f"{path}.rollingUpdate", rolling, told))
    elif strategy["type"] == "RollingUpdate":
        problems += _partition_problems(rolling or {}, f"{path}.rollingUpdate")
    else:
        problems.append(errors.invalid_value(path, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    retention = spec["persistentVolumeClaimRetentionPolicy"]
    for field in ("whenDeleted", "whenScaled"):
        if retention[field] not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            problems.append(errors.not_supported(path, retention[field], ("Retain", "Delete")))
    return problems


def _partition_problems(rolling: Object, path: str) -> list[FieldError]:
    """How far an update goes, and how fast. Upstream drops ``maxUnavailable`` with its gate off; here it is the
    manager's gate that says whether it means something."""
    problems = number_problems(rolling, path, ("partition",))
    unavailable = rolling.get("maxUnavailable")
    if unavailable is None:
        return problems
    problems += count_problems(unavailable, f"{path}.maxUnavailable")
    if _is_zero(unavailable):
        problems.append(errors.invalid_value(f"{path}.maxUnavailable", unavailable, "cannot be 0"))
    return problems


# Status


def at_most_problems(status: Object, pairs: Sequence[tuple[str, str, str]]) -> list[FieldError]:
    """(field, the field that it may not exceed, what that is called): those that do."""
    return [
        errors.invalid_value(f"status.{field}", status.get(field) or 0, f"cannot be greater than {told}")
        for field, most, told in pairs
        if (status.get(field) or 0) > (status.get(most) or 0)
    ]


def collision_problems(status: Object, old: Object) -> list[FieldError]:
    """The count of hash collisions only grows."""
    before, after = old.get("collisionCount"), status.get("collisionCount")
    if before is None or (after is not None and after >= before):
        return []
    # Absent is zero here.
    return [errors.invalid_value("status.collisionCount", after or 0, "cannot be decremented")]
