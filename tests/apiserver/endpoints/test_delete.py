"""delete and deletecollection (facts from kube-apiserver v1.36.2; apiserver pkg/registry/rest/delete.go v0.36)."""

import asyncio
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, REPLICA_SETS, Answer, Api, Object, config_map, pod, replica_set
from tests.tables import cases

from pilothouse.apiserver.core import Core
from pilothouse.storage import Staged

NAMESPACED = "/apis/batch/v1/namespaces/default/jobs"


async def test_delete_returns_a_status_with_details(api: Api) -> None:
    created = await api.create(CONFIG_MAPS, config_map())
    first = await api.delete(CONFIG_MAPS + "/c")
    second = await api.delete(CONFIG_MAPS + "/c")
    assert first.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "c", "kind": "configmaps", "uid": created["metadata"]["uid"]},
    }
    assert (second.status, second.message) == (404, 'configmaps "c" not found')


@cases(
    "had, options, finalizers, code",
    {
        "no options, no finalizers: deleted": ([], {}, None, 200),
        "background: deleted": ([], {"propagationPolicy": "Background"}, None, 200),
        "Orphan: orphan finalizer": ([], {"propagationPolicy": "Orphan"}, ["orphan"], 200),
        "Foreground: foregroundDeletion finalizer": (
            [],
            {"propagationPolicy": "Foreground"},
            ["foregroundDeletion"],
            200,
        ),
        "orphanDependents true": ([], {"orphanDependents": True}, ["orphan"], 200),
        "orphanDependents false": ([], {"orphanDependents": False}, None, 200),
        "finalizers are kept": (["a.b/c"], {}, ["a.b/c"], 200),
        "still existing after the request: accepted": (["a.b/c"], {"orphanDependents": False}, ["a.b/c"], 202),
        "no options: orphan finalizer is kept": (["orphan"], {}, ["orphan"], 200),
        "background drops orphan": (["orphan"], {"propagationPolicy": "Background"}, None, 200),
        "Foreground replaces orphan": (
            ["a.b/c", "orphan"],
            {"propagationPolicy": "Foreground"},
            ["a.b/c", "foregroundDeletion"],
            200,
        ),
    },
)
async def test_propagation_policy(
    api: Api, had: list[str], options: Object, finalizers: list[str] | None, code: int
) -> None:
    await api.create(REPLICA_SETS, replica_set(metadata={"finalizers": had}))
    answer = await api.delete(REPLICA_SETS + "/r", options)
    response = await api.get(REPLICA_SETS + "/r")
    assert answer.status == code, answer.text
    if finalizers is None:
        assert response.status == 404
        return
    assert answer.body == response.body
    assert response.meta["finalizers"] == finalizers
    assert response.meta["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert response.meta["deletionGracePeriodSeconds"] == 0
    assert response.meta["generation"] == 2


async def test_second_delete_of_a_terminating_object_changes_nothing(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map(metadata={"finalizers": ["a.b/c"]}))
    first = await api.delete(CONFIG_MAPS + "/c")
    second = await api.delete(CONFIG_MAPS + "/c")
    assert first.body == second.body


async def test_delete_options_in_the_query(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map())
    assert (await api.delete(CONFIG_MAPS + "/c?propagationPolicy=Foreground")).meta["finalizers"] == [
        "foregroundDeletion"
    ]


async def test_jobs_orphan_by_default_with_a_warning(api: Api) -> None:
    job = {
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}},
    }
    await api.create(NAMESPACED, job)
    answer = await api.delete(NAMESPACED + "/j")
    assert answer.meta["finalizers"] == ["orphan"]
    assert "child pods are preserved by default" in answer.headers["warning"]


# Pods


async def _running(api: Api, name: str = "p", **more: Any) -> Object:
    created = await api.create(PODS, pod(name, **more))
    await api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n1"}})
    return created


@cases(
    "bound, phase, options, grace, deadline",
    {
        "bound: the pod's own period": (True, "Running", {}, 30, "00:00:30"),
        "the request's period wins": (True, "Running", {"gracePeriodSeconds": 5}, 5, "00:00:05"),
        "a negative period is a second": (True, "Running", {"gracePeriodSeconds": -1}, 1, "00:00:01"),
        "zero: deleted": (True, "Running", {"gracePeriodSeconds": 0}, None, None),
        "unscheduled: deleted": (False, "Pending", {}, None, None),
        "terminated: deleted": (True, "Succeeded", {}, None, None),
    },
)
async def test_grace_period(
    api: Api, bound: bool, phase: str, options: Object, grace: int | None, deadline: str | None
) -> None:
    if bound:
        await _running(api)
    else:
        await api.create(PODS, pod())
    await api.patch(PODS + "/p/status", {"status": {"phase": phase}})
    answer = await api.delete(PODS + "/p", options)
    response = await api.get(PODS + "/p")
    assert answer.status == 200
    assert answer.body["kind"] == "Pod"
    assert answer.meta["generation"] == 2
    if grace is None:
        assert response.status == 404
        assert answer.meta["deletionGracePeriodSeconds"] == 0
    else:
        assert answer.body == response.body
        assert answer.meta["deletionGracePeriodSeconds"] == grace
        assert answer.meta["deletionTimestamp"] == f"2026-01-01T{deadline}Z"


async def test_grace_period_can_only_be_shortened(api: Api) -> None:
    await _running(api)
    observed = []
    for seconds in (20, 20, 25, 10, 2):
        answer = await api.delete(PODS + "/p", {"gracePeriodSeconds": seconds})
        meta = answer.meta
        observed.append((meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"][14:19], meta["resourceVersion"]))
        await asyncio.sleep(1)
    # Deleted at 0 s with 20 s, then shortened to 10 s; 2 s would end at 2 s, which is over at 4 s.
    assert observed == [
        (20, "00:20", "9"),
        (20, "00:20", "9"),
        (20, "00:20", "9"),
        (10, "00:10", "10"),
        (2, "00:04", "11"),
    ]


async def test_force_deleted_pod_is_first_marked_with_grace_period_zero(api: Api) -> None:
    created = await api.create(PODS, pod())
    events = await api.watch(f"{PODS}?resourceVersion={created['metadata']['resourceVersion']}&timeoutSeconds=1")
    await api.delete(PODS + "/p")
    observed = await events.rest()
    assert [type_ for type_, _obj in observed] == ["MODIFIED", "DELETED"]
    assert [obj["metadata"]["deletionGracePeriodSeconds"] for _type, obj in observed] == [0, 0]


async def test_pod_with_a_finalizer_is_kept_after_its_grace_period(api: Api) -> None:
    await _running(api, metadata={"finalizers": ["a.b/c"]})
    await api.delete(PODS + "/p")
    none_left = await api.delete(PODS + "/p", {"gracePeriodSeconds": 0})
    freed = await api.patch(PODS + "/p", {"metadata": {"finalizers": None}})
    answer = await api.get(PODS + "/p")
    assert none_left.meta["finalizers"] == ["a.b/c"]
    assert none_left.meta["deletionGracePeriodSeconds"] == 0
    assert freed.status == 200
    assert answer.status == 404


async def test_dry_run_deletes_nothing(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map())
    answer = await api.delete(CONFIG_MAPS + "/c", {"dryRun": ["All"]})
    response = await api.get(CONFIG_MAPS + "/c")
    assert (answer.status, response.status) == (200, 200)


async def test_deletecollection_respects_selectors(api: Api) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        await api.create(CONFIG_MAPS, config_map(name, metadata={"labels": labels}))
    answer = await api.delete(CONFIG_MAPS + "?labelSelector=x%3D1")
    remaining = await api.get(CONFIG_MAPS)
    assert answer.body["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in remaining.body["items"]] == ["b"]


async def test_force_deleted_pod_removed_by_a_watcher(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kubelet does; upstream returns success, too (generic/registry/store.go, kubernetes issue 19403)."""
    no_grace_period = {"gracePeriodSeconds": 0}
    commit = Core.commit
    kubelet: list[Answer] = []
    await api.create(PODS, pod(nodeName="n1"))

    async def slow(core: Core, staged: Staged) -> bytes:
        value = await commit(core, staged)
        if not kubelet:
            monkeypatch.setattr(Core, "commit", commit)
            kubelet.append(await api.delete(PODS + "/p", no_grace_period))
        return value

    monkeypatch.setattr(Core, "commit", slow)
    deletions = await api.delete(PODS + "/p", no_grace_period)
    assert [deletions.status, kubelet[0].status, (await api.get(PODS + "/p")).status] == [200, 200, 404]
    assert (deletions.body["kind"], deletions.meta["deletionGracePeriodSeconds"]) == ("Pod", 0)


async def test_deletecollection_returns_the_objects_before_deletion(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map())
    answer = await api.delete(CONFIG_MAPS, {"propagationPolicy": "Orphan"})
    assert [item["metadata"].get("deletionTimestamp") for item in answer.body["items"]] == [None]


async def test_resource_version_precondition_for_namespaces(api: Api) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    answer = await api.delete("/api/v1/namespaces/n", {"preconditions": {"resourceVersion": "1"}})
    assert "Precondition failed: ResourceVersion in precondition: 1" in answer.message


async def test_conflict_of_an_event_names_the_core_kind(api: Api) -> None:
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "regarding": {"kind": "Pod", "name": "p", "apiVersion": "v1", "namespace": "default"},
        "type": "Normal",
        **dict.fromkeys(("reason", "action", "reportingInstance"), "x"),
        "reportingController": "c.example.com/x",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    await api.create(events, {"metadata": {"name": "e"}, **event})
    answer = await api.delete(f"{events}/e", {"preconditions": {"resourceVersion": "12345"}})
    assert answer.message.startswith('Operation cannot be fulfilled on Event "e": ')
