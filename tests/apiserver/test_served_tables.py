"""Tables as clients get them, compared with those of kube-apiserver v1.36.2 (data/tables.json), for every kind.

``presentation/test_tables.py`` holds the cells of single documents; here objects are created, and asked for as tables.
"""

import asyncio
import datetime
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Api
from tests.custom_resources import definition, version

from pilothouse.apiserver.printers.tables import TableConvertor
from pilothouse.apiserver.resources import built_in

_DATA = Path(__file__).parent / "data"
_TABLES: dict[str, dict[str, Any]] = json.loads((_DATA / "tables.json").read_text())
_SENT: list[dict[str, Any]] = [row["sent"] for row in json.loads((_DATA / "defaults.json").read_text()).values()]
_ACCEPT = "application/json;as=Table;g=meta.k8s.io;v=v1"
_SHAPES = {"age": r"(\d+s|<unknown>)", "created": r"[-\d]{10}T[:\d]{8}Z", "ip": r"10\.0\.0\.\d+", "port": r"\d{5}"}
_SHAPES["uid"] = "[-0-9a-f]{36}"

_CUSTOM = "example.com/v1 Foo (custom resource without additionalPrinterColumns)"
_DEFINITION = definition("Foo", version(schema={"type": "object"}))
_ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "x"},
    "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
}
_STATUS_BY_OTHERS = {
    # Fields that controllers of the real server had written before the table was requested.
    "flowcontrol.apiserver.k8s.io/v1 FlowSchema": {"conditions": [{"type": "Dangling", "status": "False"}]},
}
_NEVER_CREATED = {
    "v1 ComponentStatus": {
        "conditions": [
            {
                "type": "Healthy",
                "status": "False",
                "message": 'Get "https://127.0.0.1:10259/healthz": dial tcp 127.0.0.1:10259: '
                "connect: connection refused",
            }
        ],
        "metadata": {"name": "scheduler"},
    },
}


def _columns(table: dict[str, Any]) -> list[list[Any]]:
    return [[item[field] for field in ("name", "type", "format", "priority")] for item in table["columnDefinitions"]]


def _fits(cell: Any, pattern: Any) -> bool:
    if not isinstance(pattern, str) or not isinstance(cell, str):
        return cell == pattern and type(cell) is type(pattern)
    # "<none>" and "<unset>" are literal cells, other names in brackets are placeholders.
    shape = re.escape(pattern)
    for name, expression in _SHAPES.items():
        shape = shape.replace(f"<{name}>", expression)
    return re.fullmatch(shape, cell) is not None


def _path(key: str, name: str) -> tuple[str, str]:
    """The collection, and the Accept header."""
    api_version, kind = key.split(" ", 2)[:2]
    group, _slash, version = api_version.rpartition("/")
    info = next(info for info in built_in() if (info.group, info.version, info.kind) == (group, version, kind))
    root = f"/apis/{api_version}" if group else f"/api/{version}"
    collection = f"{root}{'/namespaces/d1' if info.namespaced else ''}/{info.resource}"
    return collection, f"{collection}/{name}"


def _sent(key: str, name: str) -> dict[str, Any] | None:
    for sent in _SENT:
        if f"{sent['apiVersion']} {sent['kind']}" == key and (sent.get("metadata") or {}).get("name") == name:
            return sent
    if key.endswith(" Role"):
        return _ROLE
    return _DEFINITION if key.endswith(" CustomResourceDefinition") else None


async def _make(api: Api, key: str, name: str) -> str:
    """Create the sample unless it exists, and return its path."""
    if key == "autoscaling/v1 Scale":
        collection, one = _path("apps/v1 ReplicaSet", name)
        await api.create(collection, _sent("apps/v1 ReplicaSet", name))
        return one + "/scale"
    if key == "events.k8s.io/v1 Event":
        # The same stored object, served by the other group.
        await api.create(_path("v1 Event", name)[0], _sent("v1 Event", name))
        return _path(key, name)[1]
    if key == "autoscaling/v1 HorizontalPodAutoscaler":
        other = "autoscaling/v2 HorizontalPodAutoscaler"
        await api.create(_path(other, name)[0], _sent(other, name))
        return _path(key, name)[1]
    collection, one = _path(key, name)
    sent = _sent(key, name)
    if sent is not None:
        await api.create(collection, sent)
    if key in _STATUS_BY_OTHERS:
        answer = await api.patch(f"{one}/status", {"status": _STATUS_BY_OTHERS[key]})
        assert answer.status == 200, answer.text
    return one


@pytest.mark.parametrize("key", [key for key in _TABLES if key not in (*_NEVER_CREATED, _CUSTOM)])
async def test_table_of_an_object(api: Api, key: str) -> None:
    expected = _TABLES[key]
    await api.create("/api/v1/namespaces", {"metadata": {"name": "d1"}})
    work = asyncio.get_running_loop().create_task(api.server.run())
    await asyncio.sleep(1)  # for what is there from the start
    one = await _make(api, key, expected["name"])
    answer = await api.request("GET", one, accept=_ACCEPT)
    work.cancel()
    assert answer.status == 200, answer.text
    table = answer.body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert _columns(table) == expected["columns"]
    cells = table["rows"][0]["cells"]
    assert len(cells) == len(expected["cells"])
    assert [cell for cell, pattern in zip(cells, expected["cells"], strict=True) if not _fits(cell, pattern)] == []


@pytest.mark.parametrize("key", _NEVER_CREATED)
def test_table_of_system_objects(key: str) -> None:
    info = next(info for info in built_in() if f"{info.api_version} {info.kind}" == key)
    maker = TableConvertor(info)
    row = json.loads(maker.row(json.dumps(_NEVER_CREATED[key]).encode(), "None", datetime.datetime.now(datetime.UTC)))
    assert _columns({"columnDefinitions": json.loads(maker.columns)}) == _TABLES[key]["columns"]
    assert row["cells"] == _TABLES[key]["cells"]


async def test_table_of_a_custom_resource_without_columns(api: Api) -> None:
    work = asyncio.get_running_loop().create_task(api.server.run())
    await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _DEFINITION)
    await asyncio.sleep(10)
    answer = await api.request("GET", "/apis/example.com/v1/namespaces/default/foos", accept=_ACCEPT)
    work.cancel()
    assert answer.status == 200, answer.text
    assert _columns(answer.body) == _TABLES[_CUSTOM]["columns"]
