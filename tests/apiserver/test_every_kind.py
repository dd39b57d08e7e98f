"""Every verb of every built-in kind, through the one generic path."""

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.apiserver.api import JSON_PATCH, MERGE, STRATEGIC, Api, Object
from tests.apiserver.samples import KINDS, collection, create, every_kind, kind_id, make_namespace, sample

from pilothouse.apiserver import field_errors, internal_types
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.resources import STANDARD_VERBS, ResourceInfo, built_in
from pilothouse.machinery.go_text import FormattedValue

_NAMED_BY_CONTENT = {"IPAddress", "APIService", "CustomResourceDefinition"}
"""Kinds whose names have a meaning, so that the server cannot generate them."""


def _changed(obj: Object, value: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**obj["metadata"]["labels"], "changed": value}}}


@every_kind
async def test_create_get_list_and_watch(api: Api, info: ResourceInfo) -> None:
    await make_namespace(api)
    root, sent = collection(info), sample(info)
    name = sent["metadata"]["name"]
    events = await api.watch(f"{root}?resourceVersion={api.store.revision}&fieldSelector=metadata.name%3D{name}")
    tried = await api.post(root + "?dryRun=All", copy.deepcopy(sent))
    assert tried.status == 201, tried.text
    assert "resourceVersion" not in tried.meta
    assert tried.meta["uid"]
    assert (await api.get(f"{root}/{name}")).status == 404
    created = await create(api, info, sent)
    assert (created["kind"], created["apiVersion"]) == (info.kind, info.api_version)
    answer = await api.get(f"{root}/{name}")
    assert answer.body == created
    listed = await api.get(f"{root}?labelSelector=of%3Dtest")
    assert listed.body["kind"] == info.list_kind
    bare = {field: value for field, value in created.items() if field not in ("kind", "apiVersion")}
    assert bare in listed.body["items"]
    async with asyncio.timeout(1):
        type_, obj = await events.next()
    assert (type_, obj["metadata"]["uid"], obj["kind"]) == ("ADDED", created["metadata"]["uid"], info.kind)


@every_kind
async def test_accepted_requests_format_no_value_of_an_internal_type(
    api: Api, info: ResourceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formatted values are only used in errors, and take time."""

    def formatted(*_arguments: object) -> FormattedValue:
        raise AssertionError("no error shows a value")

    for module, name in (
        (internal_types, "internal_value"),
        (internal_types, "internal_diff"),
        (field_errors, "compact_json"),
    ):
        monkeypatch.setattr(module, name, formatted)
    await make_namespace(api)
    created = await create(api, info, sample(info))
    one = f"{collection(info)}/{created['metadata']['name']}"
    put = await api.put(one, _changed(created, "put"))
    assert put.status == 200, put.text
    status = await api.put(f"{one}/status", {**put.body, "status": put.body.get("status") or {}})
    assert status.status in (200, 404), status.text


@every_kind
async def test_update_and_patch(api: Api, info: ResourceInfo) -> None:
    await make_namespace(api)
    root = collection(info)
    created = await create(api, info, sample(info))
    one = f"{root}/{created['metadata']['name']}"
    same = await api.put(one, created)
    assert same.status == 200, same.text
    unchanged = same.meta["resourceVersion"] == created["metadata"]["resourceVersion"]
    # A new claim is stored without its phase, so that its first update is written, whatever it changes.
    assert unchanged == (info.resource != "persistentvolumeclaims")
    created = same.body
    same = await api.put(one, created)
    assert same.meta["resourceVersion"] == created["metadata"]["resourceVersion"], "nothing has changed"
    put = await api.put(one, _changed(created, "put"))
    assert put.status == 200, put.text
    assert put.meta["labels"]["changed"] == "put"
    assert put.meta["resourceVersion"] != created["metadata"]["resourceVersion"]
    assert put.meta.get("generation") == created["metadata"].get("generation") or info.resource == "endpointslices"
    stale = await api.put(one, _changed(created, "stale"))
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
    await make_namespace(api)
    root, sent = collection(info), sample(info)
    sent["metadata"]["finalizers"] = ["example.com/wait"]
    created = await create(api, info, sent)
    one = f"{root}/{created['metadata']['name']}"
    tried = await api.delete(one + "?dryRun=All")
    assert tried.status == 200, tried.text
    assert "deletionTimestamp" not in (await api.get(one)).meta
    response = await api.delete(one)
    assert response.status == 200, response.text
    assert response.meta["deletionTimestamp"]
    await api.patch(one, {"metadata": {"finalizers": None}})
    if info.kind == "Namespace":
        await api.put(one + "/finalize", {"metadata": {"name": created["metadata"]["name"]}, "spec": {}})
    assert (await api.get(one)).status == 404
    if "deletecollection" not in info.verbs:
        return
    await api.create(root, sample(info))
    deleted = await api.delete(root + "?propagationPolicy=Background&labelSelector=of%3Dtest")
    assert deleted.status == 200, deleted.text
    assert deleted.body["kind"] == info.list_kind
    assert [item["metadata"]["name"] for item in deleted.body["items"]] == [created["metadata"]["name"]]
    if info.kind != "CustomResourceDefinition":
        # What admission protects while it is in use waits for a controller that is not here.
        await api.patch(one, {"metadata": {"finalizers": None}})
        assert (await api.get(one)).status == 404


@pytest.mark.parametrize("info", [info for info in KINDS if info.kind not in _NAMED_BY_CONTENT], ids=kind_id)
async def test_generate_name(api: Api, info: ResourceInfo) -> None:
    await make_namespace(api)
    names = set()
    for _ in range(2):
        sent = sample(info)
        del sent["metadata"]["name"]
        sent["metadata"]["generateName"] = "made-"
        if info.kind == "Service":
            sent["spec"].pop("clusterIP", None)
        names.add((await api.create(collection(info), sent))["metadata"]["name"])
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


@pytest.mark.parametrize("info", [info for info in KINDS if "status" in info.subresources], ids=kind_id)
async def test_status_subresource(api: Api, info: ResourceInfo) -> None:
    await make_namespace(api)
    root = collection(info)
    created = await create(api, info, sample(info))
    one = f"{root}/{created['metadata']['name']}"
    stored = await api.get(one + "/status")
    assert stored.body == created
    # Through /status nothing but the status changes, and the generation stays. The first write is stored whatever
    # it changes, where upstream fills in something only when it reads the object.
    await api.put(one, created)
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
    kept = registration_of(info.group, info.resource).strategy.kept_on_status_update in ("user metadata", "metadata")
    assert ("a" in patched.meta.get("annotations", {})) is not kept


def test_every_verb_is_covered_by_a_test() -> None:
    """Resources that are served but not stored have tests of their own."""
    short = {info.resource: set(STANDARD_VERBS) - set(info.verbs) for info in built_in() if info not in KINDS}
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
    assert {info.resource for info in KINDS if set(info.verbs) != set(STANDARD_VERBS)} == {"namespaces"}


# Invalid bodies

_GONE = object()
_Path = tuple[str | int, ...]


def _paths(value: Any, at: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*at, key), member
        yield from _paths(member, (*at, key))


def _variants(value: Any) -> Iterator[Any]:
    yield from (_GONE, None)
    match value:
        case dict():
            yield {}
        case list():
            yield from ([], [{}])
        case bool():
            yield not value
        case int():
            yield from (-1, 2**31 - 1)
        case str():
            yield from ("", "x y")


def _with(obj: Object, path: _Path, value: Any) -> Object:
    changed = copy.deepcopy(obj)
    node: Any = changed
    for part in path[:-1]:
        node = node[part]
    if value is _GONE:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return changed


@every_kind
async def test_no_absent_empty_or_out_of_range_field_is_an_internal_error(api: Api, info: ResourceInfo) -> None:
    await make_namespace(api)
    target, sent = collection(info) + "?dryRun=All", sample(info)
    for path, value in _paths(sent):
        if path[0] in ("kind", "apiVersion"):
            continue
        for variant in _variants(value):
            answer = await api.post(target, _with(sent, path, variant))
            assert answer.status in (201, 400, 403, 404, 409, 422), (path, variant, answer.text)
