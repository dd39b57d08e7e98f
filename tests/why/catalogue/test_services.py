"""Services without endpoints."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains
from tests.why.catalogue.scenario import ADMIN, Scenario


def _service(selector: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "ports": [{"port": 80}], **spec},
    }


def test_selector_without_matching_pods(scenario: Scenario) -> None:
    (pod,) = scenario.deployment("shop", replicas=1)
    scenario.apply(_service({"app": "shopp"}))
    explanation = scenario.why("service/web")
    assert_explains(explanation, "no endpoints", f"service/web < service/web by {ADMIN} apply* [user]")
    assert explanation.steps[0].table == [f"pod {pod} has app=shop"]


def test_changed_selector(scenario: Scenario) -> None:
    scenario.deployment("shop", replicas=1)
    scenario.apply(_service({"app": "shop"}))
    scenario.until(lambda: scenario.why("service/web").state == "as desired", "the service has an endpoint")
    scenario("patch", "service", "web", "-p", '{"spec":{"selector":{"app":"other"}}}')
    scenario.until(lambda: scenario.why("service/web").state == "no endpoints", "the endpoint is gone")
    (root,) = scenario.why("service/web").roots()
    assert root.text == 'service/web changed: spec.selector.app: "shop" -> "other"'
    assert root.by == f"{ADMIN} patch"


def test_a_service_without_a_selector(scenario: Scenario) -> None:
    scenario.apply(_service({}))
    assert_explains(scenario.why("service/web"), "no endpoints", "service/web [state]")


def test_a_load_balancer_of_another_class(scenario: Scenario) -> None:
    scenario.deployment("shop", replicas=1)
    scenario.apply(_service({"app": "shop"}, type="LoadBalancer", loadBalancerClass="example.com/other"))
    scenario.until(lambda: scenario.why("service/web").state == "no address", "the endpoint is there")
    (step,) = scenario.why("service/web").steps
    assert step.text == "service/web waits for a controller of the loadBalancerClass example.com/other"
