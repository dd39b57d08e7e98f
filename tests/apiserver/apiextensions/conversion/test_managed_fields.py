"""Managed fields of custom resources written in several versions."""

from typing import Any

import pytest
from tests.apiserver.api import MERGE, Answer, Api
from tests.apiserver.apiextensions.conversion.things import (
    FAILED,
    V1,
    V2,
    served,
    spec_of,
    stored,
    v1_thing,
    v2_thing,
)

APPLY = "application/apply-patch+yaml"


def managers(answer: Answer) -> list[tuple[str, str, str]]:
    return [
        (managed_field["manager"], managed_field["operation"], managed_field["apiVersion"])
        for managed_field in answer.meta["managedFields"]
    ]


def fields(answer: Answer, manager: str) -> Any:
    (field_sets,) = [
        managed_field["fieldsV1"]
        for managed_field in answer.meta["managedFields"]
        if managed_field["manager"] == manager
    ]
    return field_sets.get("f:spec")


async def test_managed_fields_keep_their_api_version(api: Api) -> None:
    await served(api)
    first = await api.patch(V1 + "/a?fieldManager=one", v1_thing(mode="x"), APPLY)
    assert first.status == 201, first.text
    conflict = await api.patch(V2 + "/a?fieldManager=two", v2_thing(host="other"), APPLY)
    assert (conflict.status, conflict.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "one": .spec.hostPort',
    )
    second = await api.patch(V2 + "/a?fieldManager=two&force=true", v2_thing(host="other"), APPLY)
    assert second.status == 200, second.text
    assert managers(second) == [("one", "Apply", "example.com/v1"), ("two", "Apply", "example.com/v2")]
    assert fields(second, "one") == {"f:mode": {}}
    assert fields(second, "two") == {"f:host": {}, "f:port": {}}
    assert stored(api)["spec"] == {"hostPort": "other:1", "mode": "x"}
    assert stored(api)["metadata"]["managedFields"] == second.meta["managedFields"]
    # The fields that the first applied the last time and not now go, in its own version.
    third = await api.patch(V1 + "/a?fieldManager=one", {**v1_thing(), "spec": {}}, APPLY)
    assert spec_of(third) == {"hostPort": "other:1", "mode": "one"}
    # An update in one version removes the changed fields from managers in other versions.
    fourth = await api.request("PATCH", V1 + "/a?fieldManager=three", {"spec": {"hostPort": "z:9"}}, MERGE)
    assert managers(fourth) == [("one", "Apply", "example.com/v1"), ("three", "Update", "example.com/v1")]
    assert fields(fourth, "one") == {}
    assert fields(fourth, "three") == {"f:hostPort": {}}


async def test_fields_applied_in_another_version_are_pruned(api: Api) -> None:
    await served(api)
    assert (await api.patch(V2 + "/a?fieldManager=m", v2_thing(count=3), APPLY)).status == 201
    applied = await api.patch(V2 + "/a?fieldManager=m", v2_thing(), APPLY)
    assert spec_of(applied) == {"host": "h", "port": "1", "mode": "one"}
    moved = await api.patch(V1 + "/a?fieldManager=m", {**v1_thing(), "spec": {"replicas": 4}}, APPLY)
    assert moved.status == 200, moved.text
    assert spec_of(moved) == {"replicas": 4, "mode": "one"}
    assert managers(moved) == [("m", "Apply", "example.com/v1")]


async def test_apply_of_labels_in_another_version(api: Api) -> None:
    """Managed fields without spec and metadata are converted without calling the webhook."""
    hook = await served(api)
    labelled = v2_thing(count=3, metadata={"labels": {"team": "a"}})
    assert (await api.patch(V2 + "/a?fieldManager=m", labelled, APPLY)).status == 201
    hook.requests.clear()
    moved = await api.patch(V1 + "/a?fieldManager=m", v1_thing(replicas=4), APPLY)
    assert moved.status == 200, moved.text
    assert all(obj.keys() >= {"metadata", "spec"} for request in hook.requests for obj in request["objects"])
    assert spec_of(moved) == {"hostPort": "h:1", "replicas": 4, "mode": "one"}
    assert ("labels" in moved.meta, moved.meta["name"]) == (False, "a")


async def test_managed_fields_in_unconvertible_versions(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """An update continues without managed fields and logs it, as upstream's ``UpdateNoErrors``; an apply fails."""
    hook = await served(api)
    await api.create(V2 + "?fieldManager=two", v2_thing())
    hook.failure = "Post: no"
    applied = await api.patch(V1 + "/a?fieldManager=one", v1_thing(host_port="n:1"), APPLY)
    assert (applied.status, applied.message) == (
        500,
        f"failed to convert old object: {FAILED}failed: Post: no",
    )
    rejected = await api.patch(V1 + "/a?fieldManager=one", {"spec": {"hostPort": 1}})
    assert rejected.status == 422
    assert not caplog.records, "nothing was stored, so nothing is lost"
    updated = await api.patch(V1 + "/a?fieldManager=one", {"spec": {"hostPort": "n:1"}})
    assert (updated.status, "managedFields" in updated.meta) == (200, False)
    assert [record.getMessage().partition(" kind=")[0] for record in caplog.records] == [
        "Failed to update managedFields; the object was stored without them"
    ]
