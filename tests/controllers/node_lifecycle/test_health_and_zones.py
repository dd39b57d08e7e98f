"""Node health, zone states and taints.

Rows mirror ``pkg/controller/nodelifecycle/node_lifecycle_controller_test.go`` and
``scheduler/rate_limited_queue_test.go`` of v1.36 where they say so.
"""

import datetime

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.coordination import Lease, LeaseSpec
from pilothouse.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Taint
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.node.node_lifecycle import NodeLifecycleOptions
from pilothouse.controllers.node.node_lifecycle.health import (
    ClockReading,
    Health,
    conditions_of_unresponsive_node,
    is_unresponsive,
    observe_heartbeat,
)
from pilothouse.controllers.node.node_lifecycle.taint_queue import TaintQueue
from pilothouse.controllers.node.node_lifecycle.taints import (
    beta_labels_to_set,
    no_execute_taints_for,
    no_schedule_changes,
    with_taint,
)
from pilothouse.controllers.node.node_lifecycle.zones import (
    Plan,
    ZoneReport,
    ZoneState,
    compute_zone_state,
    describe_zone,
    is_not_excluded,
    plan,
    zone_of,
)

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
INITIAL, NORMAL, PARTIAL, FULL = ZoneState.INITIAL, ZoneState.NORMAL, ZoneState.PARTIAL, ZoneState.FULL


def at(seconds: float) -> datetime.datetime:
    return EPOCH + datetime.timedelta(seconds=seconds)


def instant(seconds: float) -> ClockReading:
    return ClockReading(1000.0 + seconds, at(seconds))


def condition(kind: str, status: str, heartbeat: float = 0.0) -> NodeCondition:
    return NodeCondition(
        type=kind,
        status=status,
        reason="Kubelet",
        message="said so",
        last_heartbeat_time=at(heartbeat),
        last_transition_time=at(0),
    )


def node(
    *conditions: NodeCondition, taints: tuple[Taint, ...] = (), unschedulable: bool = False, **labels: str
) -> Node:
    return Node(
        metadata=ObjectMeta(name="n", creation_timestamp=EPOCH, labels=labels),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(conditions=conditions),
    )


def lease(renewed: float | None) -> Lease | None:
    return None if renewed is None else Lease(spec=LeaseSpec(renew_time=at(renewed)))


@cases(
    "looks, silent_at",
    {
        "no heartbeat: grace period since the first observation": ([(0, 0, None)], 51),
        "old heartbeat: grace period since the first observation": ([(1000, 0, None)], 1051),
        "grace period since the last observed heartbeat": ([(0, 0, None), (30, 30, None)], 81),
        "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease": (
            [(0, 0, 0), (40, 0, 40), (80, 0, 80)],
            131,
        ),
        "a Lease that is not renewed does not": ([(0, 0, 0), (40, 0, 0)], 51),
        "a Lease that appears does, however old": ([(0, 0, None), (40, 0, 5)], 91),
        "unchanged Lease after a new heartbeat": ([(0, 0, 0), (10, 10, 0), (15, 10, 0)], 66),
        "no Ready condition: startup grace period since creation": ([(0, None, None)], 61),
        "no Ready condition, observed later": ([(45, None, None)], 61),
        "from its first status on the grace period is 50 s": ([(0, None, None), (20, 20, None)], 71),
        "Lease without Ready condition": ([(0, None, 0), (50, None, 50)], 111),
    },
)
def test_heartbeat_grace_period(looks: list[tuple[float, float | None, float | None]], silent_at: float) -> None:
    health: Health | None = None
    observed_node = node()
    for second, heartbeat, renewed in looks:
        observed_node = node() if heartbeat is None else node(condition("Ready", "True", heartbeat))
        health = observe_heartbeat(health, observed_node, lease(renewed), instant(second))
    assert health is not None

    def silent(second: float) -> bool:
        assert health is not None
        return is_unresponsive(health, instant(second), monitor_grace=50, startup_grace=60)

    assert not silent(silent_at - 1)
    assert silent(silent_at)


@cases(
    "version, renewed, expected",
    {
        "renewed by a clock that was set back": ("8", -3600, True),
        "written without being renewed": ("8", 0, False),
        "an older state, from a server that is behind": ("6", 3600, False),
        "no resourceVersion: later renewTime": ("", 10, True),
        "no resourceVersion: earlier renewTime": ("", -10, False),
    },
)
def test_lease_heartbeats(version: str, renewed: float, expected: bool) -> None:
    """Upstream compares only renew times: after a clock was set back a node is unhealthy until it catches up."""

    def lease_of(version: str, renewed: float) -> Lease:
        result = lease(renewed)
        assert result is not None
        return msgspec.structs.replace(result, metadata=ObjectMeta(resource_version=version))

    ready = node(condition("Ready", "True"))
    health = observe_heartbeat(None, ready, lease_of("7", 0), instant(0))
    health = observe_heartbeat(health, ready, lease_of(version, renewed), instant(30))
    assert (health.probed == 1030.0) is expected


def test_latest_ready_condition_is_stored() -> None:
    health = observe_heartbeat(None, node(condition("Ready", "True")), None, instant(0))
    health = observe_heartbeat(health, node(condition("Ready", "Unknown")), None, instant(30))
    assert health.ready is not None
    assert (health.ready.status, health.probed) == ("Unknown", 1000.0)


def test_removed_ready_condition_keeps_the_last_heartbeat() -> None:
    health = observe_heartbeat(None, node(condition("Ready", "True", 0)), None, instant(0))
    health = observe_heartbeat(health, node(), None, instant(40))
    assert (health.ready, health.probed) == (None, 1000.0)


def test_all_conditions_but_network_unavailable_become_unknown() -> None:
    """TestMonitorNodeHealthUpdateStatus 'Node created long time ago, with status updated by kubelet exceeds grace'."""
    before = node(
        condition("NetworkUnavailable", "False"), condition("Ready", "True", 7), condition("DiskPressure", "Unknown")
    )
    after = conditions_of_unresponsive_node(before, instant(60))
    assert after is not None
    assert [(c.type, c.status, c.reason) for c in after] == [
        ("NetworkUnavailable", "False", "Kubelet"),
        ("Ready", "Unknown", "NodeStatusUnknown"),
        ("DiskPressure", "Unknown", "Kubelet"),
        ("MemoryPressure", "Unknown", "NodeStatusNeverUpdated"),
        ("PIDPressure", "Unknown", "NodeStatusNeverUpdated"),
    ]
    ready, never = after[1], after[3]
    assert ready.message == "Kubelet stopped posting node status."
    assert (ready.last_heartbeat_time, ready.last_transition_time) == (at(7), at(60))
    assert never.message == "Kubelet never posted node status."
    assert (never.last_heartbeat_time, never.last_transition_time) == (EPOCH, at(60))


def test_node_with_ready_unknown_is_not_updated() -> None:
    assert (
        conditions_of_unresponsive_node(
            node(condition("Ready", "Unknown"), condition("PIDPressure", "False")), instant(60)
        )
        is None
    )
    assert conditions_of_unresponsive_node(node(condition("Ready", "False")), instant(60)) is not None


def zone(*, down: int, up: int) -> ZoneReport:
    return compute_zone_state([condition("Ready", "False")] * down + [condition("Ready", "True")] * up, 0.55)


@cases(
    "down, up, state",
    {
        "all ready": (0, 1, NORMAL),
        "single node not ready": (1, 0, FULL),
        "fewer than three down": (2, 1, NORMAL),
        "3 of 5 (TestMonitorNodeHealth 'Partial Disruption')": (3, 2, PARTIAL),
        "3 of 6 is below 0.55": (3, 3, NORMAL),
        "11 of 20 is 0.55, and that is enough": (11, 9, PARTIAL),
        "TestMonitorNodeHealth 'Full Disruption'": (5, 0, FULL),
    },
)
def test_zone_state(down: int, up: int, state: ZoneState) -> None:
    assert zone(down=down, up=up) == ZoneReport(down + up, down, state)


def test_nodes_without_a_ready_condition_are_not_ready() -> None:
    """TestMonitorNodeHealth 'Nodes created recently without status conditions'."""
    assert compute_zone_state([None, None], 0.55).state is FULL


OPTIONS = NodeLifecycleOptions()
UP, DOWN, HALF = zone(down=0, up=3), zone(down=3, up=0), zone(down=3, up=2)
BIG_HALF = zone(down=40, up=20)


@cases(
    "before, now, expected",
    {
        "a zone that was not seen before": ({}, {"a": UP}, Plan(states={"a": NORMAL}, rates={"a": 0.1})),
        "no change": ({"a": NORMAL}, {"a": UP}, Plan(states={"a": NORMAL}, rates={})),
        "single zone in full disruption (TestMonitorNodeHealthEvictPodsWithDisruption)": (
            {"a": NORMAL},
            {"a": DOWN},
            Plan(states={"a": FULL}, rates={"a": 0.0}, untaint_all=True),
        ),
        "still down": ({"a": FULL}, {"a": DOWN}, Plan(states={"a": FULL}, rates={})),
        "end of full disruption: heartbeats are reset": (
            {"a": FULL},
            {"a": HALF},
            Plan(states={"a": PARTIAL}, rates={"a": 0.0}, reset_heartbeats=True),
        ),
        "one of two zones in full disruption: normal rate": (
            {"a": NORMAL, "b": NORMAL},
            {"a": DOWN, "b": UP},
            Plan(states={"a": FULL, "b": NORMAL}, rates={"a": 0.1}),
        ),
        "Initially both zones down, one comes back": (
            {"a": FULL, "b": FULL},
            {"a": UP, "b": DOWN},
            Plan(states={"a": NORMAL, "b": FULL}, rates={"a": 0.1, "b": 0.1}, reset_heartbeats=True),
        ),
        "most of a small zone: stop": ({"a": NORMAL}, {"a": HALF}, Plan(states={"a": PARTIAL}, rates={"a": 0.0})),
        "most of a large one: slowly": ({"a": NORMAL}, {"a": BIG_HALF}, Plan(states={"a": PARTIAL}, rates={"a": 0.01})),
        "a zone without nodes is forgotten, the other was down already": (
            {"a": NORMAL, "b": FULL},
            {"b": DOWN},
            Plan(states={"b": FULL}, rates={}, removed_zones=("a",)),
        ),
        "no nodes": ({"a": NORMAL}, {}, Plan(states={}, rates={}, removed_zones=("a",))),
        "down from the start": ({}, {"a": DOWN}, Plan(states={"a": FULL}, rates={"a": 0.0}, untaint_all=True)),
    },
)
def test_eviction_rate_by_zone_state(before: dict[str, ZoneState], now: dict[str, ZoneReport], expected: Plan) -> None:
    assert plan(before, now, OPTIONS) == expected


def test_large_cluster_size_threshold_is_exclusive() -> None:
    at_threshold = zone(down=30, up=20)
    assert plan({"a": NORMAL}, {"a": at_threshold}, OPTIONS).rates == {"a": 0.0}


BETA, STABLE = "failure-domain.beta.kubernetes.io", "topology.kubernetes.io"


@cases(
    "labels, expected",
    {
        "no zone and region": ({}, ""),
        "a zone without a region": ({f"{STABLE}/zone": "z"}, ":\0:z"),
        "the old name first": ({f"{BETA}/region": "old", f"{STABLE}/region": "new", f"{STABLE}/zone": "z"}, "old:\0:z"),
        "an empty old one is a value": ({f"{BETA}/zone": "", f"{STABLE}/zone": "z"}, ""),
        "each label separately": ({f"{BETA}/zone": "", f"{STABLE}/zone": "z", f"{STABLE}/region": "r"}, "r:\0:"),
    },
)
def test_zone_key(labels: dict[str, str], expected: str) -> None:
    """``GetZoneKey`` (component-helpers ``node/topology``, v0.36)."""
    assert zone_of(Node(metadata=ObjectMeta(labels=labels))) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "(none)"),
        ({"topology.kubernetes.io/zone": "a"}, "a"),
        ({"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "a"}, "a of region eu"),
        ({"topology.kubernetes.io/region": "eu"}, "(none) of region eu"),
    ],
)
def test_zone_in_a_sentence(labels: dict[str, str], expected: str) -> None:
    """Without the separator of the key, a NUL."""
    assert describe_zone(zone_of(Node(metadata=ObjectMeta(labels=labels)))) == expected


def test_exclude_disruption_label() -> None:
    """TestMonitorNodeHealth…, exclude-disruption; the value does not matter."""
    assert not is_not_excluded(Node(metadata=ObjectMeta(labels={"node.kubernetes.io/exclude-disruption": "false"})))
    assert is_not_excluded(Node())


def taint(name: str, effect: str = "NoSchedule") -> Taint:
    return Taint(key=f"node.kubernetes.io/{name}", effect=effect)


@cases(
    "one, add, remove",
    {
        "healthy": (node(condition("Ready", "True")), [], []),
        "not ready (TestTaintsNodeByCondition)": (node(condition("Ready", "False")), ["not-ready"], []),
        "from not ready to silent (TestTaintsNodeByCondition 'Ready is unknown')": (
            node(condition("Ready", "Unknown"), taints=(taint("not-ready"),)),
            ["unreachable"],
            ["not-ready"],
        ),
        "under every pressure (TestTaintsNodeByCondition)": (
            node(
                condition("MemoryPressure", "True"),
                condition("DiskPressure", "True"),
                condition("PIDPressure", "True"),
                condition("NetworkUnavailable", "True"),
            ),
            ["memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable"],
            [],
        ),
        "pressure Unknown": (
            node(condition("DiskPressure", "Unknown"), taints=(taint("disk-pressure"),)),
            [],
            ["disk-pressure"],
        ),
        "cordoned": (node(unschedulable=True), ["unschedulable"], []),
        "uncordoned": (node(taints=(taint("unschedulable"),)), [], ["unschedulable"]),
        "other effects and keys are kept": (
            node(taints=(taint("not-ready", "NoExecute"), taint("custom"), Taint(key="mine", effect="NoSchedule"))),
            [],
            [],
        ),
        "already tainted": (node(condition("Ready", "False"), taints=(taint("not-ready"),)), [], []),
    },
)
def test_condition_taints(one: Node, add: list[str], remove: list[str]) -> None:
    result = no_schedule_changes(one)
    assert [[t.key.removeprefix("node.kubernetes.io/") for t in taints] for taints in result] == [add, remove]


def test_unreachable_and_not_ready_exclude_each_other() -> None:
    """TestSwapUnreachableNotReadyTaints."""
    for status, key in (("False", "not-ready"), ("Unknown", "unreachable")):
        swap = no_execute_taints_for(status)
        assert swap is not None
        assert swap[0] == taint(key, "NoExecute")
        assert swap[1] != swap[0]
    assert no_execute_taints_for("True") is None


def test_existing_taint_keeps_its_time_added() -> None:
    old = msgspec.structs.replace(taint("unreachable", "NoExecute"), time_added=at(0))
    new = msgspec.structs.replace(old, time_added=at(60))
    assert with_taint([taint("custom"), old], new) == [taint("custom"), old]
    other = msgspec.structs.replace(new, value="x")
    assert with_taint([old, taint("custom")], other) == [other, taint("custom")]
    assert with_taint([taint("unreachable")], new) == [taint("unreachable"), new], "another effect is another taint"


@cases(
    "labels, expected",
    {
        "no labels (TestReconcileNodeLabels)": ({}, {}),
        "other labels (TestReconcileNodeLabels)": ({"topology.kubernetes.io/region": "r"}, {}),
        "both beta labels missing": (
            {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
            {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"},
        ),
        "different beta label (TestReconcileNodeLabels)": (
            {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"},
            {"beta.kubernetes.io/os": "linux"},
        ),
        "up to date": ({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}, {}),
        "beta label alone": ({"beta.kubernetes.io/os": "linux"}, {}),
    },
)
def test_beta_labels(labels: dict[str, str], expected: dict[str, str]) -> None:
    assert beta_labels_to_set(Node(metadata=ObjectMeta(labels=labels))) == expected


def test_unique_queue() -> None:
    """TestUniqueQueueGet, TestAddNode, TestTryRemovingWhileTry."""
    queue = TaintQueue(0.1, 0.0)
    assert [queue.add(name, 0.0) for name in ("b", "a", "b")] == [True, True, False]
    assert queue.head(0.0) == "b"
    queue.done("b")
    assert queue.head(0.0) == "a"
    assert not queue.add("b", 1.0), "it was dealt with"
    assert queue.add("b", 1.0, force=True), "unless the taint is gone"
    queue.remove("a")
    assert queue.head(1.0) == "b"
    queue.remove("b")
    assert len(queue) == 0


def test_failed_item_waits_and_others_are_tried_first() -> None:
    """TestTryOrdering."""
    queue = TaintQueue(0.1, 0.0)
    queue.add("a", 0.0)
    queue.add("b", 0.0)
    queue.retry("a", 5.0)
    assert queue.head(1.0) == "b"
    queue.done("b")
    assert queue.head(1.0) is None
    assert queue.head(5.0) == "a"
    queue.remove("a")
    queue.retry("a", 6.0)
    assert queue.head(6.0) is None, "whoever was removed does not come back by itself"


def test_rate_limiter_has_a_token_every_ten_seconds() -> None:
    limiter = TaintQueue(0.1, 0.0).limiter
    granted = [tick / 10 for tick in range(400) if limiter.try_accept(tick / 10)]
    assert granted == pytest.approx([0.0, 10.0, 20.0, 30.0])


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_rate_zero_allows_only_the_initial_token(rate: float) -> None:
    """A new bucket is full (golang.org/x/time ``rate.NewLimiter``); a swapped one is not."""
    queue = TaintQueue(rate, 0.0)
    queue.set_rate(rate, 0.0)
    assert [queue.limiter.try_accept(at) for at in (0.0, 1.0, 1e6)] == [True, False, False]
    swapped = TaintQueue(0.1, 0.0)
    swapped.set_rate(rate, 0.0)
    assert not swapped.limiter.try_accept(1e6)


def test_swap_limiter() -> None:
    """TestSwapLimiter."""
    queue = TaintQueue(0.1, 0.0)
    queue.set_rate(0.0, 0.0)
    assert not queue.limiter.try_accept(1e6), "never"
    queue.set_rate(1.0, 1e6)
    assert not queue.limiter.try_accept(1e6), "who waited waits for the first token of the new rate"
    assert queue.limiter.try_accept(1e6 + 1)
    fresh = TaintQueue(0.1, 0.0)
    fresh.set_rate(1.0, 0.0)
    assert fresh.limiter.try_accept(0.0), "who had a token has one"
    same = fresh.limiter
    fresh.set_rate(1.0, 0.0)
    assert fresh.limiter is same
