"""The status of a request. Pure. Upstream: ``calculatePoolStatus``, v1.36
``pkg/controller/resourcepoolstatusrequest/controller.go``."""

import datetime
from collections.abc import Sequence
from typing import assert_never

from pilothouse.controllers.devices.resourcepoolstatusrequest.decide import COMPLETE, Counts, Incomplete, Pool
from pilothouse.machinery.times import format_time

DEFAULT_LIMIT = 100
REASON = "CalculationComplete"
_ERROR_BYTES = 256


def limited(pools: Sequence[Pool], limit: int | None) -> Sequence[Pool]:
    return pools[: DEFAULT_LIMIT if limit is None else limit]


def has_incomplete(pools: Sequence[Pool]) -> bool:
    return any(isinstance(pool.found, Incomplete) for pool in pools)


def new_status(pools: Sequence[Pool], limit: int | None, now: datetime.datetime) -> dict[str, object]:
    """``status`` as JSON. Without pools it has no list of them, as upstream."""
    limited_pools = limited(pools, limit)
    incomplete = sum(isinstance(pool.found, Incomplete) for pool in limited_pools)
    message = f"Calculated status for {len(limited_pools)} pools"
    if incomplete:
        message += f" ({incomplete} incomplete)"
    condition = {
        "type": COMPLETE,
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": REASON,
        "message": message,
    }
    status: dict[str, object] = {"poolCount": len(pools)}
    if limited_pools:
        status["pools"] = [_entry(pool) for pool in limited_pools]
    status["conditions"] = [condition]
    return status


def _entry(pool: Pool) -> dict[str, object]:
    entry: dict[str, object] = {"driver": pool.driver, "poolName": pool.name, "generation": pool.generation}
    if pool.node:
        entry["nodeName"] = pool.node
    match pool.found:
        case Counts() as counts:
            entry["resourceSliceCount"] = counts.slices
            entry["totalDevices"] = counts.total
            entry["allocatedDevices"] = counts.allocated
            entry["availableDevices"] = counts.available
            entry["unavailableDevices"] = counts.unavailable
        case Incomplete(observed, expected):
            text = (
                f"pool {pool.driver}/{pool.name} is incomplete: observed {observed}/{expected} slices at generation "
                f"{pool.generation}"
            )
            # The API's limit is in bytes. Names of drivers and pools are ASCII; half of another character would be
            # invalid.
            entry["validationError"] = text.encode()[:_ERROR_BYTES].decode(errors="ignore")
        case unreachable:
            assert_never(unreachable)
    return entry
