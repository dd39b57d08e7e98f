"""Pods that do not start, crash, or are not ready, and what depends on them."""

import json

from tests.why.catalogue.expectations import assert_explains, root_texts, whole_text
from tests.why.catalogue.scene import ADMIN, Doc, Scene, is_ready, quick_pod
from tests.workloads import workload

SET = f"< replicaset/web-* by deployment-controller < deployment/web by {ADMIN} set* [user]"
SIMULATED = "simulated.pilothouse.dev"


def waiting_reason(pod: Doc) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return " ".join(status["state"].get("waiting", {}).get("reason", "") for status in statuses)


def is_processed(document: Doc) -> bool:
    return bool(document["status"].get("observedGeneration") == document["metadata"]["generation"])


def test_the_image_is_not_there(scene: Scene) -> None:
    """A rollout that stops at its first pod: the pod and the Deployment have the same root."""
    (old,) = scene.deployment(replicas=1)
    scene("set", "image", "deployment/web", "main=nginx:404")
    scene.until(lambda: any("Pull" in waiting_reason(pod) for pod in scene.objects("pods")), "the pull fails")
    (new,) = set(scene.pods()) - {old}
    held = f"pod/{new} < pod/{new} by replicaset-controller {SET}"
    found = scene.why(f"pod/{new}")
    assert_explains(found, "not started", held)
    assert "the image nginx:404 of container main can't be pulled" in whole_text(found)
    rollout = scene.why("deployment/web")
    assert_explains(rollout, "rolling out", f"deployment/web < {held}")
    bounds = "maxSurge 25% (0.25, rounded up to 1), maxUnavailable 25% (0.25, rounded down to 0): at most 2 pods"
    assert f"{bounds}, at least 1 available" in whole_text(rollout)


def test_the_deadline_of_a_rollout(scene: Scene) -> None:
    document = workload("Deployment", "web", pod=quick_pod(), replicas=1, progressDeadlineSeconds=1)
    scene.apply(document)
    (_old,) = scene.until_ready(1)
    scene("set", "image", "deployment/web", "main=nginx:404")
    scene.until(lambda: "ProgressDeadlineExceeded" in str(scene.get("deployments", "web")), "the deadline is over")
    found = scene.why_by_command("deployment/web")
    assert_explains(found, "not progressing", f"deployment/web < pod/* < pod/* by replicaset-controller {SET}")
    assert "progressDeadlineSeconds 1" in whole_text(found)


def test_paused(scene: Scene) -> None:
    scene.deployment(replicas=1)
    scene("rollout", "pause", "deployment/web")
    scene("set", "image", "deployment/web", "main=nginx:2")
    scene.until(lambda: is_processed(scene.get("deployments", "web") or {}), "the controller has seen it")
    found = scene.why("deployment/web")
    assert_explains(found, "paused", f"deployment/web by {ADMIN} rollout* [user]")


def test_a_program_that_exits(scene: Scene) -> None:
    """The rollout before this one, which went well, is not named."""
    scene.deployment(replicas=1)
    scene("set", "env", "deployment/web", "MODE=good")
    scene("rollout", "status", "deployment/web")
    scene.until_ready(1)
    command = [{"op": "add", "path": "/spec/template/spec/containers/0/command", "value": ["sh", "-c", "exit 3"]}]
    scene("patch", "deployment", "web", "--type=json", "-p", json.dumps(command))
    name = scene.until_some("pods", lambda pod: "CrashLoop" in waiting_reason(pod), "it crashes")
    found = scene.why(f"pod/{name}")
    assert_explains(
        found,
        "not ready",
        f"""pod/{name} < pod/{name} by replicaset-controller < replicaset/web-* by deployment-controller
            < deployment/web by {ADMIN} patch* [user]""",
    )
    assert "containers[name=main].command added" in root_texts(found)[0]
    assert "exited with 3 (Error)" in whole_text(found)


def test_a_readiness_probe_that_fails_later(scene: Scene) -> None:
    (name,) = scene.deployment(replicas=1)
    scene("annotate", "pod", name, f"{SIMULATED}/readiness-probe=fail")
    scene.until(lambda: not is_ready(scene.get("pods", name) or {}), "it is not ready")
    found = scene.why(f"pod/{name}")
    assert_explains(found, "not ready", f"pod/{name} < pod/{name} by {ADMIN} annotate* [user]")
    assert "the readiness probe of container main fails" in whole_text(found)
    scene.until(lambda: (scene.get("deployments", "web") or {})["status"].get("unavailableReplicas"), "web has seen it")
    deployment = scene.why("deployment/web")  # its rollout was complete before: it is not among the reasons
    assert_explains(deployment, "rolling out", f"deployment/web < pod/{name} < pod/{name} by {ADMIN} annotate* [user]")


def test_a_readiness_gate(scene: Scene) -> None:
    pod = quick_pod(readinessGates=[{"conditionType": "example.com/in"}])
    scene.apply(workload("Deployment", "web", pod=pod, replicas=1))
    name = scene.until_some("pods", lambda pod: pod["status"]["phase"] == "Running", "it runs")
    found = scene.why(f"pod/{name}")
    assert_explains(found, "not ready", f"pod/{name} [state]")
    assert "example.com/in is not set" in whole_text(found)


def test_a_statefulset_waits_for_its_first_pod(scene: Scene) -> None:
    pod = quick_pod(image="nginx:404")
    scene.apply(workload("StatefulSet", "db", pod=pod, serviceName="db", replicas=3))
    scene.until(lambda: any("Pull" in waiting_reason(each) for each in scene.objects("pods")), "the pull fails")
    found = scene.why("statefulset/db")
    assert_explains(
        found,
        "not ready",
        f"statefulset/db < pod/db-0 < pod/db-0 by statefulset-controller < statefulset/db by {ADMIN} apply* [user]",
    )
    assert "db-0 has to be ready before the 2 pods after it" in whole_text(found)


def test_a_daemonset_that_leaves_nodes_out(scene: Scene) -> None:
    (first, _second), place = scene.nodes(2)
    scene("taint", "node", first, "dedicated=gpu:NoSchedule")
    scene.apply(workload("DaemonSet", "agent", pod=quick_pod(**place)))
    scene.until_ready(1)
    scene.until(lambda: (scene.get("ds", "agent") or {}).get("status", {}).get("numberReady") == 1, "it is reported")
    found = scene.why("daemonset/agent")
    assert_explains(found, "as desired", f"daemonset/agent < node/{first} by {ADMIN} taint* [user]")
    assert f"left out, 1 node: taint dedicated=gpu:NoSchedule ({first})" in whole_text(found)


def test_held_by_a_finalizer(scene: Scene) -> None:
    scene("run", "kept", "--image=pause")
    scene("patch", "pod", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/keep"]}}')
    scene("delete", "pod", "kept", "--wait=false")
    found = scene.why("pod/kept")
    assert_explains(found, "terminating", "pod/kept [state]", f"pod/kept by {ADMIN} delete* [user]")
    assert "held by the finalizer example.com/keep" in whole_text(found)
    scene("patch", "pod", "kept", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
