"""Pods that were deleted or are not ready because of their node."""

from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.scene import ADMIN, Scene

NO_GRACE = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    for key in ("unreachable", "not-ready")
]


def on_two_nodes(scene: Scene) -> tuple[str, str]:
    """A pod of a Deployment on one of two nodes of the scenario: the pod and its node."""
    _, place = scene.nodes(2)
    place["tolerations"] += NO_GRACE
    (name,) = scene.deployment(replicas=1, **place)
    return name, (scene.get("pods", name) or {})["spec"]["nodeName"]


def test_evicted_from_a_silent_node(scene: Scene) -> None:
    name, node = on_two_nodes(scene)
    scene("annotate", "node", node, "simulated.pilothouse.dev/fault=silent")
    scene.until(lambda: (scene.get("pods", name) or {"metadata": {}})["metadata"].get("deletionTimestamp"), "evicted")
    scene("delete", "pod", name, "--force", "--grace-period=0")
    fault = f"node/{node} by {ADMIN} annotate* [user]"
    assert_explains(
        scene.why(f"pod/{name}"),
        "deleted",
        f"pod/{name} by taint-eviction-controller < node/{node} by node-lifecycle-controller < {fault}",
    )
    found = scene.why(f"node/{node}")
    assert_explains(found, "not ready", f"node/{node} < {fault}")
    assert "its Lease was last renewed at" in whole_text(found)


def test_evicted_by_a_taint(scene: Scene) -> None:
    name, node = on_two_nodes(scene)
    scene("taint", "node", node, "maintenance=soon:NoExecute")
    scene.until_gone("pods", name)
    (new,) = scene.until_ready(1)
    taint = f"node/{node} by {ADMIN} taint* [user]"
    assert_explains(scene.why(f"pod/{name}"), "deleted", f"pod/{name} by taint-eviction-controller < {taint}")
    assert_explains(
        scene.why(f"pod/{new}"),
        "as desired",
        f"pod/{new} by replicaset-controller < pod/{name} by taint-eviction-controller < {taint}",
    )


def test_evicted_under_pressure(scene: Scene) -> None:
    name, node = on_two_nodes(scene)
    scene("annotate", "node", node, "simulated.pilothouse.dev/pressure=memory")
    scene.until(
        lambda: (scene.get("pods", name) or {"status": {}})["status"].get("phase") == "Failed", "it was evicted"
    )
    found = scene.why(f"pod/{name}")
    pressure = f"node/{node} by {ADMIN} annotate* [user]"
    assert_explains(found, "failed", f"pod/{name} by kubelet < node/{node} by kubelet < {pressure}")
    assert "low on resource: memory" in whole_text(found)
    assert "has the condition MemoryPressure" in whole_text(scene.why(f"node/{node}"))
