"""What is known of nodes and pods, event by event."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduler.build import HOSTNAME, ZONE, cluster, far, node, pod, preferred, term

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import parse_selector
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.scheduler.wish import Wish


def bound(one: Pod, name: str) -> Pod:
    document = msgspec.to_builtins(one)
    document["spec"]["nodeName"] = name
    return msgspec.convert(document, Pod)


def used(snapshot: Snapshot, name: str) -> tuple[int, int]:
    info = snapshot.nodes[name]
    return len(info.placed), info.requested.get("cpu", 0)


def test_pods_are_counted_once_and_follow_a_node_that_comes_back() -> None:
    snapshot = cluster([node("a")])
    snapshot.assume(Wish(pod("p", "1")), "a")
    assert snapshot.is_assumed("ns/p", "uid-p")
    assert snapshot.confirm(bound(pod("p", "1"), "a")) == (None, None)
    assert not snapshot.is_assumed("ns/p", "uid-p")
    assert used(snapshot, "a") == (1, 1000)
    snapshot.remove_node("a")
    snapshot.set_node(node("a"))
    assert used(snapshot, "a") == (1, 1000)
    gone = snapshot.forget("ns/p")
    assert gone is not None
    assert gone.node_name == "a"
    assert snapshot.forget("ns/p") is None
    assert used(snapshot, "a") == (0, 0)


def test_a_pod_of_a_node_not_seen_yet_counts_when_the_node_comes() -> None:
    snapshot = cluster([], {"a": [pod("p", "1"), pod("q", "1")]})
    snapshot.forget("ns/q")
    snapshot.set_node(node("a"))
    assert used(snapshot, "a") == (1, 1000)
    snapshot.forget("ns/p")
    assert used(snapshot, "a") == (0, 0)


def test_withdrawing_leaves_what_the_watch_has_confirmed() -> None:
    snapshot = cluster([node("a"), node("b")])
    snapshot.assume(Wish(pod("p", "1")), "a")
    before, now = snapshot.confirm(bound(pod("p", "1"), "b"))  # another scheduler was faster
    assert before is not None
    assert now is not None
    assert (before.node_name, now.node_name) == ("a", "b")
    assert snapshot.withdraw("ns/p", "uid-p") is None
    assert (used(snapshot, "a"), used(snapshot, "b")) == ((0, 0), (1, 1000))


def test_withdrawing_leaves_a_new_pod_of_the_same_name() -> None:
    snapshot = cluster([node("a")])
    snapshot.assume(Wish(pod("p", "1", meta={"uid": "old"})), "a")
    snapshot.forget("ns/p")
    snapshot.assume(Wish(pod("p", "500m", meta={"uid": "new"})), "a")
    assert snapshot.withdraw("ns/p", "old") is None
    assert used(snapshot, "a") == (1, 500)


def test_a_changed_request_of_a_running_pod_counts() -> None:
    snapshot = cluster([node("a")], {"a": [pod("p", "1", meta={"generation": 1})]})
    before, now = snapshot.confirm(bound(pod("p", "500m", meta={"generation": 2}), "a"))
    assert before is not None
    assert now is not None
    assert used(snapshot, "a") == (1, 500)


def test_what_a_kubelet_writes_changes_nothing() -> None:
    snapshot = cluster([node("a")], {"a": [pod("p", "1")]})
    changes = snapshot.change_count
    assert snapshot.confirm(bound(pod("p", "1", status={"phase": "Running"}), "a")) == (None, None)
    assert not snapshot.set_node(msgspec.structs.replace(node("a"), status=node("a").status))
    assert snapshot.change_count == changes


POOL: list[dict[str, Any]] = [
    {"labels": {"app": "web"}},
    {"labels": {"app": "db"}, "affinity": far(term(HOSTNAME, app="web"))},
    {"labels": {"app": "web"}, "affinity": preferred("podAffinity", 3, term(ZONE, app="db"))},
    {"labels": {"app": "web"}, "meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
]
STEP = st.tuples(st.sampled_from(["place", "forget", "node", "no node"]), st.integers(0, 5), st.integers(0, 3))


@given(st.lists(STEP, max_size=40))
def test_counts_kept_up_to_date_are_those_counted_anew(steps: list[tuple[str, int, int]]) -> None:
    """For any sequence of events: resources, tallies per node and per zone, and what pods feel for each other."""
    kept = Snapshot()
    nodes = [node(f"n{number}", labels={HOSTNAME: f"n{number}", ZONE: f"z{number % 2}"}) for number in range(4)]
    clauses = ((frozenset(("ns",)), parse_selector("app=web")),)
    present: dict[int, int] = {}
    there: dict[int, None] = {}
    for action, which, kind in steps:
        if action == "place":
            kept.confirm(bound(pod(f"p{which}", "1", **_spec(kind)), f"n{kind}"))
            present[which] = kind
        elif action == "forget":
            kept.forget(f"ns/p{which}")
            present.pop(which, None)
        elif action == "node":
            kept.set_node(nodes[kind])
            there[kind] = None
        else:
            kept.remove_node(f"n{kind}")
            there.pop(kind, None)
        kept.tallies.get(clauses, leaving=False).per_value(ZONE, kept.topology(ZONE))
    fresh = Snapshot()
    for kind in there:
        fresh.set_node(nodes[kind])
    for which, kind in present.items():
        fresh.confirm(bound(pod(f"p{which}", "1", **_spec(kind)), f"n{kind}"))
    assert _seen(kept, clauses) == _seen(fresh, clauses)


def _spec(kind: int) -> dict[str, Any]:
    return {name: dict(part) for name, part in POOL[kind].items()}


def _seen(snapshot: Snapshot, clauses: Any) -> Any:
    tally = snapshot.tallies.get(clauses, leaving=False)
    domains = tally.per_value(ZONE, snapshot.topology(ZONE))
    nodes = {
        name: (sorted(one.placed), {k: v for k, v in one.requested.items() if v}, one.priorities, one.cpu_used)
        for name, one in snapshot.nodes.items()
    }
    groups = [{key: counts.by_node for key, counts in group.items()} for group in (snapshot.repelling, snapshot.felt)]
    return nodes, tally.by_node, domains.counts, domains.least(), groups
