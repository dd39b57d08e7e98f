"""Deletions that do not complete."""

import json

from tests.why.catalogue.expectations import assert_explains
from tests.why.catalogue.scene import ADMIN, Scene


def _config_map(name: str, **metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_a_finalizer_of_somebody_else(scene: Scene) -> None:
    scene.apply(_config_map("held", finalizers=["example.com/hold"]))
    scene("delete", "configmap", "held", "--wait=false")
    assert_explains(
        scene.why("cm/held"), "terminating", "configmap/held [state]", f"configmap/held by {ADMIN} delete* [user]"
    )
    scene("patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    scene.until_gone("configmaps", "held")
    assert_explains(scene.why("cm/held"), "deleted", f"configmap/held by {ADMIN} delete* [user]")


def test_a_namespace_with_an_object_that_is_held(scene: Scene) -> None:
    name = f"{scene.namespace}-inner"
    scene("create", "namespace", name)
    scene("-n", name, "apply", "-f", "-", stdin=_config_map("held", finalizers=["example.com/hold"]))
    scene("delete", "namespace", name, "--wait=false")
    scene.until(
        lambda: any("is not empty" in step.text for step in scene.why(f"ns/{name}").steps), "the conditions are there"
    )
    found = scene.why(f"ns/{name}")
    assert found.state == "terminating"
    (held,) = found.steps[0].because
    assert held.text.startswith("configmap/held is held by the finalizer example.com/hold: a program outside")
    assert [(root.object, root.by) for root in found.roots() if root.root == "user"] == [
        (f"namespace/{name}", f"{ADMIN} delete")
    ]
    assert_explains(
        scene.why("cm/held", namespace=name),
        "terminating",
        "configmap/held [state]",
        f"configmap/held by namespace-controller < namespace/{name} by {ADMIN} delete* [user]",
    )
    scene("-n", name, "patch", "configmap", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    scene.until_gone("namespaces", name)


def test_a_foreground_deletion(scene: Scene) -> None:
    scene.apply(_config_map("owner"))
    owner = json.loads(scene("get", "configmap", "owner", "-o", "json"))["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["uid"],
        "blockOwnerDeletion": True,
    }
    scene.apply(_config_map("child", ownerReferences=[reference], finalizers=["example.com/hold"]))
    scene("delete", "configmap", "owner", "--cascade=foreground", "--wait=false")
    scene.until(lambda: scene.why("cm/child").state == "terminating", "the child is being deleted")
    found = scene.why("cm/owner")
    assert found.state == "terminating"
    assert [each.object for each in found.steps[0].because] == ["configmap/child"]
    assert {root.by for root in found.roots() if root.root == "user"} == {f"{ADMIN} delete"}
    scene("patch", "configmap", "child", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    scene.until_gone("configmaps", "owner")
