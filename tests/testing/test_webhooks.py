"""The webhooks and conversions of an app that runs on a plane, in virtual time."""

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.programs import ROOT

from pilothouse.client.errors import InternalError, Invalid
from pilothouse.env import Env
from pilothouse.operator import App, CustomResource
from pilothouse.testing import AsyncCluster, async_plane

V1, V2 = ("example.com/v1", "Backup"), ("example.com/v2", "Backup")


def backup(api_version: str, name: str = "nightly", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Backup", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def example() -> ModuleType:
    """A new copy of examples/backup_operator.py."""
    spec = importlib.util.spec_from_file_location("backup_operator", ROOT / "examples" / "backup_operator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def app(example: ModuleType) -> App:
    result: App = example.app
    return result


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[AsyncCluster]:
    async with async_plane(env=env, nodes=0, controllers=(), authorization="RBAC") as plane:
        yield plane


async def test_objects_are_converted_validated_and_defaulted(cluster: AsyncCluster, app: App) -> None:
    async with cluster.running(app, as_="system:serviceaccount:default:backup-operator"):
        with pytest.raises(Invalid, match="the schedule is wrong"):
            await cluster.create(backup(V2[0], schedule="daily"))
        await cluster.create(backup(V1[0], schedule="0 3 * * *"))
        assert (await cluster.get(*V2, "nightly"))["spec"]["retention"] == {"copies": 7, "days": 0}
        await cluster.patch(*V2, "nightly", {"spec": {"retention": {"days": 30}}})
        assert (await cluster.get(*V1, "nightly"))["spec"] == {"schedule": "0 3 * * *", "keep": 7}
        await asyncio.sleep(5)
        deployment = await cluster.get("apps/v1", "Deployment", "nightly")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["0 3 * * *", "--copies=7", "--days=30"]
        assert (await cluster.get(*V1, "nightly"))["status"]["conditions"][0]["type"] == "Scheduled"


async def test_caches_are_filled_with_objects_that_are_stored_in_another_version(
    cluster: AsyncCluster, example: ModuleType
) -> None:
    app, observed = App("backups"), []

    @app.controller(CustomResource(V2[0], example.Backup, versions=(example.V1,), stored="v1"))
    async def sync(backup: Any, _ctx: Any) -> None:
        observed.append((backup.metadata.name, backup.spec.retention.copies))

    for _ in range(2):
        observed.clear()
        async with cluster.running(app):
            if not await cluster.list(*V2):
                await cluster.create(backup(V2[0], "two", schedule="0 3 * * *", retention={"copies": 2}))
                await cluster.create(backup(V1[0], "one", schedule="0 3 * * *", keep=1))
            await asyncio.sleep(5)
            assert sorted(observed) == [("one", 1), ("two", 2)]
    assert (await cluster.get(*V1, "one"))["spec"]["keep"] == 1
    with pytest.raises(InternalError, match="connection refused"):
        await cluster.create(backup(V2[0], "three", schedule="0 3 * * *"))


async def test_when_it_has_ended_nothing_is_validated(cluster: AsyncCluster, app: App) -> None:
    async with cluster.running(app):
        async with cluster.running(app):
            pass
        with pytest.raises(Invalid):
            await cluster.create(backup(V2[0], schedule="daily"))
    await cluster.create(backup(V2[0], schedule="daily"))
    assert await cluster.list("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration") == []


@pytest.mark.parametrize("is_served", [True, False])
@pytest.mark.parametrize("only_definitions", [True, False])
async def test_objects_that_are_stored_in_another_version_go_without_their_operator(
    cluster: AsyncCluster,
    example: ModuleType,
    is_served: bool,
    only_definitions: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("backups")
    old = msgspec.structs.replace(example.V1, served=is_served)

    @app.controller(CustomResource(V2[0], example.Backup, versions=(old,), stored="v1"))
    async def sync(_backup: Any, _ctx: Any) -> None: ...

    @sync.finalizer("example.com/copies")
    async def finalize(_backup: Any, _ctx: Any) -> None: ...

    restoring = cluster.restoring_definitions() if only_definitions else contextlib.nullcontext()
    async with restoring, cluster.running(app):
        await cluster.create(backup(V2[0], "one", schedule="0 3 * * *"))
        await cluster.wait_for(*V2, "one", lambda found: bool(found and found["metadata"].get("finalizers")))
    if not only_definitions:
        await cluster.reset()
    assert await cluster.list("apiextensions.k8s.io/v1", "CustomResourceDefinition") == []
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
