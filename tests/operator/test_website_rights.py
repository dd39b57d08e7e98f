"""``examples/website_operator.py``, unchanged, with the rights of its generated manifests alone.

Behind ``pilothouse up``, and behind a real kube-apiserver.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.operator.test_backups import client_of, read
from tests.programs import ROOT, pilothouse, run_pilothouse
from tests.real_cluster import RealCluster

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import CONFIG_MAPS, SERVICES
from pilothouse.api.kinds import Kind
from pilothouse.cli.manifests import Manifest, apply_manifest
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import NotFound

EXAMPLE = ROOT / "examples" / "website_operator.py"
WEBSITES = Kind("example.com", "v1", "websites", "Website", True, msgspec.Raw)
ACCOUNT = "website-operator"


async def installed(client: Client, directory: Path, kubeconfig: Path) -> Path:
    """Apply the manifests; a kubeconfig of the service account in them."""
    printed = await asyncio.to_thread(run_pilothouse, directory, "generate", "manifests", str(EXAMPLE))
    for item in yaml.safe_load_all(printed.stdout):
        await apply_manifest(client, Manifest("generate manifests", item))
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/default/serviceaccounts/{ACCOUNT}/token"
    answer = msgspec.json.decode((await client.request("POST", path, body=msgspec.json.encode(body))).body)
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": answer["status"]["token"]}} for user in config["users"]]
    result = directory / "operator.kubeconfig"
    result.write_text(json.dumps(config))
    result.chmod(0o600)
    return result


async def lives(client: Client, directory: Path, kubeconfig: Path, *, has_controllers: bool) -> None:
    """A Website from its creation to its deletion."""
    operator = await installed(client, directory, kubeconfig)
    words = ("--leader-elect", "--metrics-bind-address=0", "--health-probe-bind-address=0")
    with pilothouse(directory, "run", str(EXAMPLE), f"--kubeconfig={operator}", *words) as program:
        spec = {"html": "<h1>Hello</h1>", "theme": "dark"}
        site = {"apiVersion": "example.com/v1", "kind": "Website", "metadata": {"name": "home"}, "spec": spec}
        await client.create(WEBSITES, site, "default")
        await until(client, "ThemeMissing")
        await client.create(CONFIG_MAPS, {"metadata": {"name": "dark"}, "data": {"css": "black"}}, "default")
        result = await until(client, "Replicas")
        assert result["metadata"]["finalizers"] == ["example.com/farewell"]
        page = await client.get(CONFIG_MAPS, "home-page", "default")
        assert page.data == {"index.html": "<style>black</style><h1>Hello</h1>"}
        assert (await client.get(SERVICES, "home", "default")).metadata.owner_references[0].name == "home"
        if not has_controllers:
            # What the Deployment controller would write.
            status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1}
            await client.patch(DEPLOYMENTS, "home", merge_patch({"status": status}), "default", subresource="status")
        async with asyncio.timeout(30):
            while (await read(client, WEBSITES, "home"))["status"].get("readyReplicas") != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await client.delete(WEBSITES, "home", "default")
        async with asyncio.timeout(30):
            while await exists(client):  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.1)
        assert await asyncio.to_thread(program.stop) == 0
        assert "forbidden" not in program.log


async def until(client: Client, reason: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            result = await read(client, WEBSITES, "home")
            if [condition["reason"] for condition in result.get("status", {}).get("conditions", ())] == [reason]:
                return result
            await asyncio.sleep(0.1)


async def exists(client: Client) -> bool:
    try:
        await read(client, WEBSITES, "home")
    except NotFound:
        return False
    return True


@pytest.mark.slow
@pytest.mark.real_loop(timeout=90)
async def test_behind_up(tmp_path: Path) -> None:
    with pilothouse(tmp_path, "up", "--port=0", "--nodes=1", "--authorization-mode=RBAC") as up:
        await asyncio.to_thread(up.until, "is ready")
        kubeconfig = tmp_path / ".pilothouse" / "kubeconfig"
        async with client_of(kubeconfig) as client:
            await lives(client, tmp_path, kubeconfig, has_controllers=True)


@pytest.mark.slow
@pytest.mark.real_loop(timeout=90)
async def test_behind_a_real_api_server(real_cluster: RealCluster, tmp_path: Path) -> None:
    kubeconfig = real_cluster.kubeconfig
    async with client_of(kubeconfig) as client:
        try:
            await lives(client, tmp_path, kubeconfig, has_controllers=False)
        finally:
            definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/websites.example.com"
            real_cluster.request("DELETE", definition)
