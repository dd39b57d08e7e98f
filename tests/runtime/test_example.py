"""The example controller, on the embedded API server in virtual time: what docs/runtime.md documents."""

import asyncio
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml
from tests.runtime.cluster import Cluster

from pilothouse.client import Client, merge_patch
from pilothouse.client.interceptor import Interceptor, Rule, conflict, lose_answer
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import Fence, LeaderElector

EXAMPLES = Path(__file__).parents[2] / "examples"


def load() -> ModuleType:
    """The example as a module; it is not part of any package."""
    spec = importlib.util.spec_from_file_location("backup_controller", EXAMPLES / "backup_controller.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["backup_controller"] = module
    spec.loader.exec_module(module)
    return module


example = load()


async def post(client: Client, path: str, body: dict[str, Any]) -> None:
    await client.request("POST", path, body=msgspec.json.encode(body), headers={"content-type": "application/json"})


async def prepare(cluster: Cluster, env: Env, group: TaskGroup) -> Client:
    """A cluster with the definition, one ConfigMap and one Backup that keeps two copies."""
    group.start(cluster.server.run(), name="api server")
    admin = cluster.admin()
    definition = yaml.safe_load((EXAMPLES / "backup_crd.yaml").read_text())
    await post(admin, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await asyncio.sleep(5)
    config_map = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "blue"},
    }  # fmt: skip
    await post(admin, "/api/v1/namespaces/default/configmaps", config_map)
    backup = {
        "apiVersion": "backup.example.com/v1", "kind": "Backup", "metadata": {"name": "mine"},
        "spec": {"configMap": "settings", "keep": 2},
    }  # fmt: skip
    await post(admin, "/apis/backup.example.com/v1/namespaces/default/backups", backup)
    return admin


def copies(cluster: Cluster) -> list[dict[str, str]]:
    result = [
        obj
        for obj in cluster.objects("/configmaps/default/")
        if "backup.example.com/backup" in obj["metadata"].get("labels", {})
    ]
    result.sort(key=lambda one: int(one["metadata"]["annotations"]["backup.example.com/source-version"]))
    return [item["data"] for item in result]


async def paint(admin: Client, colour: str) -> None:
    patch = merge_patch({"data": {"colour": colour}})
    await admin.patch(example.CONFIG_MAPS, "settings", patch, "default")
    await asyncio.sleep(60)


async def test_example_copies_prunes_reports_and_cleans_up(env: Env) -> None:
    cluster = Cluster(env)
    async with TaskGroup() as group:
        admin = await prepare(cluster, env, group)
        group.start(example.run(cluster.client(), env))
        await asyncio.sleep(5)
        assert copies(cluster) == [{"colour": "blue"}]
        await paint(admin, "red")
        assert copies(cluster) == [{"colour": "blue"}, {"colour": "red"}]
        await paint(admin, "green")
        assert copies(cluster) == [{"colour": "red"}, {"colour": "green"}], "two are kept"
        backup = await admin.get(example.BACKUPS, "mine", "default")
        assert backup.status.phase == "Copied"
        assert backup.status.observed_generation == backup.metadata.generation
        assert [event["message"] for event in cluster.objects("/events/") if event["reason"] == "Copied"][-1:] == [
            f"Copied settings to {backup.status.copy}"
        ]
        await admin.patch(example.BACKUPS, "mine", merge_patch({"spec": {"keep": 3}}), "default")
        await asyncio.sleep(60)
        backup = await admin.get(example.BACKUPS, "mine", "default")
        assert backup.status.observed_generation == backup.metadata.generation, "also when nothing had to be copied"
        cluster.log.clear()
        await asyncio.sleep(3600)
        assert set(cluster.methods()) == {"GET"}, "quiet: only watches are renewed"
        await admin.delete(example.BACKUPS, "mine", "default")
        await asyncio.sleep(5)
        assert copies(cluster) == []
        assert cluster.objects("/backup.example.com/") == cluster.objects("backup.example.com/backups/") == []
        group.cancel()


async def test_example_waits_for_a_missing_config_map(env: Env) -> None:
    cluster = Cluster(env)
    async with TaskGroup() as group:
        admin = await prepare(cluster, env, group)
        await admin.delete(example.CONFIG_MAPS, "settings", "default")
        group.start(example.run(cluster.client(), env))
        await asyncio.sleep(5)
        assert (await admin.get(example.BACKUPS, "mine", "default")).status.phase == "Waiting"
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"colour": "new"},
        }
        await post(admin, "/api/v1/namespaces/default/configmaps", body)
        await asyncio.sleep(5)
        assert copies(cluster) == [{"colour": "new"}]
        group.cancel()


async def test_example_converges_with_conflicts_and_lost_responses(env: Env, seed: int) -> None:
    cluster = Cluster(env)
    faults = Interceptor(cluster, env)
    faults.add(Rule(conflict(), verb="patch", probability=0.3))
    faults.add(Rule(lose_answer(), verb="write", probability=0.3))
    async with TaskGroup() as group:
        admin = await prepare(cluster, env, group)
        group.start(example.run(Client(faults, env), env))
        for colour in ("red", "green", "yellow"):
            await paint(admin, colour)
        await asyncio.sleep(600)
        assert copies(cluster) == [{"colour": "green"}, {"colour": "yellow"}]
        await admin.delete(example.BACKUPS, "mine", "default")
        await asyncio.sleep(600)
        assert copies(cluster) == []
        group.cancel()


async def test_example_with_leader_election_has_one_active_instance(env: Env) -> None:
    cluster = Cluster(env)
    async with TaskGroup() as group:
        admin = await prepare(cluster, env, group)
        tasks = []
        electors = []
        for identity in ("one", "two"):
            fence = Fence(env)
            elector = LeaderElector(
                cluster.admin(), env, identity=identity, name="backup-controller", namespace="default", fence=fence
            )
            electors.append(elector)
            fenced = Client(cluster, env, fence=fence.check)
            tasks.append(group.start(example.run(fenced, env, elector=elector)))
            await asyncio.sleep(5)
        assert [elector.is_leader for elector in electors] == [True, False]
        assert copies(cluster) == [{"colour": "blue"}]
        tasks[0].cancel()
        await asyncio.sleep(10)
        assert electors[1].is_leader
        await paint(admin, "red")
        assert copies(cluster) == [{"colour": "blue"}, {"colour": "red"}]
        group.cancel()


def test_example_help_lists_its_flags(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["backup_controller.py", "--help"])
    with pytest.raises(SystemExit):
        example.main()
    assert "--leader-elect" in capsys.readouterr().out
