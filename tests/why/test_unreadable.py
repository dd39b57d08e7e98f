"""Objects that the user may not read are not reported as gone."""

import asyncio
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.why.cluster import Cluster, deployment, roots, text, texts

from pilothouse.api import wire
from pilothouse.api.core import CONFIG_MAPS, NAMESPACES, NODES, PODS
from pilothouse.client import Client
from pilothouse.client.interceptor import Interceptor, Rule, fail
from pilothouse.client.request_info import RequestInfo
from pilothouse.why import AS_DESIRED, UNREADABLE, Reference, ServerEvidence, explain

FAST = {"metadata": {"name": "fast"}, "provisioner": "disks.example.com"}


def _developer(cluster: Cluster, *resources: str) -> Cluster:
    """A user who may not read these resources."""
    env = cluster.plane.plane.env
    transport = Interceptor(cluster.user.transport, env)
    for resource in resources:
        for verb in ("get", "list"):
            transport.add(Rule(fail(403, "Forbidden", f"{resource} is forbidden"), resource=resource, verb=verb))
    other = Cluster(cluster.plane)
    other.user = Client(transport, env)
    return other


def _pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "nginx", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [container]}}


async def test_pod_before_its_first_readiness_probe(cluster: Cluster) -> None:
    await cluster.create(_pod(readinessProbe={"exec": {"command": ["true"]}, "initialDelaySeconds": 60}))
    await asyncio.sleep(10)
    explanation = await cluster.why("pods", "one")
    waits = "waits for the first readiness probe of container c, 60 s (initialDelaySeconds) after its start"
    assert texts(explanation.steps)[0] == f"pod/one runs, and {waits}"
    await asyncio.sleep(60)
    assert (await cluster.why("pods", "one")).state == AS_DESIRED


async def test_the_node_of_a_pod_whose_probe_fails(cluster: Cluster) -> None:
    pod = _pod(readinessProbe={"exec": {"command": ["true"]}})
    pod["metadata"]["annotations"] = {"simulated.pilothouse.dev/readiness-probe": "fail"}
    await cluster.create(pod)
    await asyncio.sleep(10)
    explanation = await _developer(cluster, "nodes").why("pods", "one")
    assert texts(explanation.steps)[0].startswith("pod/one runs, but the readiness probe of container c fails")
    assert "gone" not in text(explanation)


async def test_the_node_of_a_pod_with_a_readiness_gate(cluster: Cluster) -> None:
    pod = _pod()
    pod["spec"]["readinessGates"] = [{"conditionType": "example.com/in"}]
    await cluster.create(pod)
    await asyncio.sleep(10)
    (step,) = (await _developer(cluster, "nodes").why("pods", "one")).steps
    assert step.text.startswith("pod/one runs, but waits for its readiness gates")


async def test_the_node_of_a_pod_that_is_not_ready(cluster: Cluster) -> None:
    await cluster.create(_pod())
    await asyncio.sleep(10)
    node = (await cluster.user.get(PODS, "one", "default")).spec.node_name
    fault = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}
    await cluster.patch(NODES, node, fault, namespace="")
    await asyncio.sleep(90)
    explanation = await _developer(cluster, "nodes").why("pods", "one")
    assert texts(explanation.steps) == [
        f"pod/one is on node {node}, which is probably not ready: the containers of the pod are"
    ]
    assert roots(explanation) == [f"node/{node} can't be read"]
    table = explanation.roots()[0].table
    assert table[0] == "recorded last:"
    assert any("node.kubernetes.io/unreachable" in line for line in table)


async def test_the_node_itself(cluster: Cluster) -> None:
    explanation = await _developer(cluster, "nodes").why("nodes", "node-0", namespace="")
    assert explanation.state == UNREADABLE
    assert "nodes node-0: nodes is forbidden" in explanation.unseen


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_secret(cluster: Cluster, *, deleted: bool) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}})
    if deleted:
        await cluster.user.request("DELETE", "/api/v1/namespaces/default/secrets/login")
    explanation = await _developer(cluster, "secrets").why("secrets", "login")
    expected = "secret/login was deleted, by kubernetes-admin" if deleted else "secret/login can't be read"
    assert texts(explanation.steps)[0].startswith(expected)


async def test_a_pod_that_fits_no_node(cluster: Cluster) -> None:
    await cluster.create(deployment("web", replicas=1, nodeSelector={"disk": "ssd"}))
    await asyncio.sleep(10)
    (name,) = await cluster.pods()
    explanation = await _developer(cluster, "nodes").why("pods", name)
    assert texts(explanation.steps)[0].startswith(f"pod/{name} is not scheduled: 0/3 nodes are available: 3 node(s) ")


async def test_a_quota(cluster: Cluster) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    await cluster.create(quota)
    await asyncio.sleep(5)
    await cluster.deployment("web", replicas=2)
    assert "is gone" not in text(await _developer(cluster, "resourcequotas").why("deployments.apps", "web"))
    assert "small was created" in text(await cluster.why("deployments.apps", "web"))


async def test_the_class_of_a_claim(cluster: Cluster) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.create({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **FAST})
    await cluster.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    )
    await asyncio.sleep(5)
    explanation = await _developer(cluster, "storageclasses").why("persistentvolumeclaims", "data")
    assert texts(explanation.steps) == [
        "persistentvolumeclaim/data waits for a volume of the class fast, which can't be read"
    ]


async def test_a_pod_that_terminates(cluster: Cluster) -> None:
    pod = _pod()
    pod["metadata"]["annotations"] = {"simulated.pilothouse.dev/stop-delay": "20s"}
    await cluster.create(pod)
    await asyncio.sleep(10)
    await cluster.user.request("DELETE", "/api/v1/namespaces/default/pods/one")
    await asyncio.sleep(1)
    explanation = await _developer(cluster, "nodes").why("pods", "one")
    assert "which is not ready" not in text(explanation)


async def test_an_earlier_state(cluster: Cluster) -> None:
    user = _developer(cluster, "nodes").user
    revision = int((await cluster.user.list(NODES)).metadata.resource_version)
    evidence = ServerEvidence(user, await user.discover(), at=revision)
    explanation = await explain(evidence, Reference("nodes", "", "node-0"))
    assert explanation.state == UNREADABLE


async def test_objects_whose_pods_can_t_be_read(cluster: Cluster) -> None:
    selector = {"app": "web"}
    await cluster.deployment("web", replicas=1)
    service = {"selector": selector, "ports": [{"port": 80, "targetPort": "http"}]}
    await cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": service})
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "none"}}}
    await cluster.create(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget}
    )
    claim = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
    metadata = {"metadata": {"name": "gpu"}}
    await cluster.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": claim} | metadata)
    late = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"}
    await cluster.create(FAST | late)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await cluster.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}
    )
    await asyncio.sleep(10)
    user = _developer(cluster, "pods")
    for resource, name in (
        ("services", "web"),
        ("poddisruptionbudgets.policy", "web"),
        ("resourceclaims.resource.k8s.io", "gpu"),
        ("persistentvolumeclaims", "data"),
    ):
        explanation = await user.why(resource, name)
        assert "can't be read" in explanation.steps[-1].text, text(explanation)


async def test_daemon_set_without_its_nodes(cluster: Cluster) -> None:
    daemons = deployment("agent", image="agent:not-found") | {"kind": "DaemonSet"}
    del daemons["spec"]["replicas"]
    await cluster.create(daemons)
    await asyncio.sleep(5)
    step = (await _developer(cluster, "nodes").why("daemonsets.apps", "agent")).steps[0]
    assert step.text == "daemonset/agent should have a pod on 3 nodes, 0 are ready, 3 up to date"


async def test_content_of_a_terminating_namespace(cluster: Cluster) -> None:
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    await asyncio.sleep(5)
    await cluster.user.delete(NAMESPACES, "shop")
    step = (await _developer(cluster, "serviceaccounts").why("namespaces", "shop", "")).steps[0]
    assert step.text == "namespace/shop is being emptied: 1 configmaps remain; serviceaccounts can't be read"
    step = (await _developer(cluster, "serviceaccounts", "configmaps").why("namespaces", "shop", "")).steps[0]
    assert step.text == "namespace/shop is being emptied: configmaps, serviceaccounts can't be read"


async def test_since_when_a_finalizer_is_set(cluster: Cluster) -> None:
    """Older states may be unreadable, as those in a stored version whose conversion fails: the first state that can be
    read is not the one that set the finalizer."""
    kept = {"name": "main", "finalizers": ["example.com/release-channel"]}
    await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept})
    await cluster.patch(CONFIG_MAPS, "main", {"data": {"channel": "beta"}})
    patched = (await cluster.plane.get("v1", "ConfigMap", "main"))["metadata"]["resourceVersion"]
    await cluster.plane.delete("v1", "ConfigMap", "main")
    assert "has it since" in text(await cluster.why("configmaps", "main"))

    def is_older(call: RequestInfo, request: wire.Request) -> bool:
        versions = parse_qs(request.target.partition("?")[2]).get("resourceVersion", [])
        return call.resource == "configmaps" and any(int(version) < int(patched) for version in versions)

    env = cluster.plane.plane.env
    transport = Interceptor(cluster.user.transport, env)
    transport.add(Rule(fail(500, "InternalError", "conversion webhook failed"), verb="list", when=is_older))
    other = Cluster(cluster.plane)
    other.user = Client(transport, env)
    explained = text(await other.why("configmaps", "main"))
    assert "is held by the finalizer example.com/release-channel" in explained
    assert "conversion webhook failed" in explained
    assert "has it since" not in explained, explained


async def test_compacted_history_of_another_resource(cluster: Cluster) -> None:
    """The server keeps less history of Leases, of which each node writes one every ten seconds."""
    await cluster.create(_pod())
    await asyncio.sleep(10)
    pod = await cluster.user.get(PODS, "one", "default")
    transport = Interceptor(cluster.user.transport, cluster.plane.plane.env)
    transport.add(Rule(fail(410, "Expired", "too old"), resource="leases", verb="list"))
    client = Client(transport, cluster.plane.plane.env)
    evidence = ServerEvidence(client, await client.discover(), at=int(pod.metadata.resource_version))
    node = pod.spec.node_name
    assert await evidence.get(Reference("leases.coordination.k8s.io", "kube-node-lease", node)) is None
    assert await evidence.get(Reference("pods", "default", "one")) is not None
