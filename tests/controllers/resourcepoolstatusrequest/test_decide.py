"""Device counts and the status of a request.

Rows mirror ``pkg/controller/resourcepoolstatusrequest/controller_test.go`` of v1.36, and where what is counted differs
from it, that of v1.37.
"""

import datetime
from pathlib import Path
from typing import Any

from tests.controllers.resourcepoolstatusrequest.pools import DRIVER, claim_of, slice_of
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.api.meta import Condition, ObjectMeta
from pilothouse.api.resource import (
    ResourceClaim,
    ResourcePoolStatusRequest,
    ResourcePoolStatusRequestStatus,
    ResourceSlice,
)
from pilothouse.controllers.devices.resourcepoolstatusrequest.decide import (
    Counts,
    Incomplete,
    Pool,
    pools_of,
    should_delete_request,
)
from pilothouse.controllers.devices.resourcepoolstatusrequest.status import has_incomplete, limited, new_status

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
SECOND = datetime.timedelta(seconds=1)

_COUNTED, _FOUND, _SAID, _OVER = (
    "test_pool_device_counts",
    "test_pools_matching_a_request",
    "test_status_of_a_request",
    "test_expired_requests",
)
COVERED: Cases = {
    "TestCalculatePoolStatus: single-pool-no-allocations": _COUNTED,
    "TestCalculatePoolStatus: single-pool-with-allocations": _COUNTED,
    "TestCalculatePoolStatus: multiple-pools": _FOUND,
    "TestCalculatePoolStatus: filter-by-driver": _FOUND,
    "TestCalculatePoolStatus: filter-by-pool-name": _FOUND,
    "TestCalculatePoolStatus: multiple-slices-same-pool": _COUNTED,
    "TestCalculatePoolStatus: limit-pools": _SAID,
    "TestCalculatePoolStatus: no-matching-pools": _SAID,
    "TestCalculatePoolStatus: older-generation-slices-ignored": _COUNTED,
    "TestCalculatePoolStatus: incomplete-pool-has-validation-error": _SAID,
    "TestCalculatePoolStatus: mix-of-complete-and-incomplete-pools": _SAID,
    "TestCalculatePoolStatus: same-node-pool-sets-nodename": "test_pool_node_name",
    "TestCalculatePoolStatus: mixed-node-pool-clears-nodename": "test_pool_node_name",
    "TestCalculatePoolStatus: nil-nodename-slices-no-nodename": "test_pool_node_name",
    "TestCalculatePoolStatus: all-pools-complete-no-validation-errors": _COUNTED,
    "TestCalculatePoolStatus_CapAtOnePerDevice": _COUNTED,
    "TestCalculatePoolStatus_SkipAdminAccess": _COUNTED,
    "TestCalculatePoolStatus_UnavailableFromTaints": _COUNTED,
    "TestSyncRequest": "test_status_is_written_in_one_update",
    "TestSyncRequestRequeuesIncompletePool": "test_incomplete_pool_is_retried_then_reported",
    "TestSkipProcessedRequest": "test_completed_request_is_not_processed_again",
    "TestShouldDeleteRequest: completed-request-not-expired": _OVER,
    "TestShouldDeleteRequest: completed-request-expired": _OVER,
    "TestShouldDeleteRequest: pending-request-not-expired": _OVER,
    "TestShouldDeleteRequest: pending-request-expired": _OVER,
    "TestCleanupExpiredRequests": "test_completed_requests_expire_after_an_hour_and_pending_after_a_day",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def counts(slices: int = 1, total: int = 4, allocated: int = 0, unavailable: int = 0) -> Counts:
    return Counts(slices, total, allocated, unavailable)


def only(slices: list[ResourceSlice], claims: list[ResourceClaim]) -> Pool:
    (pools,) = pools_of(DRIVER, "", slices, claims)
    return pools


@cases(
    "slices, claims, expected",
    {
        "no claims": ([slice_of("a")], [], counts()),
        "claim without allocation": ([slice_of("a")], [claim_of()], counts()),
        "two claims, two devices": ([slice_of("a")], [claim_of("device-0"), claim_of("device-1")], counts(allocated=2)),
        "one claim, two devices": ([slice_of("a")], [claim_of("device-0", "device-1")], counts(allocated=2)),
        "a device that three share is one": ([slice_of("a")], [claim_of("device-0")] * 3, counts(allocated=1)),
        "admin access is not counted": (
            [slice_of("a")],
            [claim_of("device-0"), claim_of("device-1", adminAccess=True)],
            counts(allocated=1),
        ),
        "devices of other pools and drivers": (
            [slice_of("a")],
            [claim_of("device-0", pool="pool-2"), claim_of("device-1", driver="other.example.com")],
            counts(),
        ),
        "two slices of one pool": (
            [slice_of("a", expected=2), slice_of("b", expected=2)],
            [],
            counts(slices=2, total=8),
        ),
        "more slices than resourceSliceCount": (
            [slice_of("a", expected=1), slice_of("b", expected=1)],
            [],
            counts(slices=2, total=8),
        ),
        "slices of an older generation are ignored": (
            [slice_of("old", devices=8), slice_of("a", generation=2), slice_of("b", generation=2)],
            [],
            counts(slices=2, total=8),
        ),
        "tainted devices are unavailable": (
            [slice_of("a", taints={0: "NoSchedule", 1: "NoExecute", 2: "None"})],
            [],
            counts(unavailable=2),
        ),
        "an allocated tainted device is allocated": (
            [slice_of("a", taints={0: "NoExecute"})],
            [claim_of("device-0")],
            counts(allocated=1),
        ),
        "a pool without devices": ([slice_of("a", devices=0)], [], counts(total=0)),
        "missing slice": ([slice_of("a", expected=3), slice_of("b", expected=3)], [], Incomplete(2, 3)),
        "incomplete newer generation": (
            [slice_of("old", expected=1), slice_of("a", generation=2, expected=2)],
            [],
            Incomplete(1, 2),
        ),
        "slices that disagree": ([slice_of("a", expected=1), slice_of("b", expected=3)], [], Incomplete(2, 3)),
    },
)
def test_pool_device_counts(slices: list[ResourceSlice], claims: list[ResourceClaim], expected: object) -> None:
    assert only(slices, claims).found == expected
    assert only(slices[::-1], claims[::-1]).found == expected, "whatever the order"


def test_available_devices_are_never_negative() -> None:
    """A claim may still have a device that the pool no longer has."""
    assert counts(total=1, allocated=3).available == 0
    assert counts(total=4, allocated=1, unavailable=1).available == 2


@cases(
    "driver, name, expected",
    {
        "all pools of the driver, sorted": (DRIVER, "", ["pool-1", "pool-2"]),
        "one pool by name": (DRIVER, "pool-1", ["pool-1"]),
        "pool of another driver": (DRIVER, "pool-3", []),
        "driver without pools": ("nonexistent.example.com", "", []),
    },
)
def test_pools_matching_a_request(driver: str, name: str, expected: list[str]) -> None:
    slices = [slice_of("b", "pool-2"), slice_of("a", "pool-1"), slice_of("c", "pool-3", driver="other.example.com")]
    assert [pool.name for pool in pools_of(driver, name, slices, [])] == expected


@cases(
    "nodes, expected",
    {
        "one node": (["node-1", "node-1"], "node-1"),
        "two nodes": (["node-1", "node-2"], ""),
        "no node": ([None, None], ""),
        "some slices with a node": ([None, "node-1"], ""),
    },
)
def test_pool_node_name(nodes: list[str | None], expected: str) -> None:
    slices = [slice_of(f"slice-{number}", node=node) for number, node in enumerate(nodes)]
    assert only(slices, []).node == expected
    assert only(slices[::-1], []).node == expected


def pool(name: str = "pool-1", pools: Counts | Incomplete | None = None, **more: Any) -> Pool:
    return Pool(**{"driver": DRIVER, "name": name, "generation": 1, "node": "", "found": pools or counts(), **more})


def entry(name: str = "pool-1", **more: Any) -> dict[str, Any]:
    return {"driver": DRIVER, "poolName": name, "generation": 1, **more}


FOUR = {
    "resourceSliceCount": 1,
    "totalDevices": 4,
    "allocatedDevices": 0,
    "availableDevices": 4,
    "unavailableDevices": 0,
}


@cases(
    "pools, limit, expected, message",
    {
        "no pools": ([], None, {"poolCount": 0}, "Calculated status for 0 pools"),
        "complete pool": (
            [pool(node="node-1", pools=counts(2, 8, 3, 1))],
            None,
            {
                "poolCount": 1,
                "pools": [
                    entry(
                        nodeName="node-1",
                        resourceSliceCount=2,
                        totalDevices=8,
                        allocatedDevices=3,
                        availableDevices=4,
                        unavailableDevices=1,
                    )
                ],
            },
            "Calculated status for 1 pools",
        ),
        "limit below the number of pools": (
            [pool("pool-1"), pool("pool-2")],
            1,
            {"poolCount": 2, "pools": [entry("pool-1", **FOUR)]},
            "Calculated status for 1 pools",
        ),
        "incomplete pool has no counts": (
            [pool("pool-1"), pool("pool-2", Incomplete(2, 3), generation=7)],
            None,
            {
                "poolCount": 2,
                "pools": [
                    entry("pool-1", **FOUR),
                    entry(
                        "pool-2",
                        generation=7,
                        validationError=f"pool {DRIVER}/pool-2 is incomplete: observed 2/3 slices at generation 7",
                    ),
                ],
            },
            "Calculated status for 2 pools (1 incomplete)",
        ),
        "incomplete pool beyond the limit": (
            [pool("pool-1"), pool("pool-2", Incomplete(0, 1))],
            1,
            {"poolCount": 2, "pools": [entry("pool-1", **FOUR)]},
            "Calculated status for 1 pools",
        ),
    },
)
def test_status_of_a_request(pools: list[Pool], limit: int | None, expected: dict[str, Any], message: str) -> None:
    status: dict[str, Any] = {**new_status(pools, limit, NOW)}
    (condition,) = status.pop("conditions")
    assert status == expected
    assert condition == {
        "type": "Complete",
        "status": "True",
        "reason": "CalculationComplete",
        "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }


def test_default_limit_is_100_pools() -> None:
    pools = [pool(f"pool-{number:03}") for number in range(120)]
    assert len(limited(pools, None)) == 100
    assert len(limited(pools, 110)) == 110
    assert len(limited(pools, 1000)) == 120


def test_incomplete_pool_beyond_the_limit_is_not_awaited() -> None:
    pools = [pool("pool-1"), pool("pool-2", Incomplete(0, 1))]
    assert has_incomplete(limited(pools, None))
    assert not has_incomplete(limited(pools, 1))


def test_validation_error_is_truncated_to_the_api_limit() -> None:
    status: dict[str, Any] = new_status([pool("p" * 300, Incomplete(1, 2))], None, NOW)
    (pool_statuses,) = status["pools"]
    assert len(pool_statuses["validationError"].encode()) == 256


def request(age: datetime.timedelta, *conditions: tuple[str, datetime.timedelta]) -> ResourcePoolStatusRequest:
    listed = tuple(Condition(type=kind, status="True", last_transition_time=NOW - since) for kind, since in conditions)
    status = ResourcePoolStatusRequestStatus(conditions=listed)
    return ResourcePoolStatusRequest(metadata=ObjectMeta(name="r", creation_timestamp=NOW - age), status=status)


def pending(age: datetime.timedelta | None) -> ResourcePoolStatusRequest:
    created_at = None if age is None else NOW - age
    return ResourcePoolStatusRequest(metadata=ObjectMeta(name="r", creation_timestamp=created_at))


@cases(
    "age, expected",
    {
        "pending, just created": (pending(0 * HOUR), False),
        "pending for exactly a day": (pending(24 * HOUR), False),
        "pending for more than a day": (pending(24 * HOUR + SECOND), True),
        "pending without creationTimestamp": (pending(None), False),
        "just completed": (request(0 * HOUR, ("Complete", 0 * HOUR)), False),
        "completed exactly an hour ago": (request(48 * HOUR, ("Complete", 1 * HOUR)), False),
        "completed more than an hour ago": (request(2 * HOUR, ("Complete", 1 * HOUR + SECOND)), True),
        "failed more than an hour ago": (request(2 * HOUR, ("Failed", 2 * HOUR)), True),
        "other condition, created two hours ago": (request(2 * HOUR, ("Odd", 0 * HOUR)), True),
        "no condition, created an hour ago": (request(1 * HOUR), False),
    },
)
def test_expired_requests(age: ResourcePoolStatusRequest, expected: bool) -> None:
    assert should_delete_request(age, NOW) is expected
