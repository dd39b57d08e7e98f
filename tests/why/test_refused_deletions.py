"""Workloads with too many pods, since the deletion of pods is refused."""

import asyncio
from typing import Any

from tests.why.cluster import NAMESPACE, Cluster, deployment, roots, text

from pilothouse.api.admissionregistration import VALIDATING_WEBHOOK_CONFIGURATIONS
from pilothouse.api.apps import DAEMON_SETS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from pilothouse.api.batch import JOBS
from pilothouse.api.core import PODS, REPLICATION_CONTROLLERS
from pilothouse.why import AS_DESIRED, Explanation

_HOOK_CREATED = "validatingwebhookconfiguration/pods was created, by kubernetes-admin with pilothouse-testing"


async def refuse_deletions(cluster: Cluster) -> None:
    """A webhook that cannot be reached is asked about deletions of pods."""
    hook = {
        "name": "pods.example.com",
        "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}],
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


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A workload of three pods by default, with the same template as ``deployment``."""
    manifest = deployment(name, replicas=3)
    body = {**manifest["spec"], **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def assert_names_webhook(explanation: Explanation) -> None:
    assert 'can\'t delete pods: Internal error occurred: failed calling webhook "pods.example.com"' in text(explanation)
    assert "can't create" not in text(explanation)
    assert "can't delete pods" in explanation.root_causes[0].text, text(explanation)
    assert _HOOK_CREATED in roots(explanation), text(explanation)


async def test_deployment_that_cannot_be_scaled_down(cluster: Cluster) -> None:
    await cluster.deployment(replicas=3)
    await refuse_deletions(cluster)
    await cluster.scale("web", 1)
    explanation = await cluster.why("deployments.apps", "web")
    assert explanation.state == "too many pods", text(explanation)
    assert explanation.steps[0].text == "deployment/web should have 1 pod, has 3"
    assert_names_webhook(explanation)
    (replica_set,) = (await cluster.user.list(REPLICA_SETS, NAMESPACE)).items
    of_set = await cluster.why("replicasets.apps", replica_set.metadata.name)
    assert of_set.state == "too many pods", text(of_set)
    assert of_set.steps[0].text.endswith(" should have 1 pod, has 3")
    assert_names_webhook(of_set)


async def test_it_is_as_desired_when_deletions_are_allowed_again(cluster: Cluster) -> None:
    await cluster.deployment(replicas=3)
    await refuse_deletions(cluster)
    await cluster.scale("web", 1)
    await cluster.user.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, "pods")
    await asyncio.sleep(120)
    assert (await cluster.why("deployments.apps", "web")).state == AS_DESIRED


async def test_pods_that_end_are_not_too_many(cluster: Cluster) -> None:
    """Neither of a Deployment nor of its ReplicaSet, whose pods stop after 20 of their 30 seconds of grace."""
    await cluster.deployment(replicas=3)
    for name in await cluster.pods():
        await cluster.patch(PODS, name, {"metadata": {"annotations": {"simulated.pilothouse.dev/stop-delay": "20s"}}})
    await cluster.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    await asyncio.sleep(5)
    assert len(await cluster.pods()) == 3
    assert (await cluster.why("deployments.apps", "web")).state == AS_DESIRED
    (replica_set,) = (await cluster.user.list(REPLICA_SETS, NAMESPACE)).items
    assert (await cluster.why("replicasets.apps", replica_set.metadata.name)).state == AS_DESIRED


async def test_rollout_whose_earlier_pods_cannot_be_deleted(cluster: Cluster) -> None:
    """A refused deletion is no failure to create pods, either."""
    await cluster.deployment(replicas=3)
    await refuse_deletions(cluster)
    changed = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await cluster.patch(DEPLOYMENTS, "web", changed)
    await asyncio.sleep(30)
    explanation = await cluster.why("deployments.apps", "web")
    assert explanation.state == "rolling out", text(explanation)
    assert_names_webhook(explanation)


async def test_replication_controller_that_cannot_be_scaled_down(cluster: Cluster) -> None:
    spec = {"selector": {"app": "old"}, "replicas": 3}
    await cluster.create({**workload("ReplicationController", "old", **spec), "apiVersion": "v1"})
    await asyncio.sleep(10)
    await refuse_deletions(cluster)
    await cluster.patch(REPLICATION_CONTROLLERS, "old", {"spec": {"replicas": 1}})
    await asyncio.sleep(10)
    explanation = await cluster.why("replicationcontrollers", "old")
    assert explanation.state == "too many pods", text(explanation)
    assert_names_webhook(explanation)


async def test_stateful_set_that_cannot_be_scaled_down(cluster: Cluster) -> None:
    await cluster.create(workload("StatefulSet", "db", serviceName="db"))
    await asyncio.sleep(30)
    await refuse_deletions(cluster)
    await cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    await asyncio.sleep(10)
    explanation = await cluster.why("statefulsets.apps", "db")
    assert explanation.state == "too many pods", text(explanation)
    assert explanation.steps[0].text == "statefulset/db should have 1 pod, has 3"
    assert_names_webhook(explanation)


async def test_stateful_set_whose_last_pods_end(cluster: Cluster) -> None:
    await cluster.create(workload("StatefulSet", "db", serviceName="db"))
    await asyncio.sleep(30)
    for name in await cluster.pods():
        await cluster.patch(PODS, name, {"metadata": {"annotations": {"simulated.pilothouse.dev/stop-delay": "20s"}}})
    await cluster.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 2}})
    await asyncio.sleep(5)
    assert len(await cluster.pods()) == 3
    assert (await cluster.why("statefulsets.apps", "db")).state != "too many pods"


async def test_stateful_set_whose_pods_cannot_be_replaced(cluster: Cluster) -> None:
    await cluster.create(workload("StatefulSet", "db", serviceName="db"))
    await asyncio.sleep(30)
    await refuse_deletions(cluster)
    changed = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    await cluster.patch(STATEFUL_SETS, "db", changed)
    await asyncio.sleep(10)
    explanation = await cluster.why("statefulsets.apps", "db")
    assert explanation.state == "rolling out", text(explanation)
    assert_names_webhook(explanation)


async def test_daemon_set_whose_pods_cannot_be_deleted(cluster: Cluster) -> None:
    manifest = workload("DaemonSet", "agent")
    del manifest["spec"]["replicas"]
    await cluster.create(manifest)
    await asyncio.sleep(10)
    await refuse_deletions(cluster)
    selector = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}
    await cluster.patch(DAEMON_SETS, "agent", selector)
    await asyncio.sleep(10)
    explanation = await cluster.why("daemonsets.apps", "agent")
    assert explanation.state == "too many pods", text(explanation)
    assert "3 pods are on nodes that should have none" in text(explanation)
    assert_names_webhook(explanation)


async def test_daemon_set_with_a_rollout_whose_pods_cannot_be_deleted(cluster: Cluster) -> None:
    manifest = workload("DaemonSet", "agent")
    del manifest["spec"]["replicas"]
    await cluster.create(manifest)
    await asyncio.sleep(10)
    await refuse_deletions(cluster)
    await cluster.patch(DAEMON_SETS, "agent", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    await asyncio.sleep(10)
    explanation = await cluster.why("daemonsets.apps", "agent")
    assert explanation.state == "not ready", text(explanation)
    assert_names_webhook(explanation)


def job(name: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "app", "image": "nginx"}]}
    annotations = {"simulated.pilothouse.dev/run-time": "forever"}
    spec = {"parallelism": 3, "template": {"metadata": {"annotations": annotations}, "spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def test_job_whose_parallelism_cannot_be_lowered(cluster: Cluster) -> None:
    await cluster.create(job("work"))
    await asyncio.sleep(10)
    await refuse_deletions(cluster)
    await cluster.patch(JOBS, "work", {"spec": {"parallelism": 1}})
    await asyncio.sleep(10)
    explanation = await cluster.why("jobs.batch", "work")
    assert explanation.state == "too many pods", text(explanation)
    assert explanation.steps[0].text == "job/work should have 1 pod at a time, has 3"
    assert_names_webhook(explanation)


async def test_suspended_job_whose_pods_cannot_be_deleted(cluster: Cluster) -> None:
    await cluster.create(job("work"))
    await asyncio.sleep(10)
    await refuse_deletions(cluster)
    await cluster.patch(JOBS, "work", {"spec": {"suspend": True}})
    await asyncio.sleep(10)
    explanation = await cluster.why("jobs.batch", "work")
    assert explanation.state == "too many pods", text(explanation)
    assert explanation.steps[0].text == "job/work is suspended and should have no pods, has 3"
    assert_names_webhook(explanation)
