"""metrics.k8s.io as served by the embedded server. Shapes and tables are those of metrics-server v0.8 (``pkg/api``)."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.controllers import node_world
from tests.controllers.horizontal_pod_autoscaler.metrics_apis import Meter
from tests.controllers.node_world import PODS, World

from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.serializers.protobuf import decode_object
from pilothouse.client import Client
from pilothouse.client.discovery import discover
from pilothouse.client.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from pilothouse.env import Env
from pilothouse.machinery.times import format_time

Doc = dict[str, Any]
ROOT = "/apis/metrics.k8s.io/v1beta1"
APPS = "/apis/apps/v1/namespaces/default"
LOAD = "simulated.pilothouse.dev/cpu-load"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        yield world


@pytest.fixture
async def meter(world: World) -> Meter:
    """What pods use, which the server serves."""
    meter = Meter(cpu=250)
    world.server.serve_resource_metrics(meter)
    await world.server.background["resource metrics"]()
    return meter


async def table(world: World, path: str) -> tuple[list[str], list[list[Any]]]:
    response = await world.admin.request("GET", path, headers=TABLE)
    document = msgspec.json.decode(response.body)
    return [column["name"] for column in document["columnDefinitions"]], [row["cells"] for row in document["rows"]]


async def test_pod_metrics(world: World, meter: Meter) -> None:
    await world.pod("web-0", node="n1", labels={"app": "web"})
    await world.pod("web-1", node="n1", labels={"app": "web"})
    await world.pod("db-0", node="n2", labels={"app": "db"})
    await world.pod("new", node="n2", phase="Pending")
    meter.by_pod["web-1"] = 1500
    now = format_time(world.env.now())
    assert await world.request("GET", f"{ROOT}/namespaces/default/pods/web-1") == {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "creationTimestamp": now,
            "labels": {"app": "web"},
        },
        "timestamp": now,
        "window": "15s",
        "containers": [{"name": "main", "usage": {"cpu": "1500m", "memory": "1Mi"}}],
    }
    for query, names in (
        ("", ["db-0", "web-0", "web-1"]),
        ("?labelSelector=app=web", ["web-0", "web-1"]),
        ("?labelSelector=app%20notin%20(web)", ["db-0"]),
        ("?fieldSelector=metadata.name=web-0", ["web-0"]),
        ("?labelSelector=app=none", []),
    ):
        for path in (f"{ROOT}/namespaces/default/pods", f"{ROOT}/pods"):
            obj = await world.request("GET", path + query)
            assert (obj["kind"], obj["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
            assert [item["metadata"]["name"] for item in obj["items"]] == names
    columns, rows = await table(world, f"{ROOT}/namespaces/default/pods?labelSelector=app=web")
    assert columns == ["Name", "cpu", "memory", "Window"]
    assert rows == [["web-0", "250m", "1Mi", "15s"], ["web-1", "1500m", "1Mi", "15s"]]


async def test_node_metrics_are_pods_plus_overhead(world: World, meter: Meter) -> None:
    await world.node("n1")
    await world.node("n2")
    await world.pod("a", node="n1")
    await world.pod("b", node="n1")
    obj = await world.request("GET", f"{ROOT}/nodes")
    assert [(item["metadata"]["name"], item["usage"]) for item in obj["items"]] == [
        ("n1", {"cpu": "500m", "memory": "2Mi"}),
        ("n2", {"cpu": "0", "memory": "0"}),
    ]
    one = await world.request("GET", f"{ROOT}/nodes/n1")
    assert (one["kind"], one["usage"]["cpu"], "namespace" in one["metadata"]) == ("NodeMetrics", "500m", False)
    assert await table(world, f"{ROOT}/nodes/n1") == (
        ["Name", "cpu", "memory", "Window"],
        [["n1", "500m", "2Mi", "15s"]],
    )


@pytest.mark.parametrize("path", ["nodes", "nodes/n1", "pods", "namespaces/default/pods/a"])
async def test_protobuf_responses(world: World, meter: Meter, path: str) -> None:
    """metrics-server's types have it (k8s.io/metrics ``pkg/apis/metrics/v1beta1/generated.proto``)."""

    await world.node("n1")
    await world.pod("a", node="n1")
    wanted = await world.request("GET", f"{ROOT}/{path}")
    media = "application/vnd.kubernetes.protobuf"
    answer = await world.admin.request("GET", f"{ROOT}/{path}", headers={"accept": media})
    assert (answer.status, answer.headers["content-type"]) == (200, media)
    result = decode_object(answer.body)
    for item in result.get("items") or ():
        assert (item.get("kind"), item.get("apiVersion")) == (None, None)  # the envelope names the list only
    for item in wanted.get("items") or ():
        item.pop("kind", None), item.pop("apiVersion", None)
    assert result == wanted


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{ROOT}/namespaces/default/pods/none", 'pods "none" not found'),
        (f"{ROOT}/namespaces/default/pods/new", 'pods.metrics.k8s.io "default/new" not found'),
        (f"{ROOT}/nodes/none", 'nodes "none" not found'),
    ],
)
async def test_missing_metrics(world: World, meter: Meter, path: str, text: str) -> None:
    await world.pod("new", node="n1", phase="Pending")
    with pytest.raises(NotFound, match=f"^{text}$"):
        await world.request("GET", path)


async def test_discovery_and_read_only_verbs(world: World, meter: Meter) -> None:
    result = await discover(world.admin)
    served = {resource.name: resource for resource in result.resources() if resource.group == "metrics.k8s.io"}
    assert {
        name: (listed_resource.kind, listed_resource.namespaced, listed_resource.verbs)
        for name, listed_resource in served.items()
    } == {
        "nodes": ("NodeMetrics", False, ("get", "list")),
        "pods": ("PodMetrics", True, ("get", "list")),
    }
    listed = await world.request("GET", ROOT)
    assert [resource["name"] for resource in listed["resources"]] == ["nodes", "pods"]
    service = await world.request("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io")
    assert service["status"]["conditions"][0]["status"] == "True"
    assert "metrics.k8s.io/v1beta1" in str((await world.request("GET", "/openapi/v3"))["paths"])
    for method, path in (("POST", f"{ROOT}/namespaces/default/pods"), ("DELETE", f"{ROOT}/nodes/n1")):
        with pytest.raises(MethodNotAllowed):
            await world.request(method, path, {"metadata": {"name": "n1"}})
    with pytest.raises(ApiError):
        await world.request("GET", f"{ROOT}/pods?watch=true")


async def test_api_is_not_found_when_disabled(world: World) -> None:
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await world.request("GET", f"{ROOT}/nodes")
    assert "metrics.k8s.io" not in {version.group for version in (await discover(world.admin)).versions}


async def test_aggregated_view_role(world: World, meter: Meter) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregated-metrics-reader"
    role = await world.request("GET", path)
    assert role["rules"] == [
        {"apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
    ]
    assert sorted(role["metadata"]["labels"].values()) == ["true"] * 3


async def test_workload_load_is_shared_by_ready_pods(world: World, meter: Meter) -> None:
    """The pods of both ReplicaSets of a Deployment, without those that are not ready."""

    async def owned(world: World, name: str, owner: Doc, *, ready: bool = True) -> None:
        await world.pod(name, node="n1", ready=ready, ownerReferences=[owner])

    async def create_owner(world: World, plural: str, kind: str, name: str, owners: list[Doc]) -> Doc:
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "pause"}]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
        body = {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec}
        meta = (await world.request("POST", f"{APPS}/{plural}", body))["metadata"]
        return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": meta["uid"], "controller": True}

    async def used(world: World) -> dict[str, str]:
        items = (await world.request("GET", f"{ROOT}/namespaces/default/pods"))["items"]
        return {item["metadata"]["name"]: item["containers"][0]["usage"]["cpu"] for item in items}

    web = await create_owner(world, "deployments", "Deployment", "web", [])
    old, new = [await create_owner(world, "replicasets", "ReplicaSet", name, [web]) for name in ("web-1", "web-2")]
    for name, owner in (("a", old), ("b", old), ("c", new)):
        await owned(world, name, owner)
    await owned(world, "d", new, ready=False)
    other = await create_owner(world, "deployments", "Deployment", "other", [])
    await owned(world, "e", other)
    await world.pod("lonely", node="n1", ready=True)
    assert set((await used(world)).values()) == {"250m"}
    await world.merge(f"{APPS}/deployments/web", {"metadata": {"annotations": {LOAD: "1500m"}}})
    shared = {"a": "500m", "b": "500m", "c": "500m", "d": "250m", "e": "250m", "lonely": "250m"}
    assert await used(world) == shared
    await world.delete(f"{PODS}/b", grace=0)
    assert (await used(world))["a"] == "750m"
    await world.merge(f"{APPS}/deployments/web", {"metadata": {"annotations": {LOAD: "many"}}})
    await world.merge(f"{APPS}/replicasets/web-1", {"metadata": {"annotations": {LOAD: "many"}}})
    assert (await used(world))["a"] == "250m"
    for path in ("", "/a"):
        response = await world.admin.request("GET", f"{ROOT}/namespaces/default/pods{path}")
        assert response.headers["warning"] == f"299 - \"Deployment web: annotation {LOAD}: 'many' is no quantity\""
    await world.merge(f"{APPS}/replicasets/web-1", {"metadata": {"annotations": {LOAD: "1500m"}}})
    assert (await used(world))["a"] == "250m"  # left there from when the Deployment had it
    previous = {**web, "uid": "of-one-before"}
    await owned(world, "f", previous)
    assert (await used(world))["f"] == "250m"


async def test_requests_are_authorized(world: World, meter: Meter) -> None:
    handler_chain = HandlerChain(world.server, address="127.0.0.1:6443", authorization="RBAC")
    await handler_chain.start()
    user = Client(world.server.transport("ann", ["system:authenticated"]), world.env)
    with pytest.raises(Forbidden, match=r'cannot list resource "pods" in API group "metrics\.k8s\.io"'):
        await user.request("GET", f"{ROOT}/namespaces/default/pods")
    binding = {
        "metadata": {"name": "ann"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:aggregated-metrics-reader",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    await world.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    assert (await user.request("GET", f"{ROOT}/namespaces/default/pods")).status == 200
