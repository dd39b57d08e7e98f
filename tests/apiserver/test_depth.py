"""Deeply nested objects: accepted up to a bound by every kind of write, rejected beyond it."""

import asyncio
import json
from typing import Any

import pytest
from tests import custom_resources
from tests.apiserver.api import CONFIG_MAPS, JSON, JSON_PATCH, MERGE, STRATEGIC, Api, Object
from tests.custom_resources import schema, version
from tests.tables import cases

from pilothouse.machinery.json_bounds import MAX_CONTAINERS, MAX_DEPTH, TOO_DEEP, TOO_MANY, exceeded

APPLY = "application/apply-patch+yaml"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/deep.example.com/v1/namespaces/default/widgets"


def nested(levels: int) -> Any:
    """That many objects in each other."""
    text = '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)
    return json.loads(text)


def revision(name: str, levels: int) -> Object:
    """``levels`` counts the object itself."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": name},
        "data": nested(levels - 1),
        "revision": 1,
    }


def definition(levels: int) -> Object:
    """A definition whose schema nests ``levels`` deep below ``spec``."""
    nest = '{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels
    return custom_resources.definition("Widget", version(schema=schema(json.loads(nest))), group="deep.example.com")


@cases(
    "text, deep",
    {
        "maximum depth": ("[" * 300 + "]" * 300, False),
        "one level too deep": ("[" * 301 + "]" * 301, True),
        "nested objects": ('{"a":' * 301 + "1" + "}" * 301, True),
        "many siblings": ("[" + "[]," * 1000 + "[]]", False),
        "brackets in a string": ('["' + "[" * 1000 + '"]', False),
        "brackets in a string with escaped quotes": ('["\\"' + "[" * 1000 + '"]', False),
        "after a backslash": ('["\\\\",' + "[" * 300 + "]" * 300 + "]", True),
        "after closing brackets in text": ('["]]]]",' + "[" * 300 + "]" * 300 + "]", True),
    },
)
def test_depth(text: str, deep: bool) -> None:
    assert exceeded(text.encode()) == (TOO_DEEP if deep else "")


def test_depth_of_a_text() -> None:
    assert exceeded(b"[" + b"{}," * (MAX_CONTAINERS - 2) + b"{}]") == ""
    assert exceeded(b"[" + b"{}," * (MAX_CONTAINERS - 1) + b"{}]") == TOO_MANY
    assert exceeded(b'["' + b"{" * MAX_CONTAINERS + b'"]') == ""


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 500, 990, 5000, 100_000])
@cases(
    "method, target, content_type",
    {
        "create": ("POST", REVISIONS, JSON),
        "update": ("PUT", f"{REVISIONS}/r", JSON),
        "merge patch": ("PATCH", f"{REVISIONS}/r", MERGE),
        "strategic merge patch": ("PATCH", f"{REVISIONS}/r", STRATEGIC),
        "apply": ("PATCH", f"{REVISIONS}/r?fieldManager=a&force=true", APPLY),
        "delete": ("DELETE", f"{REVISIONS}/r", JSON),
    },
)
async def test_every_write_accepts_the_maximum_depth(
    api: Api, method: str, target: str, content_type: str, levels: int
) -> None:
    name = "s" if method == "POST" else "r"
    head, tail = (
        '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"%s"},"revision":1,"data":',
        "}",
    )
    if method == "DELETE":
        head, tail = '{"kind":"DeleteOptions","apiVersion":"v1","unknown":', "}"
    body = (head.replace("%s", name) + '{"a":' * (levels - 2) + "{}" + "}" * (levels - 2) + tail).encode()
    await api.create(REVISIONS, revision("r", 3))
    answer = await api.request(method, target, body, content_type)
    if levels > MAX_DEPTH:
        assert answer.status == 400, answer.text[:500]
        assert "exceeded max depth" in answer.message
    else:
        # The data of a revision never changes, and upstream's strategic merge does not look into it.
        strange = 'unable to find api field in struct RawExtension for the json field "a"'
        assert answer.status in (200, 201, 422) or answer.message == strange, answer.text[:500]
    for then in (await api.get(REVISIONS), await api.patch(f"{REVISIONS}/{name}", {"metadata": {"labels": {}}})):
        assert then.status in (200, 404), then.text[:500]


async def test_patch_copies_exceeding_the_depth_are_rejected(api: Api) -> None:
    """Every operation doubles the depth."""
    operations = [{"op": "copy", "from": "/data", "path": "/data" + "/a" * 2**power} for power in range(14)]
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}})
    whole = {"op": "replace", "path": "/data", "value": {"a": {}}}
    answer = await api.patch(f"{CONFIG_MAPS}/c", [whole, *operations], JSON_PATCH)
    assert (answer.status, answer.message) == (400, "exceeded max depth")


async def test_custom_resources_have_the_same_depth_limit(api: Api) -> None:
    levels = (MAX_DEPTH - 10) // 2
    widget = {"metadata": {"name": "w"}, "spec": json.loads('{"a":' * levels + '"b"' + "}" * levels)}
    widget |= {"apiVersion": "deep.example.com/v1", "kind": "Widget"}
    running = asyncio.ensure_future(api.server.run())
    await api.create(DEFINITIONS, definition(levels))
    for method, target, body, content_type in (
        ("POST", WIDGETS, widget, JSON),
        ("PATCH", f"{WIDGETS}/w", {"spec": widget["spec"]}, MERGE),
        ("PATCH", f"{WIDGETS}/w?fieldManager=b&force=true", widget, APPLY),
        ("GET", f"{WIDGETS}/w", None, JSON),
        ("GET", "/openapi/v2", None, JSON),
        ("GET", "/openapi/v3/apis/deep.example.com/v1", None, JSON),
        ("DELETE", f"{WIDGETS}/w", None, JSON),
    ):
        answer = await api.request(method, target, body, content_type)
        assert answer.status in (200, 201), (method, target, answer.text[:500])
    await asyncio.sleep(1)
    assert not running.done()
    running.cancel()


@pytest.mark.parametrize("levels", [3, 100, MAX_DEPTH - 10, MAX_DEPTH, 1000])
async def test_managed_fields_have_the_same_depth_limit(api: Api, levels: int) -> None:
    fields = '{"f:a":' * levels + "{}" + "}" * levels
    entry = '{"manager":"m","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":' + fields + "}"
    body = f'{{"metadata":{{"name":"c","managedFields":[{entry}]}},"data":{{"a":"b"}}}}'.encode()
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "c"}}
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    put = await api.request("PUT", f"{CONFIG_MAPS}/c", body, JSON)
    assert put.status == (200 if levels < MAX_DEPTH else 400), put.text[:500]
    for target in (f"{CONFIG_MAPS}/c?fieldManager=m&force=true", f"{CONFIG_MAPS}/c?fieldManager=n&force=true"):
        answer = await api.patch(target, applied, APPLY)
        assert answer.status == 200, answer.text[:500]
    assert (await api.get(f"{CONFIG_MAPS}/c")).status == 200
