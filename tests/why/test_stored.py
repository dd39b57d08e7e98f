"""Objects without a status: ConfigMaps, Secrets, kinds that no controller reports on."""

import asyncio
from typing import Any

import pytest
from tests.why.cluster import Cluster, deployment

from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.apiserver import resources
from pilothouse.why import STORED
from pilothouse.why.states.registry import CHECKS
from pilothouse.why.states.stored import WITHOUT_STATUS


def _object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


def _lines(explanation: Any) -> list[str]:
    assert explanation.state == STORED
    (step,) = explanation.steps
    return [step.text, *step.table]


async def test_pods_that_use_a_config_map(cluster: Cluster) -> None:
    await cluster.create(_object("ConfigMap", "settings", data={"a": "1"}))
    assert _lines(await cluster.why("configmaps", "settings")) == [
        "configmap/settings was created",
        "no pod of the namespace uses it",
    ]
    volume = {"name": "v", "projected": {"sources": [{"configMap": {"name": "settings"}}]}}
    await cluster.deployment("files", replicas=1, volumes=[volume])
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    web = deployment("web", replicas=2)
    web["spec"]["template"]["spec"]["containers"][0]["env"] = [variable]
    await cluster.create(web)
    await asyncio.sleep(10)
    pods = [str(pod["metadata"]["name"]) for pod in await cluster.documents("pods", "default")]
    files, web_pods = ([name for name in pods if name.startswith(prefix)] for prefix in ("files", "web"))
    used = [f"in volumes of 1 pod: {files[0]}", f"in the environment of 2 pods: {', '.join(web_pods)}"]
    assert _lines(await cluster.why("configmaps", "settings")) == ["configmap/settings was created", *used]

    await cluster.patch(CONFIG_MAPS, "settings", {"metadata": {"labels": {"x": "y"}}})
    assert _lines(await cluster.why("configmaps", "settings"))[1:] == used, "the values are the same"
    await cluster.patch(CONFIG_MAPS, "settings", {"data": {"a": "2"}})
    text, *table = _lines(await cluster.why("configmaps", "settings"))
    assert text == 'configmap/settings changed: data.a: "1" -> "2"'
    assert table[:-1] == used
    assert table[-1].startswith("with the environment of before ")
    assert table[-1].endswith(f", until their containers restart: {', '.join(web_pods)}")


async def test_environment_of_a_sidecar(cluster: Cluster) -> None:
    await cluster.create(_object("ConfigMap", "settings", data={"a": "1"}))
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    sidecar = {"name": "proxy", "image": "proxy", "restartPolicy": "Always", "env": [variable]}
    await cluster.deployment("web", replicas=1, initContainers=[sidecar])
    ((name),) = await cluster.pods()
    await cluster.patch(CONFIG_MAPS, "settings", {"data": {"a": "2"}})
    line = _lines(await cluster.why("configmaps", "settings"))[-1]
    assert line == f"with the environment of before 2026-01-01T00:00:10Z, until their containers restart: {name}"


async def test_pods_that_use_a_secret_or_an_account(cluster: Cluster) -> None:
    await cluster.create(_object("Secret", "registry"))
    await cluster.deployment("web", replicas=1, imagePullSecrets=[{"name": "registry"}])
    ((name),) = await cluster.pods()
    assert _lines(await cluster.why("secrets", "registry"))[1:] == [f"for image pulls of 1 pod: {name}"]
    assert f"used by 1 pod: {name}" in _lines(await cluster.why("serviceaccounts", "default"))
    await cluster.patch(SECRETS, "registry", {"data": {"k": "dg=="}})
    assert _lines(await cluster.why("secrets", "registry"))[1:] == [f"for image pulls of 1 pod: {name}"]


@pytest.mark.parametrize("resource", sorted(WITHOUT_STATUS))
def test_kinds_without_status(resource: str) -> None:
    gates = ("GenericWorkload",)
    served = {info.group_resource: info for info in resources.ResourceTable(gates)}
    assert resource not in CHECKS
    if resource in served:
        assert "status" not in served[resource].subresources
    else:
        assert resource == "leasecandidates.coordination.k8s.io"


async def test_a_network_policy_has_no_status(cluster: Cluster) -> None:
    policy = _object("NetworkPolicy", "all", spec={"podSelector": {}}) | {"apiVersion": "networking.k8s.io/v1"}
    await cluster.create(policy)
    assert _lines(await cluster.why("networkpolicies.networking.k8s.io", "all")) == ["networkpolicy/all was created"]
