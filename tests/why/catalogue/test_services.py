"""Services without endpoints."""

from typing import Any

from tests.why.catalogue.expectations import assert_explains
from tests.why.catalogue.scene import ADMIN, Scene


def _service(selector: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": selector, "ports": [{"port": 80}], **spec},
    }


def test_a_selector_that_fits_no_pod(scene: Scene) -> None:
    (pod,) = scene.deployment("shop", replicas=1)
    scene.apply(_service({"app": "shopp"}))
    found = scene.why("service/web")
    assert_explains(found, "no endpoints", f"service/web < service/web by {ADMIN} apply* [user]")
    assert found.steps[0].table == [f"pod {pod} has app=shop"]


def test_a_selector_that_was_changed(scene: Scene) -> None:
    scene.deployment("shop", replicas=1)
    scene.apply(_service({"app": "shop"}))
    scene.until(lambda: scene.why("service/web").state == "as desired", "the service has an endpoint")
    scene("patch", "service", "web", "-p", '{"spec":{"selector":{"app":"other"}}}')
    scene.until(lambda: scene.why("service/web").state == "no endpoints", "the endpoint is gone")
    (root,) = scene.why("service/web").roots()
    assert root.text == 'service/web changed: spec.selector.app: "shop" -> "other"'
    assert root.by == f"{ADMIN} patch"


def test_a_service_without_a_selector(scene: Scene) -> None:
    scene.apply(_service({}))
    assert_explains(scene.why("service/web"), "no endpoints", "service/web [state]")


def test_a_load_balancer_of_another_class(scene: Scene) -> None:
    scene.deployment("shop", replicas=1)
    scene.apply(_service({"app": "shop"}, type="LoadBalancer", loadBalancerClass="example.com/other"))
    scene.until(lambda: scene.why("service/web").state == "no address", "the endpoint is there")
    (step,) = scene.why("service/web").steps
    assert step.text == "service/web waits for a controller of the loadBalancerClass example.com/other"
