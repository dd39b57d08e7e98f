"""Known bugs of Deployments."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.api.apps import ReplicaSet
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.workloads.deployment import sync_context
from pilothouse.controllers.workloads.deployment.controller import DeploymentController
from pilothouse.controllers.workloads.deployment.set_events import SetEvents
from pilothouse.controllers.workloads.deployment.sync_context import NameTaken, SyncContext
from pilothouse.controllers.workloads.deployment.template import HASH_LABEL, labels_of
from pilothouse.machinery.template_hash import template_hash
from pilothouse.runtime import Requeue
from pilothouse.sim import Simulation, SimulationOptions, Violation
from pilothouse.simulate.bugs.declaration import Bug, Patch, Pattern, Unguarded, check
from pilothouse.simulate.bugs.user import APPS, PODS, SETS, Doc, User, pod_spec, workload

ALL = f"{APPS}/deployments"
WEB = f"{ALL}/web"
CONTROLLER = "deployment-controller"
OPTIONS = SimulationOptions(controllers=("deployment", "replicaset", "garbagecollector"))
REPLICAS = 5


class Owner(User):
    """Has a Deployment."""

    async def create(self, image: str, **spec: Any) -> Doc:
        """The Deployment ``web``."""
        pod = pod_spec(image, terminationGracePeriodSeconds=1)
        return await self.request("POST", ALL, workload("Deployment", pod=pod, **{"replicas": REPLICAS, **spec}))

    async def set_image(self, image: str) -> None:
        """A new template."""
        containers = [{"name": "main", "image": image}]
        await self.merge(WEB, {"spec": {"template": {"spec": {"containers": containers}}}})

    async def images(self) -> dict[str, int]:
        """How many pods run each image."""
        counts: dict[str, int] = {}
        for pod in await self.items(PODS):
            image = pod["spec"]["containers"][0]["image"]
            counts[image] = counts.get(image, 0) + 1
        return dict(sorted(counts.items()))

    async def expect(self, image: str, *, within: float = 120.0) -> None:
        """All pods must run this image after some time."""
        await asyncio.sleep(within)
        images = await self.images()
        check(
            images == {image: REPLICAS},
            f"{within:.0f} s after the change of the template to {image}, pods run {images}",
        )


async def give_up(_self: SyncContext, name: str) -> None:
    """As upstream before collisionCount: the error is retried, and the same name is tried again."""
    raise NameTaken(f'replicasets.apps "{name}" already exists')


NO_COLLISION_COUNT: Sequence[Patch] = ((SyncContext, "_handle_already_exists", give_up),)

BACK_AND_FORTH = Bug(
    "kubernetes#43948",
    "A template that is changed back is never rolled out",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION, Pattern.STALE),
    upstream="fixed",
    mechanism="A, B, and A again: the ReplicaSet of A was not recognized, because its template had been changed or "
    'defaulted differently, but it has the name of A\'s hash. The create failed with "replica sets already exists", '
    "and after 15 retries the Deployment was dropped from the queue.",
    protection="Templates are compared semantically. If another ReplicaSet has the name, status.collisionCount "
    "changes the hash. A key is retried forever.",
)


@BACK_AND_FORTH.scenario(
    "the old ReplicaSet was changed meanwhile",
    options=OPTIONS,
    unguarded=Unguarded("120 s after the change of the template to a, pods run {'b': 5}", NO_COLLISION_COUNT),
)
async def old_set_was_changed(simulation: Simulation) -> None:
    """While B runs, somebody annotates the template of A's ReplicaSet, which is then no longer A's."""
    user = Owner(simulation.user)
    await user.create("a")
    await asyncio.sleep(30.0)
    (old,) = await user.items(SETS)
    await user.set_image("b")
    await asyncio.sleep(30.0)
    note = {"spec": {"template": {"metadata": {"annotations": {"changed": "by hand"}}}}}
    await user.merge(f"{SETS}/{old['metadata']['name']}", note)
    await user.set_image("a")
    await user.expect("a")
    await simulation.run_until_idle()


@BACK_AND_FORTH.scenario("ten changes within a second", options=OPTIONS)
async def ten_changes(simulation: Simulation) -> None:
    """B, A, B, A, … as fast as possible: the ReplicaSet of A is used again, and no key is dropped."""
    user = Owner(simulation.user)
    await user.create("a")
    for image in "bababababa":
        await user.set_image(image)
        await asyncio.sleep(0.01)
    await simulation.run_until_idle()
    check(len(await user.items(SETS)) == 2, "there are not two ReplicaSets")
    await user.expect("a", within=1.0)


COLLISION = Bug(
    "kubernetes#29735 kubernetes#26673",
    "Two templates with the same hash block a Deployment forever",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION,),
    upstream="fixed",
    mechanism="The name of a ReplicaSet is made from a 32-bit hash of its template (Adler-32 at first). If another "
    "ReplicaSet has the name, every sync fails with AlreadyExists.",
    protection="status.collisionCount is incremented and is part of the hashed value.",
)


@COLLISION.scenario(
    "the name is in use",
    options=OPTIONS,
    unguarded=Unguarded("120 s after the change of the template to a, pods run {}", NO_COLLISION_COUNT),
)
async def name_is_anothers(simulation: Simulation) -> None:
    """Another ReplicaSet has the name that results from the hash of the template."""
    user = Owner(simulation.user)
    await user.create("a", replicas=0)
    await simulation.run_until_idle()
    (replica_sets,) = await user.items(SETS)
    name = replica_sets["metadata"]["name"]
    await user.request("DELETE", WEB, {"propagationPolicy": "Foreground"})
    await simulation.run_until_idle()
    other = workload("ReplicaSet", name, labels={"app": "other"}, pod=pod_spec("z"), replicas=0)
    await user.request("POST", SETS, other)
    await user.create("a")
    await user.expect("a")
    await simulation.run_until_idle()
    deployment = await user.request("GET", WEB)
    check(deployment["status"].get("collisionCount") == 1, f"the status is {deployment['status']}")


def weak_hash(_template: msgspec.Raw | bytes, collision_count: int | None = None) -> str:
    """All templates have the same."""
    return f"{collision_count or 0}"


OLD_REVISIONS = Bug(
    "kubernetes#36117",
    "A new template has no effect and there is no error, until old ReplicaSets are deleted",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION,),
    upstream="closed",
    mechanism="With many old ReplicaSets (revisionHistoryLimit), the weak hash of a new template equaled that of an "
    "old one. When the old ones were deleted, the Deployment continued.",
    protection="status.collisionCount is incremented until the name is free.",
)


@OLD_REVISIONS.scenario(
    "every template has the same hash",
    options=OPTIONS,
    patches=((sync_context, "template_hash", weak_hash),),
    unguarded=Unguarded("120 s after the change of the template to b, pods run {'a': 5}", NO_COLLISION_COUNT),
)
async def every_template_has_the_same_hash(simulation: Simulation) -> None:
    """Four revisions are rolled out one after another, and their hashes collide."""
    user = Owner(simulation.user)
    await user.create("a")
    await asyncio.sleep(30.0)
    for image in "bcd":
        await user.set_image(image)
        await user.expect(image)
    await simulation.run_until_idle()


UPGRADE = Bug(
    "kubernetes#40415",
    "After an upgrade a second ReplicaSet is created for the same template, and all pods are replaced",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION,),
    upstream="fixed",
    mechanism="The new release computed a different hash, or had different defaults, and looked up the ReplicaSet by "
    "its hash.",
    protection="The ReplicaSet is found by its template, compared semantically and without the hash label. Its hash "
    "does not matter.",
)


def same_hash(one: msgspec.Raw | bytes, other: msgspec.Raw | bytes) -> bool:
    """Whether the first one's label has the hash of the other."""
    return labels_of(one).get(HASH_LABEL) == template_hash(other, None)


@UPGRADE.scenario(
    "a ReplicaSet with the hash of another release",
    options=OPTIONS,
    unguarded=Unguarded("2 ReplicaSets have the template of web", ((sync_context, "equal_ignore_hash", same_hash),)),
)
async def hash_of_another_release(simulation: Simulation) -> None:
    """When the manager starts, there is a ReplicaSet with pods that an older release named with another hash."""
    user = Owner(simulation.user)
    simulation.kill(down=10.0)
    await asyncio.sleep(1.0)
    created = await user.create("a")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": created["metadata"]["uid"]}
    meta = {"ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}]}
    labels = {"app": "web", HASH_LABEL: "legacy"}
    pod = pod_spec("a", terminationGracePeriodSeconds=1)
    old = workload("ReplicaSet", "web-legacy", labels=labels, pod=pod, metadata=meta, replicas=REPLICAS)
    old["metadata"]["labels"] = labels
    await user.request("POST", SETS, old)
    await simulation.run_until_idle()
    names = sorted(replica_set["metadata"]["name"] for replica_set in await user.items(SETS))
    check(names == ["web-legacy"], f"{len(names)} ReplicaSets have the template of web: {names}")


SHARED_CACHE = Bug(
    "kubernetes#31780",
    "The controller changes objects in the cache that all controllers share",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC, Pattern.INTERMEDIATE),
    upstream="fixed",
    mechanism="A ReplicaSet was changed in the cache, and then written. If the write failed, the cache still had the "
    "change, and the retry found nothing to do.",
    protection="Objects of a cache are frozen structs: changing one raises an error. Only force_setattr, as in the "
    "run without the guard, circumvents that.",
)
put_set = SyncContext._put_set


async def change_in_place(self: SyncContext, name: str, changes: Mapping[str, bytes | None]) -> ReplicaSet:
    """The cached object is changed before the request is sent."""
    size = changes.get("spec.replicas")
    if size is not None:
        msgspec.structs.force_setattr(self._sets[name].spec, "replicas", msgspec.json.decode(size))
    return await put_set(self, name, changes)


@SHARED_CACHE.scenario(
    "a resize fails once",
    options=SimulationOptions(controllers=("deployment",)),
    unguarded=Unguarded("the ReplicaSet specifies 9, not 5", ((SyncContext, "_put_set", change_in_place),)),
)
async def resize_fails_once(simulation: Simulation) -> None:
    """The ReplicaSet is scaled manually, and the first attempt to correct it fails. Nobody else writes to it."""
    user = Owner(simulation.user)
    await user.create("a")
    await simulation.run_until_idle()
    (one,) = await user.items(SETS)
    path = f"{SETS}/{one['metadata']['name']}"
    simulation.add_rule(Rule(fail(500, "InternalError"), verb="update", resource="replicasets", subresource="", nth=1))
    await user.merge(path, {"spec": {"replicas": 9}})
    await asyncio.sleep(60.0)
    size = (await user.request("GET", path))["spec"]["replicas"]
    check(size == REPLICAS, f"a minute after it was scaled by hand the ReplicaSet specifies {size}, not {REPLICAS}")
    await simulation.run_until_idle()


OUT_OF_SYNC = Bug(
    "kubernetes#117008",
    "The replicas of Deployments and their ReplicaSets differ until the manager is restarted",
    controller=CONTROLLER,
    patterns=(Pattern.STALE, Pattern.UNOBSERVED),
    upstream="closed; the cause was never found",
    mechanism="At some point changes of Deployments had no effect any more, although the manager was running and was "
    "the leader. A restart helped. Here: a change of a ReplicaSet does not enqueue the Deployment, and failures are "
    "not retried.",
    protection="Every event of a ReplicaSet enqueues its Deployment, and failures are retried forever, with backoff.",
)
reconcile = DeploymentController.reconcile


async def forget_failures(self: DeploymentController, key: str) -> Requeue | None:
    """Failures are not retried."""
    with contextlib.suppress(Exception):
        return await reconcile(self, key)
    return None


@OUT_OF_SYNC.scenario(
    "a ReplicaSet is scaled manually",
    options=OPTIONS,
    unguarded=Unguarded("there are 9 pods of 5", ((SetEvents, "update_replica_set", lambda _self, _old, _new: None),)),
)
async def scaled_by_hand(simulation: Simulation) -> None:
    """The ReplicaSet is scaled manually. The controller scales it back, and scaling the Deployment still works
    later."""
    user = Owner(simulation.user)
    await user.create("a")
    await asyncio.sleep(60.0)
    (one,) = await user.items(SETS)
    for size in (9, 1):
        await user.merge(f"{SETS}/{one['metadata']['name']}", {"spec": {"replicas": size}})
        await asyncio.sleep(60.0)
        count = len(await user.items(PODS))
        check(count == REPLICAS, f"a minute later there are {count} pods of {REPLICAS}")
    await user.merge(f"{SETS}/{one['metadata']['name']}", {"spec": {"replicas": 7}})
    await user.merge(WEB, {"spec": {"replicas": 7}})
    await simulation.run_until_idle()
    await user.set_image("b")
    await simulation.run_until_idle()
    check(await user.images() == {"b": 7}, f"pods run {await user.images()}")


@OUT_OF_SYNC.scenario(
    "writes fail for a quarter of an hour",
    options=OPTIONS,
    unguarded=Unguarded("its ReplicaSet specifies 5", ((DeploymentController, "reconcile", forget_failures),)),
)
async def writes_fail(simulation: Simulation) -> None:
    """The API server rejects all writes of ReplicaSets while the Deployment is scaled."""
    user = Owner(simulation.user)
    await user.create("a")
    await asyncio.sleep(60.0)
    broken = simulation.add_rule(Rule(fail(503, "ServiceUnavailable"), verb="update", resource="replicasets"))
    await user.merge(WEB, {"spec": {"replicas": 3}})
    await asyncio.sleep(900.0)
    simulation.remove_rule(broken)
    await asyncio.sleep(1000.0)  # the longest back-off of the queue
    (one,) = await user.items(SETS)
    if one["spec"]["replicas"] != 3:
        raise Violation(f"the Deployment specifies 3, its ReplicaSet specifies {one['spec']['replicas']}")
    await simulation.run_until_idle()


BUGS = (OUT_OF_SYNC, BACK_AND_FORTH, COLLISION, UPGRADE, SHARED_CACHE, OLD_REVISIONS)
