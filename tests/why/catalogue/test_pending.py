"""Pods that can't be scheduled, and pods whose creation is rejected."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.scenario import ADMIN, Doc, Scenario, quick_pod
from tests.workloads import workload

CREATED = f"< replicaset/web-* by deployment-controller < deployment/web by {ADMIN} apply* [user]"


def pending(scenario: Scenario, **spec: Any) -> str:
    """A Deployment with a pod that is not scheduled, and has a reason."""
    scenario.apply(workload("Deployment", "web", pod=quick_pod(**spec), replicas=1))
    scenario.until(lambda: any(reason_of(pod) for pod in scenario.objects("pods")), "it is not scheduled")
    (name,) = scenario.pods()
    return name


def reason_of(pod: Doc) -> str:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((condition.get("reason", "") for condition in conditions if condition["type"] == "PodScheduled"), "")


def wants(cpu: str) -> list[Doc]:
    return [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]


def test_no_room(scenario: Scenario) -> None:
    _, scheduling = scenario.nodes(2)
    scenario.deployment("other", containers=wants("2"), replicas=1, **scheduling)
    scenario.apply(workload("Deployment", "web", pod=quick_pod(containers=wants("5"), **scheduling), replicas=1))
    name = scenario.until_some("pods", lambda pod: reason_of(pod) == "Unschedulable", "it is not scheduled")
    result = scenario.why_by_command(f"pod/{name}")
    assert_explains(result, "pending", f"pod/{name} < pod/{name} by replicaset-controller {CREATED}")
    assert "2 nodes: Insufficient cpu (requests 5, at most 4 available)" in whole_text(result)


def test_tainted_and_cordoned(scenario: Scenario) -> None:
    """Two causes, each of which has its own root."""
    (first, second), scheduling = scenario.nodes(2)
    scenario("taint", "node", first, "dedicated=gpu:NoSchedule")
    scenario("cordon", second)
    name = pending(scenario, **scheduling)
    explanation = scenario.why(f"pod/{name}")
    assert_explains(
        explanation,
        "pending",
        f"pod/{name} < node/{first} by {ADMIN} taint* [user]",
        f"pod/{name} < node/{second} by {ADMIN} *cordon* [user]",
    )
    assert f"taint dedicated=gpu:NoSchedule ({first})" in whole_text(explanation)
    assert f"cordoned ({second})" in whole_text(explanation)


def test_tainted_once(scenario: Scenario) -> None:
    """A taint that was removed is no cause."""
    (first, second), scheduling = scenario.nodes(2)
    scenario("taint", "node", first, "dedicated=gpu:NoSchedule")
    scenario("taint", "node", first, "dedicated-")
    scenario("cordon", first)
    scenario("cordon", second)
    name = pending(scenario, **scheduling)
    assert_explains(
        scenario.why(f"pod/{name}"),
        "pending",
        f"pod/{name} < node/* by {ADMIN} *cordon* [user]",
    )


def test_selects_no_node(scenario: Scenario) -> None:
    name = pending(scenario, nodeSelector={"disk": "fast"})
    explanation = scenario.why(f"pod/{name}")
    assert_explains(explanation, "pending", f"pod/{name} < pod/{name} by replicaset-controller {CREATED}")
    assert "don't have what the pod selects: disk=fast" in whole_text(explanation)


def test_scheduling_gates(scenario: Scenario) -> None:
    name = pending(scenario, schedulingGates=[{"name": "example.com/approved"}])
    explanation = scenario.why(f"pod/{name}")
    assert_explains(explanation, "pending", f"pod/{name} < pod/{name} by replicaset-controller {CREATED}")
    assert "waits until its scheduling gates are removed: example.com/approved" in whole_text(explanation)


def test_another_scheduler(scenario: Scenario) -> None:
    scenario.apply(workload("Deployment", "web", pod=quick_pod(schedulerName="mine"), replicas=1))
    scenario.until(scenario.pods, "the pod is there")
    (name,) = scenario.pods()
    explanation = scenario.why(f"pod/{name}")
    assert_explains(explanation, "pending", f"pod/{name} < pod/{name} by replicaset-controller {CREATED}")
    assert "waits for the scheduler mine" in whole_text(explanation)


def test_a_resource_claim_does_not_exist(scenario: Scenario) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "gpus"}]
    scenario.apply(workload("Deployment", "web", pod=quick_pod(resourceClaims=claims), replicas=1))
    scenario.until(scenario.pods, "the pod is there")
    (name,) = scenario.pods()
    explanation = scenario.why(f"pod/{name}")
    assert_explains(explanation, "pending", f"pod/{name} < pod/{name} by replicaset-controller {CREATED}")
    assert "waits for resource claims that do not exist: gpus" in whole_text(explanation)


def test_a_quota_is_used_up(scenario: Scenario) -> None:
    scenario("create", "quota", "small", "--hard=pods=1")
    scenario.apply(workload("Deployment", "web", pod=quick_pod(), replicas=2))
    scenario.until(lambda: "ReplicaFailure" in str(scenario.objects("replicasets")), "the second pod is rejected")
    scenario.until_ready(1)
    (owner,) = scenario.objects("replicasets")
    explanation = scenario.why(f"rs/{owner['metadata']['name']}")
    rejected_owner = "replicaset/web-*"
    assert_explains(
        explanation,
        "not ready",
        f"{rejected_owner} < {rejected_owner} < resourcequota/small by {ADMIN} create* [user]",
        f"{rejected_owner} < {rejected_owner} by deployment-controller < deployment/web by {ADMIN} apply* [user]",
    )
    assert "exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1" in whole_text(explanation)
    assert_explains(
        scenario.why("deployment/web"),
        "rolling out",
        f"deployment/web < {rejected_owner} < resourcequota/small by {ADMIN} create* [user]",
        f"deployment/web < deployment/web by {ADMIN} apply* [user]",
    )


def test_a_webhook_rejects(scenario: Scenario) -> None:
    name = f"{scenario.namespace}.example.com"
    scenario.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": name,
                    "clientConfig": {"url": "https://127.0.0.1:9/reject"},
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scenario.namespace}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 1,
                }
            ],
        },
        workload("Deployment", "web", pod=quick_pod(), replicas=1),
    )
    scenario.until(lambda: "ReplicaFailure" in str(scenario.objects("replicasets")), "the pod is rejected")
    explanation = scenario.why("deployment/web")
    assert_explains(
        explanation,
        "rolling out",
        f"deployment/web < replicaset/web-* < validatingwebhookconfiguration/{name} by {ADMIN} apply* [user]",
        f"deployment/web < deployment/web by {ADMIN} apply* [user]",
    )


def test_a_policy_rejects(scenario: Scenario) -> None:
    name = f"{scenario.namespace}.example.com"
    group = "admissionregistration.k8s.io"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    scenario.apply(
        {
            "apiVersion": f"{group}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "no pods today"}],
            },
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": scenario.namespace}}
                },
            },
        },
    )
    scenario.until(lambda: "no pods today" in try_pod(scenario), "the policy is in force")
    scenario.apply(workload("StatefulSet", "web", pod=quick_pod(), serviceName="web", replicas=1))
    scenario.until(lambda: "FailedCreate" in scenario("get", "events"), "the pod is rejected")
    explanation = scenario.why("statefulset/web")
    assert_explains(
        explanation,
        "not ready",
        f"statefulset/web < statefulset/web < validatingadmissionpolicy/{name} by {ADMIN} apply* [user]",
        f"statefulset/web < statefulset/web < validatingadmissionpolicybinding/{name} by {ADMIN} apply* [user]",
        f"statefulset/web < statefulset/web by {ADMIN} apply* [user]",
    )
    assert "no pods today" in whole_text(explanation)


def try_pod(scenario: Scenario) -> str:
    try:
        scenario("run", "probe", "--image=pause", "--dry-run=server")
    except AssertionError as error:
        return str(error)
    return ""


def test_pod_security_rejects(scenario: Scenario) -> None:
    scenario("label", "namespace", scenario.namespace, "pod-security.kubernetes.io/enforce=restricted")
    scenario.apply(workload("DaemonSet", "web", pod=quick_pod()))
    scenario.until(lambda: "FailedCreate" in scenario("get", "events"), "the pods are rejected")
    assert_explains(
        scenario.why("daemonset/web"),
        "not ready",
        f"daemonset/web < daemonset/web < namespace/{scenario.namespace} by {ADMIN} label* [user]",
        f"daemonset/web < daemonset/web by {ADMIN} apply* [user]",
    )
