"""Pods of an old template, and of a new one."""

from tests.why.catalogue.expectations import assert_explains, root_texts
from tests.why.catalogue.scene import ADMIN, Scene


def test_replaced_by_a_rollout(scene: Scene) -> None:
    old = scene.deployment(replicas=2)
    scene("set", "image", "deployment/web", "main=nginx:2")
    scene.until(lambda: not set(old) & set(scene.pods()), "the old pods are gone")
    new = scene.until_ready(2)
    path = f"""by replicaset-controller < replicaset/web-* by deployment-controller
               < deployment/web by {ADMIN} set* [user]"""
    for name in old:
        assert_explains(scene.why(f"pod/{name}"), "deleted", f"pod/{name} {path}")
    for name in new:
        assert_explains(scene.why(f"pod/{name}"), "as desired", f"pod/{name} {path}")


def test_rolled_back(scene: Scene) -> None:
    """The second rollout is not due to the first."""
    scene.deployment(replicas=1)
    scene("set", "image", "deployment/web", "main=nginx:2")
    scene.until(lambda: [pod["spec"]["containers"][0]["image"] for pod in scene.objects("pods")] == ["nginx:2"], "new")
    (middle,) = scene.until_ready(1)
    scene("rollout", "undo", "deployment/web")
    scene.until_gone("pods", middle)
    (last,) = scene.until_ready(1)
    for name in (middle, last):
        found = scene.why(f"pod/{name}")
        assert root_texts(found) == [
            'deployment/web changed: spec.template.spec.containers[name=main].image: "nginx:2" -> "pause"'
        ]
        assert found.roots()[0].by.startswith(ADMIN)
