"""The right root cause is found: restarts, retries, two causes, reverted changes, unresponsive nodes."""

import asyncio
from typing import Any

import pytest
from tests.why.cluster import NAMESPACE, Cluster, deployment, links, roots, text

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import NODES, PODS, RESOURCE_QUOTAS
from pilothouse.env import Env
from pilothouse.sim import Simulation, simulate
from pilothouse.testing import async_plane
from pilothouse.why import Reference, ServerEvidence, explain, text_lines

ADMIN = "kubernetes-admin with pilothouse-testing"
SILENT = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}
CORDONED = {"spec": {"unschedulable": True}}


def test_restarted_controllers_record_the_same_root_cause() -> None:
    """A restarted controller acts on its first list."""

    async def scenario(simulation: Simulation) -> None:
        user = simulation.user
        await user.create(DEPLOYMENTS, deployment("web", replicas=3), NAMESPACE)
        await asyncio.sleep(30)
        before = {pod.metadata.name for pod in (await user.list(PODS, NAMESPACE)).items}
        simulation.kill(down=30)
        await Cluster(_Plane(user)).scale("web", 2)  # type: ignore[arg-type]
        await asyncio.sleep(60)
        (deleted,) = before - {pod.metadata.name for pod in (await user.list(PODS, NAMESPACE)).items}
        result = await explain(ServerEvidence(user, await user.discover()), Reference("pods", NAMESPACE, deleted))
        assert [root.partition(", by ")[0] for root in roots(result)] == [
            "deployment/web changed: spec.replicas: 3 -> 2"
        ], text(result)

    simulate(scenario)


class _Plane:
    def __init__(self, client: Any) -> None:
        self.client = client


async def test_template_and_scale_changes_are_both_causes(cluster: Cluster) -> None:
    """A new template and a new size in different writes, before a controller has done anything: both are named."""
    await cluster.deployment(replicas=3)
    before = await cluster.pods()
    image = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "nginx:2"}]}}}}
    await cluster.patch(DEPLOYMENTS, "web", image)
    await cluster.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    await asyncio.sleep(60)
    named = {root.partition(":")[2].split(":")[0] for name in before for root in roots(await cluster.why("pods", name))}
    assert named == {
        " spec.template.spec.containers[name=app].image",
        " spec.replicas",
    }


async def test_reverted_template_change_is_no_cause(cluster: Cluster) -> None:
    """A pod that is created long after is due to neither."""
    await cluster.deployment(replicas=2)
    for image in ("nginx:2", "nginx"):
        template = {"spec": {"containers": [{"name": "app", "image": image}]}}
        await cluster.patch(DEPLOYMENTS, "web", {"spec": {"template": template}})
        await asyncio.sleep(60)
    before = await cluster.pods()
    await cluster.user.delete(PODS, before[0], NAMESPACE)
    await asyncio.sleep(60)
    (new,) = set(await cluster.pods()) - set(before)
    explanation = await cluster.why("pods", new)
    assert roots(explanation) == [f"pod/{before[0]} was marked for deletion with 30 seconds of grace, by {ADMIN}"], (
        text(explanation)
    )


@pytest.mark.parametrize("deleted", [False, True], ids=["raised", "deleted"])
async def test_quota_that_would_not_reject_any_more(cluster: Cluster, deleted: bool) -> None:
    """Until the controller tries again, the quota is not what blocks the pods, and its last change not a cause."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    await cluster.create(quota)
    await cluster.deployment(replicas=2)
    await cluster.scale("web", 4)
    await asyncio.sleep(300)
    if deleted:
        await cluster.plane.client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/q")
    else:
        await cluster.patch(RESOURCE_QUOTAS, "q", {"spec": {"hard": {"pods": "3"}}})
    await asyncio.sleep(1)
    explanation = await cluster.why("deployments.apps", "web")
    (root,) = explanation.roots()
    state = "is gone" if deleted else "has room now (2 of 3 pods used)"
    assert root.text.startswith("replicaset/web-"), text(explanation)
    assert root.text.endswith(f" tries again after a delay: resourcequota/q {state}")
    assert ("was deleted" if deleted else 'changed: spec.hard.pods: "2" -> "3"') in root.table[2]


async def test_pods_of_the_rejected_workload_itself_are_no_cause(cluster: Cluster) -> None:
    """Its last pod was created in the second since which pods count as new."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}
    await cluster.create(quota)
    await cluster.deployment(replicas=2)
    await cluster.deployment("other", replicas=1)
    await cluster.scale("web", 3)
    (other,) = [name for name in await cluster.pods() if name.startswith("other-")]
    (rejected,) = (await cluster.why("deployments.apps", "web")).steps[0].because[0].because
    assert [step.object for step in rejected.because] == [f"pod/{other}"], rejected
    assert [line.partition(",")[0] for line in rejected.table] == ["deployment/other: 1 pod", "deployment/web: 2 pods"]


async def test_scale_is_the_cause_after_the_quota_is_raised(cluster: Cluster) -> None:
    """Pods that a quota had rejected are created by a retry: the root cause is the scale, not later changes."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
    await cluster.create(quota)
    await asyncio.sleep(5)
    await cluster.deployment(replicas=2)
    (first,) = await cluster.pods()
    await cluster.plane.client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/q")
    await asyncio.sleep(120)
    (second,) = set(await cluster.pods()) - {first}
    explanation = await cluster.why("pods", second)
    assert [root for root in roots(explanation) if "deployment/web was created" in root] == roots(explanation), text(
        explanation
    )


async def test_pods_of_an_unresponsive_node(cluster: Cluster) -> None:
    """An injected fault, silent node, taint, eviction, replacement: one chain."""
    unreachable = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    await cluster.deployment(replicas=1, tolerations=[unreachable])
    (name,) = await cluster.pods()
    node = (await cluster.user.get(PODS, name, NAMESPACE)).spec.node_name
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(120)
    (new,) = set(await cluster.pods()) - {name}
    explanation = await cluster.why("pods", new)
    chain = text(explanation)
    assert [item.root for item in explanation.roots()] == ["user"], chain
    for link in (f"pod/{name} was marked for deletion", "by taint-eviction-controller", "by node-lifecycle-controller"):
        assert link in chain
    waiting = await cluster.why("pods", name)
    assert waiting.state == "terminating"
    (root,) = explanation.roots()
    assert (root.object, root.text in chain) == (f"node/{node}", True)
    assert 'simulated.pilothouse.dev/fault"] added ("silent")' in root.text
    assert [item.text for item in waiting.roots()] == [root.text], text(waiting)
    assert f"node/{node} does not report" in text(waiting)
    assert f"node/{node} changed: taint node.kubernetes.io/unreachable:NoExecute added" in text(waiting)


async def test_pod_of_a_node_that_has_recovered(cluster: Cluster) -> None:
    """Until its kubelet reports the pod again, the pod is not ready because of the node, not of its creation."""
    await cluster.deployment(replicas=1)
    (name,) = await cluster.pods()
    node = (await cluster.user.get(PODS, name, NAMESPACE)).spec.node_name
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(90)
    recovered = {"metadata": {"annotations": dict.fromkeys(SILENT["metadata"]["annotations"])}}
    await cluster.patch(NODES, node, recovered, "")
    for _ in range(20):
        await asyncio.sleep(0.5)
        if (await cluster.why("nodes", node, "")).state == "as desired":
            break
    explanation = await cluster.why("pods", name)
    assert explanation.state == "not ready"
    assert "was marked as not ready because of its node, which is ready again" in text(explanation)
    (root,) = explanation.roots()
    assert root.text.startswith(f"node/{node} changed") and '("silent")' in root.text, text(explanation)
    await asyncio.sleep(20)
    assert (await cluster.why("pods", name)).state == "as desired"


async def test_no_nodes(env: Env) -> None:
    async with async_plane(env=env, nodes=0) as plane:
        cluster = Cluster(plane)
        await cluster.deployment(replicas=1)
        (name,) = await cluster.pods()
        explanation = await cluster.why("pods", name)
        assert (explanation.state, roots(explanation)) == (
            "pending",
            [f"pod/{name} is not scheduled: there are no nodes"],
        )


async def test_reverted_cordon_is_no_cause(cluster: Cluster) -> None:
    """Cordons that were lifted are not named, when the pods lack room for another reason."""
    names = [node.metadata.name for node in (await cluster.user.list(NODES)).items]
    for name in names:
        await cluster.patch(NODES, name, CORDONED, "")
    await asyncio.sleep(5)
    for name in names:
        await cluster.patch(NODES, name, {"spec": {"unschedulable": None}}, "")
    await cluster.deployment(replicas=1, containers=[container("500")])
    (pod,) = await cluster.pods()
    explanation = await cluster.why("pods", pod)
    assert roots(explanation) == [f"deployment/web was created, by {ADMIN}"], text(explanation)
    assert "3 nodes: Insufficient cpu (requests 500, at most 32 available)" in text(explanation)


async def test_node_cordoned_after_the_scheduling_attempt(cluster: Cluster) -> None:
    """The scheduler does not try the pod again, and its message counts the node as one without room."""
    await cluster.deployment("huge", replicas=1, containers=[container("500")])
    (huge,) = await cluster.pods()
    name = (await cluster.user.list(NODES)).items[0].metadata.name
    await cluster.patch(NODES, name, CORDONED, "")
    await asyncio.sleep(5)
    result = text(await cluster.why("pods", huge))
    assert f"1 node: cordoned, and Insufficient cpu ({name})" in result
    assert "2 nodes: Insufficient cpu (requests 500, at most 32 available)" in result
    assert "3 nodes: " not in result


async def test_cordon_of_a_full_node_is_no_cause(cluster: Cluster) -> None:
    """Uncordoning would change nothing, so it is no cause. Of a node with room it is."""
    names = [node.metadata.name for node in (await cluster.user.list(NODES)).items]
    await cluster.patch(NODES, names[0], CORDONED, "")
    await cluster.deployment("huge", replicas=1, containers=[container("500")])
    (huge,) = await cluster.pods()
    explanation = await cluster.why("pods", huge)
    assert roots(explanation) == [f"deployment/huge was created, by {ADMIN}"], text(explanation)
    assert f"1 node: cordoned, and Insufficient cpu ({names[0]})" in text(explanation)
    assert "2 nodes: Insufficient cpu (requests 500, at most 32 available)" in text(explanation)
    await cluster.deployment("large", replicas=3, containers=[container("20")])
    (waiting,) = [
        pod.metadata.name
        for pod in (await cluster.user.list(PODS, NAMESPACE)).items
        if pod.metadata.name.startswith("large") and not pod.spec.node_name
    ]
    explanation = await cluster.why("pods", waiting)
    assert f"node/{names[0]} changed: spec.unschedulable added (true), by {ADMIN}" in roots(explanation), text(
        explanation
    )


def container(cpu: str) -> dict[str, Any]:
    return {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}


@pytest.mark.parametrize("limit", [1, 40])
async def test_steps_do_not_grow_with_the_number_of_pods(cluster: Cluster, limit: int) -> None:
    """The explanation of a Deployment does not grow with its pods."""
    await cluster.deployment(replicas=limit, image="nginx:404")
    explanation = await cluster.why("deployments.apps", "web")
    assert len(text_lines(explanation)) < 20
    assert ("and 39 more pods alike" in text(explanation)) is (limit == 40)


async def test_pods_of_a_deleted_node(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1)
    (name,) = await cluster.pods()
    node = (await cluster.user.get(PODS, name, NAMESPACE)).spec.node_name
    await cluster.patch(NODES, node, {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "gone"}}}, "")
    await asyncio.sleep(120)
    explanation = await cluster.why("pods", name)
    chain = text(explanation)
    assert explanation.state == "deleted"
    assert [(root.root, root.object) for root in explanation.roots()] == [("user", f"node/{node}")], chain
    assert f"node/{node} was deleted, by kubelet" in chain
    assert "by pod-garbage-collector-controller" in chain


async def test_job_deleted_after_its_ttl(cluster: Cluster) -> None:
    container = {"name": "app", "image": "busybox", "command": ["true"]}
    spec = {"ttlSecondsAfterFinished": 20, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    await cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": spec})
    await asyncio.sleep(5)
    (name,) = await cluster.pods()
    await asyncio.sleep(60)
    explanation = await cluster.why("pods", name)
    assert links(explanation)[:2] == [f"pod/{name}", "job/once"], text(explanation)
    assert "by ttl-after-finished-controller" in text(explanation)
    assert len(explanation.roots()) == 1, text(explanation)
