"""Claims that wait for a provisioner."""

import asyncio
from typing import Any

import pytest
from tests.why.cluster import NAMESPACE, Cluster, roots, text, texts

from pilothouse.api.core import NODES, PODS


def _class(mode: str, provisioner: str = "disks.example.com") -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def _database(*claims: str) -> dict[str, Any]:
    labels = {"app": "db"}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "db", "image": "postgres"}]}},
            "volumeClaimTemplates": [{"metadata": {"name": name}, "spec": claim} for name in claims or ("data",)],
        },
    }


@pytest.mark.parametrize("seconds", [20, 700])
async def test_a_class_whose_driver_is_not_installed(cluster: Cluster, seconds: int) -> None:
    """Its consumer is scheduled: it is the provisioner that it waits for."""
    await cluster.create(_class("WaitForFirstConsumer"))
    await cluster.create(_database())
    await asyncio.sleep(seconds)
    explanation = await cluster.why("pods", "db-0")
    (step,) = explanation.steps
    assert step.text.startswith("pod/db-0 waits until its claims are bound: the scheduler has selected node-")
    (claim,) = step.because
    assert claim.text.startswith(
        "persistentvolumeclaim/data-db-0 waits for disks.example.com to provision a volume of the class fast on node-"
    )
    assert claim.table == ["there is no CSIDriver disks.example.com; there is simulated.pilothouse.dev"]
    if seconds < 300:  # the history of a test
        assert roots(explanation)[0].startswith("storageclass/fast was created, by kubernetes-admin")


async def test_a_class_that_is_created_later(cluster: Cluster) -> None:
    await cluster.create(_database())
    await asyncio.sleep(20)
    assert "has the StorageClass fast, which does not exist" in text(await cluster.why("pods", "db-0"))
    await cluster.create(_class("WaitForFirstConsumer"))
    await asyncio.sleep(30)
    explanation = await cluster.why("pods", "db-0")
    assert texts(explanation.steps)[0].startswith("pod/db-0 waits until its claims are bound")
    assert "not found" not in text(explanation)


async def test_immediate_binding(cluster: Cluster) -> None:
    await cluster.create(_class("Immediate"))
    await cluster.create(_database())
    await asyncio.sleep(20)
    explanation = await cluster.why("persistentvolumeclaims", "data-db-0")
    assert texts(explanation.steps) == [
        "persistentvolumeclaim/data-db-0 waits for disks.example.com to provision a volume of the class fast"
    ]


async def test_a_consumer_that_fits_no_node(cluster: Cluster) -> None:
    for node in ("node-0", "node-1", "node-2"):
        await cluster.patch(NODES, node, {"spec": {"unschedulable": True}}, namespace="")
    await cluster.create(_class("WaitForFirstConsumer", "simulated.pilothouse.dev"))
    await cluster.create(_database())
    await asyncio.sleep(20)
    assert texts((await cluster.why("pods", "db-0")).steps) == ["pod/db-0 fits none of 3 nodes"]
    claim = await cluster.why("persistentvolumeclaims", "data-db-0")
    assert texts(claim.steps)[0].startswith("persistentvolumeclaim/data-db-0 waits until db-0 is scheduled: ")


async def test_the_node_of_a_volume_was_deleted(cluster: Cluster) -> None:
    """As when a node is replaced: drained, and deleted."""
    await cluster.create(_class("WaitForFirstConsumer", "simulated.pilothouse.dev"))
    await cluster.create(_database("data", "log"))
    await asyncio.sleep(20)
    node = (await cluster.user.get(PODS, "db-0", NAMESPACE)).spec.node_name
    await cluster.patch(NODES, node, {"spec": {"unschedulable": True}}, namespace="")
    await cluster.user.delete(PODS, "db-0", NAMESPACE)
    await asyncio.sleep(5)
    await cluster.user.delete(NODES, node)
    await asyncio.sleep(30)
    explanation = await cluster.why("pods", "db-0")
    assert roots(explanation)[0].startswith(f"node/{node} was deleted, by kubernetes-admin"), text(explanation)
    (step,) = explanation.steps
    for line, claim in zip(step.table[-2:], ("data-db-0", "log-db-0"), strict=True):
        assert line.endswith(f" of claim {claim} is on no existing node")
    assert texts(step.because).count(f"node/{node} was deleted, by kubernetes-admin with pilothouse-testing") == 1
