"""Cases of v1.36 ``pkg/controller/nodelifecycle/node_lifecycle_controller_test.go`` and
``scheduler/rate_limited_queue_test.go``, and their coverage."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.controllers import node_world
from tests.controllers.node_world import HEALTHY, NODES, PODS, World, fixture_of
from tests.controllers.upstream_coverage import NOT, Cases, missing
from tests.tables import cases

from pilothouse.api.coordination import Lease, LeaseSpec
from pilothouse.api.core import Node, NodeCondition, NodeStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR, NodeLifecycleOptions
from pilothouse.controllers.node.node_lifecycle.health import (
    ClockReading,
    Health,
    conditions_of_unresponsive_node,
    is_unresponsive,
    observe_heartbeat,
)
from pilothouse.controllers.node.node_lifecycle.taint_queue import TaintQueue
from pilothouse.controllers.node.node_lifecycle.zones import (
    ZoneState,
    compute_zone_state,
    is_not_excluded,
    plan,
    zone_of,
)
from pilothouse.env import Env

HEALTH, LEASE = "test_monitor_node_health", "test_monitor_node_health_update_status"
QUEUE = "rate_limited_queue_test.go "
COVERED: Cases = {
    "TestMonitorNodeHealth: Node created recently without failure domain labels": HEALTH,
    "TestMonitorNodeHealth: Initially both zones down, one comes back": HEALTH,
    "TestMonitorNodeHealth: Nodes created recently without status conditions": HEALTH,
    "TestMonitorNodeHealth: one Node failed leading … to exceed the configured threshold": HEALTH,
    "TestMonitorNodeHealth: the zone has less than 2 Nodes down, the last healthy Node has failed": HEALTH,
    "TestMonitorNodeHealth: all the Nodes in one zone are down": HEALTH,
    "TestMonitorNodeHealth: all the Nodes in both the zones are down": HEALTH,
    "TestMonitorNodeHealth: Ready condition removed from the Node": HEALTH,
    "TestMonitorNodeHealth: the only available Node has the exclude-disruption label": HEALTH,
    "TestPodStatusChange": NOT + "it tests a helper that writes NodeLost on pods and that no controller calls any more",
    "TestMonitorNodeHealthUpdateStatus: long ago, without status": LEASE,
    "TestMonitorNodeHealthUpdateStatus: recently, without status": LEASE,
    "TestMonitorNodeHealthUpdateStatus: long ago, status exceeds grace period": LEASE,
    "TestMonitorNodeHealthUpdateStatus: long ago, status updated recently": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: recently, no status, Lease missing": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: recently, no status, Lease renewed": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: long ago, no status, Lease missing": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: long ago, no status, Lease renewed": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: long ago, no status, Lease expired": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: status exceeds grace, Lease renewed": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: status recent, Lease expired": LEASE,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease: status exceeds grace, Lease expired": LEASE,
    "TestMonitorNodeHealthMarkPodsNotReady: recently, without status": "test_monitor_node_health_mark_pods_not_ready",
    "TestMonitorNodeHealthMarkPodsNotReady: long ago, status updated recently": (
        "test_monitor_node_health_mark_pods_not_ready"
    ),
    "TestMonitorNodeHealthMarkPodsNotReady: long ago, status exceeds grace period": (
        "test_monitor_node_health_mark_pods_not_ready"
    ),
    "TestMonitorNodeHealthMarkPodsNotReadyWithWorkerSize": "test_monitor_node_health_mark_pods_not_ready_of_many_nodes",
    "TestMonitorNodeHealthMarkPodsNotReadyRetry: successful pod status update, no retry required": (
        "test_monitor_node_health_mark_pods_not_ready_retry"
    ),
    "TestMonitorNodeHealthMarkPodsNotReadyRetry: unsuccessful pod status update, retry required": (
        "test_monitor_node_health_mark_pods_not_ready_retry"
    ),
    "TestMonitorNodeHealthMarkPodsNotReadyRetry: unsuccessful pod list, retry required": (
        NOT + "pods come from an index in memory, which does not fail"
    ),
    "TestApplyNoExecuteTaints": "test_ready_condition_removed_while_waiting_for_a_taint",
    "TestApplyNoExecuteTaintsToUnreachableNode (after v1.36)": "test_node_with_a_renewed_heartbeat_loses_its_taints",
    "TestApplyNoExecuteTaintsToNodesEnqueueTwice": "test_recovered_node_does_not_block_the_queue",
    "TestSwapUnreachableNotReadyTaints": "test_not_ready_taint_is_swapped_for_unreachable_without_delay",
    "TestTaintsNodeByCondition: NetworkUnavailable is true": "test_condition_taints",
    "TestTaintsNodeByCondition: Ready is false": "test_condition_taints",
    "TestTaintsNodeByCondition: Ready is unknown": "test_condition_taints",
    "TestNodeEventGeneration": "test_registered_node_event_has_its_uid",
    "TestReconcileNodeLabels: No-op if node has no labels": "test_beta_labels",
    "TestReconcileNodeLabels: No-op if no target labels present": "test_beta_labels",
    "TestReconcileNodeLabels: Create OS/arch beta labels when they don't exist": "test_beta_labels",
    "TestReconcileNodeLabels: Reconcile OS/arch beta labels to match stable labels": "test_beta_labels",
    "TestTryUpdateNodeHealth": "test_try_update_node_health",
    "Test_isNodeExcludedFromDisruptionChecks": "test_exclude_disruption_label",
    "TestProcessPodMarkPodNotReady: the scheduled node's healthy is not gathered yet": (
        "test_process_pod_mark_pod_not_ready"
    ),
    "TestProcessPodMarkPodNotReady: the scheduled node is ready": "test_process_pod_mark_pod_not_ready",
    "TestProcessPodMarkPodNotReady: the scheduled node is not ready": "test_process_pod_mark_pod_not_ready",
    f"{QUEUE}TestAddNode": "test_unique_queue",
    f"{QUEUE}TestDelNode": "test_removed_item_is_not_tried",
    f"{QUEUE}TestTry": "test_removed_item_is_not_tried",
    f"{QUEUE}TestTryOrdering": "test_failed_item_waits_and_others_are_tried_first",
    f"{QUEUE}TestTryRemovingWhileTry": "test_failed_item_waits_and_others_are_tried_first",
    f"{QUEUE}TestClear": NOT + "nothing clears a queue, nor does upstream outside of this test",
    f"{QUEUE}TestSwapLimiter": "test_swap_limiter",
    f"{QUEUE}TestAddAfterTry": "test_unique_queue",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
FULL, NORMAL, PARTIAL = ZoneState.FULL, ZoneState.NORMAL, ZoneState.PARTIAL
EXCLUDED = "node.kubernetes.io/exclude-disruption"


def at(seconds: float) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=seconds)


def node(status: str, zone: str, *, excluded: bool = False) -> Node:
    """Ready: T, F, U, or none at all."""
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    if excluded:
        labels[EXCLUDED] = ""
    names = {"T": "True", "F": "False", "U": "Unknown"}
    conditions = (NodeCondition(type="Ready", status=names[status]),) if status in names else ()
    return Node(metadata=ObjectMeta(labels=labels), status=NodeStatus(conditions=conditions))


@cases(
    "zones, first, then, initially, following",
    {
        "one node, no zone labels": (("",), "T", "T", {"": NORMAL}, {"": NORMAL}),
        "both zones down, one comes back": (("a", "b"), "UU", "UT", {"a": FULL, "b": FULL}, {"a": FULL, "b": NORMAL}),
        "none has reported yet": (("a",) * 4, "----", "UUUT", {"a": FULL}, {"a": PARTIAL}),
        "the third of five fails": (("a",) * 5, "UUTTT", "UUUTT", {"a": NORMAL}, {"a": PARTIAL}),
        "two down are normal, the last one fails": (("a",) * 3, "UUT", "UUU", {"a": NORMAL}, {"a": FULL}),
        "one zone down": (("a", "b"), "UT", "UT", {"a": FULL, "b": NORMAL}, {"a": FULL, "b": NORMAL}),
        "both zones down": (("a", "b"), "UU", "UU", {"a": FULL, "b": FULL}, {"a": FULL, "b": FULL}),
        "the condition is removed": (("a",), "T", "-", {"a": NORMAL}, {"a": FULL}),
        "the only ready one is excluded": (("a", "a!"), "UT", "UT", {"a": FULL}, {"a": FULL}),
    },
)
def test_monitor_node_health(
    zones: tuple[str, ...], first: str, then: str, initially: dict[str, ZoneState], following: dict[str, ZoneState]
) -> None:
    """TestMonitorNodeHealth. ``!`` marks an excluded node."""
    states: dict[str, ZoneState] = {}
    for statuses, expected in ((first, initially), (then, following)):
        conditions: dict[str, list[NodeCondition | None]] = {}
        for zone, status in zip(zones, statuses, strict=True):
            one = node(status, zone.removesuffix("!"), excluded=zone.endswith("!"))
            if is_not_excluded(one):
                ready = one.status.conditions[0] if one.status.conditions else None
                conditions.setdefault(zone_of(one).rpartition(":")[2], []).append(ready)
        reports = {zone: compute_zone_state(condition, 0.55) for zone, condition in conditions.items()}
        states = plan(states, reports, NodeLifecycleOptions()).states
        assert states == expected


HOUR = 3600.0
NEVER, STOPPED = "NodeStatusNeverUpdated", "NodeStatusUnknown"
ALL = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class CachedState(msgspec.Struct, frozen=True):
    """What the caches have in a pass: when the node last reported and renewed; None for never."""

    at: float
    reported: float | None = None
    renewed: float | None = None


@cases(
    "created, passes, expected",
    {
        "old, never reported": (-3 * HOUR, (CachedState(0),), dict.fromkeys(ALL, NEVER)),
        "new, has not reported yet": (0, (CachedState(0),), None),
        "reported an hour ago": (
            -HOUR,
            (CachedState(0, reported=0), CachedState(HOUR, reported=0)),
            {"Ready": STOPPED, "MemoryPressure": NEVER, "DiskPressure": NEVER, "PIDPressure": NEVER},
        ),
        "reported just now": (-HOUR, (CachedState(0, reported=0),), None),
        "new, never reported, no Lease": (0, (CachedState(0), CachedState(5)), None),
        "new, never reported, renews its Lease": (0, (CachedState(0, renewed=0), CachedState(5, renewed=5)), None),
        "old, never reported, no Lease": (-HOUR, (CachedState(0), CachedState(HOUR)), dict.fromkeys(ALL, NEVER)),
        "old, never reported, renews its Lease": (
            -HOUR,
            (CachedState(0, renewed=0), CachedState(HOUR, renewed=HOUR)),
            None,
        ),
        "old, never reported, and no longer renews": (
            -HOUR,
            (CachedState(0, renewed=0), CachedState(HOUR, renewed=0)),
            dict.fromkeys(ALL, NEVER),
        ),
        "reported an hour ago and renews": (
            -HOUR,
            (CachedState(0, reported=0, renewed=0), CachedState(HOUR, reported=0, renewed=HOUR)),
            None,
        ),
        "reports and no longer renews": (
            -HOUR,
            (CachedState(0, reported=0, renewed=0), CachedState(HOUR, reported=HOUR, renewed=0)),
            None,
        ),
        "neither reports nor renews": (
            -HOUR,
            (CachedState(0, reported=0, renewed=0), CachedState(HOUR, reported=0, renewed=0)),
            {"Ready": STOPPED, "MemoryPressure": NEVER, "DiskPressure": NEVER, "PIDPressure": NEVER},
        ),
    },
)
def test_monitor_node_health_update_status(
    created: float, passes: tuple[CachedState, ...], expected: dict[str, str] | None
) -> None:
    """TestMonitorNodeHealthUpdateStatus and …UpdateNodeAndPodStatusWithLease: the reason by condition, or nothing."""
    health: Health | None = None
    written = None
    for item in passes:
        now = ClockReading(10 * HOUR + item.at, at(item.at))
        reported = () if item.reported is None else (ready_since(item.reported),)
        one = Node(metadata=ObjectMeta(creation_timestamp=at(created)), status=NodeStatus(conditions=reported))
        lease = None if item.renewed is None else Lease(spec=LeaseSpec(renew_time=at(item.renewed)))
        health = observe_heartbeat(health, one, lease, now)
        silent = is_unresponsive(health, now, monitor_grace=50, startup_grace=60)
        written = conditions_of_unresponsive_node(one, now) if silent else None
    if expected is None:
        assert written is None
    else:
        assert written is not None
        assert {c.type: c.reason for c in written} == expected
        assert {c.status for c in written} == {"Unknown"}
        heartbeat_times = {c.type: c.last_heartbeat_time for c in written}
        assert all(heartbeat_times[kind] == at(created) for kind, reason in expected.items() if reason == NEVER)


def ready_since(seconds: float) -> NodeCondition:
    return NodeCondition(type="Ready", status="True", last_heartbeat_time=at(seconds), last_transition_time=at(seconds))


@contextlib.asynccontextmanager
async def monitored(env: Env, *, eviction_rate: float = 100.0) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR, NodeLifecycleOptions(eviction_rate=eviction_rate))
        await asyncio.sleep(1)
        yield world


world = fixture_of(monitored)


async def keep_alive(world: World, *names: str, seconds: float) -> None:
    for _ in range(int(seconds / 10)):
        for name in names:
            await world.renew(name)
        await asyncio.sleep(10)


@cases(
    "conditions, seconds, marked",
    {
        "new, has not reported yet": ({}, 50, False),
        "reported in time": (HEALTHY, 50, False),
        "reported too long ago": (HEALTHY, 70, True),
    },
)
async def test_monitor_node_health_mark_pods_not_ready(
    world: World, conditions: dict[str, str], seconds: float, marked: bool
) -> None:
    """TestMonitorNodeHealthMarkPodsNotReady."""
    await world.node("other")
    await world.node("n1", conditions=conditions)
    await world.pod("p", node="n1", ready=True)
    await keep_alive(world, "other", seconds=seconds)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == str(not marked)


async def test_monitor_node_health_mark_pods_not_ready_of_many_nodes(world: World) -> None:
    """TestMonitorNodeHealthMarkPodsNotReadyWithWorkerSize; how many are looked at together is no option here."""
    await world.node("other")
    for number in range(20):
        await world.node(f"n{number}")
        for serial in range(5):
            await world.pod(f"p-{number}-{serial}", node=f"n{number}", ready=True)
    await keep_alive(world, "other", seconds=70)
    assert len([text for text in world.requests() if text.startswith("update pods/status")]) == 100


@cases("failures, writes", {"no conflict": (0, 1), "a retry": (1, 2)})
async def test_monitor_node_health_mark_pods_not_ready_retry(world: World, failures: int, writes: int) -> None:
    """TestMonitorNodeHealthMarkPodsNotReadyRetry."""
    await world.node("other")
    await world.node("n1")
    await world.pod("p", node="n1", ready=True)
    if failures:
        world.faults.add(Rule(fail(500), verb="update", resource="pods", nth=1))
    await keep_alive(world, "other", seconds=70)
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await keep_alive(world, "other", "n1", seconds=30)
    assert len([text for text in world.requests() if text.startswith("update pods/status")]) == writes
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_ready_condition_removed_while_waiting_for_a_taint(env: Env) -> None:
    """TestApplyNoExecuteTaints, its fourth node; the others are in ``test_controller``."""
    async with monitored(env, eviction_rate=0.05) as world:
        for name in ("other", "n1", "n2"):
            await world.node(name)
        for name in ("n1", "n2"):
            await world.report_node(name, {**HEALTHY, "Ready": "False"})
        await keep_alive(world, "other", "n1", "n2", seconds=10)
        assert await world.taints("n1") == ["not-ready:NoSchedule", "not-ready:NoExecute"]
        assert await world.taints("n2") == ["not-ready:NoSchedule"], "it waits for a token"
        await world.report_node("n2", {"MemoryPressure": "Unknown"})
        await keep_alive(world, "other", "n1", "n2", seconds=40)
        assert await world.taints("n2") == []


async def test_recovered_node_does_not_block_the_queue(env: Env) -> None:
    """TestApplyNoExecuteTaintsToNodesEnqueueTwice."""
    async with monitored(env, eviction_rate=0.05) as world:
        names = ("other", "more", "most", "n1", "n2", "n3")
        for name in names:
            await world.node(name)
        for name in ("n1", "n2", "n3"):
            await world.report_node(name, {**HEALTHY, "Ready": "False"})
        await keep_alive(world, *names, seconds=10)
        assert "not-ready:NoExecute" in await world.taints("n1")
        await world.report_node("n2", HEALTHY)
        await keep_alive(world, *names, seconds=20)
        assert await world.taints("n2") == []
        assert "not-ready:NoExecute" in await world.taints("n3"), "the next token is for the next one"


async def test_registered_node_event_has_its_uid(world: World) -> None:
    """TestNodeEventGeneration."""
    created = await world.node("n1")
    await asyncio.sleep(6)
    [event] = (await world.must_get("/api/v1/events"))["items"]
    assert (event["reason"], event["involvedObject"]["uid"]) == ("RegisteredNode", created["metadata"]["uid"])


@pytest.mark.parametrize("status", ["True", "False", "Unknown", "none"])
@pytest.mark.parametrize("after", [False, True], ids=["within the grace period", "after the grace period"])
async def test_try_update_node_health(world: World, status: str, after: bool) -> None:
    """TestTryUpdateNodeHealth, by its effects: a new pod is marked if and only if the node's current or written
    condition is not ready."""
    await world.node("other")
    await world.node("n1", conditions={} if status == "none" else {**HEALTHY, "Ready": status})
    await keep_alive(world, "other", seconds=70 if after else 10)
    await world.pod("p", node="n1")
    with world.faults.hold(resource="pods"):
        await world.pod("late", node="n1", ready=True)
    await asyncio.sleep(1)
    now = (await world.conditions(f"{NODES}/n1")).get("Ready")
    down = now is not None and now["status"] != "True"
    assert down is (after or status in ("False", "Unknown"))
    assert ((await world.conditions(f"{PODS}/late"))["Ready"]["status"] == "False") is down


@cases(
    "conditions, known, marked",
    {
        "node not observed yet": ({**HEALTHY, "Ready": "False"}, False, False),
        "node ready": (HEALTHY, True, False),
        "node not ready": ({**HEALTHY, "Ready": "False"}, True, True),
    },
)
async def test_process_pod_mark_pod_not_ready(
    world: World, conditions: dict[str, str], known: bool, marked: bool
) -> None:
    """TestProcessPodMarkPodNotReady. Passes are in seconds 0, 5, 10, …"""
    await world.node("n1", conditions=conditions)
    await asyncio.sleep(7 if known else 1)
    with world.faults.hold(resource="pods"):
        await world.pod("p", node="n1", ready=True)
    await asyncio.sleep(1)
    assert ((await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False") is marked


@pytest.mark.parametrize("removed", ["first", "second", "third"])
def test_removed_item_is_not_tried(removed: str) -> None:
    """TestDelNode, TestTry."""
    queue = TaintQueue(1.0, 0.0)
    names = ["first", "second", "third"]
    for name in names:
        queue.add(name, 0.0)
    queue.remove(removed)
    tried = []
    while (head := queue.head(1.0)) is not None:
        tried.append(head)
        queue.done(head)
    assert tried == [name for name in names if name != removed]
    assert queue.add(removed, 2.0), "it may come again"
    assert not queue.add(tried[0], 2.0), "who was dealt with does not, unless it is removed (TestAddAfterTry)"
