"""What is stored of a minimal object, against what kube-apiserver v1.36.2 stored (data/defaults.json), every kind.

The real server's admission plugins had their say in that data. Which of them are here is asked elsewhere: what they
add is taken out on both sides before comparing.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Answer, Api

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain

_ROWS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "defaults.json").read_text())
_ADMIN = Identity("admin", ("system:masters", "system:authenticated"), "admin")
_PROTECTION = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection", "kubernetes.io/vac-protection")


def _without_admission(stored: dict[str, Any]) -> dict[str, Any]:
    meta = stored["metadata"]
    kept = [finalizer for finalizer in meta.pop("finalizers", ()) if finalizer not in _PROTECTION]
    if kept:
        meta["finalizers"] = kept
    if stored["kind"] != "Pod":
        return stored
    spec = stored["spec"]
    for field in ("serviceAccountName", "serviceAccount"):
        spec.pop(field, None)
    _drop_tokens(spec, "volumes")
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        _drop_tokens(container, "volumeMounts")
    return stored


def _drop_tokens(holder: dict[str, Any], field: str) -> None:
    kept = [entry for entry in holder.pop(field, ()) if not entry["name"].startswith(("kube-api-access", "<"))]
    if kept:
        holder[field] = kept


def _masked(value: Any, pattern: Any) -> Any:
    """The value with everything replaced that the recorded one has a placeholder for."""
    if isinstance(pattern, str) and re.fullmatch("<.*>", pattern) and value not in (None, ""):
        return pattern
    if isinstance(value, dict) and isinstance(pattern, dict):
        return {name: _masked(member, pattern.get(name)) for name, member in value.items()}
    if isinstance(value, list) and isinstance(pattern, list) and len(value) == len(pattern):
        return [_masked(item, other) for item, other in zip(value, pattern, strict=True)]
    return value


def _collection(api: Api, sent: dict[str, Any]) -> str:
    group, _slash, version = sent["apiVersion"].rpartition("/")
    if sent["kind"] == "TokenRequest":
        return "/api/v1/namespaces/d1/serviceaccounts/x/token"
    info = next(
        info
        for info in api.server.core.table
        if (info.group, info.version, info.kind) == (group, version, sent["kind"])
    )
    root = f"/apis/{sent['apiVersion']}" if group else f"/api/{version}"
    scope = "/namespaces/d1" if info.namespaced else ""
    return f"{root}{scope}/{info.resource}"


@pytest.mark.parametrize("row", list(_ROWS))
async def test_stored_as_upstream_stores_it(api: Api, row: str) -> None:
    sent, stored = _ROWS[row]["sent"], _ROWS[row]["stored"]
    HandlerChain(api.server, address="127.0.0.1:6443", issuer="https://kubernetes.default.svc")
    await api.made("/api/v1/namespaces", {"metadata": {"name": "d1"}})
    if sent["kind"] == "TokenRequest":
        await api.made("/api/v1/namespaces/d1/serviceaccounts", {"metadata": {"name": "x"}})
    if sent["kind"] == "Pod":
        # Admission gives it an account, without which it may have no token.
        sent["spec"]["serviceAccountName"] = "default"
    body = json.dumps(sent).encode()
    request = Request("POST", _collection(api, sent), {"content-type": "application/json"}, body)
    response = await api.server.handle(request, _ADMIN)
    assert isinstance(response, Response)
    answer = Answer(response.status, response.headers, response.body)
    assert answer.status == 201, answer.text
    # The data has no managedFields; test_managed_fields.py is about those.
    answer.body.get("metadata", {}).pop("managedFields", None)
    expected = _without_admission(stored)
    assert _masked(_without_admission(answer.body), expected) == expected
    assert answer.headers.get("warning", "") == _ROWS[row].get("warning", "")
