"""What is stored of a minimal object, against what kube-apiserver v1.36.2 stored (data/defaults.json).

The real server's admission plugins had their say in that data; what those add that are not here (token volumes)
is taken out of it before comparing.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Answer, Api, on

_ROWS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "defaults.json").read_text())


def _without_admission(kind: str, stored: dict[str, Any]) -> dict[str, Any]:
    if kind != "Pod":
        return stored
    spec = stored["spec"]
    for field in ("serviceAccountName", "serviceAccount"):
        del spec[field]
    spec["volumes"] = [volume for volume in spec["volumes"] if not volume["name"].startswith("kube-api-access")]
    if not spec["volumes"]:
        del spec["volumes"]
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        container["volumeMounts"] = [
            mount for mount in container["volumeMounts"] if not mount["name"].startswith("kube-api-access")
        ]
        if not container["volumeMounts"]:
            del container["volumeMounts"]
    return stored


def _masked(value: Any, pattern: Any) -> Any:
    """The value with everything replaced that the recorded one has a placeholder for."""
    if isinstance(pattern, str) and re.fullmatch("<.*>", pattern) and value not in (None, ""):
        return pattern
    if isinstance(value, dict) and isinstance(pattern, dict):
        return {name: _masked(member, pattern.get(name)) for name, member in value.items()}
    if isinstance(value, list) and isinstance(pattern, list) and len(value) == len(pattern):
        return [_masked(item, other) for item, other in zip(value, pattern, strict=True)]
    return value


@pytest.mark.parametrize("row", list(_ROWS))
def test_stored_as_upstream_stores_it(row: str) -> None:
    sent, stored = _ROWS[row]["sent"], _ROWS[row]["stored"]

    async def main(api: Api) -> Answer:
        await api.made("/api/v1/namespaces", {"metadata": {"name": "d1"}})
        group, _slash, version = sent["apiVersion"].rpartition("/")
        info = next(
            info
            for info in api.server.core.table
            if (info.group, info.version, info.kind) == (group, version, sent["kind"])
        )
        root = f"/apis/{sent['apiVersion']}" if group else f"/api/{version}"
        scope = "/namespaces/d1" if info.namespaced else ""
        return await api.post(f"{root}{scope}/{info.resource}", sent)

    answer = on(main)
    assert answer.status == 201, answer.text
    expected = _without_admission(sent["kind"], stored)
    assert _masked(answer.body, expected) == expected
