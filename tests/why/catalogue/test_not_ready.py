"""Pods that do not start, crash, or are not ready, and what depends on them."""

import json

from tests.why.catalogue.expectations import assert_explains, root_texts, whole_text
from tests.why.catalogue.scenario import ADMIN, Doc, Scenario, is_ready, quick_pod
from tests.workloads import workload

SET = f"< replicaset/web-* by deployment-controller < deployment/web by {ADMIN} set* [user]"
SIMULATED = "simulated.pilothouse.dev"


def waiting_reason(pod: Doc) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return " ".join(status["state"].get("waiting", {}).get("reason", "") for status in statuses)


def is_processed(document: Doc) -> bool:
    return bool(document["status"].get("observedGeneration") == document["metadata"]["generation"])


def test_the_image_is_not_there(scenario: Scenario) -> None:
    """A rollout that stops at its first pod: the pod and the Deployment have the same root."""
    (old,) = scenario.deployment(replicas=1)
    scenario("set", "image", "deployment/web", "main=nginx:404")
    scenario.until(lambda: any("Pull" in waiting_reason(pod) for pod in scenario.objects("pods")), "the pull fails")
    (new,) = set(scenario.pods()) - {old}
    step = f"pod/{new} < pod/{new} by replicaset-controller {SET}"
    explanation = scenario.why(f"pod/{new}")
    assert_explains(explanation, "not started", step)
    assert "the image nginx:404 of container main can't be pulled" in whole_text(explanation)
    rollout = scenario.why("deployment/web")
    assert_explains(rollout, "rolling out", f"deployment/web < {step}")
    bounds = "maxSurge 25% (0.25, rounded up to 1), maxUnavailable 25% (0.25, rounded down to 0): at most 2 pods"
    assert f"{bounds}, at least 1 available" in whole_text(rollout)


def test_the_deadline_of_a_rollout(scenario: Scenario) -> None:
    document = workload("Deployment", "web", pod=quick_pod(), replicas=1, progressDeadlineSeconds=1)
    scenario.apply(document)
    (_old,) = scenario.until_ready(1)
    # The first rollout can exceed the deadline, too, and the second before its pod exists: that is progress again.
    scenario.until(
        lambda: "NewReplicaSetAvailable" in str(scenario.get("deployments", "web")), "the first rollout is complete"
    )
    scenario("set", "image", "deployment/web", "main=nginx:404")

    def is_over() -> bool:
        status = (scenario.get("deployments", "web") or {}).get("status", {})
        return "ProgressDeadlineExceeded" in str(status) and status.get("updatedReplicas") == 1

    scenario.until(is_over, "the deadline is over")
    result = scenario.why_by_command("deployment/web")
    assert_explains(result, "not progressing", f"deployment/web < pod/* < pod/* by replicaset-controller {SET}")
    assert "progressDeadlineSeconds 1" in whole_text(result)


def test_paused(scenario: Scenario) -> None:
    scenario.deployment(replicas=1)
    scenario("rollout", "pause", "deployment/web")
    scenario("set", "image", "deployment/web", "main=nginx:2")
    scenario.until(lambda: is_processed(scenario.get("deployments", "web") or {}), "the controller has seen it")
    explanation = scenario.why("deployment/web")
    assert_explains(explanation, "paused", f"deployment/web by {ADMIN} rollout* [user]")


def test_a_program_that_exits(scenario: Scenario) -> None:
    """The previous rollout, which succeeded, is not mentioned."""
    scenario.deployment(replicas=1)
    scenario("set", "env", "deployment/web", "MODE=good")
    scenario("rollout", "status", "deployment/web")
    scenario.until_ready(1)
    command = [{"op": "add", "path": "/spec/template/spec/containers/0/command", "value": ["sh", "-c", "exit 3"]}]
    scenario("patch", "deployment", "web", "--type=json", "-p", json.dumps(command))
    name = scenario.until_some("pods", lambda pod: "CrashLoop" in waiting_reason(pod), "it crashes")
    explanation = scenario.why(f"pod/{name}")
    assert_explains(
        explanation,
        "not ready",
        f"""pod/{name} < pod/{name} by replicaset-controller < replicaset/web-* by deployment-controller
            < deployment/web by {ADMIN} patch* [user]""",
    )
    assert "containers[name=main].command added" in root_texts(explanation)[0]
    assert "exited with 3 (Error)" in whole_text(explanation)


def test_a_readiness_probe_that_fails_later(scenario: Scenario) -> None:
    (name,) = scenario.deployment(replicas=1)
    scenario("annotate", "pod", name, f"{SIMULATED}/readiness-probe=fail")
    scenario.until(lambda: not is_ready(scenario.get("pods", name) or {}), "it is not ready")
    explanation = scenario.why(f"pod/{name}")
    assert_explains(explanation, "not ready", f"pod/{name} < pod/{name} by {ADMIN} annotate* [user]")
    assert "the readiness probe of container main fails" in whole_text(explanation)
    scenario.until(
        lambda: (scenario.get("deployments", "web") or {})["status"].get("unavailableReplicas"), "web has seen it"
    )
    deployment = scenario.why("deployment/web")  # its rollout was complete before: it is not among the reasons
    assert_explains(deployment, "rolling out", f"deployment/web < pod/{name} < pod/{name} by {ADMIN} annotate* [user]")


def test_a_readiness_gate(scenario: Scenario) -> None:
    pod = quick_pod(readinessGates=[{"conditionType": "example.com/in"}])
    scenario.apply(workload("Deployment", "web", pod=pod, replicas=1))
    name = scenario.until_some("pods", lambda pod: pod["status"]["phase"] == "Running", "it runs")
    explanation = scenario.why(f"pod/{name}")
    assert_explains(explanation, "not ready", f"pod/{name} [state]")
    assert "example.com/in is not set" in whole_text(explanation)


def test_a_statefulset_waits_for_its_first_pod(scenario: Scenario) -> None:
    pod = quick_pod(image="nginx:404")
    scenario.apply(workload("StatefulSet", "db", pod=pod, serviceName="db", replicas=3))
    scenario.until(lambda: any("Pull" in waiting_reason(obj) for obj in scenario.objects("pods")), "the pull fails")
    explanation = scenario.why("statefulset/db")
    assert_explains(
        explanation,
        "not ready",
        f"statefulset/db < pod/db-0 < pod/db-0 by statefulset-controller < statefulset/db by {ADMIN} apply* [user]",
    )
    assert "db-0 has to be ready before the 2 pods after it" in whole_text(explanation)


def test_daemonset_excludes_nodes(scenario: Scenario) -> None:
    (first, _second), scheduling = scenario.nodes(2)
    scenario("taint", "node", first, "dedicated=gpu:NoSchedule")
    scenario.apply(workload("DaemonSet", "agent", pod=quick_pod(**scheduling)))
    scenario.until_ready(1)
    scenario.until(
        lambda: (scenario.get("ds", "agent") or {}).get("status", {}).get("numberReady") == 1, "it is reported"
    )
    explanation = scenario.why("daemonset/agent")
    assert_explains(explanation, "as desired", f"daemonset/agent < node/{first} by {ADMIN} taint* [user]")
    assert f"left out, 1 node: taint dedicated=gpu:NoSchedule ({first})" in whole_text(explanation)


def test_held_by_a_finalizer(scenario: Scenario) -> None:
    scenario("run", "kept", "--image=pause")
    scenario("patch", "pod", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/keep"]}}')
    scenario("delete", "pod", "kept", "--wait=false")
    explanation = scenario.why("pod/kept")
    assert_explains(explanation, "terminating", "pod/kept [state]", f"pod/kept by {ADMIN} delete* [user]")
    assert "held by the finalizer example.com/keep" in whole_text(explanation)
    scenario("patch", "pod", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
