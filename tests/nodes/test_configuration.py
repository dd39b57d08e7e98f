"""Pods whose ConfigMaps and Secrets are missing wait for them, as on a kubelet."""

import asyncio
from typing import Any

import pytest
from tests.nodes.pods import pod
from tests.nodes.world import World
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.nodes import Profile
from pilothouse.nodes.references import configuration_of
from pilothouse.semantics.pods import is_ready

pytestmark = pytest.mark.world("node-0", profile=Profile(events=True))

_KEY_OF_MAP = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "nope", "key": "a"}}}
_KEY_OF_SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "nope", "key": "a"}}}


async def _create(w: World, kind: Any, **data: str) -> None:
    body = {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": "nope", "namespace": "default"}, "data": data}
    await w.client.create(kind.raw, body, "default")


async def _waiting(w: World) -> dict[str, str]:
    result: dict[str, str] = (await w.document())["status"]["containerStatuses"][0]["state"].get("waiting") or {}
    return result


async def _warnings(w: World) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in await w.events() if event.type == "Warning"]


@cases(
    "container, kind, message",
    {
        "envFrom of a ConfigMap": (
            {"envFrom": [{"configMapRef": {"name": "nope"}}]}, CONFIG_MAPS, 'configmap "nope" not found'
        ),
        "envFrom of a Secret": ({"envFrom": [{"secretRef": {"name": "nope"}}]}, SECRETS, 'secret "nope" not found'),
        "a key of a ConfigMap": ({"env": [_KEY_OF_MAP]}, CONFIG_MAPS, 'configmap "nope" not found'),
        "a key of a Secret": ({"env": [_KEY_OF_SECRET]}, SECRETS, 'secret "nope" not found'),
    },
)  # fmt: skip
async def test_a_container_waits_for_its_environment(
    w: World, container: dict[str, Any], kind: Any, message: str
) -> None:
    await w.create_pod(node="node-0", containers=[{"name": "c", "image": "app:v1", **container}])
    await asyncio.sleep(5)
    assert await _waiting(w) == {"reason": "CreateContainerConfigError", "message": message}
    assert not is_ready(await w.existing())
    assert (await w.existing()).status.pod_ip, "the sandbox comes first"
    assert await _warnings(w) == [("Failed", f"Error: {message}")]
    await _create(w, kind, a="MQ==")
    await asyncio.sleep(11)
    assert is_ready(await w.existing())


@cases(
    "variable, kind, name",
    {"ConfigMap": (_KEY_OF_MAP, CONFIG_MAPS, "ConfigMap"), "Secret": (_KEY_OF_SECRET, SECRETS, "Secret")},
)
async def test_a_key_that_an_object_lacks(w: World, variable: dict[str, Any], kind: Any, name: str) -> None:
    await w.create_pod(node="node-0", containers=[{"name": "c", "image": "app:v1", "env": [variable]}])
    await asyncio.sleep(5)
    await _create(w, kind, b="MQ==")
    await asyncio.sleep(11)
    message = f"couldn't find key a in {name} default/nope"
    assert (await _waiting(w))["message"] == message, "the new message is written"
    assert ("Failed", f"Error: {message}") in await _warnings(w)


async def test_an_object_created_slightly_late_does_not_delay_by_ten_seconds(w: World) -> None:
    await w.create_pod(node="node-0", containers=[{"name": "c", "image": "app:v1", "env": [_KEY_OF_MAP]}])
    await asyncio.sleep(0.7)
    assert (await _waiting(w))["reason"] == "CreateContainerConfigError"
    await _create(w, CONFIG_MAPS, a="1")
    await asyncio.sleep(1.5)
    assert is_ready(await w.existing())


@cases(
    "volume, kind, message",
    {
        "ConfigMap": ({"configMap": {"name": "nope"}}, CONFIG_MAPS, 'configmap "nope" not found'),
        "Secret": ({"secret": {"secretName": "nope"}}, SECRETS, 'secret "nope" not found'),
        "projected": (
            {"projected": {"sources": [{"configMap": {"name": "nope"}}]}}, CONFIG_MAPS, 'configmap "nope" not found'
        ),
    },
)  # fmt: skip
async def test_a_pod_waits_for_its_volumes(w: World, volume: dict[str, Any], kind: Any, message: str) -> None:
    await w.create_pod(node="node-0", volumes=[{"name": "x", **volume}])
    await asyncio.sleep(3)
    assert await _waiting(w) == {"reason": "ContainerCreating"}
    assert not (await w.existing()).status.pod_ip, "there is no sandbox yet"
    assert set(await _warnings(w)) == {("FailedMount", f'MountVolume.SetUp failed for volume "x" : {message}')}
    await _create(w, kind, a="MQ==")
    await asyncio.sleep(4)
    assert is_ready(await w.existing())


async def test_a_volume_names_a_key_that_the_object_lacks(w: World) -> None:
    await _create(w, CONFIG_MAPS, b="1")
    source = {"name": "nope", "items": [{"key": "a", "path": "a"}]}
    await w.create_pod(node="node-0", volumes=[{"name": "x", "configMap": source}])
    await asyncio.sleep(3)
    message = 'MountVolume.SetUp failed for volume "x" : configmap references non-existent config key: a'
    assert set(await _warnings(w)) == {("FailedMount", message)}


async def test_existing_objects_cause_no_delay(w: World) -> None:
    await _create(w, CONFIG_MAPS, a="1")
    container = {"name": "c", "image": "app:v1", "env": [_KEY_OF_MAP], "envFrom": [{"configMapRef": {"name": "nope"}}]}
    await w.create_pod(node="node-0", containers=[container], volumes=[{"name": "x", "configMap": {"name": "nope"}}])
    await asyncio.sleep(1)
    assert is_ready(await w.existing())
    assert w.count_writes("pods/default/p") == 3
    assert await _warnings(w) == []


async def test_tries_are_few_and_end_with_the_pod(w: World) -> None:
    mounts = w.node_faults.add(Rule(delay(0), verb="get", resource="secrets"))
    starts = w.node_faults.add(Rule(delay(0), verb="get", resource="configmaps"))
    await w.create_pod("m", node="node-0", volumes=[{"name": "x", "secret": {"secretName": "nope"}}])
    await w.create_pod("e", node="node-0", containers=[{"name": "c", "image": "app:v1", "env": [_KEY_OF_MAP]}])
    await asyncio.sleep(605)
    # At 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 63.5 and 127.5 s, then every 122 s; and at 0 and 1 s, then every ten.
    assert mounts.matched == 12
    assert 60 <= starts.matched <= 63
    await w.delete("m")
    await w.delete("e")
    await asyncio.sleep(40)
    assert [await w.pod(name) for name in ("m", "e")] == [None, None], "both can be deleted"
    matched = mounts.matched, starts.matched
    await asyncio.sleep(300)
    assert (mounts.matched, starts.matched) == matched


async def test_init_containers_and_following_containers(w: World) -> None:
    """The container waits for its init container, and then for its own environment."""
    first = {"name": "i", "image": "app:v1", "command": ["sleep", "20"]}
    container = {"name": "c", "image": "app:v1", "env": [_KEY_OF_MAP]}
    await w.create_pod(node="node-0", initContainers=[first], containers=[container])
    await asyncio.sleep(15)
    assert await _waiting(w) == {"reason": "PodInitializing"}
    await _create(w, CONFIG_MAPS, a="1")
    await asyncio.sleep(7)
    assert is_ready(await w.existing()), "it was looked up when it was about to start"
    assert await _warnings(w) == []


async def test_a_node_without_read_permission_reports_it(w: World) -> None:
    refused = w.node_faults.add(Rule(fail(403, "Forbidden", "no access"), verb="get", resource="configmaps"))
    await w.create_pod(node="node-0", containers=[{"name": "c", "image": "app:v1", "env": [_KEY_OF_MAP]}])
    await asyncio.sleep(5)
    waiting = await _waiting(w)
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "no access" in waiting["message"]
    w.node_faults.remove(refused)
    await _create(w, CONFIG_MAPS, a="1")
    await asyncio.sleep(11)
    assert is_ready(await w.existing())


async def test_a_restarted_simulator_continues_to_wait(w: World) -> None:
    nodes = await w.start_nodes("node-1")
    await w.create_pod("m", node="node-1", volumes=[{"name": "x", "configMap": {"name": "nope"}}])
    await w.create_pod("e", node="node-1", containers=[{"name": "c", "image": "app:v1", "env": [_KEY_OF_MAP]}])
    await asyncio.sleep(5)
    nodes.cancel()
    await w.start_nodes("node-1")
    await asyncio.sleep(30)
    assert not is_ready(await w.existing("m"))
    assert not is_ready(await w.existing("e"))
    await _create(w, CONFIG_MAPS, a="1")
    await asyncio.sleep(60)
    assert is_ready(await w.existing("m"))
    assert is_ready(await w.existing("e"))


@cases(
    "spec",
    {
        "no references": {},
        "optional volumes": {
            "volumes": [
                {"name": "x", "configMap": {"name": "nope", "optional": True}},
                {"name": "y", "secret": {"secretName": "nope", "optional": True}},
            ]
        },
        "the token that admission adds": {
            "volumes": [
                {
                    "name": "kube-api-access",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ]
                    },
                }
            ]
        },
        "optional variables": {
            "containers": [
                {
                    "name": "c",
                    "env": [
                        {"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "nope", "key": "k", "optional": True}}},
                    ],
                    "envFrom": [{"configMapRef": {"name": "nope", "optional": True}}],
                }
            ]
        },
    },
)
def test_pods_without_references_cause_no_reads(spec: dict[str, Any]) -> None:
    names = () if "containers" in spec else ("c",)
    assert configuration_of(pod(*names, **spec), mounted=False) is None
