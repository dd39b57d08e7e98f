"""``/debug/history``: which resourceVersion was current at a time, and the author of each change."""

import asyncio
import datetime
from typing import Any

import pytest
from tests.apiserver.application import JANE, World, config_map
from tests.tables import cases

from pilothouse.apiserver.endpoints.history import _PAGE_BYTES, _PAGE_CHANGES
from pilothouse.client import Client
from pilothouse.client.history import recorded_changes
from pilothouse.env import Env
from pilothouse.machinery.times import format_time

PATH = "/debug/history"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def _one_each_minute(world: World, env: Env) -> dict[str, str]:
    """The resourceVersion of each ConfigMap by its creation time."""
    result = {}
    for number in range(3):
        await asyncio.sleep(60)
        _status, body = await world.request("POST", CONFIG_MAPS, config_map(f"m{number}"))
        result[format_time(env.now())] = body["metadata"]["resourceVersion"]
    return result


async def _history(world: World, query: str = "") -> Any:
    status, body = await world.request("GET", PATH + query)
    assert status == 200, body
    return body


async def test_time_maps_to_the_last_revision_before_it(world: World, env: Env) -> None:
    for time, revision in (await _one_each_minute(world, env)).items():
        later = datetime.datetime.fromisoformat(time) + datetime.timedelta(seconds=59)
        if later < env.now():
            assert (await _history(world, f"?at={format_time(later)}"))["resourceVersion"] == revision
        assert (await _history(world, f"?at={time}"))["resourceVersion"] == revision


async def test_list_of_all_marks(world: World, env: Env) -> None:
    created = await _one_each_minute(world, env)
    marks = {mark["time"]: mark["resourceVersion"] for mark in (await _history(world))["marks"]}
    assert created.items() <= marks.items()
    await asyncio.sleep(400)
    await world.request("POST", CONFIG_MAPS, config_map("later"))
    assert [mark["time"] for mark in (await _history(world))["marks"]] == [format_time(env.now())]


@cases(
    "query, status, message",
    {
        "invalid time": ("?at=noon", 400, 'invalid parameter "at": parsing time "noon"'),
        "the future": ("?at=2999-01-01T00:00:00Z", 400, "2999-01-01T00:00:00Z is in the future; it is "),
        "before the history": ("?at=2000-01-01T00:00:00Z", 410, "the history of this API server begins at "),
    },
)
async def test_unknown_times(world: World, query: str, status: int, message: str) -> None:
    response, body = await world.request("GET", PATH + query)
    assert (response, body["code"]) == (status, status)
    assert body["message"].startswith(message)


async def test_requests_are_authorized(world: World) -> None:
    status, _body = await world.request("GET", PATH, headers={"authorization": ""})
    assert status in (401, 403)


async def test_only_get_is_allowed(world: World) -> None:
    assert (await world.request("POST", PATH, {}))[0] in (404, 405)


CHANGES = f"{PATH}/changes"
CAUSE = '{"component":"mine","key":"default/a","triggers":[{"type":"ADDED","resource":"pods","resourceVersion":"3"}]}'


async def _changes(world: World, query: str) -> Any:
    status, body = await world.request("GET", f"{CHANGES}?resource=configmaps{query}")
    assert status == 200, body
    return body


async def test_changes_have_user_and_cause(world: World) -> None:
    headers = {"user-agent": "mine/1.0", "pilothouse-cause": CAUSE}
    _status, created = await world.request("POST", f"{CONFIG_MAPS}?fieldManager=me", config_map("a"), headers=headers)
    await world.request("POST", CONFIG_MAPS, config_map("b"))
    await world.request("DELETE", f"{CONFIG_MAPS}/a")
    first, second = (await _changes(world, "&namespace=default&name=a"))["changes"]
    assert first.pop("time") <= second.pop("time")
    assert first == {
        "resourceVersion": created["metadata"]["resourceVersion"],
        "type": "ADDED",
        "name": "a",
        "namespace": "default",
        "uid": created["metadata"]["uid"],
        "origin": {
            "user": "admin",
            "userAgent": "mine/1.0",
            "verb": "create",
            "fieldManager": "me",
            "cause": {
                "component": "mine",
                "key": "default/a",
                "triggers": [{"type": "ADDED", "resource": "pods", "resourceVersion": "3"}],
            },
        },
    }
    assert (second["type"], second["origin"]) == ("DELETED", {"user": "admin", "verb": "delete"})


async def test_newest_changes_and_their_start(world: World) -> None:
    for number in range(4):
        await world.request("POST", CONFIG_MAPS, config_map(f"m{number}"))
    whole = (await _changes(world, "&namespace=default"))["changes"]
    newest = await _changes(world, "&namespace=default&limit=2")
    assert newest == {"begins": whole[-3]["resourceVersion"], "changes": whole[-2:], "more": True}
    since = await _changes(world, f"&namespace=default&since={newest['begins']}")
    assert since["changes"] == whole[-2:]
    assert (await _changes(world, "&namespace=other"))["changes"] == []


@cases(
    "query, message",
    {
        "missing resource": ("", 'the parameter "resource" is required, for example resource=pods'),
        "limit above the maximum": (
            "?resource=pods&limit=1001",
            'invalid parameter "limit": must be between 1 and 1000',
        ),
        "invalid limit": ("?resource=pods&limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    },
)
async def test_rejected_change_queries(world: World, query: str, message: str) -> None:
    status, body = await world.request("GET", CHANGES + query)
    assert (status, body["message"]) == (400, message)


async def test_invalid_cause_header_is_rejected(world: World) -> None:
    status, body = await world.request("POST", CONFIG_MAPS, config_map("a"), headers={"pilothouse-cause": "because"})
    assert (status, body["reason"]) == (400, "BadRequest")
    assert body["message"].startswith("the header Pilothouse-Cause is invalid: ")


async def test_changes_are_paged(world: World) -> None:
    for number in range(_PAGE_CHANGES + 3):
        await world.request("POST", CONFIG_MAPS, config_map(f"m{number}"))
    newest = await _changes(world, "&namespace=default&limit=1000")
    assert (len(newest["changes"]), newest["more"]) == (_PAGE_CHANGES, True)
    oldest = await _changes(world, f"&namespace=default&limit=1000&before={newest['changes'][0]['resourceVersion']}")
    assert ([change["name"] for change in oldest["changes"]], "more" in oldest) == (["m0", "m1", "m2"], False)
    assert oldest["changes"][-1]["resourceVersion"] == newest["begins"]
    client = Client(world.core.transport("admin", ("system:masters",)), world.env)
    read = await recorded_changes(client, "", "configmaps", "default")
    assert [item.name for item in read] == [f"m{number}" for number in range(_PAGE_CHANGES + 3)]


async def test_page_size_is_bounded_in_bytes(world: World) -> None:
    large = {**config_map("large"), "data": {"a": "x" * (_PAGE_BYTES // 10)}}
    _status, created = await world.request("POST", CONFIG_MAPS, large)
    for number in range(15):
        await world.request(
            "PUT", f"{CONFIG_MAPS}/large", {**large, "metadata": {"name": "large", "labels": {"a": f"{number}"}}}
        )
    result = await _changes(world, "&namespace=default&name=large")
    assert (len(result["changes"]), result["more"]) == (9, True)
    assert created["metadata"]["resourceVersion"] not in {change["resourceVersion"] for change in result["changes"]}


@pytest.mark.parametrize("path", [PATH, CHANGES + "?resource=secrets", CHANGES + "?resource=secrets&namespace=mine"])
async def test_rights_for_reading_changes(env: Env, path: str) -> None:
    """It has changes of all namespaces, so permissions in one are not sufficient."""
    world = World(env)
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    subjects = [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
    for resource, body in (
        ("roles", {"rules": rules}),
        ("rolebindings", {"subjects": subjects, "roleRef": _role("Role", "all")}),
    ):
        status, _ = await world.request(
            "POST", f"{rbac}/namespaces/mine/{resource}", {"metadata": {"name": "all"}, **body}
        )
        assert status == 201
    assert (await world.request("GET", path, headers=JANE))[0] == 403
    assert (await world.request("GET", path, headers={"authorization": ""}))[0] in (401, 403)
    paths = [{"nonResourceURLs": [PATH, f"{PATH}/*"], "verbs": ["get"]}]
    for resource, body in (
        ("clusterroles", {"rules": paths}),
        ("clusterrolebindings", {"subjects": subjects, "roleRef": _role("ClusterRole", "history")}),
    ):
        status, _ = await world.request("POST", f"{rbac}/{resource}", {"metadata": {"name": "history"}, **body})
        assert status == 201
    assert (await world.request("GET", path, headers=JANE))[0] == 200


def _role(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


async def test_changes_contain_no_object_content(world: World) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    await world.request("POST", "/api/v1/namespaces/default/secrets", secret)
    obj = await world.request("GET", f"{CHANGES}?resource=secrets")
    assert {"s"} <= {change["name"] for change in obj[1]["changes"]}
    assert "hunter2" not in str(obj) and "aHVudGVyMg" not in str(obj)
