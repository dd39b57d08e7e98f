"""Pods created and deleted by Deployments, traced back to the user's change."""

import asyncio

from tests.why.cluster import NAMESPACE, Cluster, links, roots

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, PODS
from pilothouse.why import Reference, ServerEvidence, text_lines
from pilothouse.why.names import names_alike, namespaces_with

ADMIN = "kubernetes-admin with pilothouse-testing"


async def test_pod_deleted_by_scale_down(cluster: Cluster) -> None:
    await cluster.deployment(replicas=3)
    before = await cluster.pods()
    await cluster.scale("web", 2)
    (name,) = set(before) - set(await cluster.pods())
    explanation = await cluster.why("pods", name)
    assert explanation.state == "deleted"
    assert [link.partition("/")[0] for link in links(explanation)] == ["pod", "replicaset", "deployment"]
    assert roots(explanation) == [f"deployment/web changed: spec.replicas: 3 -> 2, by {ADMIN}"]
    assert [root.root for root in explanation.roots()] == ["user"]
    assert text_lines(explanation)[0] == f"pod/{name} in namespace default: deleted"


async def test_pod_deleted_by_a_rollout(cluster: Cluster) -> None:
    await cluster.deployment()
    old = await cluster.pods()
    template = {"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}}
    await cluster.patch(DEPLOYMENTS, "web", {"spec": {"template": template}})
    await asyncio.sleep(30)
    for name in old:
        (root,) = roots(await cluster.why("pods", name))
        assert root.startswith("deployment/web changed: spec.template.spec.containers[name=app].image"), root


async def test_pod_created_for_a_deleted_one(cluster: Cluster) -> None:
    await cluster.deployment()
    await cluster.scale("web", 3)
    before = await cluster.pods()
    await cluster.user.delete(PODS, before[0], "default")
    await asyncio.sleep(10)
    (name,) = set(await cluster.pods()) - set(before)
    assert roots(await cluster.why("pods", name)) == [
        f"pod/{before[0]} was marked for deletion with 30 seconds of grace, by {ADMIN}"
    ]


async def test_pod_as_desired(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1)
    (name,) = await cluster.pods()
    explanation = await cluster.why("pods", name)
    assert explanation.state == "as desired"
    assert roots(explanation) == [f"deployment/web was created, by {ADMIN}"]


async def test_similar_names(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1)
    (old,) = await cluster.pods()
    await cluster.user.delete(PODS, old, NAMESPACE)
    await asyncio.sleep(60)
    (new,) = await cluster.pods()
    evidence = ServerEvidence(cluster.user, await cluster.user.discover())
    for item in ("we", "web-1"):
        assert await names_alike(evidence, Reference("pods", NAMESPACE, item)) == [f"{old} (gone)", new]
    assert await names_alike(evidence, Reference("pods", NAMESPACE, "none")) == []
    for misspelled in ("wbe", "webb", "ewb"):
        assert await names_alike(evidence, Reference("deployments.apps", NAMESPACE, misspelled)) == ["web"]


async def test_other_namespaces_of_a_name(cluster: Cluster) -> None:
    for namespace in ("b", "a", "gone"):
        await cluster.user.create(NAMESPACES, {"metadata": {"name": namespace}})
        await cluster.user.create(CONFIG_MAPS, {"metadata": {"name": "settings"}}, namespace)
    await cluster.user.delete(NAMESPACES, "gone")
    await asyncio.sleep(60)
    evidence = ServerEvidence(cluster.user, await cluster.user.discover())
    for namespace, others in ((NAMESPACE, ["a", "b", "gone (gone)"]), ("a", ["b", "gone (gone)"])):
        assert await namespaces_with(evidence, Reference("configmaps", namespace, "settings")) == others
    assert await namespaces_with(evidence, Reference("configmaps", NAMESPACE, "none")) == []
    assert await namespaces_with(evidence, Reference("namespaces", "", "a")) == []


async def test_object_that_never_existed(cluster: Cluster) -> None:
    explanation = await cluster.why("pods", "none")
    assert (explanation.state, roots(explanation)) == (
        "not found",
        ["pod/none is not there, and no change of it is known"],
    )
