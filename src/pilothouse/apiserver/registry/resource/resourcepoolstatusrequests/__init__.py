"""ResourcePoolStatusRequests.

After kubernetes' ``pkg/registry/resource/resourcepoolstatusrequest/strategy.go``, the declarative validation tags in
``k8s.io/api`` ``resource/v1alpha3/types.go``, and ``pkg/apis/resource/validation`` (v1.36).
"""

from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, invalid, required, too_long, too_many
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_conditions
from pilothouse.apiserver.registry.generic.object_fields import (
    ensure_object,
    set_default_fields,
    validate_immutable_fields,
)
from pilothouse.apiserver.registry.generic.printers import (
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    age,
    columns,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.names import dns_subdomain_errors

_MAX_LIMIT = 1000
_MAX_CONDITIONS = 10
_MAX_ERROR_BYTES = 256
_MAX_POOL_NAME_BYTES = 253
_MIN_COUNTS = {
    "generation": 0,
    "resourceSliceCount": 1,
    "totalDevices": 0,
    "allocatedDevices": 0,
    "availableDevices": 0,
    "unavailableDevices": 0,
}
"""Field → its minimum."""


class ResourcePoolStatusRequestStrategy(Strategy):
    """The spec is immutable, and so is the status once it is set."""

    allow_unconditional_update = False
    return_deleted_object = True
    kept_on_status_update = "user metadata"
    update_steps = ("object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        set_default_fields(ensure_object(obj, "spec"), {"limit": 100})

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors = _validate_driver(spec.get("driver") or "", "spec.driver")
        if spec.get("poolName") is not None:
            errors += _validate_pool_status(spec["poolName"], "spec.poolName")
        errors += _validate_number(spec.get("limit"), "spec.limit", 1)
        if (spec.get("limit") or 0) > _MAX_LIMIT:
            errors.append(invalid("spec.limit", spec["limit"], f"must be less than or equal to {_MAX_LIMIT}"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", {"spec": "any"})

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        status = obj.get("status")
        if old.get("status") is not None:
            return validate_immutable_fields(obj, old, "", {"status": "*resource.ResourcePoolStatusRequestStatus"})
        if status is None:
            return []
        count, pools, conditions = status.get("poolCount"), status.get("pools") or (), status.get("conditions") or ()
        errors = [required("status.poolCount")] if count is None else []
        errors += _validate_number(count, "status.poolCount", 0)
        if len(pools) > _MAX_LIMIT:
            return [*errors, too_many("status.pools", len(pools), _MAX_LIMIT)]
        for position, pool in enumerate(pools):
            errors += _validate_status(pool, f"status.pools[{position}]")
        if len(conditions) > _MAX_CONDITIONS:
            return [*errors, too_many("status.conditions", len(conditions), _MAX_CONDITIONS)]
        return errors + validate_conditions(conditions, "status.conditions")


def _validate_driver(driver: str, path: str) -> ErrorList:
    if not driver:
        return [required(path)]
    return [invalid(path, driver, msg) for msg in dns_subdomain_errors(driver, any_case=True)]


def _validate_pool_status(name: str, path: str) -> ErrorList:
    errors = []
    if len(name.encode()) > _MAX_POOL_NAME_BYTES:
        errors.append(too_long(path, _MAX_POOL_NAME_BYTES))
    for position, segment in enumerate(name.split("/")):
        if not segment:
            errors.append(invalid(path, name, f"segment {position}: must not be empty"))
            continue
        for msg in dns_subdomain_errors(segment):
            errors.append(invalid(path, segment, f"segment {position}: {msg}"))
    return errors


def _validate_number(value: Any, path: str, minimum: int) -> ErrorList:
    if value is None or value >= minimum:
        return []
    return [invalid(path, value, f"must be greater than or equal to {minimum}")]


def _validate_status(pool: Object, path: str) -> ErrorList:
    errors = _validate_driver(pool.get("driver") or "", f"{path}.driver")
    name, node, error = pool.get("poolName") or "", pool.get("nodeName"), pool.get("validationError")
    errors += _validate_pool_status(name, f"{path}.poolName") if name else [required(f"{path}.poolName")]
    for field, minimum in _MIN_COUNTS.items():
        errors += _validate_number(pool.get(field), f"{path}.{field}", minimum)
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, msg) for msg in dns_subdomain_errors(node)]
    if error is not None and len(error.encode()) > _MAX_ERROR_BYTES:
        errors.append(too_long(f"{path}.validationError", _MAX_ERROR_BYTES))
    return errors


_FINISHED_CONDITIONS = ("Complete", "Failed")
_TOTALS = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
_NO_SUMS = ("-",) * (len(_TOTALS) + 1)


def print_resource_pool_status_request(value: Doc, now: Now) -> Row:
    """The sums over all reported pools (``printResourcePoolStatusRequest`` in ``pkg/printers/internalversion``)."""
    status, driver = nested_field(value, "status"), nested_field(value, "spec", "driver") or ""
    pools, count = nested_field(status, "pools") or (), nested_field(status, "poolCount") or 0
    finished: Doc = next(
        (
            condition
            for condition in nested_field(status, "conditions") or ()
            if condition.get("type") in _FINISHED_CONDITIONS and condition.get("status") == "True"
        ),
        {},
    )
    status_text = finished.get("type") or "Pending"
    sums = _NO_SUMS
    if status is not None and status_text != "Failed":
        errors = sum(pool.get("validationError") is not None for pool in pools)
        sums = (*(str(sum(pool.get(field) or 0 for pool in pools)) for field in _TOTALS), str(errors))
    completed = age(finished.get("lastTransitionTime"), now) if status_text == "Complete" else NONE
    if status_text == "Complete" and len(pools) < count:
        status_text = f"Complete ({len(pools)}/{count} pools)"
    return [driver, *sums, count, status_text, completed]


REGISTRATION = Registration(
    ResourcePoolStatusRequestStrategy(),
    printer=lambda: Printer(
        (
            NAME,
            *columns("Driver", "Total", "Available", "Allocated", "Unavailable", "Errors"),
            *columns("Pools", type_="integer"),
            *columns("Status", "Completed"),
        ),
        print_resource_pool_status_request,
    ),
)
