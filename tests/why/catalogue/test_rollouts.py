"""Pods of an old template, and of a new one."""

from tests.why.catalogue.expectations import assert_explains, root_texts
from tests.why.catalogue.scenario import ADMIN, Scenario


def test_replaced_by_a_rollout(scenario: Scenario) -> None:
    old = scenario.deployment(replicas=2)
    scenario("set", "image", "deployment/web", "main=nginx:2")
    scenario.until(lambda: not set(old) & set(scenario.pods()), "the old pods are gone")
    new = scenario.until_ready(2)
    path = f"""by replicaset-controller < replicaset/web-* by deployment-controller
               < deployment/web by {ADMIN} set* [user]"""
    for name in old:
        assert_explains(scenario.why(f"pod/{name}"), "deleted", f"pod/{name} {path}")
    for name in new:
        assert_explains(scenario.why(f"pod/{name}"), "as desired", f"pod/{name} {path}")


def test_rolled_back(scenario: Scenario) -> None:
    """The second rollout is not due to the first."""
    scenario.deployment(replicas=1)
    scenario("set", "image", "deployment/web", "main=nginx:2")
    scenario.until(
        lambda: [pod["spec"]["containers"][0]["image"] for pod in scenario.objects("pods")] == ["nginx:2"], "new"
    )
    (middle,) = scenario.until_ready(1)
    scenario("rollout", "undo", "deployment/web")
    scenario.until_gone("pods", middle)
    (last,) = scenario.until_ready(1)
    for name in (middle, last):
        explanation = scenario.why(f"pod/{name}")
        assert root_texts(explanation) == [
            'deployment/web changed: spec.template.spec.containers[name=main].image: "nginx:2" -> "pause"'
        ]
        assert explanation.roots()[0].by.startswith(ADMIN)
