"""Deletions that do not complete."""

import json

from tests.why.catalogue.expectations import assert_explains
from tests.why.catalogue.scenario import ADMIN, Scenario


def _config_map(name: str, **metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_finalizer_of_another_program(scenario: Scenario) -> None:
    scenario.apply(_config_map("held", finalizers=["example.com/hold"]))
    scenario("delete", "configmap", "held", "--wait=false")
    assert_explains(
        scenario.why("cm/held"), "terminating", "configmap/held [state]", f"configmap/held by {ADMIN} delete* [user]"
    )
    scenario("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    scenario.until_gone("configmaps", "held")
    assert_explains(scenario.why("cm/held"), "deleted", f"configmap/held by {ADMIN} delete* [user]")


def test_namespace_with_object_with_finalizer(scenario: Scenario) -> None:
    name = f"{scenario.namespace}-inner"
    scenario("create", "namespace", name)
    scenario("-n", name, "apply", "-f", "-", stdin=_config_map("held", finalizers=["example.com/hold"]))
    scenario("delete", "namespace", name, "--wait=false")
    scenario.until(
        lambda: any("is not empty" in step.text for step in scenario.why(f"ns/{name}").steps),
        "the conditions are there",
    )
    explanation = scenario.why(f"ns/{name}")
    assert explanation.state == "terminating"
    (because,) = explanation.steps[0].because
    assert because.text.startswith("configmap/held is held by the finalizer example.com/hold: a program outside")
    assert [(root.object, root.by) for root in explanation.roots() if root.root == "user"] == [
        (f"namespace/{name}", f"{ADMIN} delete")
    ]
    assert_explains(
        scenario.why("cm/held", namespace=name),
        "terminating",
        "configmap/held [state]",
        f"configmap/held by namespace-controller < namespace/{name} by {ADMIN} delete* [user]",
    )
    scenario("-n", name, "patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    scenario.until_gone("namespaces", name)


def test_a_foreground_deletion(scenario: Scenario) -> None:
    scenario.apply(_config_map("owner"))
    owner = json.loads(scenario("get", "configmap", "owner", "-o", "json"))["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    scenario.apply(_config_map("child", ownerReferences=[reference], finalizers=["example.com/hold"]))
    scenario("delete", "configmap", "owner", "--cascade=foreground", "--wait=false")
    scenario.until(lambda: scenario.why("cm/child").state == "terminating", "the child is being deleted")
    explanation = scenario.why("cm/owner")
    assert explanation.state == "terminating"
    assert [item.object for item in explanation.steps[0].because] == ["configmap/child"]
    assert {root.by for root in explanation.roots() if root.root == "user"} == {f"{ADMIN} delete"}
    scenario("patch", "configmap", "child", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    scenario.until_gone("configmaps", "owner")
