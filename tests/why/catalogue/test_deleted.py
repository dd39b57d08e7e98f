"""Pods that were evicted, preempted, garbage-collected, or deleted with their namespace."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.scene import ADMIN, Doc, Scene, quick_pod
from tests.workloads import workload

GONE = "deleted"


def pod(name: str, *, metadata: Doc | None = None, **spec: Any) -> Doc:
    metadata = {"name": name, **(metadata or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": quick_pod(**spec)}


def test_drained_within_a_budget(scene: Scene) -> None:
    (first, _second), place = scene.nodes(2)
    scene.apply(
        workload("Deployment", "web", pod=quick_pod(**place), replicas=2),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
    )
    scene.until_ready(2)
    scene.until(lambda: (scene.get("pdb", "web") or {}).get("status", {}).get("disruptionsAllowed") == 1, "one may go")
    victims = [each["metadata"]["name"] for each in scene.objects("pods") if each["spec"]["nodeName"] == first]
    scene("drain", first, "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=30s")
    scene.until_ready(2)
    for name in victims:
        found = scene.why(f"pod/{name}")
        assert_explains(found, GONE, f"pod/{name} by {ADMIN} drain (an eviction) [user]")
        assert "charged to poddisruptionbudget/web: disruptionsAllowed 1 -> 0" in whole_text(found)
    assert_explains(
        scene.why(f"node/{first}"),
        "cordoned, tainted",
        f"node/{first} by {ADMIN} *drain* [user]",
        f"node/{first} by {ADMIN} taint* [user]",
    )


def test_a_drain_that_a_budget_holds_up(scene: Scene) -> None:
    (node,), place = scene.nodes(1)
    (name,) = scene.deployment(replicas=1, **place)
    scene("create", "pdb", "web", "--min-available=1", "--selector=app=web")
    scene.until(lambda: (scene.get("pdb", "web") or {}).get("status", {}).get("expectedPods") == 1, "it counts")
    scene("drain", node, "--ignore-daemonsets", "--pod-selector=app=web", "--timeout=1s", fails=True)
    budget = f"poddisruptionbudget/web < poddisruptionbudget/web by {ADMIN} create* [user]"
    assert_explains(scene.why("pdb/web"), "allows no eviction", budget)
    found = scene.why(f"node/{node}")
    assert_explains(
        found,
        "cordoned, tainted",
        f"node/{node} by {ADMIN} *drain* [user]",
        f"node/{node} < {budget}",
        f"node/{node} by {ADMIN} taint* [user]",
    )
    assert f"has pod/{name} of namespace {scene.namespace}, which a drain can't evict now" in whole_text(found)
    assert "1 of 1 pods are healthy, and 1 have to be (minAvailable 1)" in whole_text(found)


def test_preempted(scene: Scene) -> None:
    (_node,), place = scene.nodes(1)
    important = f"{scene.namespace}-high"
    scene("create", "priorityclass", important, "--value=1000")
    four = {"requests": {"cpu": "3"}}
    scene.apply(pod("low", containers=[{"name": "main", "image": "pause", "resources": four}], **place))
    scene.until_ready(1)
    scene.apply(
        pod(
            "high",
            containers=[{"name": "main", "image": "pause", "resources": four}],
            priorityClassName=important,
            **place,
        )
    )
    scene.until_gone("pods", "low")
    found = scene.why("pod/low")
    assert_explains(found, GONE, f"pod/low by default-scheduler < pod/high by {ADMIN} apply* [user]")
    assert "low (priority 0)" in whole_text(found)


def test_deleted_with_its_deployment(scene: Scene) -> None:
    (name,) = scene.deployment(replicas=1)
    (owner,) = scene.objects("replicasets")
    scene("delete", "deployment", "web")
    scene.until_gone("pods", name)
    path = f"replicaset/web-* by garbage-collector-controller < deployment/web by {ADMIN} delete* [user]"
    assert_explains(scene.why(f"pod/{name}"), GONE, f"pod/{name} by garbage-collector-controller < {path}")
    assert_explains(scene.why(f"replicaset/{owner['metadata']['name']}"), GONE, path)


def test_deleted_in_the_foreground(scene: Scene) -> None:
    (name,) = scene.deployment(replicas=1)
    scene("patch", "deployment", "web", "--type=merge", "-p", '{"metadata":{"finalizers":["foregroundDeletion"]}}')
    scene("delete", "deployment", "web")
    scene.until_gone("pods", name)
    assert_explains(
        scene.why(f"pod/{name}"),
        GONE,
        f"""pod/{name} by garbage-collector-controller < replicaset/web-* by garbage-collector-controller
            < deployment/web by {ADMIN} delete* [user]""",
    )


def test_orphaned(scene: Scene) -> None:
    (name,) = scene.deployment(replicas=1)
    (owner,) = scene.objects("replicasets")
    scene("delete", "deployment", "web", "--cascade=orphan")
    scene("delete", "replicaset", owner["metadata"]["name"], "--cascade=orphan")
    scene.until(lambda: "ownerReferences" not in (scene.get("pods", name) or {})["metadata"], "it has no owner")
    assert_explains(
        scene.why(f"pod/{name}"),
        "as desired",
        f"pod/{name} by garbage-collector-controller < replicaset/web-* by {ADMIN} delete* [user]",
    )


def test_of_an_owner_that_never_was(scene: Scene) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0a1b2c3d-0000-0000-0000-000000000000"}
    scene.apply(pod("stray", metadata={"ownerReferences": [owner]}))
    scene.until_gone("pods", "stray")
    assert_explains(
        scene.why("pod/stray"), GONE, f"pod/stray by garbage-collector-controller < pod/stray by {ADMIN} apply* [user]"
    )


def test_deleted_with_its_namespace(scene: Scene) -> None:
    namespace = f"{scene.namespace}-own"
    scene("create", "namespace", namespace)
    scene("run", "lone", "--image=pause", f"--namespace={namespace}")
    scene.until(lambda: scene.get("pods", "lone", namespace), "the pod is there")
    scene("delete", "namespace", namespace, "--wait=false")
    scene.until_gone("namespaces", namespace)
    assert_explains(
        scene.why("pod/lone", namespace),
        GONE,
        f"pod/lone by namespace-controller < namespace/{namespace} by {ADMIN} delete* [user]",
    )


def test_a_name_that_was_used_before(scene: Scene) -> None:
    """What happened to an earlier pod of the same name is no part of the answer."""
    scene.apply(pod("same"))
    scene.until_ready(1)
    scene("delete", "pod", "same")
    scene("run", "same", "--image=pause")
    scene.until_ready(1)
    assert_explains(scene.why("pod/same"), "as desired", f"pod/same by {ADMIN} run* [user]")
