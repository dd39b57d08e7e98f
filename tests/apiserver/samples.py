"""A sample object of every built-in kind, and the path of its collection.

The objects are those that were sent to kube-apiserver v1.36.2 for ``data/defaults.json``; a kind without a row there
has one here.
"""

import asyncio
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Api, Object

from pilothouse.apiserver.resources import ResourceInfo, built_in

ROWS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "defaults.json").read_text())
_MORE: dict[str, Object] = {
    "networking.k8s.io/v1 IPAddress": {
        "metadata": {"name": "10.0.0.200"},
        "spec": {"parentRef": {"resource": "services", "namespace": "d1", "name": "x"}},
    },
}
KINDS = [info for info in built_in() if "create" in info.verbs and "get" in info.verbs]


def kind_id(info: ResourceInfo) -> str:
    """``apps/v1 Deployment``."""
    return f"{info.api_version} {info.kind}"


every_kind = pytest.mark.parametrize("info", KINDS, ids=kind_id)


def sample(info: ResourceInfo) -> Object:
    """An object that the server accepts in namespace ``d1``, with the label ``of=test``."""
    name = kind_id(info)
    known = ROWS.get(name) or next((row for key, row in ROWS.items() if key.startswith(f"{name} ")), None)
    obj = copy.deepcopy(known["sent"] if known is not None else _MORE[name])
    obj["metadata"].pop("namespace", None)
    obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), "of": "test"}
    for field in ("involvedObject", "regarding"):
        if field in obj:
            obj[field]["namespace"] = "d1"
    return {**obj, "kind": info.kind, "apiVersion": info.api_version}


def collection(info: ResourceInfo, namespace: str = "d1") -> str:
    """The path of its objects."""
    root = f"/apis/{info.api_version}" if info.group else f"/api/{info.version}"
    return (
        f"{root}/namespaces/{namespace}/{info.resource}" if info.namespaced and namespace else f"{root}/{info.resource}"
    )


async def make_namespace(api: Api) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "d1"}})


async def create(api: Api, info: ResourceInfo, obj: Object) -> Object:
    """Create the object, and wait until the names of a CustomResourceDefinition are accepted."""
    created = await api.create(collection(info), obj)
    if info.kind == "CustomResourceDefinition":
        await asyncio.sleep(1)
        return (await api.get(f"{collection(info)}/{created['metadata']['name']}")).body
    return created
