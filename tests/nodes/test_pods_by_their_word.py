"""Pods whose annotations determine their behavior, on the embedded API server in virtual time."""

import asyncio
from typing import Any

import pytest
from tests.nodes.world import World, world

from pilothouse.api.core import PODS
from pilothouse.client import strategic_merge_patch
from pilothouse.env import Env
from pilothouse.nodes import Profile

EVENTFUL = Profile(events=True)

pytestmark = pytest.mark.world("node-0")


def container(*command: str, image: str = "busybox") -> list[dict[str, Any]]:
    return [{"name": "c", "image": image, **({"command": list(command)} if command else {})}]


async def debug(w: World, name: str, *command: str) -> None:
    added = {"name": name, "image": "busybox", "command": list(command)}
    patch = strategic_merge_patch({"spec": {"ephemeralContainers": [added]}})
    await w.client.patch(PODS.raw, "p", patch, "default", subresource="ephemeralcontainers")


async def test_a_pod_terminates_as_its_command(w: World) -> None:
    await w.create_pod(node="node-0", restartPolicy="Never", containers=container("sh", "-c", "sleep 5; exit 3"))
    await asyncio.sleep(5)
    assert (await w.existing()).status.phase == "Running"
    await asyncio.sleep(2)
    pod = await w.document()
    assert pod["status"]["phase"] == "Failed"
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def test_a_termination_message_is_shown(w: World) -> None:
    script = "echo -n DONE > /dev/termination-log; exit 1"
    await w.create_pod(node="node-0", restartPolicy="Never", containers=container("sh", "-c", script))
    await asyncio.sleep(2)
    (status,) = (await w.document())["status"]["containerStatuses"]
    assert status["state"]["terminated"]["message"] == "DONE"


@pytest.mark.world(profile=EVENTFUL)
async def test_an_ephemeral_container_is_shown_from_its_start_to_its_end(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(2)
    await debug(w, "debugger", "sleep", "5")
    await asyncio.sleep(1)
    (status,) = (await w.document())["status"]["ephemeralContainerStatuses"]
    assert "running" in status["state"]
    await asyncio.sleep(10)
    await debug(w, "second", "sleep", "60")
    await asyncio.sleep(1)
    first, second = (await w.document())["status"]["ephemeralContainerStatuses"]
    assert (first["name"], second["name"]) == ("debugger", "second")
    assert (first["state"]["terminated"]["exitCode"], first["restartCount"]) == (0, 0)
    assert "running" in second["state"]
    events = [(e.reason, e.involved_object.field_path) for e in await w.events()]
    for reason in ("Pulled", "Created", "Started"):
        assert (reason, "spec.ephemeralContainers{debugger}") in events
    await w.delete()
    await asyncio.sleep(5)
    assert await w.pod() is None


async def test_ephemeral_containers_survive_a_restart_of_the_simulator(env: Env) -> None:
    async with world(env) as w:
        nodes = await w.start_nodes("node-0")
        await w.create_pod(node="node-0")
        await asyncio.sleep(2)
        await debug(w, "debugger", "sleep", "30")
        await asyncio.sleep(5)
        before = (await w.document())["status"]["ephemeralContainerStatuses"]
        nodes.cancel()
        await asyncio.sleep(1)
        await w.start_nodes("node-0")
        await asyncio.sleep(5)
        assert (await w.document())["status"]["ephemeralContainerStatuses"] == before
        await asyncio.sleep(30)
        (status,) = (await w.document())["status"]["ephemeralContainerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == 0


@pytest.mark.world(profile=EVENTFUL)
async def test_a_missing_image_is_replaced_by_an_existing_one(w: World) -> None:
    await w.create_pod(node="node-0", containers=container(image="webserver:404"))
    await asyncio.sleep(60)
    pod = await w.document()
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["podIP"]
    assert pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
    events = {(e.type, e.reason, e.message.partition(":")[0]) for e in await w.events()}
    assert ("Normal", "Pulling", 'Pulling image "webserver') in events
    assert ("Warning", "Failed", "Error") in events
    assert ("Normal", "BackOff", 'Back-off pulling image "webserver') in events
    patch = strategic_merge_patch({"spec": {"containers": container(image="webserver:1")}})
    await w.client.patch(PODS.raw, "p", patch, "default")
    await asyncio.sleep(1)
    assert (await w.existing()).status.phase == "Running"


async def test_image_backoff_continues_after_a_restart_of_the_simulator(env: Env) -> None:
    async with world(env) as w:
        nodes = await w.start_nodes("node-0")
        await w.create_pod(node="node-0", containers=container(image="webserver:404"))
        await asyncio.sleep(5)
        nodes.cancel()
        await asyncio.sleep(1)
        await w.start_nodes("node-0")
        await asyncio.sleep(5)
        (status,) = (await w.document())["status"]["containerStatuses"]
        assert status["state"]["waiting"]["reason"] == "ImagePullBackOff"
        assert (await w.existing()).status.phase == "Pending"


async def test_a_pod_with_a_missing_image_can_be_deleted(w: World) -> None:
    await w.create_pod(node="node-0", containers=container(image="webserver:404"))
    await asyncio.sleep(30)
    await w.delete()
    await asyncio.sleep(5)
    assert await w.pod() is None
