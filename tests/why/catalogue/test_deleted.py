"""Pods that were evicted, preempted, garbage-collected, or deleted with their namespace."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.scenario import ADMIN, Doc, Scenario, quick_pod
from tests.workloads import workload

GONE = "deleted"


def pod(name: str, *, metadata: Doc | None = None, **spec: Any) -> Doc:
    metadata = {"name": name, **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": quick_pod(**spec)}


def test_drained_within_a_budget(scenario: Scenario) -> None:
    (first, _second), scheduling = scenario.nodes(2)
    scenario.apply(
        workload("Deployment", "web", pod=quick_pod(**scheduling), replicas=2),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
    )
    scenario.until_ready(2)
    scenario.until(
        lambda: (scenario.get("pdb", "web") or {}).get("status", {}).get("disruptionsAllowed") == 1, "one may go"
    )
    victims = [obj["metadata"]["name"] for obj in scenario.objects("pods") if obj["spec"]["nodeName"] == first]
    scenario("drain", first, "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=30s")
    scenario.until_ready(2)
    for name in victims:
        explanation = scenario.why(f"pod/{name}")
        assert_explains(explanation, GONE, f"pod/{name} by {ADMIN} drain (an eviction) [user]")
        assert "charged to poddisruptionbudget/web: disruptionsAllowed 1 -> 0" in whole_text(explanation)
    assert_explains(
        scenario.why(f"node/{first}"),
        "cordoned, tainted",
        f"node/{first} by {ADMIN} *drain* [user]",
        f"node/{first} by {ADMIN} taint* [user]",
    )


def test_drain_blocked_by_budget(scenario: Scenario) -> None:
    (node,), scheduling = scenario.nodes(1)
    (name,) = scenario.deployment(replicas=1, **scheduling)
    scenario("create", "pdb", "web", "--min-available=1", "--selector=app=web")
    scenario.until(lambda: (scenario.get("pdb", "web") or {}).get("status", {}).get("expectedPods") == 1, "it counts")
    scenario("drain", node, "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=1s", fails=True)
    budget = f"poddisruptionbudget/web < poddisruptionbudget/web by {ADMIN} create* [user]"
    assert_explains(scenario.why("pdb/web"), "allows no eviction", budget)
    explanation = scenario.why(f"node/{node}")
    assert_explains(
        explanation,
        "cordoned, tainted",
        f"node/{node} by {ADMIN} *drain* [user]",
        f"node/{node} < {budget}",
        f"node/{node} by {ADMIN} taint* [user]",
    )
    assert f"has pod/{name} of namespace {scenario.namespace}, which a drain can't evict now" in whole_text(explanation)
    assert "1 of 1 pods are healthy, and 1 have to be (minAvailable 1)" in whole_text(explanation)


def test_preempted(scenario: Scenario) -> None:
    (_node,), scheduling = scenario.nodes(1)
    important = f"{scenario.namespace}-high"
    scenario("create", "priorityclass", important, "--value=1000")
    four = {"requests": {"cpu": "3"}}
    scenario.apply(pod("low", containers=[{"name": "main", "image": "pause", "resources": four}], **scheduling))
    scenario.until_ready(1)
    scenario.apply(
        pod(
            "high",
            containers=[{"name": "main", "image": "pause", "resources": four}],
            priorityClassName=important,
            **scheduling,
        )
    )
    scenario.until_gone("pods", "low")
    explanation = scenario.why("pod/low")
    assert_explains(explanation, GONE, f"pod/low by default-scheduler < pod/high by {ADMIN} apply* [user]")
    assert "low (priority 0)" in whole_text(explanation)


def test_deleted_with_its_deployment(scenario: Scenario) -> None:
    (name,) = scenario.deployment(replicas=1)
    (owner,) = scenario.objects("replicasets")
    scenario("delete", "deployment", "web")
    scenario.until_gone("pods", name)
    path = f"replicaset/web-* by garbage-collector-controller < deployment/web by {ADMIN} delete* [user]"
    assert_explains(scenario.why(f"pod/{name}"), GONE, f"pod/{name} by garbage-collector-controller < {path}")
    assert_explains(scenario.why(f"replicaset/{owner['metadata']['name']}"), GONE, path)


def test_deleted_in_the_foreground(scenario: Scenario) -> None:
    (name,) = scenario.deployment(replicas=1)
    scenario("patch", "deployment", "web", "--type=merge", "-p", '{"metadata":{"finalizers":["foregroundDeletion"]}}')
    scenario("delete", "deployment", "web")
    scenario.until_gone("pods", name)
    assert_explains(
        scenario.why(f"pod/{name}"),
        GONE,
        f"""pod/{name} by garbage-collector-controller < replicaset/web-* by garbage-collector-controller
            < deployment/web by {ADMIN} delete* [user]""",
    )


def test_orphaned(scenario: Scenario) -> None:
    (name,) = scenario.deployment(replicas=1)
    (owner,) = scenario.objects("replicasets")
    scenario("delete", "deployment", "web", "--cascade=orphan")
    scenario("delete", "replicaset", owner["metadata"]["name"], "--cascade=orphan")
    scenario.until(lambda: "ownerReferences" not in (scenario.get("pods", name) or {})["metadata"], "it has no owner")
    assert_explains(
        scenario.why(f"pod/{name}"),
        "as desired",
        f"pod/{name} by garbage-collector-controller < replicaset/web-* by {ADMIN} delete* [user]",
    )


def test_of_an_owner_that_never_was(scenario: Scenario) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0a1b2c3d-0000-0000-0000-000000000000"}
    scenario.apply(pod("stray", metadata={"ownerReferences": [owner]}))
    scenario.until_gone("pods", "stray")
    assert_explains(
        scenario.why("pod/stray"),
        GONE,
        f"pod/stray by garbage-collector-controller < pod/stray by {ADMIN} apply* [user]",
    )


def test_deleted_with_its_namespace(scenario: Scenario) -> None:
    namespace = f"{scenario.namespace}-own"
    scenario("create", "namespace", namespace)
    scenario("run", "lone", "--image=pause", f"--namespace={namespace}")
    scenario.until(lambda: scenario.get("pods", "lone", namespace), "the pod is there")
    scenario("delete", "namespace", namespace, "--wait=false")
    scenario.until_gone("namespaces", namespace)
    assert_explains(
        scenario.why("pod/lone", namespace),
        GONE,
        f"pod/lone by namespace-controller < namespace/{namespace} by {ADMIN} delete* [user]",
    )


def test_reused_name(scenario: Scenario) -> None:
    """What happened to an earlier pod of the same name is no part of the answer."""
    scenario.apply(pod("same"))
    scenario.until_ready(1)
    scenario("delete", "pod", "same")
    scenario("run", "same", "--image=pause")
    scenario.until_ready(1)
    assert_explains(scenario.why("pod/same"), "as desired", f"pod/same by {ADMIN} run* [user]")
