"""Pods that were created or deleted by scaling."""

from tests.why.catalogue.expectations import assert_explains, root_texts, whole_text
from tests.why.catalogue.scenario import ADMIN, Scenario


def scale(scenario: Scenario, replicas: int) -> tuple[set[str], set[str]]:
    """``kubectl scale``; the pods that it deleted and created."""
    before = set(scenario.pods())
    scenario("scale", "deployment", "web", f"--replicas={replicas}")
    after = set(scenario.until_ready(replicas))
    return before - after, after - before


def test_scaled_down(scenario: Scenario) -> None:
    scenario.deployment(replicas=3)
    (deleted,), _ = scale(scenario, 2)
    result = scenario.why_by_command(f"pod/{deleted}")
    assert_explains(
        result,
        "deleted",
        f"""pod/{deleted} by replicaset-controller < replicaset/web-* by deployment-controller
            < deployment/web by {ADMIN} scale* [user]""",
    )
    assert "2 of 3 desired" in result.steps[0].decision
    ranking = [line for line in result.steps[0].table if "created" in line]
    assert len(ranking) == 3
    assert ranking[0].startswith(f"-> {deleted}, node-")


def test_scaled_down_and_up_again(scenario: Scenario) -> None:
    """Later changes are due to the second command alone, earlier ones to the first."""
    scenario.deployment(replicas=3)
    (deleted,), _ = scale(scenario, 2)
    _, (new,) = scale(scenario, 3)
    down, up = scenario.why(f"pod/{deleted}"), scenario.why(f"pod/{new}")
    assert root_texts(down) == ["deployment/web changed: spec.replicas: 3 -> 2"]
    assert root_texts(up) == ["deployment/web changed: spec.replicas: 2 -> 3"]


def test_an_autoscaler_whose_target_was_scaled_to_zero(scenario: Scenario) -> None:
    scenario.deployment(replicas=1)
    scenario("scale", "deployment", "web", "--replicas=0")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    kind = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"}
    scenario.apply({**kind, "metadata": {"name": "web"}, "spec": spec})
    scenario.until(lambda: (scenario.get("hpa", "web") or {}).get("status", {}).get("conditions"), "it was processed")
    explanation = scenario.why("hpa/web")
    path = f"horizontalpodautoscaler/web < deployment/web by {ADMIN} scale* [user]"
    assert_explains(explanation, "not scaling", path)
    assert "ScalingDisabled" in whole_text(explanation)


def test_deleted_by_hand_and_replaced(scenario: Scenario) -> None:
    before = scenario.deployment(replicas=2)
    scenario("delete", "pod", before[0])
    (new,) = set(scenario.until_ready(2)) - set(before)
    assert_explains(scenario.why(f"pod/{before[0]}"), "deleted", f"pod/{before[0]} by {ADMIN} delete* [user]")
    assert_explains(
        scenario.why(f"pod/{new}"),
        "as desired",
        f"pod/{new} by replicaset-controller < pod/{before[0]} by {ADMIN} delete* [user]",
    )


def test_never_touched(scenario: Scenario) -> None:
    (name,) = scenario.deployment(replicas=1)
    assert_explains(
        scenario.why(f"pod/{name}"),
        "as desired",
        f"""pod/{name} by replicaset-controller < replicaset/web-* by deployment-controller
            < deployment/web by {ADMIN} apply* [user]""",
    )
