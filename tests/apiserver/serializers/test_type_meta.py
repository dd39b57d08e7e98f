"""Bodies whose ``apiVersion`` or ``kind`` is not a string (apimachinery ``serializer/json/meta.go``, v0.36)."""

import json
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, JSON, JSON_PATCH, MERGE, PODS, STRATEGIC, Api, pod

_WHY = "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{} of type string"
_VALUES = [
    pytest.param({}, "object", id="an object"),
    pytest.param(["v1"], "array", id="a list"),
    pytest.param(1, "number", id="a number"),
    pytest.param(0.5, "number", id="a fraction"),
    pytest.param(True, "bool", id="a truth value"),
]


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
@pytest.mark.parametrize(("value", "type_meta"), _VALUES)
async def test_invalid_type_meta(api: Api, field: str, value: Any, type_meta: str) -> None:
    body = {field: value, "metadata": {"name": "c", "labels": {"a": "b"}}}
    why = _WHY.format(type_meta, field)
    text = json.dumps(body).encode()
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    await api.create(PODS, pod())
    for method, target, kind in (
        ("POST", CONFIG_MAPS, "ConfigMap"),
        ("PUT", f"{CONFIG_MAPS}/c", "ConfigMap"),
        ("POST", f"{PODS}/p/eviction", "Eviction"),
        ("POST", f"{PODS}/p/binding", "Binding"),
        ("PUT", f"{PODS}/p/status", "Pod"),
    ):
        answer = await api.request(method, target, text, JSON)
        begin = text[:30].decode()
        expected = f"the object provided is unrecognized (must be of type {kind}): {why} ({begin} ...)"
        assert (answer.status, answer.message) == (400, expected), target
    merged = await api.request("PATCH", f"{CONFIG_MAPS}/c", {field: value}, MERGE)
    assert merged.status == 422
    assert merged.message.endswith(f": {why}")
    replaced = await api.request(
        "PATCH", f"{CONFIG_MAPS}/c", [{"op": "add", "path": f"/{field}", "value": value}], JSON_PATCH
    )
    assert replaced.status == 422
    assert replaced.message.endswith(f": {why}")
    assert (await api.request("PATCH", f"{CONFIG_MAPS}/c", {field: value}, STRATEGIC)).status in (200, 422)


async def test_delete_options_with_invalid_utf8(api: Api) -> None:
    """Go reads them as U+FFFD."""
    await api.create(CONFIG_MAPS, {"metadata": {"name": "c"}})
    bad = await api.request("DELETE", f"{CONFIG_MAPS}/c", b'{"kind":"DeleteOptions\xff","apiVersion":"v1"}', JSON)
    assert bad.status == 400
    assert bad.message.startswith('no kind "DeleteOptions\ufffd" is registered')
    good = await api.request("DELETE", f"{CONFIG_MAPS}/c", b'{"preconditions":{"uid":null},"x":"\xff"}', JSON)
    assert good.status == 200
