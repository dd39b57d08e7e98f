"""ResourcePoolStatusRequests: asked once, answered once.

After kubernetes' ``pkg/registry/resource/resourcepoolstatusrequest/strategy.go``, the tags of ``k8s.io/api``
``resource/v1alpha3/types.go`` that validation is made from, and ``pkg/apis/resource/validation`` (v1.36).
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.conditions import condition_problems
from pilothouse.apiserver.strategies.filling import child, fill, fixed
from pilothouse.machinery.names import dns_subdomain_errors

_LIMIT = 1000
_MOST_CONDITIONS = 10
_ERROR_BYTES = 256
_POOL_NAME_BYTES = 253
_COUNTS = {
    "generation": 0,
    "resourceSliceCount": 1,
    "totalDevices": 0,
    "allocatedDevices": 0,
    "availableDevices": 0,
    "unavailableDevices": 0,
}
"""The least that each may be."""


class PoolRequestStrategy(Strategy):
    """Neither the question nor its answer ever changes."""

    def default(self, obj: Object) -> None:
        fill(child(obj, "spec"), {"limit": 100})

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems = _driver_problems(spec.get("driver") or "", "spec.driver")
        if spec.get("poolName") is not None:
            problems += _pool_problems(spec["poolName"], "spec.poolName")
        problems += _number_problems(spec.get("limit"), "spec.limit", 1)
        if (spec.get("limit") or 0) > _LIMIT:
            text = f"must be less than or equal to {_LIMIT}"
            problems.append(errors.invalid_value("spec.limit", spec["limit"], text))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return fixed(obj, old, "", ("spec",))

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status = obj.get("status")
        if old.get("status") is not None:
            return fixed(obj, old, "", ("status",))
        if status is None:
            return []
        count, pools, conditions = status.get("poolCount"), status.get("pools") or (), status.get("conditions") or ()
        problems = [errors.required("status.poolCount")] if count is None else []
        problems += _number_problems(count, "status.poolCount", 0)
        if len(pools) > _LIMIT:
            return [*problems, errors.too_many("status.pools", len(pools), _LIMIT)]
        for position, pool in enumerate(pools):
            problems += _answer_problems(pool, f"status.pools[{position}]")
        if len(conditions) > _MOST_CONDITIONS:
            return [*problems, errors.too_many("status.conditions", len(conditions), _MOST_CONDITIONS)]
        return problems + condition_problems(conditions, "status.conditions")


def _driver_problems(driver: str, path: str) -> list[FieldError]:
    if not driver:
        return [errors.required(path)]
    return [errors.invalid_value(path, driver, text) for text in dns_subdomain_errors(driver, any_case=True)]


def _pool_problems(name: str, path: str) -> list[FieldError]:
    problems = []
    if len(name.encode()) > _POOL_NAME_BYTES:
        problems.append(errors.too_long(path, _POOL_NAME_BYTES))
    for position, segment in enumerate(name.split("/")):
        if not segment:
            problems.append(errors.invalid_value(path, name, f"segment {position}: must not be empty"))
            continue
        for text in dns_subdomain_errors(segment):
            problems.append(errors.invalid_value(path, segment, f"segment {position}: {text}"))
    return problems


def _number_problems(value: Any, path: str, least: int) -> list[FieldError]:
    if value is None or value >= least:
        return []
    return [errors.invalid_value(path, value, f"must be greater than or equal to {least}")]


def _answer_problems(pool: Object, path: str) -> list[FieldError]:
    problems = _driver_problems(pool.get("driver") or "", f"{path}.driver")
    name, node, error = pool.get("poolName") or "", pool.get("nodeName"), pool.get("validationError")
    problems += _pool_problems(name, f"{path}.poolName") if name else [errors.required(f"{path}.poolName")]
    for field, least in _COUNTS.items():
        problems += _number_problems(pool.get(field), f"{path}.{field}", least)
    if node is not None:
        problems += [errors.invalid_value(f"{path}.nodeName", node, text) for text in dns_subdomain_errors(node)]
    if error is not None and len(error.encode()) > _ERROR_BYTES:
        problems.append(errors.too_long(f"{path}.validationError", _ERROR_BYTES))
    return problems
