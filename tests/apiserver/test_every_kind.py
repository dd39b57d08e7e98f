"""Every verb of every built-in kind, through the one generic path.

The objects are those that were sent to kube-apiserver v1.36.2 for ``data/defaults.json``; a kind that has no row there
has one here.
"""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import JSON_PATCH, MERGE, STRATEGIC, Api, Object

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.resources import STANDARD_VERBS, ResourceInfo, built_in
from pilothouse.machinery.go_text import Shown

_ROWS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "defaults.json").read_text())
_MORE: dict[str, Object] = {
    "networking.k8s.io/v1 IPAddress": {
        "metadata": {"name": "10.0.0.200"},
        "spec": {"parentRef": {"resource": "services", "namespace": "d1", "name": "x"}},
    },
}
_NAMED_BY_CONTENT = {"IPAddress", "APIService", "CustomResourceDefinition"}
"""Kinds whose name says something, so that the server cannot make one up."""
_KINDS = [info for info in built_in() if "create" in info.verbs and "get" in info.verbs]


def _id(info: ResourceInfo) -> str:
    return f"{info.api_version} {info.kind}"


def _sent(info: ResourceInfo) -> Object:
    known = _ROWS.get(_id(info)) or next((row for name, row in _ROWS.items() if name.startswith(_id(info) + " ")), None)
    obj = copy.deepcopy(known["sent"] if known is not None else _MORE[_id(info)])
    obj["metadata"].pop("namespace", None)
    obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), "of": "test"}
    if info.kind == "Event":
        for field in ("involvedObject", "regarding"):
            if field in obj:
                obj[field]["namespace"] = "d1"
    return {**obj, "kind": info.kind, "apiVersion": info.api_version}


def _root(info: ResourceInfo) -> str:
    root = f"/apis/{info.api_version}" if info.group else f"/api/{info.version}"
    return f"{root}/namespaces/d1/{info.resource}" if info.namespaced else f"{root}/{info.resource}"


async def _start(api: Api) -> None:
    await api.made("/api/v1/namespaces", {"metadata": {"name": "d1"}})


async def _made(api: Api, info: ResourceInfo, sent: Object) -> Object:
    """Create, and let the server do what it does of its own accord: it accepts the names of a definition."""
    made = await api.made(_root(info), sent)
    if info.kind == "CustomResourceDefinition":
        await asyncio.sleep(1)
        return (await api.get(f"{_root(info)}/{made['metadata']['name']}")).body
    return made


def _changed(obj: Object, value: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**obj["metadata"]["labels"], "changed": value}}}


every_kind = pytest.mark.parametrize("info", _KINDS, ids=_id)


@every_kind
async def test_create_get_list_and_watch(api: Api, info: ResourceInfo) -> None:
    await _start(api)
    root, sent = _root(info), _sent(info)
    name = sent["metadata"]["name"]
    events = await api.watch(f"{root}?resourceVersion={api.store.revision}&fieldSelector=metadata.name%3D{name}")
    tried = await api.post(root + "?dryRun=All", copy.deepcopy(sent))
    assert tried.status == 201, tried.text
    assert "resourceVersion" not in tried.meta
    assert tried.meta["uid"]
    assert (await api.get(f"{root}/{name}")).status == 404
    made = await _made(api, info, sent)
    assert (made["kind"], made["apiVersion"]) == (info.kind, info.api_version)
    found = await api.get(f"{root}/{name}")
    assert found.body == made
    listed = await api.get(f"{root}?labelSelector=of%3Dtest")
    assert listed.body["kind"] == info.list_kind
    bare = {field: value for field, value in made.items() if field not in ("kind", "apiVersion")}
    assert bare in listed.body["items"]
    async with asyncio.timeout(1):
        type_, obj = await events.next()
    assert (type_, obj["metadata"]["uid"], obj["kind"]) == ("ADDED", made["metadata"]["uid"], info.kind)


@every_kind
async def test_what_is_granted_shows_no_value_of_an_internal_type(
    api: Api, info: ResourceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is for refusals, and costs something."""

    def shown(*_arguments: object) -> Shown:
        raise AssertionError("there is nothing to be shown")

    for name in ("internal_value", "internal_diff", "named"):
        monkeypatch.setattr(field_errors, name, shown)
    await _start(api)
    made = await _made(api, info, _sent(info))
    one = f"{_root(info)}/{made['metadata']['name']}"
    put = await api.put(one, _changed(made, "put"))
    assert put.status == 200, put.text
    status = await api.put(f"{one}/status", {**put.body, "status": put.body.get("status") or {}})
    assert status.status in (200, 404), status.text


@every_kind
async def test_update_and_patch(api: Api, info: ResourceInfo) -> None:
    await _start(api)
    root = _root(info)
    made = await _made(api, info, _sent(info))
    one = f"{root}/{made['metadata']['name']}"
    same = await api.put(one, made)
    assert same.status == 200, same.text
    unchanged = same.meta["resourceVersion"] == made["metadata"]["resourceVersion"]
    # A new claim is stored without its phase, so that its first update is written, whatever it changes.
    assert unchanged == (info.resource != "persistentvolumeclaims")
    made = same.body
    same = await api.put(one, made)
    assert same.meta["resourceVersion"] == made["metadata"]["resourceVersion"], "nothing has changed"
    put = await api.put(one, _changed(made, "put"))
    assert put.status == 200, put.text
    assert put.meta["labels"]["changed"] == "put"
    assert put.meta["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert put.meta.get("generation") == made["metadata"].get("generation") or info.resource == "endpointslices"
    stale = await api.put(one, _changed(made, "stale"))
    assert stale.status == 409
    labels = {"metadata": {"labels": {"changed": "patch"}}}
    operation = [{"op": "replace", "path": "/metadata/labels/changed", "value": "json"}]
    for content_type, body in ((MERGE, labels), (JSON_PATCH, operation), (STRATEGIC, labels)):
        before = (await api.get(one)).body
        tried = await api.patch(one + "?dryRun=All", body, content_type)
        assert tried.status == 200, tried.text
        assert tried.meta["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert (await api.get(one)).body == before
        patched = await api.patch(one, body, content_type)
        assert patched.status == 200, patched.text
        assert patched.body == (await api.get(one)).body
        assert patched.meta["labels"]["changed"] == tried.meta["labels"]["changed"]


@every_kind
async def test_delete_and_deletecollection(api: Api, info: ResourceInfo) -> None:
    await _start(api)
    root, sent = _root(info), _sent(info)
    sent["metadata"]["finalizers"] = ["example.com/wait"]
    made = await _made(api, info, sent)
    one = f"{root}/{made['metadata']['name']}"
    tried = await api.delete(one + "?dryRun=All")
    assert tried.status == 200, tried.text
    assert "deletionTimestamp" not in (await api.get(one)).meta
    asked = await api.delete(one)
    assert asked.status == 200, asked.text
    assert asked.meta["deletionTimestamp"]
    await api.patch(one, {"metadata": {"finalizers": None}})
    if info.kind == "Namespace":
        await api.put(one + "/finalize", {"metadata": {"name": made["metadata"]["name"]}, "spec": {}})
    assert (await api.get(one)).status == 404
    if "deletecollection" not in info.verbs:
        return
    await api.made(root, _sent(info))
    gone = await api.delete(root + "?propagationPolicy=Background&labelSelector=of%3Dtest")
    assert gone.status == 200, gone.text
    assert gone.body["kind"] == info.list_kind
    assert [item["metadata"]["name"] for item in gone.body["items"]] == [made["metadata"]["name"]]
    if info.kind != "CustomResourceDefinition":
        # What admission protects while it is in use waits for a controller that is not here.
        await api.patch(one, {"metadata": {"finalizers": None}})
        assert (await api.get(one)).status == 404


@pytest.mark.parametrize("info", [info for info in _KINDS if info.kind not in _NAMED_BY_CONTENT], ids=_id)
async def test_names_can_be_generated(api: Api, info: ResourceInfo) -> None:
    await _start(api)
    names = set()
    for _ in range(2):
        sent = _sent(info)
        del sent["metadata"]["name"]
        sent["metadata"]["generateName"] = "made-"
        if info.kind == "Service":
            sent["spec"].pop("clusterIP", None)
        names.add((await api.made(_root(info), sent))["metadata"]["name"])
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


@pytest.mark.parametrize("info", [info for info in _KINDS if "status" in info.subresources], ids=_id)
async def test_status_is_apart(api: Api, info: ResourceInfo) -> None:
    await _start(api)
    root = _root(info)
    made = await _made(api, info, _sent(info))
    one = f"{root}/{made['metadata']['name']}"
    shown = await api.get(one + "/status")
    assert shown.body == made
    # Through /status nothing but the status changes, and the generation stays. The first write is stored whatever
    # it changes, where upstream fills in something only when it reads the object.
    await api.put(one, made)
    before = (await api.get(one)).body
    other = {field: value for field, value in before.items() if field != "spec"}
    if "spec" in before:
        other["spec"] = before["spec"]
    answer = await api.put(one + "/status", other)
    assert answer.status == 200, answer.text
    assert answer.body == before
    patched = await api.patch(one + "/status", {"metadata": {"annotations": {"a": "b"}}})
    assert patched.status == 200, patched.text
    assert patched.meta.get("generation") == before["metadata"].get("generation")
    assert {**patched.body, "metadata": None} == {**before, "metadata": None}
    kept = registration_of(info.group, info.resource).strategy.status_keeps in ("user metadata", "metadata")
    assert ("a" in patched.meta.get("annotations", {})) is not kept


def test_every_verb_of_every_resource_is_one_that_is_tested_here() -> None:
    """What is served without being stored has tests of its own."""
    short = {info.resource: set(STANDARD_VERBS) - set(info.verbs) for info in built_in() if info not in _KINDS}
    assert set(short) == {
        "bindings",
        "componentstatuses",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
    assert {info.resource for info in _KINDS if set(info.verbs) != set(STANDARD_VERBS)} == {"namespaces"}
