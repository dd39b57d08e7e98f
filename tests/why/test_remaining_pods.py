"""Pods that stay: of a node that does not answer, and of an earlier template."""

import asyncio
from typing import Any

import msgspec
from tests.why.cluster import NAMESPACE, Cluster, deployment, roots, text

from pilothouse.api.apps import DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS
from pilothouse.api.core import NAMESPACES, NODES, PODS
from pilothouse.client.patches import merge_patch

SILENT = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}


def image(name: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": name}]}}}}


async def undone_on_a_silent_node(cluster: Cluster) -> tuple[str, str, str]:
    """A Deployment whose new image can't be pulled; the node of the pod with that image is silent; then the image is
    changed back. Returns the pod, its node, and the other pod on it."""
    await cluster.deployment(replicas=3)
    before = await cluster.pods()
    await cluster.patch(DEPLOYMENTS, "web", image("nginx:does-not-exist"))
    await asyncio.sleep(10)
    (broken,) = set(await cluster.pods()) - set(before)
    node = (await cluster.user.get(PODS, broken, NAMESPACE)).spec.node_name
    (beside,) = [name for name in before if (await cluster.user.get(PODS, name, NAMESPACE)).spec.node_name == node]
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(60)
    await cluster.patch(DEPLOYMENTS, "web", image("nginx"))
    await asyncio.sleep(10)
    return broken, node, beside


async def test_a_pod_of_an_earlier_template_that_may_not_be_removed(cluster: Cluster) -> None:
    """Three pods have to be available, and two are."""
    _broken, node, beside = await undone_on_a_silent_node(cluster)
    explanation = await cluster.why("deployments.apps", "web")
    assert (
        "1 pod of earlier templates stays: of 4 pods, 1 of the current template is not available, and at least 3 have "
        "to be" in explanation.steps[0].table
    ), text(explanation)
    assert "does-not-exist can't be pulled" not in text(explanation)
    assert f"node/{node} does not report" in explanation.root_causes[0].text, text(explanation)
    (step,) = [step for step in explanation.steps[0].because if step.object == f"pod/{beside}"]
    (line,) = [line for line in step.table if "taint-eviction-controller" in line]
    assert "tolerates the taint node.kubernetes.io/unreachable for 300 seconds, " in line


async def test_the_pods_of_a_silent_node_are_deleted_but_not_removed(cluster: Cluster) -> None:
    """The Deployment has its pods elsewhere, and those that kubectl shows as Terminating are explained."""
    broken, node, beside = await undone_on_a_silent_node(cluster)
    await asyncio.sleep(300)
    explanation = await cluster.why("deployments.apps", "web")
    assert explanation.state == "as desired, but deleted pods remain"
    assert {step.object for step in explanation.steps} <= {f"pod/{broken}", f"pod/{beside}"}, text(explanation)
    assert f"node/{node} does not report" in text(explanation)
    assert f"kubectl taint nodes {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in text(explanation)
    for name in (broken, beside):
        waiting = await cluster.why("pods", name)
        assert f"kubectl delete pod {name} --force" in text(waiting), text(waiting)
    out_of_service = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    taints = (await cluster.user.get(NODES, node)).spec.taints
    await cluster.user.patch(NODES, node, merge_patch({"spec": {"taints": [*map(_encoded, taints), out_of_service]}}))
    explanation = await cluster.why("deployments.apps", "web")
    assert "pod-garbage-collector removes it" in text(explanation), text(explanation)
    assert "--force" not in text(explanation)
    await asyncio.sleep(60)
    assert (await cluster.why("deployments.apps", "web")).state == "as desired"
    assert set(await cluster.pods()).isdisjoint({broken, beside})


async def test_pods_within_their_grace_period_do_not_remain(cluster: Cluster) -> None:
    await cluster.deployment(replicas=2)
    (first, _second) = await cluster.pods()
    await cluster.patch(PODS, first, {"metadata": {"annotations": {"simulated.pilothouse.dev/stop-delay": "20s"}}})
    await cluster.user.delete(PODS, first, NAMESPACE)
    await asyncio.sleep(5)
    assert (await cluster.why("deployments.apps", "web")).state == "as desired"


async def test_recreate_waits_for_the_pods_of_a_silent_node(cluster: Cluster) -> None:
    await cluster.create(recreated())
    await asyncio.sleep(10)
    (name,) = await cluster.pods()
    node = (await cluster.user.get(PODS, name, NAMESPACE)).spec.node_name
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(60)
    await cluster.patch(DEPLOYMENTS, "web", image("nginx:2"))
    await asyncio.sleep(10)
    explanation = await cluster.why("deployments.apps", "web")
    assert f"pod/{name} remains until the kubelet of {node}, which is not ready, reports its end" in text(explanation)
    assert any(root.startswith(f"node/{node} changed") for root in roots(explanation)), text(explanation)


def recreated() -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, **image("nginx")["spec"]["template"]}
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {"app": "web"}},
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def daemons(name: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, **image(name)["spec"]["template"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


async def test_a_daemon_pod_of_a_silent_node_that_is_not_replaced(cluster: Cluster) -> None:
    await cluster.create(daemons("agent"))
    await asyncio.sleep(10)
    node = (await cluster.user.list(NODES)).items[0].metadata.name
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(60)
    pods = (await cluster.user.list(PODS, NAMESPACE)).items
    (name,) = [pod.metadata.name for pod in pods if pod.spec.node_name == node]
    explanation = await cluster.why("pods", name)
    assert "it tolerates the taint node.kubernetes.io/unreachable without limit: it is not deleted" in text(explanation)
    await cluster.patch(DAEMON_SETS, "agent", image("agent:2"))
    await asyncio.sleep(60)
    explanation = await cluster.why("daemonsets.apps", "agent")
    assert f"pod/{name} remains until the kubelet of {node}, which is not ready, reports its end" in text(explanation)


def _encoded(taint: Any) -> dict[str, Any]:
    return dict(msgspec.to_builtins(taint))


async def shop(cluster: Cluster, replicas: int) -> None:
    """A namespace with a Deployment."""
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    manifest = deployment("web", replicas=replicas)
    await cluster.create({**manifest, "metadata": {"name": "web", "namespace": "shop"}})
    await asyncio.sleep(10)


async def test_a_namespace_with_pods_of_a_silent_node(cluster: Cluster) -> None:
    await shop(cluster, replicas=6)
    pods = (await cluster.user.list(PODS, "shop")).items
    node = pods[0].spec.node_name
    on_node = [pod.metadata.name for pod in pods if pod.spec.node_name == node]
    assert len(on_node) == 2
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(60)
    await cluster.user.delete(NAMESPACES, "shop")
    for seconds in (20, 120):
        await asyncio.sleep(seconds)
        explanation = await cluster.why("namespaces", "shop", "")
        assert explanation.state == "terminating"
        assert f"2 pods are not removed: {', '.join(on_node)}" in text(explanation)
        assert f"until the kubelet of {node}, which is not ready, reports its end" in text(explanation)
        assert any(root.startswith(f"node/{node} changed") for root in roots(explanation)), text(explanation)
        assert any(cause.text.startswith(f"node/{node} does not report") for cause in explanation.root_causes)


async def test_a_deployment_of_a_terminating_namespace(cluster: Cluster) -> None:
    """The pod of a silent node keeps the namespace, so its workloads are still there."""
    await shop(cluster, replicas=1)
    await cluster.create({**daemons("agent"), "metadata": {"name": "agent", "namespace": "shop"}})
    await asyncio.sleep(10)
    (pod,) = (await cluster.user.list(PODS, "shop", label_selector="app=web")).items
    (other, *_) = [
        name.metadata.name
        for name in (await cluster.user.list(NODES)).items
        if name.metadata.name != pod.spec.node_name
    ]
    await cluster.patch(NODES, other, SILENT, "")
    await asyncio.sleep(60)
    await cluster.user.delete(NAMESPACES, "shop")
    await asyncio.sleep(30)
    (replica_set,) = (await cluster.user.list(REPLICA_SETS, "shop")).items
    for resource, name in (("deployments.apps", "web"), ("replicasets.apps", replica_set.metadata.name)):
        explanation = await cluster.why(resource, name, "shop")
        (cause,) = explanation.root_causes
        assert cause.text.startswith("namespace/shop is terminating since "), text(explanation)
        assert cause.text.endswith(", no pods can be created in it")
        assert roots(explanation) == [
            "namespace/shop was marked for deletion, by kubernetes-admin with pilothouse-testing"
        ]
