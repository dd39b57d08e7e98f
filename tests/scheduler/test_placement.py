"""Where pods fit. Rows mirror the filter tests of kube-scheduler v1.36 (``pkg/scheduler/framework/plugins/*``)."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.placement import explain, feasible_limit, least_allocated, place, why_not, wish_of
from pilothouse.scheduler.snapshot import NodeInfo, Snapshot


def node(name: str = "n", *, cpu: str = "4", pods: str = "110", **parts: Any) -> NodeInfo:
    document = {
        "metadata": {"name": name, "labels": parts.get("labels", {})},
        "spec": {"taints": parts.get("taints", []), "unschedulable": parts.get("unschedulable", False)},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}},
    }
    return NodeInfo(msgspec.convert(document, Node))


def pod(cpu: str = "", **spec: Any) -> Pod:
    container: dict[str, Any] = {"name": "c"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}, Pod)


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
SELECTOR = ("node(s) didn't match Pod's node affinity/selector",)


@pytest.mark.parametrize(
    ("wanted", "info", "expected"),
    [
        pytest.param(pod("1"), node(), (), id="fits"),
        pytest.param(pod("4"), node(cpu="4"), (), id="fits exactly"),
        pytest.param(pod("4100m"), node(cpu="4"), ("Insufficient cpu",), id="too little cpu"),
        pytest.param(pod(), node(pods="0"), ("Too many pods",), id="no room for one more pod"),
        pytest.param(
            pod("5"), node(cpu="4", pods="0"), ("Too many pods", "Insufficient cpu"), id="every shortage is told"
        ),
        pytest.param(pod(nodeName="other"), node(), ("node(s) didn't match the requested node name",), id="node name"),
        pytest.param(pod(), node(unschedulable=True), ("node(s) were unschedulable",), id="cordoned"),
        pytest.param(
            pod(tolerations=[{"operator": "Exists"}]), node(unschedulable=True), (), id="cordoned, but tolerated"
        ),
        pytest.param(
            pod(),
            node(taints=[TAINT]),
            ("node(s) had untolerated taint(s)",),
            id="a taint keeps it off",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "db"}]), node(taints=[TAINT]), (), id="a tolerated taint"
        ),
        pytest.param(
            pod(), node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), (), id="a preference does not keep it off"
        ),
        pytest.param(pod(nodeSelector={"disk": "ssd"}), node(), SELECTOR, id="node selector without its label"),
        pytest.param(pod(nodeSelector={"disk": "ssd"}), node(labels={"disk": "ssd"}), (), id="node selector"),
        pytest.param(
            pod(affinity=affinity({"key": "zone", "operator": "In", "values": ["a", "b"]})),
            node(labels={"zone": "b"}),
            (),
            id="affinity: in",
        ),
        pytest.param(
            pod(affinity=affinity({"key": "zone", "operator": "NotIn", "values": ["a"]})),
            node(),
            (),
            id="affinity: not in also holds without the label",
        ),
        pytest.param(
            pod(affinity=affinity({"key": "cores", "operator": "Gt", "values": ["8"]})),
            node(labels={"cores": "8"}),
            SELECTOR,
            id="affinity: greater than",
        ),
        pytest.param(pod(affinity=affinity()), node(), SELECTOR, id="affinity: an empty term fits nothing"),
    ],
)
def test_why_not(wanted: Pod, info: NodeInfo, expected: tuple[str, ...]) -> None:
    assert why_not(wish_of(wanted), info) == expected


@pytest.mark.parametrize(
    ("nodes", "enough"),
    [
        pytest.param(10, 10, id="few nodes are all looked at"),
        pytest.param(100, 100, id="never fewer than a hundred"),
        pytest.param(1000, 420, id="42 percent of a thousand"),
        pytest.param(6000, 300, id="never less than five percent"),
    ],
)
def test_how_many_fitting_nodes_are_enough(nodes: int, enough: int) -> None:
    """As ``TestNumFeasibleNodesToFind`` of kube-scheduler v1.36."""
    assert feasible_limit(nodes) == enough


def test_the_emptier_node_is_better() -> None:
    full, empty = node("full"), node("empty")
    full.add({"cpu": 2000, "memory": 1 << 32})
    assert least_allocated(wish_of(pod()), full) < least_allocated(wish_of(pod()), empty)
    assert place(wish_of(pod("1")), [full, empty], 0).node_name == "empty"


def test_equal_nodes_are_taken_in_turn() -> None:
    nodes = [node(f"n{i}") for i in range(150)]
    start, chosen = 0, []
    for _ in range(3):
        placement = place(wish_of(pod()), nodes, start)
        start = placement.next_start
        chosen.append(placement.node_name)
    assert chosen == ["n0", "n100", "n50"]


def test_a_pod_that_fits_nowhere_hears_why() -> None:
    nodes = [node("a", cpu="1"), node("b", cpu="1"), node("c", unschedulable=True)]
    placement = place(wish_of(pod("2")), nodes, 0)
    assert placement.node_name is None
    assert (
        explain(3, placement.refusals) == "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_pods_are_counted_once_and_follow_a_node_that_comes_back() -> None:
    snapshot = Snapshot()
    info = node("a")
    snapshot.set_node(info.node)
    snapshot.assume("ns/p", "u", "a", {"cpu": 1000})
    assert snapshot.is_assumed("ns/p", "u")
    assert snapshot.confirm("ns/p", "u", "a", {"cpu": 1000}) is None
    assert not snapshot.is_assumed("ns/p", "u")
    assert (snapshot.nodes["a"].pods, snapshot.nodes["a"].requested) == (1, {"cpu": 1000})
    snapshot.remove_node("a")
    snapshot.set_node(info.node)
    assert snapshot.nodes["a"].requested == {"cpu": 1000}
    assert snapshot.forget("ns/p") == "a"
    assert snapshot.forget("ns/p") is None
    assert snapshot.nodes["a"].requested == {"cpu": 0}


def test_a_pod_of_a_node_not_seen_yet_counts_when_the_node_comes() -> None:
    snapshot = Snapshot()
    snapshot.confirm("ns/p", "u", "a", {"cpu": 1000})
    snapshot.set_node(node("a").node)
    assert snapshot.nodes["a"].pods == 1
    snapshot.forget("ns/p")
    assert snapshot.nodes["a"].pods == 0


def test_withdrawing_leaves_what_the_watch_has_confirmed() -> None:
    snapshot = Snapshot()
    for name in ("a", "b"):
        snapshot.set_node(node(name).node)
    snapshot.assume("ns/p", "u", "a", {"cpu": 1000})
    assert snapshot.confirm("ns/p", "u", "b", {"cpu": 1000}) == "a"  # another scheduler was faster
    assert snapshot.withdraw("ns/p", "u") is None
    assert (snapshot.nodes["a"].pods, snapshot.nodes["b"].pods) == (0, 1)


def test_withdrawing_leaves_a_new_pod_of_the_same_name() -> None:
    snapshot = Snapshot()
    snapshot.set_node(node("a").node)
    snapshot.assume("ns/p", "old", "a", {"cpu": 1000})
    snapshot.forget("ns/p")
    snapshot.assume("ns/p", "new", "a", {"cpu": 500})
    assert snapshot.withdraw("ns/p", "old") is None
    assert snapshot.nodes["a"].requested == {"cpu": 500}


def test_a_changed_request_of_a_running_pod_counts() -> None:
    snapshot = Snapshot()
    snapshot.set_node(node("a").node)
    snapshot.confirm("ns/p", "u", "a", {"cpu": 1000})
    assert snapshot.confirm("ns/p", "u", "a", {"cpu": 500}) == "a"
    assert snapshot.nodes["a"].requested == {"cpu": 500}
