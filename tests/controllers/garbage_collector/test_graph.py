"""The graph, event by event: linking, unlinking, deletions, finalizers."""

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


def test_object_without_owners_enqueues_nothing() -> None:
    history = History()
    assert history.show(OWNER) == []
    assert history.nodes() == ["apps/v1/ReplicaSet ns1/web"]


def test_dependent_of_an_observed_owner_enqueues_nothing() -> None:
    history = History()
    history.show(OWNER)
    assert history.show(CHILD, OWNER) == []


def test_virtual_owner_is_looked_up_once() -> None:
    history = History()
    assert history.show(CHILD, OWNER) == ["delete? virtual apps/v1/ReplicaSet ns1/web"]
    assert history.show(SIBLING, OWNER) == []
    assert history.show(OWNER) == []
    assert history.nodes() == ["apps/v1/ReplicaSet ns1/web", "v1/Pod ns1/web-1", "v1/Pod ns1/web-2"]


def test_deleted_owner_enqueues_dependents_in_insertion_order() -> None:
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


def test_deleted_owner_without_dependents_enqueues_nothing() -> None:
    history = History()
    history.show(OWNER)
    assert history.gone(OWNER) == []
    assert history.nodes() == []


def test_deletion_of_an_unknown_object_is_ignored() -> None:
    assert History().gone(OWNER) == []
    assert History().disproved(OWNER) == []


def test_absent_virtual_owner_is_removed_and_dependents_enqueued() -> None:
    history = History()
    history.show(CHILD, OWNER)
    assert history.disproved(OWNER) == ["absent apps/v1/ReplicaSet ns1/web", "delete? v1/Pod ns1/web-1"]
    assert history.nodes() == ["v1/Pod ns1/web-1"]


def test_virtual_delete_event_removes_an_observed_node() -> None:
    """The object was deleted before its watch event, which then has nothing to do."""
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    assert history.disproved(OWNER) == ["absent apps/v1/ReplicaSet ns1/web", "delete? v1/Pod ns1/web-1"]
    assert history.gone(OWNER) == []


def test_foreground_deletion_enqueues_dependents_and_the_owner_after_each() -> None:
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


def test_foreground_deletion_in_progress_at_startup_is_continued() -> None:
    history = History()
    assert history.show(CHILD, reference(OWNER, blocking=True)) == ["delete? virtual apps/v1/ReplicaSet ns1/web"]
    assert history.show(OWNER, deleting=True, finalizers=FOREGROUND) == [
        "delete? v1/Pod ns1/web-1",
        "delete? apps/v1/ReplicaSet ns1/web",
    ]
    owner = history.graph.get("owner")
    assert owner is not None
    assert owner.deleting_dependents


def test_finalizer_added_after_deletion_starts_foreground_deletion() -> None:
    """The finalizer matters, not the time of the deletion."""
    history = History()
    history.show(OWNER, deleting=True, finalizers=("example.com/hold",))
    assert history.show(OWNER, deleting=True, finalizers=("example.com/hold", "foregroundDeletion")) == [
        "delete? apps/v1/ReplicaSet ns1/web"
    ]


def test_orphan_finalizer_takes_precedence_over_foreground() -> None:
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    assert history.show(OWNER, deleting=True, finalizers=FOREGROUND + ORPHAN) == ["orphan apps/v1/ReplicaSet ns1/web"]


def test_deletion_timestamp_marks_the_node_as_being_deleted() -> None:
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
        "blocking reference removed": (
            [reference(OWNER, blocking=True)],
            [],
            ["delete? apps/v1/ReplicaSet ns1/web"],
        ),
        "reference no longer blocks": (
            [reference(OWNER, blocking=True)],
            [reference(OWNER)],
            ["delete? apps/v1/ReplicaSet ns1/web"],
        ),
        "non-blocking reference removed": ([reference(OWNER)], [], []),
        "a reference begins to block: nothing": ([reference(OWNER)], [reference(OWNER, blocking=True)], []),
        "absent owner added": (
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
def test_owner_reference_changes(before: list[object], after: list[object], expected: list[str]) -> None:
    """TestUnblockOwnerReference, TestReferencesDiffs (v1.36), through the public API."""
    history = History()
    history.show(OWNER)
    history.show(CHILD, *before)  # type: ignore[arg-type]
    assert history.show(CHILD, *after) == expected  # type: ignore[arg-type]


def test_unchanged_update_releases_old_strings() -> None:
    history = History()
    history.show(OWNER)
    history.show(CHILD, OWNER)
    again = meta(CHILD, OWNER)
    assert history.graph.process_add_or_update("v1", "Pod", None, again) == ()
    node = history.graph.get("child")
    assert node is not None
    assert node.name is again.name
    assert node.owners is again.owner_references


def test_object_observed_under_another_kind_keeps_its_dependents() -> None:
    """It is now served by another group; its owner must refer to the new node."""
    history = History()
    history.show(OTHER)
    old = identity("extensions/v1beta1/ReplicaSet ns1/web=owner")
    history.show(old, OTHER)
    history.show(CHILD, old)
    assert history.show(OWNER, OTHER) == []
    assert history.nodes() == ["apps/v1/ReplicaSet ns1/other", "apps/v1/ReplicaSet ns1/web", "v1/Pod ns1/web-1"]
    assert history.gone(OTHER) == ["absent apps/v1/ReplicaSet ns1/other", "delete? apps/v1/ReplicaSet ns1/web"]


def test_self_owned_object() -> None:
    history = History()
    assert history.show(OWNER, OWNER) == []
    assert history.gone(OWNER) == ["absent apps/v1/ReplicaSet ns1/web", "delete? apps/v1/ReplicaSet ns1/web"]


def test_foreground_deletion_cycle_is_detected() -> None:
    history = History()
    a, b, c, d = (identity(f"v1/ConfigMap ns1/{name}={name}") for name in "abcd")

    def waits(dependent: Identity, *owners: OwnerReference) -> None:
        history.show(dependent, *owners, deleting=True, finalizers=FOREGROUND)

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
        "cluster alternate version: scope unknown": (
            [("ns1", [CLUSTER_PARENT]), ("ns1", [parent("xx", of=CLUSTER_PARENT)])],
            CLUSTER_PARENT,
            Identity("xx", "ClusterParent", "ns1", "parentname", "parentuid"),
        ),
        "cluster alternate kind: scope unknown": (
            [("ns1", [CLUSTER_PARENT]), ("ns1", [parent(kind="xxxxxxxxxxxxx", of=CLUSTER_PARENT)])],
            CLUSTER_PARENT,
            Identity("v1", "xxxxxxxxxxxxx", "ns1", "parentname", "parentuid"),
        ),
        "cluster alternate namespace: namespace ignored": (
            [("ns1", [CLUSTER_PARENT]), ("ns2", [CLUSTER_PARENT])],
            CLUSTER_PARENT,
            None,
        ),
        "cluster alternate name: scope known": (
            [("ns1", [CLUSTER_PARENT]), ("ns1", [parent(name="xxxxxxxxxx", of=CLUSTER_PARENT)])],
            CLUSTER_PARENT,
            parent(name="xxxxxxxxxx", of=CLUSTER_PARENT),
        ),
        "wraps around": ([("ns1", VERSIONS)], VERSIONS[4], VERSIONS[0]),
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


def test_dependents_with_matching_and_mismatching_references() -> None:
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
def test_graph_edges_are_consistent_under_random_events(stimuli: list[Any]) -> None:
    """Also with references to wrong kinds and namespaces; ``History`` checks after every event. A deleted uid does not
    return, and keeps its namespace and kind, as the server guarantees."""
    history = History()
    places: dict[str, Identity] = {}
    over: set[str] = set()
    for stimulus, uid, namespace, owners, finalizer in stimuli:
        identity = places.setdefault(uid, Identity("v1", "A", namespace, uid, uid))
        if uid in over:
            continue
        if stimulus == "show":
            claims = {o: Identity("v1", kind, "", o, o) for o, kind in owners if o not in over}
            references = [reference(claim, blocking=finalizer == "") for claim in claims.values()]
            finalizers = (finalizer,) if finalizer else ()
            history.show(identity, *references, deleting=bool(finalizer), finalizers=finalizers)
        elif stimulus == "gone" and uid in history.seen:
            node = history.graph.get(uid)
            expected = [f"absent v1/A {identity.namespace}/{uid}"] if node is not None and node.dependents else []
            assert [text for text in history.gone(identity) if text.startswith("absent")] == expected
            over.add(uid)
        elif uid not in history.seen:
            history.disproved(Identity("v1", "B", identity.namespace, uid, uid))
