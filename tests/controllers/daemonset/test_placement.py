"""Which nodes should run a daemon pod. Rows mirror v1.36 ``pkg/controller/daemon/daemon_controller_test.go``."""

import pytest
from tests.controllers.daemonset.daemons import node, pinned_to, taint
from tests.tables import cases

from pilothouse.api.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Toleration,
)
from pilothouse.controllers.workloads.daemonset.nodes import NodeTable
from pilothouse.controllers.workloads.daemonset.placement import (
    MAY_CONTINUE,
    MUST_NOT_RUN,
    SHOULD_RUN,
    Placement,
    Placements,
    decide_placement,
    node_requirements_of,
)
from pilothouse.controllers.workloads.daemonset.tolerations import daemon_tolerations, with_daemon_tolerations

DEDICATED = Toleration(key="dedicated", operator="Equal", value="ds", effect="NoSchedule")


def needs(*expressions: NodeSelectorRequirement) -> Affinity:
    """A required node affinity of one term."""
    term = NodeSelectorTerm(match_expressions=expressions)
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=(term,))
        )
    )


def any_of(*expressions: NodeSelectorRequirement) -> Affinity:
    """A required node affinity of one term for each."""
    terms = tuple(NodeSelectorTerm(match_expressions=(expression,)) for expression in expressions)
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms)
        )
    )


TYPE_IN = NodeSelectorRequirement(key="type", operator="In", values=("production",))


@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize(
    ("effect", "value", "expected"),
    [
        ("NoSchedule", "970", SHOULD_RUN),
        ("NoSchedule", "900", MAY_CONTINUE),
        ("NoExecute", "970", SHOULD_RUN),
        ("NoExecute", "9", MUST_NOT_RUN),
    ],
)
def test_taint_toleration_comparison_operators_gate_in_placement(
    effect: str, value: str, expected: Placement, enabled: bool
) -> None:
    spec = PodSpec(tolerations=(Toleration(key="sla", operator="Gt", value="950"),))
    tainted_node = node("n1", None, taint("sla", effect, value=value))
    otherwise = MAY_CONTINUE if effect == "NoSchedule" else MUST_NOT_RUN
    wants = node_requirements_of(spec, comparison_operators=enabled)
    assert decide_placement(wants, tainted_node) == (expected if enabled else otherwise)


@cases(
    "spec, target, expected",
    {
        "any node": (PodSpec(), node(), SHOULD_RUN),  # TestOneNodeDaemonLaunchesPod
        "the node that is named": (PodSpec(node_name="n1"), node(), SHOULD_RUN),  # TestNameDaemonSetLaunchesPods
        "another node name": (PodSpec(node_name="n2"), node(), MUST_NOT_RUN),  # TestBadNameDaemonSetDoesNothing
        "node selector matches": (
            PodSpec(node_selector={"color": "blue"}),
            node("n1", {"color": "blue"}),
            SHOULD_RUN,
        ),  # TestSelectorDaemonLaunchesPods
        "a label differs": (
            PodSpec(node_selector={"color": "blue"}),
            node("n1", {"color": "red"}),
            MUST_NOT_RUN,
        ),  # TestBadSelectorDaemonDoesNothing
        "node name and selector match": (
            PodSpec(node_name="n1", node_selector={"color": "blue"}),
            node("n1", {"color": "blue"}),
            SHOULD_RUN,
        ),  # TestNameAndSelectorDaemonSetLaunchesPods
        "the named node lacks the label": (
            PodSpec(node_name="n1", node_selector={"color": "blue"}),
            node(),
            MUST_NOT_RUN,
        ),  # TestInconsistentNameSelectorDaemonSetDoesNothing
        "affinity matches": (
            PodSpec(affinity=needs(TYPE_IN)),
            node("n1", {"type": "production"}),
            SHOULD_RUN,
        ),  # TestNodeAffinityDaemonLaunchesPods; TestNodeShouldRunDaemonPod
        "affinity does not match": (PodSpec(affinity=needs(TYPE_IN)), node(), MUST_NOT_RUN),
        "affinity by field names this node": (PodSpec(affinity=pinned_to("n1")), node(), SHOULD_RUN),
        "affinity by field names another": (PodSpec(affinity=pinned_to("n2")), node(), MUST_NOT_RUN),
        "invalid affinity matches nothing": (
            PodSpec(affinity=needs(NodeSelectorRequirement(key="type", operator="Beside"))),
            node(),
            MUST_NOT_RUN,
        ),
        "invalid affinity term beside one that matches": (
            PodSpec(affinity=any_of(NodeSelectorRequirement(key="type", operator="Beside"), TYPE_IN)),
            node("n1", {"type": "production"}),
            SHOULD_RUN,
        ),
        "NoSchedule: should continue to run": (
            PodSpec(),
            node("n1", None, taint("dedicated", value="ds")),
            MAY_CONTINUE,
        ),  # TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod
        "NoExecute: should not run": (
            PodSpec(),
            node("n1", None, taint("dedicated", "NoExecute")),
            MUST_NOT_RUN,
        ),  # TestNoExecuteTaintedDoesEvicitRunningIntolerantPod
        "NoExecute and NoSchedule: should not run": (
            PodSpec(),
            node("n1", None, taint("a"), taint("b", "NoExecute")),
            MUST_NOT_RUN,
        ),
        "a preference is no bar": (PodSpec(), node("n1", None, taint("a", "PreferNoSchedule")), SHOULD_RUN),
        "tolerated": (
            PodSpec(tolerations=(DEDICATED,)),
            node("n1", None, taint("dedicated", value="ds")),
            SHOULD_RUN,
        ),  # TestTaintedNodeDaemonLaunchesToleratePod
        "tolerated with another value only": (
            PodSpec(tolerations=(DEDICATED,)),
            node("n1", None, taint("dedicated", value="other")),
            MAY_CONTINUE,
        ),  # TestTaintedNodeDaemonDoesNotLaunchIntolerantPod
        "not-ready taint": (
            PodSpec(),
            node("n1", None, taint("node.kubernetes.io/not-ready", "NoExecute")),
            SHOULD_RUN,
        ),  # TestNotReadyNodeDaemonLaunchesPod
        "unreachable": (
            PodSpec(),
            node("n1", None, taint("node.kubernetes.io/unreachable", "NoExecute")),
            SHOULD_RUN,
        ),  # TestUnreachableNodeDaemonLaunchesPod
        "under pressure": (
            PodSpec(),
            node(
                "n1",
                None,
                *(taint(f"node.kubernetes.io/{resource}-pressure") for resource in ("disk", "memory", "pid")),
            ),
            SHOULD_RUN,
        ),  # TestTaintPressureNodeDaemonLaunchesPod
        "cordoned": (
            PodSpec(),
            node("n1", None, taint("node.kubernetes.io/unschedulable")),
            SHOULD_RUN,
        ),  # TestNodeShouldRunDaemonPod: "ShouldRunDaemonPod on unschedulable node"
        "network-unavailable taint": (
            PodSpec(),
            node("n1", None, taint("node.kubernetes.io/network-unavailable")),
            MAY_CONTINUE,
        ),
        "network-unavailable taint with hostNetwork": (
            PodSpec(host_network=True),
            node("n1", None, taint("node.kubernetes.io/network-unavailable")),
            SHOULD_RUN,
        ),  # TestNetworkUnavailableNodeDaemonLaunchesPod
        "comparing tolerations are off in 1.36": (
            PodSpec(tolerations=(Toleration(key="x", operator="Gt", value="5"),)),
            node("n1", None, taint("x", value="7")),
            MAY_CONTINUE,
        ),
    },
)
def test_node_should_run_daemon_pod(spec: PodSpec, target: Node, expected: Placement) -> None:
    assert decide_placement(node_requirements_of(spec), target) == expected


def test_daemon_pods_get_default_tolerations() -> None:
    """v1.36 ``AddOrUpdateDaemonPodTolerations``; order and content as in the recorded pods (04a)."""
    assert [
        (toleration.key.partition("/")[2], toleration.operator, toleration.effect)
        for toleration in daemon_tolerations(host_network=True)
    ] == [
        ("not-ready", "Exists", "NoExecute"),
        ("unreachable", "Exists", "NoExecute"),
        ("disk-pressure", "Exists", "NoSchedule"),
        ("memory-pressure", "Exists", "NoSchedule"),
        ("pid-pressure", "Exists", "NoSchedule"),
        ("unschedulable", "Exists", "NoSchedule"),
        ("network-unavailable", "Exists", "NoSchedule"),
    ]
    assert len(daemon_tolerations(host_network=False)) == 6


def test_toleration_with_seconds_is_replaced_in_place_by_an_unlimited_one() -> None:
    limited = Toleration(
        key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=30
    )
    merged = with_daemon_tolerations((limited, DEDICATED), host_network=False)
    assert merged[0].toleration_seconds is None
    assert merged[1] == DEDICATED
    assert len(merged) == 7


def test_exact_toleration_of_the_template_leaves_others_unchanged() -> None:
    """``AddOrUpdateTolerationInPodSpec`` changes nothing once it meets exactly what it would add."""
    unlimited = Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute")
    limited = Toleration(
        key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute", toleration_seconds=30
    )
    merged = with_daemon_tolerations((limited, unlimited), host_network=False)
    assert merged[:2] == (limited, unlimited)
    assert len(merged) == 7


def test_placement_is_cached_per_node_version() -> None:
    nodes = NodeTable()
    placements = Placements(node_requirements_of(PodSpec(node_selector={"a": "b"})))
    assert nodes.put(node("n1", {"a": "b"}))
    first = nodes.get("n1")
    assert first is not None
    assert placements.on(first) is placements.on(first)
    assert not nodes.put(node("n1", {"a": "b"})), "a heartbeat changes nothing"
    assert nodes.get("n1") is first
    assert nodes.put(node("n1", {"a": "c"}))
    second = nodes.get("n1")
    assert second is not None
    assert placements.on(second) == MUST_NOT_RUN
