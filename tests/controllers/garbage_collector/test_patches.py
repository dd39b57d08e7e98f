"""Patch bodies, the absent-owner cache and the DOT output of the graph."""

from tests.controllers.garbage_collector.histories import History, identity

from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.controllers.cleanup.garbage_collector import patches
from pilothouse.controllers.cleanup.garbage_collector.attempts import AbsentOwnerCache
from pilothouse.controllers.cleanup.garbage_collector.dump import to_dot

CONTROLLER = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="web", uid="u1", controller=True, block_owner_deletion=True
)
PLAIN = OwnerReference(api_version="v1", kind="ConfigMap", name="cm", uid="u2")
META = ObjectMeta(
    name="x", uid="me", resource_version="7", owner_references=(CONTROLLER, PLAIN), finalizers=("a", "orphan")
)


def test_owners_are_removed_by_uid() -> None:
    assert patches.delete_owner_refs_strategic_merge_patch("me", ["u1", "u2"]) == {
        "metadata": {
            "uid": "me",
            "ownerReferences": [{"$patch": "delete", "uid": "u1"}, {"$patch": "delete", "uid": "u2"}],
        }
    }


def test_only_blocking_references_are_unblocked() -> None:
    assert patches.unblock_owner_references_strategic_merge_patch("me", META.owner_references) == {
        "metadata": {
            "uid": "me",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": "u1",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        }
    }


def test_json_merge_patch_contains_all_owner_references() -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "name": "cm", "uid": "u2"}
    assert patches.delete_owner_refs_json_merge_patch(META, ["u1"]) == {
        "metadata": {"resourceVersion": "7", "ownerReferences": [plain]}
    }
    assert patches.delete_owner_refs_json_merge_patch(META, ["u1", "u2"]) == {
        "metadata": {"resourceVersion": "7", "ownerReferences": None}
    }
    body = patches.unblock_owner_references_json_merge_patch(META)
    assert body["metadata"]["ownerReferences"][1] == {**plain, "blockOwnerDeletion": False}  # type: ignore[index]


def test_last_finalizer_is_removed_with_null() -> None:
    assert patches.remove_finalizer(META, "orphan") == {"metadata": {"resourceVersion": "7", "finalizers": ["a"]}}
    assert patches.remove_finalizer(ObjectMeta(resource_version="7", finalizers=("orphan",)), "orphan") == {
        "metadata": {"resourceVersion": "7", "finalizers": None}
    }


def test_absent_owner_cache_evicts_least_recently_used() -> None:
    absent = AbsentOwnerCache(capacity=2)
    a, b, c = (identity(f"v1/Pod ns/{name}={name}") for name in "abc")
    absent.add(a)
    absent.add(b)
    assert a in absent
    absent.add(c)
    assert [owner in absent for owner in (a, b, c)] == [True, False, True]
    assert len(absent) == 2


def test_dot_output_shows_connected_nodes() -> None:
    history = History()
    owner, child = identity("apps/v1/ReplicaSet ns1/web=u-owner"), identity("v1/Pod ns1/web-1=u-child")
    history.show(owner)
    history.show(child, owner)
    history.show(identity("v1/Pod ns1/alone=u-alone"))
    history.show(identity("v1/Pod ns1/stray=u-stray"), identity('v1/ConfigMap ns1/"odd"=u-odd'))
    everything = to_dot(history.graph)
    assert everything.startswith("strict digraph full {\n  // Node definitions.\n  0 [\n")
    assert "  1 -> 0;" in everything
    assert "u-alone" not in everything
    assert 'name="\\"odd\\""' in everything
    assert 'virtual="true"' in everything
    part = to_dot(history.graph, ["u-child"])
    assert 'uid="u-owner"' in part
    assert "u-stray" not in part
    history.gone(owner)
    assert 'missing="true"' in to_dot(history.graph)
