"""Resources that the server does not permit to list: scheduling continues without them, or waits with one warning."""

import asyncio
import logging

import pytest
from tests.nodes.world import World

from pilothouse.client import Client
from pilothouse.client.interceptor import Rule, fail

_FORBIDDEN = fail(403, "Forbidden", 'User "system:kube-scheduler" cannot list resource')


def _forbid(world: World, resource: str) -> list[Rule]:
    rules = [Rule(_FORBIDDEN, verb=verb, resource=resource) for verb in ("list", "watch")]
    for rule in rules:
        world.scheduler_faults.add(rule)
    return rules


def _serve_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    async def server_version(_client: Client) -> dict[str, str]:
        return {"major": "", "minor": "", "gitVersion": version}

    monkeypatch.setattr(Client, "server_version", server_version)


@pytest.mark.parametrize("version", ["v1.20.2", "v1.21.14-gke.700"])
async def test_a_server_before_v1_22_has_no_namespace_selectors(
    world_without_scheduler: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    caplog.set_level(logging.INFO)
    world = world_without_scheduler
    _serve_version(monkeypatch, version)
    _forbid(world, "namespaces")
    await world.create_node("a")
    world.start_scheduler()
    await world.create_pod()
    await asyncio.sleep(10)
    assert (await world.existing()).spec.node_name == "a"
    (line,) = [line for line in caplog.messages if "namespaceSelector" in line]
    assert line.startswith("Scheduling without the labels of namespaces")
    assert not [line for line in caplog.messages if "ClusterRole" in line]


async def test_what_is_missing_is_named_once(world_without_scheduler: World, caplog: pytest.LogCaptureFixture) -> None:
    world = world_without_scheduler
    rules = [*_forbid(world, "namespaces"), *_forbid(world, "storageclasses")]
    await world.create_node("a")
    world.start_scheduler()
    await world.create_pod()
    await asyncio.sleep(300)
    assert not (await world.existing()).spec.node_name
    (line,) = [line for line in caplog.messages if "ClusterRole" in line]
    assert "namespaces, storageclasses.storage.k8s.io" in line
    for rule in rules:
        world.scheduler_faults.remove(rule)
    await asyncio.sleep(120)
    assert (await world.existing()).spec.node_name == "a"


async def test_a_slow_server_is_waited_for_without_a_warning(
    world_without_scheduler: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_without_scheduler
    for verb in ("list", "watch"):
        world.scheduler_faults.add(Rule(fail(500, "InternalError"), verb=verb, resource="namespaces", nth=1))
    world.start_scheduler()
    await asyncio.sleep(60)
    assert not [line for line in caplog.messages if "ClusterRole" in line]
