"""The graph, stimulus by stimulus: linking, unlinking, deletions, finalizers."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controllers.garbage_collector.histories import History, identity, meta, reference
from tests.tables import cases

from pilothouse.api.meta import OwnerReference
from pilothouse.controllers.cleanup.garbage_collector.graph import (
    Identity,
    get_alternate_owner_identity,
    partition_dependents,
)

OWNER = identity("apps/v1/ReplicaSet ns1/web=owner")
OTHER = identity("apps/v1/ReplicaSet ns1/other=other")
CHILD = identity("v1/Pod ns1/web-1=child")
SIBLING = identity("v1/Pod ns1/web-2=sibling")
FOREGROUND = ("foregroundDeletion",)
ORPHAN = ("orphan",)


def test_an_object_without_owners_asks_for_nothing() -> None:
    history = History()
    assert history.show(OWNER) == []
    assert history.nodes() == ["apps/v1/ReplicaSet ns1/web"]


def test_a_child_of_a_known_owner_asks_for_nothing() -> None:
    history = History()
    history.show(OWNER)
    assert history.show(CHILD, OWNER) == []


def test_an_owner_that_nobody_has_seen_is_looked_up_once() -> None:
    history = History()
    assert history.show(CHILD, OWNER) == ["delete? virtual apps/v1/ReplicaSet ns1/web"]
    assert history.show(SIBLING, OWNER) == []
    assert history.show(OWNER) == []
    assert history.nodes() == ["apps/v1/ReplicaSet ns1/web", "v1/Pod ns1/web-1", "v1/Pod ns1/web-2"]


def test_when_an_owner_goes_its_dependents_are_looked_at_in_the_order_in_which_they_came() -> None:
    history = History()
    history.show(OWNER)
    history.show(SIBLING, OWNER)
    history.show(CHILD, OWNER)
    assert history.gone(OWNER) == [
        "absent apps/v1/ReplicaSet ns1/web",
        "delete? v1/Pod ns1/web-2",
        "delete? v1/Pod ns1/web-1",
    ]
    assert history.nodes() == ["v1/Pod ns1/web-1", "v1/Pod ns1/web-2"]


def test_an_owner_without_dependents_goes_quietly() -> None:
    history = History()
    history.show(OWNER)
    assert history.gone(OWNER) == []
    assert history.nodes() == []


def test_the_deletion_of_an_unknown_object_is_nothing() -> None:
    assert History().gone(OWNER) == []
    assert History().disproved(OWNER) == []


def test_a_virtual_owner_that_does_not_exist_is_removed_and_its_dependents_looked_at() -> None:
    history = History()
    history.show(CHILD, OWNER)
    assert history.disproved(OWNER) == ["absent apps/v1/ReplicaSet ns1/web", "delete? v1/Pod ns1/web-1"]
    assert history.nodes() == ["v1/Pod ns1/web-1"]


def test_a_lookup_that_missed_a_real_object_removes_it() -> None:
    """The object was deleted and the watch has not said so yet; when it does, nothing is left to do."""
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    assert history.disproved(OWNER) == ["absent apps/v1/ReplicaSet ns1/web", "delete? v1/Pod ns1/web-1"]
    assert history.gone(OWNER) == []


def test_a_foreground_owner_and_all_its_dependents_are_looked_at_and_the_owner_again_as_they_go() -> None:
    history = History()
    history.show(OWNER)
    history.show(CHILD, reference(OWNER, blocking=True))
    history.show(SIBLING, OWNER)
    assert history.show(OWNER, deleting=True, finalizers=FOREGROUND) == [
        "delete? v1/Pod ns1/web-1",
        "delete? v1/Pod ns1/web-2",
        "delete? apps/v1/ReplicaSet ns1/web",
    ]
    owner = history.graph.get("owner")
    assert owner is not None
    assert [node.name for node in owner.blocking_dependents()] == ["web-1"]
    assert history.show(OWNER, deleting=True, finalizers=FOREGROUND) == [], "the deletion starts once"
    assert history.gone(CHILD) == ["delete? apps/v1/ReplicaSet ns1/web"]
    assert history.gone(SIBLING) == ["delete? apps/v1/ReplicaSet ns1/web"]
    assert owner.dependents is None


def test_a_foreground_deletion_that_was_under_way_when_we_started_is_taken_up() -> None:
    history = History()
    assert history.show(CHILD, reference(OWNER, blocking=True)) == ["delete? virtual apps/v1/ReplicaSet ns1/web"]
    assert history.show(OWNER, deleting=True, finalizers=FOREGROUND) == [
        "delete? v1/Pod ns1/web-1",
        "delete? apps/v1/ReplicaSet ns1/web",
    ]
    owner = history.graph.get("owner")
    assert owner is not None
    assert owner.deleting_dependents


def test_a_finalizer_that_comes_after_the_deletion_also_starts_it() -> None:
    """TestProcessEvent and TestDependentsRace's neighbours: the finalizer decides, not the moment of the deletion."""
    history = History()
    history.show(OWNER, deleting=True, finalizers=("example.com/hold",))
    assert history.show(OWNER, deleting=True, finalizers=("example.com/hold", "foregroundDeletion")) == [
        "delete? apps/v1/ReplicaSet ns1/web"
    ]


def test_orphaning_goes_before_foreground() -> None:
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    assert history.show(OWNER, deleting=True, finalizers=FOREGROUND + ORPHAN) == ["orphan apps/v1/ReplicaSet ns1/web"]


def test_a_plain_deletion_marks_the_node_and_waits_for_the_end() -> None:
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    assert history.show(OWNER, deleting=True, finalizers=("example.com/hold",)) == []
    owner = history.graph.get("owner")
    assert owner is not None
    assert owner.being_deleted
    assert not owner.deleting_dependents


@cases(
    "before, after, expected",
    {
        "a blocking reference is taken away: the owner may go now": (
            [reference(OWNER, blocking=True)],
            [],
            ["delete? apps/v1/ReplicaSet ns1/web"],
        ),
        "a reference stops blocking: the owner may go now": (
            [reference(OWNER, blocking=True)],
            [reference(OWNER)],
            ["delete? apps/v1/ReplicaSet ns1/web"],
        ),
        "a reference that did not block is taken away: nothing": ([reference(OWNER)], [], []),
        "a reference begins to block: nothing": ([reference(OWNER)], [reference(OWNER, blocking=True)], []),
        "an unknown owner is added: it is looked up": (
            [reference(OWNER)],
            [reference(OWNER), reference(OTHER)],
            ["delete? virtual apps/v1/ReplicaSet ns1/other"],
        ),
        "owners are exchanged: the old one first": (
            [reference(OWNER, blocking=True)],
            [reference(OTHER)],
            ["delete? apps/v1/ReplicaSet ns1/web", "delete? virtual apps/v1/ReplicaSet ns1/other"],
        ),
    },
)
def test_changes_of_references(before: list[object], after: list[object], expected: list[str]) -> None:
    """TestUnblockOwnerReference, TestReferencesDiffs (v1.36), seen from outside."""
    history = History()
    history.show(OWNER)
    history.show(CHILD, *before)  # type: ignore[arg-type]
    assert history.show(CHILD, *after) == expected  # type: ignore[arg-type]


def test_an_unchanged_update_lets_go_of_the_old_strings() -> None:
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    again = meta(CHILD, OWNER)
    assert history.graph.process_add_or_update("v1", "Pod", None, again) == ()
    node = history.graph.get("child")
    assert node is not None
    assert node.name is again.name
    assert node.owners is again.owner_references


def test_an_object_that_is_served_as_another_kind_keeps_its_place() -> None:
    """Served from another group since the last look; its owner must know the node that replaced the old one."""
    history = History()
    history.show(OTHER)
    old = identity("extensions/v1beta1/ReplicaSet ns1/web=owner")
    history.show(old, OTHER)
    history.show(CHILD, old)
    assert history.show(OWNER, OTHER) == []
    assert history.nodes() == ["apps/v1/ReplicaSet ns1/other", "apps/v1/ReplicaSet ns1/web", "v1/Pod ns1/web-1"]
    assert history.gone(OTHER) == ["absent apps/v1/ReplicaSet ns1/other", "delete? apps/v1/ReplicaSet ns1/web"]


def test_an_object_that_owns_itself_is_no_trouble() -> None:
    history = History()
    assert history.show(OWNER, OWNER) == []
    assert history.gone(OWNER) == ["absent apps/v1/ReplicaSet ns1/web", "delete? apps/v1/ReplicaSet ns1/web"]


def test_a_circle_of_waiting_is_found_and_a_chain_is_none() -> None:
    history = History()
    a, b, c, d = (identity(f"v1/ConfigMap ns1/{name}={name}") for name in "abcd")

    def waits(who: Identity, *owners: OwnerReference) -> None:
        history.show(who, *owners, deleting=True, finalizers=FOREGROUND)

    def circles() -> list[str]:
        return [node.name for node in history.graph.nodes() if history.graph.is_in_cycle(node)]

    waits(a)
    waits(b, reference(a, blocking=True))
    waits(c, reference(b, blocking=True))
    waits(d, reference(c, blocking=True))
    assert circles() == [], "a chain ends by itself"
    waits(a, reference(c))
    assert circles() == [], "a reference that does not block makes nobody wait"
    waits(a, reference(c, blocking=True))
    assert circles() == ["a", "b", "c"], "d waits for nobody"
    waits(d, reference(d, blocking=True))
    assert circles() == ["a", "b", "c", "d"]
    waits(b, reference(a))
    assert circles() == ["d"]


NS_PARENT = identity("v1/NSParent ns1/parentname=parentuid")
NS2_PARENT = identity("v1/NSParent ns2/parentname=parentuid")
CLUSTER_PARENT = identity("v1/ClusterParent /parentname=parentuid")


def parent(api_version: str = "", kind: str = "", name: str = "", *, of: Identity) -> Identity:
    return Identity(api_version or of.api_version, kind or of.kind, of.namespace, name or of.name, of.uid)


VERSIONS = [Identity(f"v{number}", "kind", "ns1", "name", "uid") for number in range(1, 6)]


@cases(
    "claims, absent, expected",
    {
        "namespaced alternate version": (
            [("ns1", [NS_PARENT]), ("ns1", [parent("xx", of=NS_PARENT)])],
            NS_PARENT,
            parent("xx", of=NS_PARENT),
        ),
        "namespaced alternate kind": (
            [("ns1", [NS_PARENT]), ("ns1", [parent(kind="xxxxxxxx", of=NS_PARENT)])],
            NS_PARENT,
            parent(kind="xxxxxxxx", of=NS_PARENT),
        ),
        "namespaced alternate namespace": ([("ns1", [NS_PARENT]), ("ns2", [NS2_PARENT])], NS_PARENT, NS2_PARENT),
        "namespaced alternate name": (
            [("ns1", [NS_PARENT]), ("ns1", [parent(name="xxxxxxxxxx", of=NS_PARENT)])],
            NS_PARENT,
            parent(name="xxxxxxxxxx", of=NS_PARENT),
        ),
        "cluster alternate version: nobody knows that it is cluster-scoped, too": (
            [("ns1", [CLUSTER_PARENT]), ("ns1", [parent("xx", of=CLUSTER_PARENT)])],
            CLUSTER_PARENT,
            Identity("xx", "ClusterParent", "ns1", "parentname", "parentuid"),
        ),
        "cluster alternate kind: nobody knows that it is cluster-scoped, too": (
            [("ns1", [CLUSTER_PARENT]), ("ns1", [parent(kind="xxxxxxxxxxxxx", of=CLUSTER_PARENT)])],
            CLUSTER_PARENT,
            Identity("v1", "xxxxxxxxxxxxx", "ns1", "parentname", "parentuid"),
        ),
        "cluster alternate namespace: the dependents' namespaces do not matter": (
            [("ns1", [CLUSTER_PARENT]), ("ns2", [CLUSTER_PARENT])],
            CLUSTER_PARENT,
            None,
        ),
        "cluster alternate name: known to be cluster-scoped": (
            [("ns1", [CLUSTER_PARENT]), ("ns1", [parent(name="xxxxxxxxxx", of=CLUSTER_PARENT)])],
            CLUSTER_PARENT,
            parent(name="xxxxxxxxxx", of=CLUSTER_PARENT),
        ),
        "after the last comes the first": ([("ns1", VERSIONS)], VERSIONS[4], VERSIONS[0]),
        "the next one in order": ([("ns1", VERSIONS)], VERSIONS[3], VERSIONS[4]),
        "ignore unrelated": (
            [("ns1", [CLUSTER_PARENT, identity("v1/Parent ns1/name=anotheruid")])],
            CLUSTER_PARENT,
            None,
        ),
        "ignore matches": ([("ns1", [CLUSTER_PARENT, CLUSTER_PARENT])], CLUSTER_PARENT, None),
        "collapse duplicates": (
            [("", [CLUSTER_PARENT] + [parent(kind="xxxxxxxxxxxxx", of=CLUSTER_PARENT)] * 2)],
            CLUSTER_PARENT,
            parent(kind="xxxxxxxxxxxxx", of=CLUSTER_PARENT),
        ),
    },
)
def test_alternative_identity(
    claims: list[tuple[str, list[Identity]]], absent: Identity, expected: Identity | None
) -> None:
    """TestGetAlternateOwnerIdentity (graph_builder_test.go, v1.36)."""
    history = History()
    for number, (namespace, owners) in enumerate(claims):
        history.graph.process_add_or_update(
            "v1", "Child", None, meta(Identity("v1", "Child", namespace, "c", str(number)), *owners)
        )
    dependents = [node for node in history.graph.nodes() if node.kind == "Child"]
    assert get_alternate_owner_identity(dependents, absent) == expected


def test_a_dependent_can_agree_and_disagree_at_once() -> None:
    history = History()
    history.show(CHILD, NS_PARENT, parent("xx", of=NS_PARENT))
    node = history.graph.get("child")
    assert node is not None
    assert partition_dependents([node], NS_PARENT) == ([node], [node])
    assert partition_dependents([node], NS2_PARENT) == ([], [node])


UIDS = [f"u{number}" for number in range(6)]
STIMULI = st.lists(
    st.tuples(
        st.sampled_from(["show", "show", "show", "gone", "disproved"]),
        st.sampled_from(UIDS),
        st.sampled_from(["ns1", "ns2", ""]),
        st.lists(st.tuples(st.sampled_from(UIDS), st.sampled_from(["A", "B"])), max_size=3),
        st.sampled_from(["", "", "foregroundDeletion", "orphan"]),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STIMULI)
def test_whatever_happens_both_ends_of_every_edge_agree(stimuli: list[Any]) -> None:
    """Also when references lie about kinds and namespaces; ``History`` checks after every stimulus.

    A uid that was seen to go does not come back, and keeps its namespace and kind: that is what the server promises.
    """
    history = History()
    places: dict[str, Identity] = {}
    over: set[str] = set()
    for what, uid, namespace, owners, finalizer in stimuli:
        who = places.setdefault(uid, Identity("v1", "A", namespace, uid, uid))
        if uid in over:
            continue
        if what == "show":
            claims = {o: Identity("v1", kind, "", o, o) for o, kind in owners if o not in over}
            references = [reference(claim, blocking=finalizer == "") for claim in claims.values()]
            finalizers = (finalizer,) if finalizer else ()
            history.show(who, *references, deleting=bool(finalizer), finalizers=finalizers)
        elif what == "gone" and uid in history.seen:
            node = history.graph.get(uid)
            expected = [f"absent v1/A {who.namespace}/{uid}"] if node is not None and node.dependents else []
            assert [text for text in history.gone(who) if text.startswith("absent")] == expected
            over.add(uid)
        elif uid not in history.seen:
            history.disproved(Identity("v1", "B", who.namespace, uid, uid))
