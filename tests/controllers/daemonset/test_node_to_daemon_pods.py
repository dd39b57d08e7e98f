"""Incremental counts of daemon pods by node equal a full recount."""

import datetime
import random

import pytest
from tests.controllers.daemonset.daemons import NOW, PLAIN, ago, node, pod, taint

from pilothouse.api.core import PodSpec
from pilothouse.controllers.workloads.daemonset.node_pods import Rules
from pilothouse.controllers.workloads.daemonset.node_to_daemon_pods import DaemonPods, NodeToDaemonPods
from pilothouse.controllers.workloads.daemonset.nodes import NodeTable
from pilothouse.controllers.workloads.daemonset.placement import Placements, node_requirements_of
from pilothouse.machinery.labels import selector_from_map
from pilothouse.runtime import object_key

SELECTOR = selector_from_map({"app": "agent"})


def rebuilt(
    node_pods: NodeToDaemonPods, rules: Rules, placements: Placements, nodes: NodeTable, now: datetime.datetime
) -> NodeToDaemonPods:
    """A new index of the same pods."""
    fresh = NodeToDaemonPods()
    for value in node_pods._pods.values():
        fresh.put(value)
    fresh.sync(rules, SELECTOR, placements, nodes, now)
    return fresh


@pytest.mark.parametrize("number", range(30))
def test_incremental_counts_equal_a_full_recount(number: int) -> None:
    """Pods and nodes are added, changed and deleted; templates and time change."""
    rng = random.Random(number)
    node_pods, nodes = NodeToDaemonPods(), NodeTable()
    placements = Placements(node_requirements_of(PodSpec(node_selector={"pool": "yes"})))
    rules, now = PLAIN, NOW
    for step in range(150):
        name = f"n{rng.randrange(8)}"
        match rng.randrange(9):
            case 0 | 1:
                labels = {"pool": "yes"} if rng.random() < 0.8 else {}
                taints = (taint("x", rng.choice(("NoSchedule", "NoExecute"))),) if rng.random() < 0.3 else ()
                if nodes.put(node(name, labels, *taints)):
                    node_pods.touch(name)
            case 2:
                nodes.drop(name)
                placements.forget(name)
                node_pods.touch(name)
            case 3 | 4 | 5:
                node_pods.put(
                    pod(
                        f"p{rng.randrange(12)}",
                        on=name,
                        pinned=name if rng.random() < 0.3 else "",
                        hash=rng.choice(("new", "old", "newer")),
                        phase=rng.choice(("Running", "Running", "Failed", "Succeeded")),
                        ready=rng.random() < 0.7,
                        since=now,
                        deleted=rng.random() < 0.2,
                        created=ago(seconds=rng.randrange(100)),
                        labels={"other": "x"} if rng.random() < 0.05 else None,
                    )
                )
            case 6:
                node_pods.drop(f"default/p{rng.randrange(12)}")
            case 7:
                rules = Rules(
                    revision_hash=rng.choice(("new", "newer")),
                    surges=rng.random() < 0.5,
                    min_ready_seconds=rng.choice((0, 5)),
                )
            case _:
                now += datetime.timedelta(seconds=rng.randrange(4))
        if rng.random() < 0.5:
            continue
        node_pods.sync(rules, SELECTOR, placements, nodes, now)
        fresh = rebuilt(node_pods, rules, placements, nodes, now)
        assert node_pods.status_counts == fresh.status_counts, step
        assert node_pods.counts == fresh.counts, step
        assert {move: dict(pods) for move, pods in node_pods.moves.items()} == fresh.moves, step
        assert sorted(s.node for s in node_pods.nodes_with_changes(placements, nodes)) == sorted(
            s.node for s in fresh.nodes_with_changes(placements, nodes)
        ), step
        assert sorted(map(str, node_pods.non_matching_pods())) == sorted(map(str, fresh.non_matching_pods())), step


def test_pod_is_counted_for_its_new_owner() -> None:
    daemon_pods = DaemonPods()
    one, other = daemon_pods.of("one"), daemon_pods.of("other")
    daemon_pods.put(pod("a"), "one")
    assert not one.empty
    daemon_pods.put(pod("a", version="2"), "other")
    assert one.empty
    assert not other.empty
    daemon_pods.put(pod("a", version="3"), None)
    assert other.empty


def test_owner_is_removed_with_its_last_pod() -> None:
    daemon_pods = DaemonPods()
    daemon_pods.of("one")
    daemon_pods.put(pod("a"), "one")
    daemon_pods.forget("one")
    assert "one" in daemon_pods._daemon_pods
    daemon_pods.drop(object_key(pod("a").metadata))
    assert "one" not in daemon_pods._daemon_pods


def test_pod_deleted_since_the_last_sync_is_not_listed() -> None:
    nodes, node_pods = NodeTable(), NodeToDaemonPods()
    nodes.put(node("n"))
    present, deleted = pod("a", on="n"), pod("b", on="n")
    node_pods.put(present)
    node_pods.put(deleted)
    node_pods.sync(PLAIN, SELECTOR, Placements(node_requirements_of(PodSpec())), nodes, NOW)
    node_pods.drop(object_key(deleted.metadata))
    assert node_pods.pods() == [present]


def test_unchanged_nodes_are_not_recomputed() -> None:
    nodes, node_pods = NodeTable(), NodeToDaemonPods()
    placements = Placements(node_requirements_of(PodSpec()))
    for number in range(100):
        nodes.put(node(f"n{number}"))
    node_pods.sync(PLAIN, SELECTOR, placements, nodes, NOW)
    evaluated: list[str] = []
    evaluate = node_pods._evaluate

    def counting(on_node, rules, now):  # type: ignore[no-untyped-def]  # records the node, and evaluates it
        evaluated.append(on_node.node)
        evaluate(on_node, rules, now)

    node_pods._evaluate = counting  # type: ignore[method-assign]
    node_pods.put(pod("a", on="n7"))
    node_pods.sync(PLAIN, SELECTOR, placements, nodes, NOW)
    node_pods.sync(PLAIN, SELECTOR, placements, nodes, NOW)
    assert evaluated == ["n7"]


def test_nodes_without_a_pod_are_skipped_beyond_the_burst_limit() -> None:
    nodes, node_pods = NodeTable(), NodeToDaemonPods()
    placements = Placements(node_requirements_of(PodSpec()))
    for number in range(6):
        nodes.put(node(f"n{number}"))
    for name in ("a", "b"):
        node_pods.put(pod(name, on="n4"))
    node_pods.sync(PLAIN, SELECTOR, placements, nodes, NOW)
    creates: list[str] = []
    result = []
    for on_node in node_pods.nodes_with_changes(placements, nodes, creates_enough=lambda: len(creates) >= 2):
        result.append(on_node.node)
        if not on_node.pods:
            creates.append(on_node.node)
    assert result == ["n0", "n1", "n4"], "n4 has one pod too many"
