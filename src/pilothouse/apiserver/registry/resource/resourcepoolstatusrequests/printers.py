"""How ``kubectl get`` shows ResourcePoolStatusRequests. After kubernetes' ``pkg/printers/internalversion/printers.go``
(v1.36).
"""

from pilothouse.apiserver.registry.generic.printers import NAME, Doc, Now, Printer, Row, age, columns, part

_ANSWERED = ("Complete", "Failed")
_TOTALS = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
_NOT_YET = "-"


def print_resource_pool_status_request(value: Doc, now: Now) -> Row:
    """The sums over all reported pools (KEP-5677, v1.36)."""
    status, driver = part(value, "status"), part(value, "spec", "driver") or ""
    given = [each for each in part(status, "conditions") or () if each.get("type") in _ANSWERED]
    if status is None or not given:
        return [driver, *(_NOT_YET for _ in (*_TOTALS, "errors", "pools")), "Pending", _NOT_YET]
    pools, count = part(status, "pools") or (), part(status, "poolCount") or 0
    answered, *_others = given
    said = answered["type"]
    if said == "Complete" and len(pools) < count:
        said = f"Complete ({len(pools)}/{count} pools)"
    return [
        driver,
        *(str(sum(pool.get(field) or 0 for pool in pools)) for field in _TOTALS),
        str(sum(bool(pool.get("validationError")) for pool in pools)),
        str(count),
        said,
        age(answered.get("lastTransitionTime"), now),
    ]


PRINTER = Printer(
    (
        NAME,
        *columns("Driver", "Total", "Available", "Allocated", "Unavailable", "Errors", "Pools", "Status", "Completed"),
    ),
    print_resource_pool_status_request,
)
