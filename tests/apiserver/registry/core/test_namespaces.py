"""Namespaces: creation, deletion and finalization, and the protected ones (facts from kube-apiserver v1.36.2)."""

import pytest
from tests.apiserver.api import NAMESPACES, Api, Object, config_map


def _namespace(name: str = "n", **meta: object) -> Object:
    return {"metadata": {"name": name, **meta}}


async def test_four_namespaces_exist_at_startup(api: Api) -> None:
    names = [item["metadata"]["name"] for item in (await api.get(NAMESPACES)).body["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


async def test_kubernetes_service_exists_at_startup(api: Api) -> None:
    answer = await api.get("/api/v1/namespaces/default/services/kubernetes")
    assert answer.meta["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert answer.body["spec"] == {
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_cannot_be_deleted(api: Api, name: str) -> None:
    answer = await api.delete(f"{NAMESPACES}/{name}")
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_metadata_name_label_is_restored(api: Api) -> None:
    await api.create(NAMESPACES, _namespace(labels={"kubernetes.io/metadata.name": "other", "a": "b"}))
    created, patched = [
        await api.get(f"{NAMESPACES}/n"),
        await api.patch(f"{NAMESPACES}/n", {"metadata": {"labels": None}}),
    ]
    assert created.meta["labels"] == {"kubernetes.io/metadata.name": "n", "a": "b"}
    assert patched.meta["labels"] == {"kubernetes.io/metadata.name": "n"}


async def test_delete_sets_terminating_and_finalize_removes(api: Api) -> None:
    created = await api.create(NAMESPACES, _namespace())
    await api.create(f"{NAMESPACES}/n/configmaps", config_map())
    deleted = await api.delete(f"{NAMESPACES}/n")
    deleted_again = await api.delete(f"{NAMESPACES}/n")
    rejected = await api.post(f"{NAMESPACES}/n/configmaps", config_map("d"))
    evicted = await api.post(f"{NAMESPACES}/n/pods/p/eviction", {"metadata": {"name": "p"}})
    assert evicted.message == (
        'pods "p" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    updated = await api.patch(f"{NAMESPACES}/n/configmaps/c", {"data": {"a": "b"}})
    collection_deleted = await api.delete(f"{NAMESPACES}/n/configmaps")
    finalized = await api.put(
        f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n", "uid": created["metadata"]["uid"]}}
    )
    after_finalize = await api.get(f"{NAMESPACES}/n")
    assert deleted.body["status"] == {"phase": "Terminating"}
    assert deleted.meta["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert "deletionGracePeriodSeconds" not in deleted.meta
    assert deleted_again.body == deleted.body
    assert (rejected.status, rejected.body["reason"]) == (403, "Forbidden")
    assert rejected.message == (
        'configmaps "d" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert rejected.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]
    assert updated.status == 200
    assert collection_deleted.status == 200
    assert finalized.status == 200
    assert finalized.body["spec"] == {}
    assert after_finalize.status == 404


async def test_metadata_finalizer_keeps_the_namespace_after_finalize(api: Api) -> None:
    await api.create(NAMESPACES, _namespace(finalizers=["a.b/c"]))
    await api.delete(f"{NAMESPACES}/n")
    finalized = await api.put(
        f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n", "finalizers": ["a.b/c"]}, "spec": {}}
    )
    after_finalize = await api.get(f"{NAMESPACES}/n")
    without_finalizers = await api.patch(f"{NAMESPACES}/n", {"metadata": {"finalizers": None}})
    after_patch = await api.get(f"{NAMESPACES}/n")
    assert finalized.body == after_finalize.body
    assert (without_finalizers.status, after_patch.status) == (200, 404)


async def test_spec_finalizers_change_only_through_finalize(api: Api) -> None:
    created = await api.create(NAMESPACES, _namespace())
    created["spec"] = {"finalizers": []}
    updated = await api.put(f"{NAMESPACES}/n", created)
    created["spec"] = {"finalizers": ["kubernetes", "x.y/z"]}
    finalized = await api.put(f"{NAMESPACES}/n/finalize", created)
    assert updated.body["spec"] == {"finalizers": ["kubernetes"]}
    assert finalized.body["spec"] == {"finalizers": ["kubernetes", "x.y/z"]}


async def test_uid_precondition_is_checked(api: Api) -> None:
    created = await api.create(NAMESPACES, _namespace())
    answer = await api.delete(f"{NAMESPACES}/n", {"preconditions": {"uid": "a"}})
    assert answer.status == 409
    assert answer.message == (
        'Operation cannot be fulfilled on namespaces "n": Precondition failed: UID in precondition: a, UID in object '
        f"meta: {created['metadata']['uid']}"
    )
    assert answer.body["details"] == {"name": "n", "kind": "namespaces"}


@pytest.mark.parametrize(
    ("deleting", "phase", "detail"),
    [
        (False, "Terminating", "may only be 'Active' if `deletionTimestamp` is empty"),
        (True, "Active", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    ],
)
async def test_phase_follows_the_deletion_timestamp(api: Api, deleting: bool, phase: str, detail: str) -> None:
    await api.create(NAMESPACES, _namespace())
    if deleting:
        await api.delete(f"{NAMESPACES}/n")
    answer = await api.patch(f"{NAMESPACES}/n/status", {"status": {"phase": phase}})
    assert answer.status == 422
    assert answer.message == f'Namespace "n" is invalid: status.Phase: Invalid value: "{phase}": {detail}'


async def test_status_update_does_not_remove_the_namespace(api: Api) -> None:
    condition = {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain"}
    await api.create(NAMESPACES, _namespace())
    body = (await api.delete(f"{NAMESPACES}/n")).body
    body["status"]["conditions"] = [condition]
    updated = await api.put(f"{NAMESPACES}/n/status", body)
    # It has no finalizers in metadata, but still has spec.finalizers.
    await api.patch(f"{NAMESPACES}/n", {"metadata": {"labels": {"a": "b"}}})
    namespace = await api.get(f"{NAMESPACES}/n")
    stored_condition = {**condition, "lastTransitionTime": None}
    assert updated.body["status"] == {"phase": "Terminating", "conditions": [stored_condition]}
    assert namespace.status == 200


@pytest.mark.parametrize(("orphan", "finalizers"), [(False, ["foregroundDeletion"]), (True, ["orphan"])])
async def test_orphan_dependents_sets_a_finalizer(api: Api, orphan: bool, finalizers: list[str]) -> None:
    await api.post(NAMESPACES, _namespace())
    assert (await api.delete(f"{NAMESPACES}/n", {"orphanDependents": orphan})).meta["finalizers"] == finalizers
