"""The last block names what holds an object up, with the changes that led to it."""

import asyncio
from typing import Any

from tests.why.cluster import NAMESPACE, Cluster, deployment, encoded, roots, text

from pilothouse.api.core import NODES
from pilothouse.why import Explanation, Step

ADMIN = "kubernetes-admin with pilothouse-testing"


def last_block(explanation: Explanation) -> list[str]:
    """The lines of the root causes, without their times."""
    _tree, _heading, block = text(explanation).partition("\nRoot cause")
    return [_without_time(line) for line in block.splitlines()[1:]]


def _without_time(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    first, separator, rest = line.strip().partition("  ")
    return indent + (rest if separator and first[:1].isdigit() else line.strip())


def _from_config_map(name: str) -> dict[str, Any]:
    return {"name": "app", "image": "nginx", "envFrom": [{"configMapRef": {"name": name}}]}


async def test_missing_config_map(cluster: Cluster) -> None:
    await cluster.deployment(replicas=2, containers=[_from_config_map("shop-config")])
    explanation = await cluster.why("deployments.apps", "web")
    assert last_block(explanation) == [
        "  configmap/shop-config is not there, and no change of it is known",
        f"    deployment/web was created, by {ADMIN}",
    ], text(explanation)
    assert roots(explanation) == [f"deployment/web was created, by {ADMIN}"]
    (cause,) = encoded(explanation)["rootCauses"]
    assert (cause["object"], cause["root"], cause["text"]) == (
        "configmap/shop-config",
        "state",
        "configmap/shop-config is not there, and no change of it is known",
    )
    (change,) = cause["because"]
    assert (change["object"], change["root"], change["by"]) == ("deployment/web", "user", ADMIN)


async def test_deleted_config_map(cluster: Cluster) -> None:
    """The detail is who deleted it."""
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop-config"}})
    await cluster.plane.delete("v1", "ConfigMap", "shop-config")
    await cluster.deployment(replicas=1, containers=[_from_config_map("shop-config")])
    lines = last_block(await cluster.why("deployments.apps", "web"))
    assert " is held up: " in lines[0] and lines[0].endswith('configmap "shop-config" not found')
    assert f"    configmap/shop-config was deleted, by {ADMIN}" in lines


async def test_image_that_cannot_be_pulled(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1, image="nginx:does-not-exist")
    (pod,) = await cluster.pods()
    lines = last_block(await cluster.why("deployments.apps", "web"))
    assert lines[0].startswith(
        f"  pod/{pod} is held up: the image nginx:does-not-exist of container app can't be pulled"
    )
    assert lines[-1] == f"    deployment/web was created, by {ADMIN}"


async def test_insufficient_resources(cluster: Cluster) -> None:
    """The reasons of the scheduler are with the root."""
    requests = {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "500"}}}
    await cluster.deployment(replicas=1, containers=[requests])
    (pod,) = await cluster.pods()
    lines = last_block(await cluster.why("deployments.apps", "web"))
    assert lines[0] == f"  pod/{pod} fits none of 3 nodes"
    assert any(line.startswith("    3 nodes: Insufficient cpu (requests 500") for line in lines)
    assert lines[-1] == f"    deployment/web was created, by {ADMIN}"


async def test_taints(cluster: Cluster) -> None:
    taint = {"spec": {"taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]}}
    for node in (await cluster.user.list(NODES)).items:
        await cluster.patch(NODES, node.metadata.name, taint, "")
    await cluster.deployment(replicas=1)
    lines = last_block(await cluster.why("deployments.apps", "web"))
    assert lines[0].endswith(" fits none of 3 nodes")
    assert any("3 nodes: taint dedicated=gpu:NoSchedule" in line for line in lines)
    assert any(f"taint dedicated=gpu:NoSchedule added, by {ADMIN}" in line for line in lines)


async def test_quota(cluster: Cluster) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}}
    await cluster.create(quota)
    await asyncio.sleep(5)
    await cluster.deployment(replicas=1)
    lines = last_block(await cluster.why("deployments.apps", "web"))
    assert "can't create what it needs" in lines[0] and "exceeded quota: q" in lines[0]
    assert any(f"resourcequota/q was created, by {ADMIN}" in line for line in lines)


async def test_webhook_that_cannot_be_reached(cluster: Cluster) -> None:
    hook = {
        "name": "pods.example.com",
        "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await cluster.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "pods"},
            "webhooks": [hook],
        }
    )
    await cluster.deployment(replicas=1)
    lines = last_block(await cluster.why("deployments.apps", "web"))
    assert 'failed calling webhook "pods.example.com"' in lines[0]
    assert any(f"validatingwebhookconfiguration/pods was created, by {ADMIN}" in line for line in lines)


async def test_deleted_pod_has_only_the_change(cluster: Cluster) -> None:
    """Nothing holds up a deletion."""
    await cluster.create(deployment("web", replicas=2))
    await asyncio.sleep(10)
    before = set(await cluster.pods())
    await cluster.scale("web", 1)
    (name,) = before - set(await cluster.pods())
    assert last_block(await cluster.why("pods", name)) == [
        f"  deployment/web changed: spec.replicas: 2 -> 1, by {ADMIN}"
    ]


def _change(name: str) -> Step:
    return Step(text=f"{name} was created", object=name, resource_version="7", time="2026-01-01T00:00:00Z", by="jane")


def test_two_states_with_one_change() -> None:
    """Both states are named, and the change is not named again as a cause of the summary above them."""
    change = _change("deployment/web")
    states = [Step(text=f"pod/{name} is held up", object=f"pod/{name}", because=[change]) for name in "ab"]
    summary = Step(text="deployment/web should have 2 pods", object="deployment/web", because=[*states, change])
    explanation = Explanation(object="deployment/web", state="rolling out", steps=[summary])
    assert [(cause.text, cause.because) for cause in explanation.causes()] == [
        ("pod/a is held up", [change]),
        ("pod/b is held up", [change]),
    ]


def test_long_tables_are_cut() -> None:
    held = Step(text="pod/a fits none of 9 nodes", table=[f"line {n}" for n in range(7)], because=[_change("pod/a")])
    explanation = Explanation(object="pod/a", namespace=NAMESPACE, state="pending", steps=[held])
    explanation.root_causes = explanation.causes()
    assert last_block(explanation)[1:] == [
        *(f"    line {n}" for n in range(4)),
        "    and 3 more lines above",
        "    pod/a was created, by jane",
    ]
