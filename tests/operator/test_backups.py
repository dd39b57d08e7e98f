"""``examples/backup_operator.py`` over HTTPS: behind ``pilothouse up``, and behind a real kube-apiserver."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.programs import ROOT, Program, free_port, pilothouse, run_pilothouse
from tests.real_cluster import RealCluster

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.kinds import Kind
from pilothouse.client import Client, apply_patch, json_patch, merge_patch
from pilothouse.client.connect import connect
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, InternalError, Invalid
from pilothouse.env import Env

EXAMPLE = ROOT / "examples" / "backup_operator.py"
V1, V2 = (Kind("example.com", version, "backups", "Backup", True, msgspec.Raw) for version in ("v1", "v2"))
CONFIGURATION = Kind(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False,
    msgspec.Raw,
)  # fmt: skip


def backup(version: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"example.com/{version}", "kind": "Backup", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Client]:
    env = Env()
    transport = connect(env, kubeconfig=str(kubeconfig))
    try:
        yield Client(transport, env)
    finally:
        await transport.close()


def operator(directory: Path, kubeconfig: Path, port: int, probes: int) -> Program:
    return pilothouse(
        directory,
        "run",
        str(EXAMPLE),
        f"--kubeconfig={kubeconfig}",
        "--install",
        f"--webhook-port={port}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{probes}",
    )


async def until_ready(probes: int) -> None:
    def is_ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{probes}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    async with asyncio.timeout(30):
        while not await asyncio.to_thread(is_ready):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)


async def read(client: Client, kind: Kind[msgspec.Raw], name: str) -> dict[str, Any]:
    raw = await client.get(kind, name, "default")
    document: dict[str, Any] = msgspec.json.decode(raw)
    return document


async def until_served(client: Client) -> None:
    """The API server has noticed the configurations: a wrong object is denied."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.create(V2, backup("v2", "wrong", schedule="daily"), "default", dry_run=True)
            except Invalid:
                return
            except ApiError:
                await asyncio.sleep(0.1)


async def validated_and_defaulted(client: Client) -> None:
    with pytest.raises(Invalid, match=r'check-schedule\.backups\.example\.com" denied the request: the schedule') as no:
        await client.create(V2, backup("v2", "wrong", schedule="daily"), "default")
    assert no.value.status.details is not None
    assert [cause.field for cause in no.value.status.details.causes] == ["spec.schedule"]
    await client.create(V2, backup("v2", "nightly", schedule="0 3 * * *"), "default")
    assert (await read(client, V2, "nightly"))["spec"]["retention"] == {"copies": 7, "days": 0}


async def converted(client: Client) -> None:
    """Written in one version, read, listed, patched and watched in the other."""
    await client.create(V1, backup("v1", "old", schedule="0 4 * * *", keep=3), "default")
    result = await read(client, V2, "old")
    assert result["spec"] == {"schedule": "0 4 * * *", "retention": {"copies": 3, "days": 0}}
    patched = merge_patch({"spec": {"retention": {"days": 30}}})
    await client.patch(V2, "old", patched, "default")
    result = await read(client, V1, "old")
    assert result["spec"] == {"schedule": "0 4 * * *", "keep": 3}
    assert result["metadata"]["annotations"] == {"example.com/retention-days": "30"}
    await client.patch(V1, "old", merge_patch({"spec": {"keep": 4}}), "default")
    assert (await read(client, V2, "old"))["spec"]["retention"] == {"copies": 4, "days": 30}
    listed = [json.loads(bytes(item)) for item in (await client.list(V1, "default")).items]
    assert {obj["metadata"]["name"]: obj["spec"]["keep"] for obj in listed} == {"nightly": 7, "old": 4}


async def migrated(client: Client) -> None:
    """One manifest applied in both versions: the conversion omits fields that the applier owns."""
    schedule = "0 5 * * *"
    labelled = backup("v2", "moved", schedule=schedule, retention={"copies": 6, "days": 30})
    labelled["metadata"]["labels"] = {"team": "a"}
    for body in (backup("v1", "moved", schedule=schedule, keep=5), labelled):
        kind = V1 if body["apiVersion"].endswith("v1") else V2
        await client.patch(kind, "moved", apply_patch(body), "default", field_manager="one", force=True)
    assert (await read(client, V1, "moved"))["spec"] == {"schedule": schedule, "keep": 6}
    back = backup("v1", "moved", schedule=schedule, keep=4)
    await client.patch(V1, "moved", apply_patch(back), "default", field_manager="one", force=True)
    result = await read(client, V1, "moved")
    assert (result["spec"]["keep"], "labels" in result["metadata"]) == (4, False)
    with pytest.raises(Invalid, match=r"spec.schedule: Required value|spec.schedule in body is required"):
        await client.create(V2, backup("v2", "wrong", retention={"copies": 1}), "default")
    await client.delete(V1, "moved", "default")


async def synced(client: Client) -> None:
    async with asyncio.timeout(30):
        while "status" not in (result := await read(client, V2, "nightly")):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.1)
    assert result["status"]["conditions"][0]["type"] == "Scheduled"


@pytest.mark.slow
@pytest.mark.real_loop(timeout=90)
async def test_the_example_behind_up(tmp_path: Path) -> None:
    port, probes = free_port(), free_port()
    with pilothouse(tmp_path, "up", "--port=0", "--nodes=0") as up:
        await asyncio.to_thread(up.until, "kubeconfig")
        kubeconfig = tmp_path / ".pilothouse" / "kubeconfig"
        with operator(tmp_path, kubeconfig, port, probes) as program:
            await until_ready(probes)
            async with client_of(kubeconfig) as client:
                await until_served(client)
                await validated_and_defaulted(client)
                await converted(client)
                await migrated(client)
                await synced(client)
                assert await asyncio.to_thread(program.stop) == 0
                # A process deletes its webhook configurations when it ends.
                await client.create(V2, backup("v2", "late", schedule="never"), "default")


@pytest.fixture
def definitions_of(real_cluster: RealCluster) -> Iterator[RealCluster]:
    """The cluster of the session, without this test's objects afterwards."""
    yield real_cluster
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/backups.example.com"
    conversion = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
    # Without a webhook that answers, what is stored could not be deleted.
    real_cluster.request("PATCH", definition, conversion, content_type="application/merge-patch+json")
    real_cluster.request("DELETE", definition)


@pytest.mark.slow
@pytest.mark.real_loop(timeout=120)
async def test_the_example_behind_a_real_api_server(definitions_of: RealCluster, tmp_path: Path) -> None:
    port, probes, kubeconfig = free_port(), free_port(), definitions_of.kubeconfig
    async with client_of(kubeconfig) as client:
        with operator(tmp_path, kubeconfig, port, probes) as program:
            await until_ready(probes)
            await until_served(client)
            await validated_and_defaulted(client)
            await converted(client)
            await migrated(client)
            await synced(client)
            definition = await client.get(CUSTOM_RESOURCE_DEFINITIONS, "backups.example.com")
            assert definition.status.stored_versions == ("v2",)
            await asyncio.to_thread(program.kill)
        with pytest.raises(InternalError, match="failed calling webhook"):
            await client.create(V2, backup("v2", "late", schedule="0 3 * * *"), "default")
        policy = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
        await client.patch(CONFIGURATION, "backup-operator", json_patch(policy))
        with pytest.raises(ApiError, match=r"connection refused|conversion webhook"):
            await read(client, V1, "nightly")
        # Another process has another certificate, and the API server trusts it from then on.
        with operator(tmp_path, kubeconfig, port, free_port()) as again:
            async with asyncio.timeout(30):
                while True:
                    try:
                        assert (await read(client, V1, "nightly"))["spec"]["keep"] == 7
                        break
                    except ApiError:
                        assert again.code is None
                        await asyncio.sleep(0.2)


@pytest.mark.slow
@pytest.mark.real_loop(timeout=60)
async def test_a_real_api_server_admits_the_manifests(real_cluster: RealCluster, tmp_path: Path) -> None:
    words = ("generate", "manifests", str(EXAMPLE), "--image=example.com/backups:1")
    printed = await asyncio.to_thread(run_pilothouse, tmp_path, *words)
    objects = list(yaml.safe_load_all(printed.stdout))
    assert {obj["kind"] for obj in objects} >= {
        "CustomResourceDefinition",
        "Service",
        "ValidatingWebhookConfiguration",
    }
    async with client_of(real_cluster.kubeconfig) as client:
        mapper = RestMapper(client)
        for obj in objects:
            kind = await mapper.kind_for(obj["apiVersion"], obj["kind"])
            assert kind is not None
            await client.create(kind.raw, obj, obj["metadata"].get("namespace", ""), dry_run=True)
