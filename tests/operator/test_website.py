"""The example operator, whole, on a plane in virtual time."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pilothouse.client.errors import NotFound
from pilothouse.env import Env
from pilothouse.testing import AsyncCluster, async_plane


def load() -> ModuleType:
    """A new copy of the example: its app and metrics are its own."""
    path = Path(__file__).parents[2] / "examples" / "website_operator.py"
    spec = importlib.util.spec_from_file_location("website_operator", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["website_operator"] = module
    spec.loader.exec_module(module)
    return module


def site(name: str, **spec: Any) -> dict[str, Any]:
    body = {"html": "<h1>Hello</h1>", **spec}
    return {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": name}, "spec": body}


async def ready(cluster: AsyncCluster, name: str, status: str = "True") -> dict[str, Any]:
    """The Website once its condition Ready has that status."""
    while True:
        found = await cluster.get("example.com/v1", "Website", name)
        if found is not None:
            conditions = (found.get("status") or {}).get("conditions") or []
            if any(each["type"] == "Ready" and each["status"] == status for each in conditions):
                return found
        await asyncio.sleep(0.2)


def published(cluster: AsyncCluster) -> int:
    return cluster.plane.store.revision


async def test_a_website_is_served_changed_and_gone(env: Env) -> None:
    example = load()
    async with async_plane(env=env) as cluster:
        await example.app.install(cluster.client)
        async with cluster.running(example.app.run):
            await cluster.create(site("home", replicas=2))
            found = await ready(cluster, "home")
            assert found["status"]["readyReplicas"] == 2
            assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
            assert found["metadata"]["finalizers"] == ["example.com/farewell"]
            page = await cluster.get("v1", "ConfigMap", "home-page")
            assert page["data"] == {"index.html": "<style></style><h1>Hello</h1>"}
            assert page["metadata"]["ownerReferences"][0]["name"] == "home"
            assert example.app.metrics.value("websites_published_total", "default") == 1

            await cluster.patch("example.com/v1", "Website", "home", {"spec": {"theme": "dark"}})
            found = await ready(cluster, "home", "False")
            assert found["status"]["conditions"][0]["reason"] == "ThemeMissing"
            await cluster.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dark"}, "data": {"css": "black"}}
            )
            await ready(cluster, "home")
            page = await cluster.get("v1", "ConfigMap", "home-page")
            assert page["data"] == {"index.html": "<style>black</style><h1>Hello</h1>"}

            await cluster.delete("example.com/v1", "Website", "home")
            await asyncio.sleep(30)
            for api_version, kind in (("example.com/v1", "Website"), ("apps/v1", "Deployment"), ("v1", "Service")):
                with pytest.raises(NotFound):
                    await cluster.get(api_version, kind, "home")
