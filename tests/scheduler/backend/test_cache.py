"""The cache follows events of nodes and pods."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduler.build import HOSTNAME, ZONE, anti_affinity, cluster, node, pod, preferred, term

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import parse_selector
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.scheduler.plugins import node_name


def bound(one: Pod, name: str) -> Pod:
    document = msgspec.to_builtins(one)
    document["spec"]["nodeName"] = name
    return msgspec.convert(document, Pod)


def used(cache: Cache, name: str) -> tuple[int, int]:
    info = cache.nodes[name]
    return len(info.pods), info.requested.get("cpu", 0)


def test_pods_are_counted_once_and_stay_when_their_node_is_added_again() -> None:
    cache = cluster([node("a")])
    cache.assume_pod(PodInfo(pod("p", "1")), "a")
    assert cache.is_assumed_pod("ns/p", "uid-p")
    assert cache.add_pod(bound(pod("p", "1"), "a")) == (None, None)
    assert not cache.is_assumed_pod("ns/p", "uid-p")
    assert used(cache, "a") == (1, 1000)
    cache.remove_node("a")
    cache.update_node(node("a"))
    assert used(cache, "a") == (1, 1000)
    removed = cache.remove_pod("ns/p")
    assert removed is not None
    assert removed.node_name == "a"
    assert cache.remove_pod("ns/p") is None
    assert used(cache, "a") == (0, 0)


def test_a_pod_counts_as_soon_as_its_node_is_added() -> None:
    cache = cluster([], {"a": [pod("p", "1"), pod("q", "1")]})
    cache.remove_pod("ns/q")
    cache.update_node(node("a"))
    assert used(cache, "a") == (1, 1000)
    cache.remove_pod("ns/p")
    assert used(cache, "a") == (0, 0)


def test_forget_pod_leaves_a_confirmed_pod() -> None:
    cache = cluster([node("a"), node("b")])
    cache.assume_pod(PodInfo(pod("p", "1")), "a")
    before, now = cache.add_pod(bound(pod("p", "1"), "b"))  # another scheduler was faster
    assert before is not None
    assert now is not None
    assert (before.node_name, now.node_name) == ("a", "b")
    assert cache.forget_pod("ns/p", "uid-p") is None
    assert (used(cache, "a"), used(cache, "b")) == ((0, 0), (1, 1000))


def test_forget_pod_leaves_a_new_pod_of_the_same_name() -> None:
    cache = cluster([node("a")])
    cache.assume_pod(PodInfo(pod("p", "1", meta={"uid": "old"})), "a")
    cache.remove_pod("ns/p")
    cache.assume_pod(PodInfo(pod("p", "500m", meta={"uid": "new"})), "a")
    assert cache.forget_pod("ns/p", "old") is None
    assert used(cache, "a") == (1, 500)


def test_a_resized_pod_counts_with_its_new_requests() -> None:
    cache = cluster([node("a")], {"a": [pod("p", "1", meta={"generation": 1})]})
    before, now = cache.add_pod(bound(pod("p", "500m", meta={"generation": 2}), "a"))
    assert before is not None
    assert now is not None
    assert used(cache, "a") == (1, 500)


def test_status_updates_are_no_changes() -> None:
    cache = cluster([node("a")], {"a": [pod("p", "1")]})
    changes = cache.change_count
    assert cache.add_pod(bound(pod("p", "1", status={"phase": "Running"}), "a")) == (None, None)
    assert not cache.update_node(msgspec.structs.replace(node("a"), status=node("a").status))
    assert cache.change_count == changes


def test_the_version_that_was_decided_from_is_not_kept() -> None:
    cache = cluster([node("a")])
    waiting = pod("p", "1")
    state = cache.assume_pod(PodInfo(waiting), "a")
    for status in ({}, {"phase": "Running"}):
        confirmed = bound(pod("p", "1", status=status), "a")
        assert cache.add_pod(confirmed) == (None, None)
        assert state.pod is state.pod_info.pod is confirmed
        # Cached results of filters are updated with the state of the first pod of their signature.
        assert state.pod_info.node_name == ""
        assert node_name.filter_node(state.pod_info, NodeInfo(node("b"))) is None


def test_pods_of_one_template_share_their_computed_values() -> None:
    cache = cluster([node("a"), node("b")])
    states = [cache.assume_pod(PodInfo(pod(name, cpu)), "a") for name, cpu in (("p", "1"), ("q", "1"), ("r", "2"))]
    first, second, other = (state.pod_info for state in states)
    assert second.requests is first.requests
    assert second.signature is first.signature
    assert (other.requests["cpu"], other.score_cpu, other.non_zero_cpu) == (2000, 2000, 2000)


POOL: list[dict[str, Any]] = [
    {"labels": {"app": "web"}},
    {"labels": {"app": "db"}, "affinity": anti_affinity(term(HOSTNAME, app="web"))},
    {"labels": {"app": "web"}, "affinity": preferred("podAffinity", 3, term(ZONE, app="db"))},
    {"labels": {"app": "web"}, "meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
]
STEP = st.tuples(st.sampled_from(["place", "forget", "node", "no node"]), st.integers(0, 5), st.integers(0, 3))


@given(st.lists(STEP, max_size=40))
def test_incremental_counts_equal_counts_from_scratch(steps: list[tuple[str, int, int]]) -> None:
    """For any sequence of events: resources, match counts per node and zone, and affinity terms of pods on nodes."""
    kept = Cache()
    nodes = [node(f"n{number}", labels={HOSTNAME: f"n{number}", ZONE: f"z{number % 2}"}) for number in range(4)]
    matchers = ((frozenset(("ns",)), parse_selector("app=web")),)
    present: dict[int, int] = {}
    pods: dict[int, None] = {}
    for action, which, kind in steps:
        if action == "place":
            kept.add_pod(bound(pod(f"p{which}", "1", **_spec(kind)), f"n{kind}"))
            present[which] = kind
        elif action == "forget":
            kept.remove_pod(f"ns/p{which}")
            present.pop(which, None)
        elif action == "node":
            kept.update_node(nodes[kind])
            pods[kind] = None
        else:
            kept.remove_node(f"n{kind}")
            pods.pop(kind, None)
        kept.match_counts.get(matchers, include_terminating=False).by_domain(ZONE, kept.topology(ZONE))
    fresh = Cache()
    for kind in pods:
        fresh.update_node(nodes[kind])
    for which, kind in present.items():
        fresh.add_pod(bound(pod(f"p{which}", "1", **_spec(kind)), f"n{kind}"))
    assert _counts(kept, matchers) == _counts(fresh, matchers)


def _spec(kind: int) -> dict[str, Any]:
    return {name: dict(part) for name, part in POOL[kind].items()}


def _counts(cache: Cache, matchers: Any) -> Any:
    match_counts = cache.match_counts.get(matchers, include_terminating=False)
    domains = match_counts.by_domain(ZONE, cache.topology(ZONE))
    nodes = {
        name: (
            sorted(one.pods),
            {k: v for k, v in one.requested.items() if v},
            one.pods_by_priority,
            one.non_zero_requested_cpu,
        )
        for name, one in cache.nodes.items()
    }
    groups = [
        {key: counts.by_node for key, counts in group.items()}
        for group in (cache.existing_anti_affinity, cache.existing_score_terms)
    ]
    return nodes, match_counts.by_node, domains.counts, domains.min_match_num(), groups
