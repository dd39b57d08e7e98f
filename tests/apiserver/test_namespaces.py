"""Namespaces: life, end, and those that never end (facts from kube-apiserver v1.36.2)."""

import pytest
from tests.apiserver.api import NAMESPACES, Answer, Api, Object, config_map, on


def _made(name: str = "n", **meta: object) -> Object:
    return {"metadata": {"name": name, **meta}}


def test_four_are_there_from_the_start() -> None:
    async def main(api: Api) -> Answer:
        return await api.get(NAMESPACES)

    names = [item["metadata"]["name"] for item in on(main).body["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


def test_the_service_kubernetes_is_there_from_the_start() -> None:
    async def main(api: Api) -> Answer:
        return await api.get("/api/v1/namespaces/default/services/kubernetes")

    answer = on(main)
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
def test_three_may_not_be_deleted(name: str) -> None:
    async def main(api: Api) -> Answer:
        return await api.delete(f"{NAMESPACES}/{name}")

    answer = on(main)
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


def test_the_label_with_the_name_cannot_be_lost() -> None:
    async def main(api: Api) -> list[Answer]:
        await api.made(NAMESPACES, _made(labels={"kubernetes.io/metadata.name": "other", "a": "b"}))
        return [
            await api.get(f"{NAMESPACES}/n"),
            await api.patch(f"{NAMESPACES}/n", {"metadata": {"labels": None}}),
        ]

    made, patched = on(main)
    assert made.meta["labels"] == {"kubernetes.io/metadata.name": "n", "a": "b"}
    assert patched.meta["labels"] == {"kubernetes.io/metadata.name": "n"}


def test_a_delete_begins_the_end_and_content_ends_it() -> None:
    async def main(api: Api) -> list[Answer]:
        made = await api.made(NAMESPACES, _made())
        await api.made(f"{NAMESPACES}/n/configmaps", config_map())
        marked = await api.delete(f"{NAMESPACES}/n")
        again = await api.delete(f"{NAMESPACES}/n")
        refused = await api.post(f"{NAMESPACES}/n/configmaps", config_map("d"))
        updated = await api.patch(f"{NAMESPACES}/n/configmaps/c", {"data": {"a": "b"}})
        emptied = await api.delete(f"{NAMESPACES}/n/configmaps")
        finalized = await api.put(
            f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n", "uid": made["metadata"]["uid"]}}
        )
        return [marked, again, refused, updated, emptied, finalized, await api.get(f"{NAMESPACES}/n")]

    marked, again, refused, updated, emptied, finalized, gone = on(main)
    assert marked.body["status"] == {"phase": "Terminating"}
    assert marked.meta["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert "deletionGracePeriodSeconds" not in marked.meta
    assert again.body == marked.body
    assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
    assert refused.message == (
        'configmaps "d" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace n is being terminated",
            "field": "metadata.namespace",
        }
    ]
    assert updated.status == 200
    assert emptied.status == 200
    assert finalized.status == 200
    assert finalized.body["spec"] == {}
    assert gone.status == 404


def test_a_finalizer_in_the_metadata_keeps_a_namespace_after_finalize() -> None:
    async def main(api: Api) -> list[Answer]:
        await api.made(NAMESPACES, _made(finalizers=["a.b/c"]))
        await api.delete(f"{NAMESPACES}/n")
        finalized = await api.put(
            f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n", "finalizers": ["a.b/c"]}, "spec": {}}
        )
        kept = await api.get(f"{NAMESPACES}/n")
        freed = await api.patch(f"{NAMESPACES}/n", {"metadata": {"finalizers": None}})
        return [finalized, kept, freed, await api.get(f"{NAMESPACES}/n")]

    finalized, kept, freed, gone = on(main)
    assert finalized.body == kept.body
    assert (freed.status, gone.status) == (200, 404)


def test_spec_finalizers_change_only_through_finalize() -> None:
    async def main(api: Api) -> list[Answer]:
        made = await api.made(NAMESPACES, _made())
        made["spec"] = {"finalizers": []}
        ordinary = await api.put(f"{NAMESPACES}/n", made)
        made["spec"] = {"finalizers": ["kubernetes", "x.y/z"]}
        return [ordinary, await api.put(f"{NAMESPACES}/n/finalize", made)]

    ordinary, finalize = on(main)
    assert ordinary.body["spec"] == {"finalizers": ["kubernetes"]}
    assert finalize.body["spec"] == {"finalizers": ["kubernetes", "x.y/z"]}


def test_the_uid_of_a_namespace_is_checked() -> None:
    async def main(api: Api) -> tuple[Object, Answer]:
        made = await api.made(NAMESPACES, _made())
        return made, await api.delete(f"{NAMESPACES}/n", {"preconditions": {"uid": "a"}})

    made, answer = on(main)
    assert answer.status == 409
    assert answer.message == (
        'Operation cannot be fulfilled on namespaces "n": Precondition failed: UID in precondition: a, UID in object '
        f"meta: {made['metadata']['uid']}"
    )
    assert answer.body["details"] == {"name": "n", "kind": "namespaces"}


@pytest.mark.parametrize(
    ("deleting", "phase", "problem"),
    [
        (False, "Terminating", "may only be 'Active' if `deletionTimestamp` is empty"),
        (True, "Active", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    ],
)
def test_the_phase_follows_the_deletion(deleting: bool, phase: str, problem: str) -> None:
    async def main(api: Api) -> Answer:
        await api.made(NAMESPACES, _made())
        if deleting:
            await api.delete(f"{NAMESPACES}/n")
        return await api.patch(f"{NAMESPACES}/n/status", {"status": {"phase": phase}})

    answer = on(main)
    assert answer.status == 422
    assert answer.message == f'Namespace "n" is invalid: status.Phase: Invalid value: "{phase}": {problem}'


def test_conditions_go_through_the_status_and_writing_them_ends_nothing() -> None:
    condition = {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain"}

    async def main(api: Api) -> tuple[Answer, Answer]:
        await api.made(NAMESPACES, _made())
        body = (await api.delete(f"{NAMESPACES}/n")).body
        body["status"]["conditions"] = [condition]
        written = await api.put(f"{NAMESPACES}/n/status", body)
        # spec.finalizers still hold it, though there is no finalizer in its metadata.
        await api.patch(f"{NAMESPACES}/n", {"metadata": {"labels": {"a": "b"}}})
        return written, await api.get(f"{NAMESPACES}/n")

    written, found = on(main)
    assert written.body["status"] == {"phase": "Terminating", "conditions": [condition]}
    assert found.status == 200


@pytest.mark.parametrize(("orphan", "finalizers"), [(False, ["foregroundDeletion"]), (True, ["orphan"])])
def test_the_old_words_for_propagation_leave_a_finalizer_either_way(orphan: bool, finalizers: list[str]) -> None:
    async def main(api: Api) -> Answer:
        await api.post(NAMESPACES, _made())
        return await api.delete(f"{NAMESPACES}/n", {"orphanDependents": orphan})

    assert on(main).meta["finalizers"] == finalizers
