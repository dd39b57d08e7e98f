"""The incremental pod census equals a recount."""

import datetime

from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.replicaset.builders import owned_by, pod

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.replicaset.census import Census, Tally
from pilothouse.semantics.pods import is_active

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def owner_key(pod_object: Pod) -> str | None:
    return pod_object.metadata.owner_references[0].uid if pod_object.metadata.owner_references else None


_OWNERS = st.sampled_from([(), owned_by(uid="one"), owned_by(uid="two")])
_SHAPES = st.builds(
    pod,
    st.sampled_from(["a", "b", "c"]),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
    ready=st.booleans(),
    deleted=st.booleans(),
    labels=st.sampled_from([{}, {"app": "web"}, {"app": "web", "x": "y"}]),
    owner=_OWNERS,
)


@given(st.lists(st.tuples(_SHAPES, st.booleans()), max_size=30))
def test_census_equals_a_full_recount(history: list[tuple[Pod, bool]]) -> None:
    """Pods are added, changed in any way, and deleted; the census equals a recount."""
    census, there = Census(owner_key), dict[str, Pod]()
    for pod_object, leaves in history:
        name = pod_object.metadata.name
        if name not in there:
            census.add(pod_object)
            there[name] = pod_object
        elif leaves:
            census.remove(there.pop(name))
        else:
            census.replace(there[name], pod_object)
            there[name] = pod_object
        for owner in ("one", "two"):
            assert dict(census.of(owner)) == _recount(owner, there)


def _recount(owner: str, present: dict[str, Pod]) -> dict[tuple[tuple[str, str], ...], Tally]:
    expected: dict[tuple[tuple[str, str], ...], Tally] = {}
    for value in present.values():
        if owner_key(value) != owner:
            continue
        tally = expected.setdefault(tuple(value.metadata.labels.items()), Tally())
        if value.status.phase in ("Succeeded", "Failed"):
            tally.others += 1
        elif value.metadata.deletion_timestamp:
            tally.terminating += 1
        else:
            tally.active += 1
            tally.ready += bool(value.status.conditions)
    return expected


def test_census_of_an_owner_without_pods_is_removed() -> None:
    census = Census(owner_key)
    observed_pod = pod("a", owner=owned_by(uid="one"))
    census.add(observed_pod)
    census.remove(observed_pod)
    assert not census.of("one")
    assert not census._owners


@given(st.lists(_SHAPES, max_size=6), st.lists(_SHAPES, max_size=6), st.integers(0, 12))
def test_ranking_requested_while_a_relist_is_delivered(old: list[Pod], new: list[Pod], at: int) -> None:
    """The cache has a new list at once, and its pods are delivered one by one: a ranking requested in between already
    has the new pods."""
    before, after = ({item.metadata.name: item for item in pods} for pods in (old, new))
    census = Census(owner_key)
    for value in before.values():
        census.add(value)

    def active() -> list[Pod]:
        return [value for value in after.values() if owner_key(value) == "one" and is_active(value)]

    for number, name in enumerate(sorted(before.keys() | after.keys())):
        if number >= at:
            census.ranked_pods("one", active)
        if name not in after:
            census.remove(before[name])
        elif name not in before:
            census.add(after[name])
        else:
            census.replace(before[name], after[name])
    for owner in ("one", "two"):
        assert dict(census.of(owner)) == _recount(owner, after)
    ranked_pods = census.ranked_pods("one", active)
    assert len(ranked_pods) == len(active())
    victims = ranked_pods.get_pods_to_delete(9, now=NOW)
    assert {victim.pod.metadata.name for victim in victims} == {item.metadata.name for item in active()}
