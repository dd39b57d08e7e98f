"""The namespace controller against the embedded API server, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.controllers.api_world import Doc
from tests.controllers.garbage_collector.cluster import Cluster, running

from pilothouse.api import wire
from pilothouse.controllers.cleanup.namespace import DESCRIPTOR
from pilothouse.env import Env

NS = "/api/v1/namespaces/going"
CM = f"{NS}/configmaps"
PODS = f"{NS}/pods"
FOREIGN = "example.com/hold"


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[Cluster]:
    """A cluster with the namespace controller and a namespace ``going``."""
    async with running(env, DESCRIPTOR) as cluster:
        await cluster.create("/api/v1/namespaces", metadata={"name": "going"})
        yield cluster


async def namespace(cluster: Cluster) -> Doc:
    obj = await cluster.get(NS)
    assert obj is not None, "the namespace is gone"
    return obj


async def conditions(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    status = (await namespace(cluster))["status"]
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


async def pod(cluster: Cluster, name: str, **metadata: Any) -> Doc:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30}
    return await cluster.create(PODS, metadata={"name": name, **metadata}, spec=spec)


def writes_after_content(cluster: Cluster) -> list[str]:
    return [text for text in cluster.writes() if text.startswith(("PUT ", "PATCH "))]


async def test_namespace_and_its_content_are_deleted_after_five_seconds(cluster: Cluster) -> None:
    await cluster.configmap("a", namespace="going")
    await cluster.create(f"{NS}/secrets", metadata={"name": "b"})
    await cluster.create(
        "/apis/apps/v1/namespaces/going/deployments",
        metadata={"name": "web"},
        spec={
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    )
    await cluster.configmap("elsewhere")
    await cluster.delete(NS, "")
    await asyncio.sleep(4.9)
    assert cluster.requests() == []
    await asyncio.sleep(0.2)
    assert await cluster.get(NS) is None
    assert await cluster.configmaps() == ["elsewhere"]
    assert writes_after_content(cluster) == [f"PUT {NS}/status", f"PUT {NS}/finalize"]
    first_deletes = [text for text in cluster.writes() if text.startswith("DELETE ")]
    assert first_deletes[0] == f"DELETE {PODS}", "pods go first"
    assert {body["propagationPolicy"] for body in cluster.bodies("DELETE")} == {"Background"}
    assert not [text for text in cluster.requests() if "default" in text]


async def test_active_namespace_is_not_touched(cluster: Cluster) -> None:
    await cluster.configmap("a", namespace="going")
    await asyncio.sleep(3600)
    assert cluster.requests() == []


async def test_other_resources_wait_for_the_deletion_of_pods(cluster: Cluster) -> None:
    await cluster.configmap("a", namespace="going")
    await pod(cluster, "p", finalizers=[FOREIGN])
    await cluster.delete(NS, "")
    await asyncio.sleep(300)
    assert await cluster.configmaps("going") == ["a"]
    result = await conditions(cluster)
    assert result["NamespaceContentRemaining"] == ("False", "ContentRemoved", "All content successfully removed"), (
        "upstream's quirk: the pods of such a pass are not told"
    )
    await cluster.release(f"{PODS}/p")
    await asyncio.sleep(30)
    assert await cluster.get(NS) is None


async def test_remaining_content_is_reported_and_retried_every_eight_seconds(cluster: Cluster) -> None:
    for name in ("held-1", "held-2"):
        await cluster.configmap(name, namespace="going", finalizers=[FOREIGN])
    await cluster.delete(NS, "")
    await asyncio.sleep(5.1)
    result = await conditions(cluster)
    assert list(result) == [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
    ]
    assert result["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 2 resource instances",
    )
    assert result["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        f"Some content in the namespace has finalizers remaining: {FOREIGN} in 2 resource instances",
    )
    await asyncio.sleep(20)
    cluster.transport.sent.clear()
    await asyncio.sleep(80)
    assert cluster.requests().count(f"GET {NS}") == 10
    assert writes_after_content(cluster) == [], "nothing new is not written"
    await cluster.release(f"{CM}/held-1")
    await asyncio.sleep(10)
    assert (await conditions(cluster))["NamespaceContentRemaining"][2].endswith("configmaps. has 1 resource instances")
    await cluster.release(f"{CM}/held-2")
    await asyncio.sleep(10)
    assert await cluster.get(NS) is None


async def test_finalizers_of_others_are_kept_on_the_namespace(cluster: Cluster) -> None:
    result = await namespace(cluster)
    result["spec"]["finalizers"] = ["example.com/b", "kubernetes", "example.com/a"]
    body = msgspec.json.encode(result)
    await cluster.admin.request("PUT", f"{NS}/finalize", body=body)
    await cluster.delete(NS, "")
    await asyncio.sleep(60)
    assert (await namespace(cluster))["spec"]["finalizers"] == ["example.com/a", "example.com/b"]
    # A finalizer was left, so the next passes find a namespace without kubernetes in it and write the same again.
    assert (await namespace(cluster))["status"]["phase"] == "Terminating"


async def test_objects_are_deleted_one_by_one_without_deletecollection(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.configmap(name, namespace="going")

    async def no_collections(request: wire.Request) -> wire.Response | None:
        return wire.Response(405) if request.method == "DELETE" and request.target == CM else None

    cluster.transport.hook = no_collections
    await cluster.delete(NS, "")
    await asyncio.sleep(6)
    assert await cluster.get(NS) is None
    assert [text for text in cluster.writes() if CM in text] == [f"DELETE {CM}", f"DELETE {CM}/a", f"DELETE {CM}/b"]


async def test_failed_discovery_of_a_group_keeps_the_namespace_and_deletes_the_rest(cluster: Cluster) -> None:
    await cluster.configmap("a", namespace="going")

    async def broken(request: wire.Request) -> wire.Response | None:
        if request.target != "/apis":
            return None
        document = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "items": [
                {
                    "metadata": {"name": "metrics.k8s.io"},
                    "versions": [{"version": "v1beta1", "resources": [], "freshness": "Stale"}],
                }
            ],
        }
        kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        return wire.Response(200, {"content-type": kind}, msgspec.json.encode(document))

    cluster.transport.hook = broken
    await cluster.delete(NS, "")
    await asyncio.sleep(120)
    assert await cluster.configmaps("going") == []
    assert (await conditions(cluster))["NamespaceDeletionDiscoveryFailure"] == (
        "True",
        "DiscoveryFailed",
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: "
        "metrics.k8s.io/v1beta1: stale GroupVersion discovery",
    )
    cluster.transport.hook = None
    await asyncio.sleep(61)
    assert await cluster.get(NS) is None


async def refuse_to_delete(cluster: Cluster, path: str) -> None:
    """Reject deletions of the content, and delete the namespace."""

    async def refuse(request: wire.Request) -> wire.Response | None:
        if request.method == "DELETE" and request.target == path:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not today", "code": 500}
            return wire.Response(500, {}, msgspec.json.encode(status))
        return None

    cluster.transport.hook = refuse
    await cluster.delete(NS, "")


async def test_failed_deletion_of_an_object_is_reported_and_does_not_stop_others(cluster: Cluster) -> None:
    await cluster.configmap("a", namespace="going")
    await cluster.create(f"{NS}/secrets", metadata={"name": "b"})
    await refuse_to_delete(cluster, CM)
    await asyncio.sleep(60)
    assert await cluster.names(f"{NS}/secrets") == []
    assert await cluster.configmaps("going") == ["a"]
    assert (await conditions(cluster))["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        "Failed to delete all resource types, 1 remaining: not today",
    )
    cluster.transport.hook = None
    await asyncio.sleep(61)
    assert await cluster.get(NS) is None


async def test_failed_deletion_of_pods_does_not_stop_others(cluster: Cluster) -> None:
    """As upstream, where only remaining pods do."""
    await cluster.configmap("a", namespace="going")
    await pod(cluster, "p")
    await refuse_to_delete(cluster, PODS)
    await asyncio.sleep(60)
    assert (await cluster.names(PODS), await cluster.configmaps("going")) == (["p"], [])
    cluster.transport.hook = None
    await asyncio.sleep(61)
    assert await cluster.get(NS) is None


async def test_finalize_conflict_is_retried_on_the_live_namespace(cluster: Cluster) -> None:
    changes = 0

    async def change(request: wire.Request) -> None:
        nonlocal changes
        if request.target.endswith("/finalize") and changes < 3:
            changes += 1
            await cluster.merge(NS, {"metadata": {"labels": {"changes": str(changes)}}})

    cluster.transport.hook = change
    await cluster.delete(NS, "")
    await asyncio.sleep(6)
    assert await cluster.get(NS) is None
    assert changes == 3
    assert cluster.requests().count(f"GET {NS}") == 4


async def test_namespaces_are_deleted_concurrently(cluster: Cluster) -> None:
    for number in range(30):
        await cluster.create("/api/v1/namespaces", metadata={"name": f"n-{number}"})
        await cluster.configmap("a", namespace=f"n-{number}")
        await cluster.delete(f"/api/v1/namespaces/n-{number}", "")
    await asyncio.sleep(6)
    assert [name for name in await cluster.names("/api/v1/namespaces") if name.startswith("n-")] == []


async def test_namespace_terminating_at_startup_is_deleted(env: Env) -> None:
    async with running(env) as cluster:
        await cluster.create("/api/v1/namespaces", metadata={"name": "going"})
        await cluster.configmap("a", namespace="going")
        await cluster.delete(NS, "")
        await asyncio.sleep(100)
        await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(6)
        assert await cluster.get(NS) is None
