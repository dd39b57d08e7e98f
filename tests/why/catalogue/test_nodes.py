"""Pods that were deleted or are not ready because of their node."""

from tests.why.catalogue.expectations import assert_explains, whole_text
from tests.why.catalogue.scenario import ADMIN, Scenario

NO_GRACE = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    for key in ("unreachable", "not-ready")
]


def on_two_nodes(scenario: Scenario) -> tuple[str, str]:
    """A pod of a Deployment on one of two nodes of the scenario: the pod and its node."""
    _, scheduling = scenario.nodes(2)
    scheduling["tolerations"] += NO_GRACE
    (name,) = scenario.deployment(replicas=1, **scheduling)
    return name, (scenario.get("pods", name) or {})["spec"]["nodeName"]


def test_evicted_from_a_silent_node(scenario: Scenario) -> None:
    name, node = on_two_nodes(scenario)
    scenario("annotate", "node", node, "simulated.pilothouse.dev/fault=silent")
    scenario.until(
        lambda: (scenario.get("pods", name) or {"metadata": {}})["metadata"].get("deletionTimestamp"), "evicted"
    )
    scenario("delete", "pod", name, "--force", "--grace-period=0")
    fault = f"node/{node} by {ADMIN} annotate* [user]"
    assert_explains(
        scenario.why(f"pod/{name}"),
        "deleted",
        f"pod/{name} by taint-eviction-controller < node/{node} by node-lifecycle-controller < {fault}",
    )
    explanation = scenario.why(f"node/{node}")
    assert_explains(explanation, "not ready", f"node/{node} < {fault}")
    assert "its Lease was last renewed at" in whole_text(explanation)


def test_evicted_by_a_taint(scenario: Scenario) -> None:
    name, node = on_two_nodes(scenario)
    scenario("taint", "node", node, "maintenance=soon:NoExecute")
    scenario.until_gone("pods", name)
    (new,) = scenario.until_ready(1)
    taint = f"node/{node} by {ADMIN} taint* [user]"
    assert_explains(scenario.why(f"pod/{name}"), "deleted", f"pod/{name} by taint-eviction-controller < {taint}")
    assert_explains(
        scenario.why(f"pod/{new}"),
        "as desired",
        f"pod/{new} by replicaset-controller < pod/{name} by taint-eviction-controller < {taint}",
    )


def test_evicted_under_pressure(scenario: Scenario) -> None:
    name, node = on_two_nodes(scenario)
    scenario("annotate", "node", node, "simulated.pilothouse.dev/pressure=memory")
    scenario.until(
        lambda: (scenario.get("pods", name) or {"status": {}})["status"].get("phase") == "Failed", "it was evicted"
    )
    explanation = scenario.why(f"pod/{name}")
    pressure = f"node/{node} by {ADMIN} annotate* [user]"
    assert_explains(explanation, "failed", f"pod/{name} by kubelet < node/{node} by kubelet < {pressure}")
    assert "low on resource: memory" in whole_text(explanation)
    assert "has the condition MemoryPressure" in whole_text(scenario.why(f"node/{node}"))
