"""The right cause is found, and unrelated changes are not."""

import asyncio
from typing import Any

import pytest
from tests.why.cluster import NAMESPACE, Cluster, roots, text, texts

from pilothouse.api.apps import DEPLOYMENTS, STATEFUL_SETS
from pilothouse.api.batch import CRON_JOBS
from pilothouse.api.core import NODES, PODS, SERVICES

ADMIN = "kubernetes-admin with pilothouse-testing"


def container(cpu: str = "100m", **fields: Any) -> dict[str, Any]:
    return {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": cpu}}, **fields}


def job_template(**pod: Any) -> dict[str, Any]:
    annotations = {"simulated.pilothouse.dev/run-time": "forever"}
    return {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", **pod}}


def job(name: str, cpu: str = "100m", **pod: Any) -> dict[str, Any]:
    template = job_template(containers=[container(cpu)], **pod)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


def cron_job(**pod: Any) -> dict[str, Any]:
    spec = {"template": job_template(containers=[container()], **pod)}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "payout"},
        "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": spec}},
    }


async def test_job_pod_selecting_a_removed_node_label(cluster: Cluster) -> None:
    name = (await cluster.user.list(NODES)).items[0].metadata.name
    await cluster.patch(NODES, name, {"metadata": {"labels": {"pool": "trusted"}}}, "")
    await cluster.create(cron_job(nodeSelector={"pool": "trusted"}))
    await cluster.patch(NODES, name, {"metadata": {"labels": {"pool": "general"}}}, "")
    await cluster.patch(CRON_JOBS, "payout", {"spec": {"successfulJobsHistoryLimit": 5}})
    await asyncio.sleep(200)
    lost = f'node/{name} changed: metadata.labels.pool: "trusted" -> "general", by {ADMIN}'
    explanation = await cluster.why("cronjobs.batch", "payout")
    assert roots(explanation) == [lost], text(explanation)
    assert "has missed 2 times since " in text(explanation) or "has missed 3 times since " in text(explanation)
    (pod,) = (await cluster.user.list(PODS, NAMESPACE)).items
    (owner,) = pod.metadata.owner_references
    explanation = await cluster.why("jobs.batch", owner.name)
    assert (explanation.state, roots(explanation)) == ("not running", [lost]), text(explanation)
    assert roots(await cluster.why("pods", pod.metadata.name)) == [lost]


async def test_selected_node_was_deleted(cluster: Cluster) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "trusted", "labels": {"pool": "trusted"}}}
    await cluster.create(node)
    await cluster.deployment(replicas=1, nodeSelector={"pool": "trusted"})
    await cluster.plane.delete("v1", "Node", "trusted")
    await asyncio.sleep(90)
    (pod,) = await cluster.pods()
    explanation = await cluster.why("pods", pod)
    assert roots(explanation) == [f"node/trusted was deleted, by {ADMIN}"], text(explanation)


async def test_template_selecting_a_removed_node_label(cluster: Cluster) -> None:
    """The template was changed after the label was removed, so it is the cause."""
    name = (await cluster.user.list(NODES)).items[0].metadata.name
    await cluster.patch(NODES, name, {"metadata": {"labels": {"pool": "trusted"}}}, "")
    await cluster.patch(NODES, name, {"metadata": {"labels": {"pool": None}}}, "")
    await cluster.deployment(replicas=1)
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "trusted"}}}}}
    await cluster.patch(DEPLOYMENTS, "web", selector)
    await asyncio.sleep(10)
    result = roots(await cluster.why("deployments.apps", "web"))
    assert any(item.startswith("deployment/web changed: spec.template.spec.nodeSelector") for item in result), result


async def test_a_pod_of_a_retried_job_that_is_not_scheduled(cluster: Cluster) -> None:
    template = {"metadata": {"annotations": {"simulated.pilothouse.dev/exit-code": "3"}}}
    spec = {"restartPolicy": "Never", "containers": [container()]}
    body = {"template": {**template, "spec": spec}}
    await cluster.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "import"}, "spec": body})
    await asyncio.sleep(5)
    explanation = await cluster.why("jobs.batch", "import")
    assert (explanation.state, len(explanation.steps[0].because)) == ("retrying", 1)
    for node in (await cluster.user.list(NODES)).items:
        await cluster.patch(NODES, node.metadata.name, {"spec": {"unschedulable": True}}, "")
    await asyncio.sleep(30)
    explanation = await cluster.why("jobs.batch", "import")
    held, failed = explanation.steps[0].because
    assert held.text.endswith(" fits none of 3 nodes")
    assert " failed: container app exited with 3" in failed.text


async def test_labels_that_a_binding_copies_select_no_pod(cluster: Cluster) -> None:
    for node in (await cluster.user.list(NODES)).items:
        zone = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}
        await cluster.patch(NODES, node.metadata.name, zone, "")
    await cluster.deployment(replicas=1)
    (name,) = await cluster.pods()
    assert (await cluster.user.get(PODS, name, NAMESPACE)).metadata.labels["topology.kubernetes.io/zone"] == "z"
    await cluster.plane.delete("v1", "Pod", name)
    await asyncio.sleep(40)
    assert "its labels had been changed" not in text(await cluster.why("pods", name))


async def test_history_limit_is_no_cause_of_a_job(cluster: Cluster) -> None:
    await cluster.create(cron_job())
    await cluster.patch(CRON_JOBS, "payout", {"spec": {"successfulJobsHistoryLimit": 5}})
    await asyncio.sleep(70)
    (pod,) = await cluster.pods()
    assert roots(await cluster.why("pods", pod)) == [f"cronjob/payout was created, by {ADMIN}"]


async def test_workload_label_is_no_cause(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1, containers=[container("500")])
    await cluster.patch(DEPLOYMENTS, "web", {"metadata": {"labels": {"owner": "discovery"}}})
    explanation = await cluster.why("deployments.apps", "web")
    assert roots(explanation) == [f"deployment/web was created, by {ADMIN}"], text(explanation)


async def test_creation_is_no_cause_once_the_statefulset_was_ready(cluster: Cluster) -> None:
    tolerations = [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    ]
    pod = {"containers": [container()], "tolerations": tolerations}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": pod},
    }
    await cluster.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    await asyncio.sleep(20)
    node = (await cluster.user.get(PODS, "db-0", NAMESPACE)).spec.node_name
    silent = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}
    await cluster.patch(NODES, node, silent, "")
    await asyncio.sleep(120)
    await cluster.patch(STATEFUL_SETS, "db", {"metadata": {"labels": {"stage": "ga"}}})
    explanation = await cluster.why("statefulsets.apps", "db")
    assert [root.object for root in explanation.roots()] == [f"node/{node}"], text(explanation)
    assert "db-0 has to be ready before the pod after it" in text(explanation)


@pytest.mark.parametrize("lowest", [0, 7])
async def test_pod_of_a_statefulset_is_replaced_while_it_is_scaled_up(cluster: Cluster, lowest: int) -> None:
    """The scaling, which is not complete, is the cause of the new ordinals alone."""
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container("100m")]}}
    spec: dict[str, Any] = {"replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "template": template}
    spec["ordinals"] = {"start": lowest}
    await cluster.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    await asyncio.sleep(30)
    replaced, added = f"db-{lowest + 1}", f"db-{lowest + 2}"
    await cluster.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}
    )
    await asyncio.sleep(10)
    await cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 5}})
    await asyncio.sleep(60)
    await cluster.user.delete(PODS, replaced, NAMESPACE)
    await asyncio.sleep(10)
    assert roots(await cluster.why("pods", replaced)) == [
        f"pod/{replaced} was marked for deletion with 30 seconds of grace, by {ADMIN}"
    ]
    assert roots(await cluster.why("pods", added)) == [f"statefulset/db changed: spec.replicas: 2 -> 5, by {ADMIN}"]


async def test_a_statefulset_with_one_pod_of_the_new_revision(cluster: Cluster) -> None:
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container()]}},
    }
    await cluster.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec})
    await asyncio.sleep(20)
    image = {"spec": {"template": {"spec": {"containers": [container(image="postgres:404")]}}}}
    await cluster.patch(STATEFUL_SETS, "db", image)
    await asyncio.sleep(20)
    shown = text(await cluster.why("statefulsets.apps", "db"))
    assert "  1 pod is of revision db-" in shown, shown


async def test_similar_pods_with_different_causes(cluster: Cluster) -> None:
    """Pods of a new template that are too large, and the replacement of a deleted pod, which no longer fits."""
    await cluster.deployment(replicas=2, containers=[container("20")])
    before = await cluster.pods()
    name = (await cluster.user.get(PODS, before[0], NAMESPACE)).spec.node_name
    for node in (await cluster.user.list(NODES)).items:
        if node.metadata.name != name:
            await cluster.patch(NODES, node.metadata.name, {"spec": {"unschedulable": True}}, "")
    image = {"spec": {"template": {"spec": {"containers": [container("20", image="nginx:2")]}}}}
    await cluster.patch(DEPLOYMENTS, "web", image)
    await asyncio.sleep(5)
    await cluster.user.delete(PODS, before[1], NAMESPACE)
    await asyncio.sleep(60)
    explanation = await cluster.why("deployments.apps", "web")
    root_causes = roots(explanation)
    assert any(f"pod/{before[1]} was marked for deletion" in item for item in root_causes), text(explanation)
    assert any(".image:" in item for item in root_causes), text(explanation)


def _service(**spec: Any) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": "http"}]
    spec = {"selector": {"app": "web"}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


async def test_named_port_removed_from_the_template(cluster: Cluster) -> None:
    """A reverted selector is no cause."""
    port = {"name": "http", "containerPort": 8080}
    await cluster.deployment(replicas=1, containers=[container(ports=[port])])
    await cluster.create(_service())
    await asyncio.sleep(60)
    for track in ("stable", None):
        await cluster.patch(SERVICES, "web", {"spec": {"selector": {"track": track}}})
        await asyncio.sleep(5)
    assert (await cluster.why("services", "web")).state == "as desired"
    ports = {"spec": {"template": {"spec": {"containers": [container(ports=[{**port, "name": "api"}])]}}}}
    await cluster.patch(DEPLOYMENTS, "web", ports)
    await asyncio.sleep(60)
    explanation = await cluster.why("services", "web")
    (root,) = roots(explanation)
    assert explanation.state == "no endpoints"
    assert root.startswith("deployment/web changed: "), text(explanation)
    assert "ports[name=http] removed" in root
    assert explanation.steps[0].table == [f"pod {(await cluster.pods())[0]} has the ports api (8080)"]
    (name,) = [
        document["metadata"]["name"]
        for document in await cluster.documents("endpointslices.discovery.k8s.io", NAMESPACE)
    ]
    for resource, of in (("endpointslices.discovery.k8s.io", name), ("endpoints", "web")):
        explanation = await cluster.why(resource, of)
        assert (explanation.state, roots(explanation)) == ("no endpoints", [root]), text(explanation)


async def test_quota_used_up_by_other_workloads(cluster: Cluster) -> None:
    """The quota sufficed two minutes before: the cause is the workload created since."""
    hard = {"requests.cpu": "1"}
    await cluster.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    )
    await cluster.create(job("recalc", "200m"))
    await asyncio.sleep(5)
    await cluster.deployment(replicas=2, containers=[container("200m")])
    await asyncio.sleep(30)
    await cluster.create(job("verify", "400m"))
    await asyncio.sleep(30)
    image = {"spec": {"template": {"spec": {"containers": [container("200m", image="nginx:2")]}}}}
    await cluster.patch(DEPLOYMENTS, "web", image)
    await asyncio.sleep(30)
    explanation = await cluster.why("deployments.apps", "web")
    verify, changed = roots(explanation)
    assert verify == f"job/verify was created, by {ADMIN}", text(explanation)
    assert changed.startswith("deployment/web changed: spec.template.spec.containers[name=app].image: "), text(
        explanation
    )
    (full,) = explanation.steps[0].because[0].because
    assert full.text == "resourcequota/q is used up: 1 of 1 requests.cpu used, 200m more requested"
    assert [item.partition(": ")[0] for item in full.table] == ["job/verify", "deployment/web", "job/recalc"]
    assert texts(full.because)[0].startswith("pod/verify-")
