"""Pods deleted on scale down, on a server: the rules that depend on several pods."""

from tests.controllers.api_world import Doc
from tests.controllers.replicaset.world import SETS, World

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "name": "web",
    "uid": "11111111-2222-3333-4444-555555555555",
    "controller": True,
}


async def ready_pods(world: World, owner: str) -> None:
    for name in await world.owned(owner):
        await world.report(name)
    await world.wait_for_sync()


def template(node: str, revision: str) -> Doc:
    labels = {"app": "web", "revision": revision}
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "pause"}]},
        },
    }


async def test_pods_on_nodes_with_more_related_pods_are_deleted_first(world: World) -> None:
    await world.create_set(3, "old", spec=template("full", "1"), ownerReferences=[DEPLOYMENT])
    new = template("full", "2")
    await world.create_set(1, "new", spec=new, ownerReferences=[DEPLOYMENT])
    await world.wait_for_sync()
    new["template"]["spec"]["nodeName"] = "empty"
    await world.merge(f"{SETS}/new", {"spec": {"template": new["template"], "replicas": 2}})
    await world.wait_for_sync()
    await ready_pods(world, "old")
    for name in reversed(await world.owned("new")):
        await world.report(name)
    await world.wait_for_sync()
    [on_full] = [p["metadata"]["name"] for p in await pods_of(world, "new") if p["spec"]["nodeName"] == "full"]
    await world.scale(1, f"{SETS}/new")
    await world.wait_for_sync()
    assert on_full not in await world.owned("new"), "four of the Deployment's pods are on that node, one on the other"


async def pods_of(world: World, owner: str) -> list[Doc]:
    names = await world.owned(owner)
    return [item for item in await world.pods() if item["metadata"]["name"] in names]


async def test_sorting_deletion_age_ratio_of_ready_pods(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync(100)
    await ready_pods(world, "web")
    await world.scale(3)
    await world.wait_for_sync(10)
    await ready_pods(world, "web")
    await world.scale(2)
    await world.wait_for_sync()
    assert world.metrics.value("replicaset_controller_sorting_deletion_age_ratio") == 1
