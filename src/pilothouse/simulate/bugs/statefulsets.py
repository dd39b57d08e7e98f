"""Known bugs of StatefulSets."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pilothouse.api.apps import ControllerRevision, StatefulSet
from pilothouse.client.interceptor import Answered, Observation, Rule, delay
from pilothouse.controllers.node.taint_eviction.controller import TaintEvictionController
from pilothouse.controllers.shared.history import equal_revision
from pilothouse.controllers.workloads.statefulset import StatefulSetOptions, decide, revisions
from pilothouse.controllers.workloads.statefulset.blueprint import Blueprint
from pilothouse.controllers.workloads.statefulset.controller import StatefulSetController, _Apply
from pilothouse.controllers.workloads.statefulset.decide import DeletePod, Observed, Plan
from pilothouse.controllers.workloads.statefulset.identity import revision_of
from pilothouse.controllers.workloads.statefulset.revisions import Revisions, StatefulHistory
from pilothouse.nodes import Profile
from pilothouse.runtime import Requeue, SharedInformer
from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.statefulsets import StatefulSets
from pilothouse.sim.process import Process
from pilothouse.simulate.bugs.declaration import Bug, Pattern, Unguarded, check
from pilothouse.simulate.bugs.machines import Machines
from pilothouse.simulate.bugs.nodes import trust
from pilothouse.simulate.bugs.user import APPS, PODS, Doc, User, pod_spec, workload

ALL = f"{APPS}/statefulsets"
REVISIONS = f"{APPS}/controllerrevisions"
WEB = f"{ALL}/web"
CONTROLLER = "statefulset-controller"
OPTIONS = SimulationOptions(nodes=2, controllers=("statefulset", "pvc-protection"))
NO_NODES = replace(OPTIONS, nodes=0)
REPLICAS = 4
PROBE = "simulated.pilothouse.dev/readiness-probe"


def invariants() -> Sequence[Invariant]:
    """The invariants of most of these scenarios."""
    return (StatefulSets(),)


def ordered() -> Sequence[Invariant]:
    """The invariants of scenarios with OrderedReady."""
    return (StatefulSets(ordered=True),)


class Owner(User):
    """A user with a StatefulSet."""

    async def create(self, image: str = "a", **spec: Any) -> Doc:
        """Create the StatefulSet ``web``."""
        pod = pod_spec(image, terminationGracePeriodSeconds=1)
        whole = workload("StatefulSet", pod=pod, **{"replicas": REPLICAS, "serviceName": "web", **spec})
        return await self.request("POST", ALL, whole)

    async def set_image(self, image: str) -> None:
        """Change the template."""
        containers = [{"name": "main", "image": image}]
        await self.merge(WEB, {"spec": {"template": {"spec": {"containers": containers}}}})

    async def images(self) -> dict[str, str]:
        """The images of the pods, by name."""
        pods = await self.items(PODS)
        return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in pods}

    async def expect(self, image: str, *, within: float = 120.0) -> None:
        """All pods must run this image after some time."""
        await asyncio.sleep(within)
        images = await self.images()
        wrong = sorted(name for name, other in images.items() if other != image)
        check(images, "there are no pods")
        check(
            not wrong,
            f"{within:.0f} s after the change of the template to {image}, these pods have another image: {wrong}",
        )


def rolling(**bounds: Any) -> Doc:
    """The update strategy."""
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **bounds}}


DELETED_DURING_UPDATE = Bug(
    "kubernetes#70442",
    "A pod that is deleted during a rolling update is created with the new revision, and a pod of the old revision "
    "remains",
    controller=CONTROLLER,
    patterns=(Pattern.INTERMEDIATE,),
    upstream="closed",
    mechanism="The progress of the update was a count of updated pods, so a pod that was replaced out of order "
    "counted as the next one.",
    protection="Each sync compares the revision of every pod, from the highest ordinal down.",
)


def by_count(observed: Observed) -> tuple[DeletePod, ...]:
    """The number of updated pods determines which pod is updated next, starting from the end."""
    slots = observed.replicas.slots
    updated = sum(1 for slot in slots if slot.pod is not None and revision_of(slot.pod.metadata) == observed.update)
    if updated == len(slots) or any(
        slot.pod is None or observed.rules.is_unavailable(slot.pod, observed.now) for slot in slots
    ):
        return ()
    slot = slots[len(slots) - 1 - updated]
    assert slot.pod is not None, "all pods are there"
    revision = revision_of(slot.pod.metadata)
    return (DeletePod(slot.name, revision),) if revision != observed.update else ()


@DELETED_DURING_UPDATE.scenario(
    "the first pod is deleted",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("these pods have another image: \\['web-2'\\]", ((decide, "_pods_to_update", by_count),)),
    cases={"with rollingUpdate": {"strategy": rolling()}},
    variations={"without": {"strategy": {"type": "RollingUpdate"}}},
)
async def first_pod_is_deleted(simulation: Simulation, strategy: Doc) -> None:
    """The update has started with the last pod; the first pod is deleted manually."""
    user = Owner(simulation.user)
    await user.create("a", updateStrategy=strategy)
    await simulation.run_until_idle()
    await user.set_image("b")
    await asyncio.sleep(0.5)
    await user.request("DELETE", f"{PODS}/web-0", {})
    await user.expect("b")
    await simulation.run_until_idle()


FLIP = Bug(
    "kubernetes#78209",
    "The template changes back and forth, and pods are created from the old revision",
    controller=CONTROLLER,
    patterns=(Pattern.STALE, Pattern.COLLISION),
    upstream="closed (rotten)",
    mechanism="The revision with the highest number was assumed to be that of the template, even after the template "
    "had changed back.",
    protection="The revision with the template's data is looked up, and its number becomes the highest.",
)
get_revisions = StatefulHistory.get_stateful_set_revisions


async def by_number(
    self: StatefulHistory, owner: StatefulSet, blueprint: Blueprint, revisions: Sequence[ControllerRevision]
) -> Revisions:
    """If the template has a revision, the newest one is used for it."""
    if not any(equal_revision(revision.data, blueprint.patch) for revision in revisions):
        return await get_revisions(self, owner, blueprint, revisions)
    newest = revisions[-1]
    name = owner.status.current_revision
    current = next((revision for revision in revisions if revision.metadata.name == name), newest)
    return Revisions(current, newest, owner.status.collision_count or 0)


@FLIP.scenario(
    "ten changes within a second",
    options=OPTIONS,
    invariants=ordered,
    unguarded=Unguarded(
        "these pods have another image: \\['web-", ((StatefulHistory, "get_stateful_set_revisions", by_number),)
    ),
)
async def ten_changes(simulation: Simulation) -> None:
    """B, A, B, A, … as fast as possible; the last template is A, and its revision is used again."""
    user = Owner(simulation.user)
    await user.create("a")
    await simulation.run_until_idle()
    for image in "bababababa":
        await user.set_image(image)
        await asyncio.sleep(0.01)
    await user.expect("a")
    await simulation.run_until_idle()
    check(len(await user.items(REVISIONS)) == 2, "there are not two revisions")


NEGATIVE_COUNT = Bug(
    "kubernetes#58347 kubernetes#56355 kubernetes#69400",
    "status.currentReplicas is -1, and the StatefulSet is stuck",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION, Pattern.INTERMEDIATE),
    upstream="closed; the status is still computed so",
    mechanism="Each pod that the update deletes decremented currentReplicas, even if the pod had neither the current "
    "nor the update revision. The API server rejects a negative number, in every sync. (#56355 has a second cause: "
    "revisions that were not in the cache yet.)",
    protection="Only pods of the current revision decrement it.",
)
carry_out = _Apply.carry_out


async def count_all(self: _Apply, plan: Plan) -> None:
    """Every pod that the update deletes counts."""
    await carry_out(self, plan)
    self.replaced = len(plan.update)


class StatusAccepted(Invariant):
    """The API server rejects no status of a StatefulSet as invalid."""

    def observed(self, process: Process, observation: Observation) -> None:
        """Check a response."""
        if isinstance(observation, Answered) and (observation.call.resource, observation.response.status) == (
            "statefulsets",
            422,
        ):
            message = msgspec.json.decode(observation.response.body)["message"]
            raise Violation(f"the API server rejects the status of {observation.call.name}: {message}")


@NEGATIVE_COUNT.scenario(
    "a third template while pods of the second are not ready",
    options=NO_NODES,
    invariants=lambda: (StatusAccepted(),),
    unguarded=Unguarded("rejects the status of web: .*currentReplicas.* -1", ((_Apply, "carry_out", count_all),)),
)
async def third_template(simulation: Simulation) -> None:
    """Four templates, one after another, and pods that are never ready."""
    user = Owner(simulation.user)
    await user.create("a", podManagementPolicy="Parallel", replicas=1)
    for image in "bcdb":
        await asyncio.sleep(2.0)
        await user.set_image(image)
    await asyncio.sleep(2.0)
    stateful_set = await user.request("GET", WEB)
    observed_generation, generation = (
        stateful_set["status"]["observedGeneration"],
        stateful_set["metadata"]["generation"],
    )
    check(
        observed_generation == generation,
        f"web is of generation {generation}, its status is of generation {observed_generation}",
    )
    await user.expect("b", within=1.0)
    check(len(await user.items(REVISIONS)) == 4, "there are not four revisions")


wait_synced = SharedInformer.wait_synced


async def do_not_wait_for_revisions(self: SharedInformer[Any]) -> None:
    """As upstream before 1.9."""
    if self.kind.resource != "controllerrevisions":
        await wait_synced(self)


@NEGATIVE_COUNT.scenario(
    "revisions that are not in the cache after a restart",
    options=OPTIONS,
    unguarded=Unguarded(
        "the revisions have the numbers", ((SharedInformer, "wait_synced", do_not_wait_for_revisions),)
    ),
)
async def revisions_not_listed(simulation: Simulation) -> None:
    """kubernetes#56355: the manager is restarted while revisions cannot be listed, and the template changes."""
    user = Owner(simulation.user)
    await user.create("a")
    await simulation.run_until_idle()
    for image in "bc":
        await user.set_image(image)
        await simulation.run_until_idle()
    with simulation.held_watches("controllerrevisions"):
        simulation.kill(down=1.0)
        await asyncio.sleep(10.0)
        await user.set_image("d")
        await asyncio.sleep(60.0)
    await asyncio.sleep(60.0)
    numbers = sorted(revision["revision"] for revision in await user.items(REVISIONS))
    check(numbers == [1, 2, 3, 4], f"the revisions have the numbers {numbers}")
    await user.expect("d")


OTHER_WORDS = Bug(
    "kubernetes#61998",
    "A revision is never equal to the template, and all pods are replaced again and again",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION,),
    upstream="closed",
    mechanism="A webhook, or another release, wrote an equivalent template: with nulls, or without defaults. "
    "Revisions are compared byte by byte, so a new one was created each time.",
    protection="Nulls equal missing fields, and templates are compared with the current defaults (gate "
    "StatefulSetSemanticRevisionComparison).",
)


@OTHER_WORDS.scenario(
    "a revision written manually",
    options=OPTIONS,
    invariants=ordered,
    unguarded=Unguarded(
        "2 revisions have the template of web",
        (
            (revisions, "equal_revision", lambda one, other: bytes(one) == bytes(other)),
            (revisions, "equal_with_defaults", lambda _one, _other: False),
        ),
    ),
)
async def revision_by_hand(simulation: Simulation) -> None:
    """The only revision is equivalent to the template, but lacks the defaults of the API server."""
    user = Owner(simulation.user)
    created = await user.create("a", replicas=0)
    await simulation.run_until_idle()
    (first,) = await user.items(REVISIONS)
    await user.request("DELETE", f"{REVISIONS}/{first['metadata']['name']}", {})
    template = {"$patch": "replace", "metadata": {"labels": {"app": "web"}, "creationTimestamp": None}}
    template["spec"] = {"terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "a"}]}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": created["metadata"]["uid"]}
    metadata: Doc = {"name": "web-by-hand", "labels": {"app": "web"}}
    metadata["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    body = {"metadata": metadata, "data": {"spec": {"template": template}}, "revision": 7}
    await user.request("POST", REVISIONS, body)
    await user.merge(WEB, {"spec": {"replicas": REPLICAS}})
    await asyncio.sleep(120.0)
    names = sorted(revision["metadata"]["name"] for revision in await user.items(REVISIONS))
    check(names == ["web-by-hand"], f"{len(names)} revisions have the template of web: {names}")
    await simulation.run_until_idle()
    status = (await user.request("GET", WEB))["status"]
    check(status["currentRevision"] == status["updateRevision"] == "web-by-hand", f"the status is {status}")


BROKEN_POD = Bug(
    "kubernetes#67250 kubernetes#100094 kubernetes#100289",
    "With OrderedReady a broken pod blocks the corrected template",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC,),
    upstream="open; a documented limitation",
    mechanism="With OrderedReady each pod waits until the previous one is ready. The broken pod never is, so it is "
    "not replaced by one of the corrected template.",
    protection="podManagementPolicy: Parallel. With OrderedReady the same happens here as upstream, until somebody "
    "deletes the pod.",
)


@BROKEN_POD.scenario(
    "a template that is never ready",
    options=OPTIONS,
    unguarded=Unguarded(
        "these pods have another image: \\['web-0', 'web-1', 'web-2', 'web-3'\\]", arguments={"policy": "OrderedReady"}
    ),
)
async def never_ready(simulation: Simulation, policy: str = "Parallel") -> None:
    """The pods of the second template are never ready, those of the third are."""
    user = Owner(simulation.user)
    await user.create("a", podManagementPolicy=policy)
    await asyncio.sleep(60.0)
    await user.merge(WEB, {"spec": {"template": {"metadata": {"annotations": {PROBE: "fail"}}}}})
    await user.set_image("b")
    await asyncio.sleep(60.0)
    await user.merge(WEB, {"spec": {"template": {"metadata": {"annotations": {PROBE: None}}}}})
    await user.set_image("c")
    await user.expect("c", within=600.0)


TAKEN_NAME = Bug(
    "kubernetes#49909",
    "A revision whose name is in use is never created",
    controller=CONTROLLER,
    patterns=(Pattern.COLLISION,),
    upstream="fixed",
    mechanism="The name of a revision contains a hash of its data, and there was no collisionCount.",
    protection="status.collisionCount is part of the hashed value, and is incremented until the name is free.",
)
create = StatefulHistory._create


async def only_once(
    self: StatefulHistory, owner: StatefulSet, blueprint: Blueprint, number: int, collisions: int
) -> tuple[ControllerRevision, int]:
    """The object with the name is used as the revision."""
    revision, count = await create(self, owner, blueprint, number, collisions)
    if count != collisions:
        await self._history.delete(revision)
        raise RuntimeError("controllerrevisions.apps already exists")
    return revision, count


def weak_hash(_data: bytes | msgspec.Raw, collision_count: int) -> str:
    """All templates have the same."""
    return f"{collision_count}"


@TAKEN_NAME.scenario(
    "every template has the same hash",
    options=OPTIONS,
    invariants=ordered,
    patches=((revisions, "revision_hash", weak_hash),),
    unguarded=Unguarded(
        "these pods have another image: \\['web-0', 'web-1', 'web-2', 'web-3'\\]",
        ((StatefulHistory, "_create", only_once),),
    ),
)
async def every_template_has_the_same_hash(simulation: Simulation) -> None:
    """Three templates, whose hashes collide."""
    user = Owner(simulation.user)
    await user.create("a")
    await asyncio.sleep(60.0)
    for image in "bc":
        await user.set_image(image)
        await user.expect(image)
    await simulation.run_until_idle()


CYCLING = Bug(
    "kubernetes#69967",
    "Pods alternate between Pending, ContainerCreating and Terminating forever",
    controller=CONTROLLER,
    patterns=(Pattern.STALE,),
    upstream="closed (rotten); the cause was never found",
    mechanism="Something deletes each pod as soon as it is bound, and the StatefulSet creates the next one. Here: "
    "taint eviction, whose cache still has a taint that the scheduler has seen removed.",
    protection="Taint eviction reads node and pod live before a deletion.",
)


@CYCLING.scenario(
    "the watch of nodes is stalled",
    options=SimulationOptions(
        nodes=1,
        profile=Profile(events=False),
        controllers=("statefulset", "taint-eviction-controller"),
    ),
    unguarded=Unguarded("times in two minutes", ((TaintEvictionController, "_is_eviction_still_needed", trust),)),
)
async def watch_of_nodes_stands_still(simulation: Simulation) -> None:
    """A taint is removed from the only node, and the event does not arrive."""
    machines = Machines(simulation, {"node-0": ""})
    user = Owner(simulation.user)
    await machines.taint("node-0", "agent-not-ready")
    await asyncio.sleep(5.0)
    created: dict[str, None] = {}
    simulation.add_rule(Rule(delay(1.0), verb="create", resource="pods"))
    with simulation.held_watches("nodes"):
        await machines.untaint("node-0", "agent-not-ready")
        await user.create("a", replicas=1)
        for _ in range(240):
            await asyncio.sleep(0.5)
            created.update((pod["metadata"]["uid"], None) for pod in await user.items(PODS))
        check(len(created) == 1, f"web-0 was created {len(created)} times in two minutes")
    await simulation.run_until_idle()


RESYNC = Bug(
    "kubernetes#68179 kubernetes#75495 kubernetes#75622",
    "With thousands of StatefulSets nothing happens for minutes after each resync",
    controller=CONTROLLER,
    patterns=(Pattern.LOGIC,),
    upstream="closed; the resync every 30 seconds was removed (#75622)",
    mechanism="Every 30 seconds all StatefulSets were enqueued, and each sync took 40 ms. Real changes waited behind "
    "them.",
    protection="The informer has no resync but the manager's (12 to 24 hours), as upstream today.",
    limits="Computation takes no time in a simulation, so each sync is delayed by 0.1 s, in both runs.",
)
MANY = 150
reconcile, add_handler = StatefulSetController.reconcile, SharedInformer.add_handler


async def take_time(self: StatefulSetController, key: str) -> Requeue | None:
    """A tenth of a second."""
    await asyncio.sleep(0.1)
    return await reconcile(self, key)


def resync_every_30_seconds(self: SharedInformer[Any], *handlers: Any, **seconds: Any) -> Any:
    """As upstream before the fix."""
    if self.kind.kind == "StatefulSet":
        seconds["resync_seconds"] = 30.0
    return add_handler(self, *handlers, **seconds)


@RESYNC.scenario(
    "a new StatefulSet among many",
    options=replace(NO_NODES, controller_options={CONTROLLER: StatefulSetOptions(workers=1)}),
    patches=((StatefulSetController, "reconcile", take_time),),
    unguarded=Unguarded(
        "its first pod came after [0-9]+ s", ((SharedInformer, "add_handler", resync_every_30_seconds),)
    ),
)
async def new_among_many(simulation: Simulation) -> None:
    """150 StatefulSets without pods exist, and another one is created more than half a minute after a
    start."""
    user = Owner(simulation.user)
    pod = pod_spec("a")
    for number in range(MANY):
        name = f"web-{number}"
        await user.request("POST", ALL, workload("StatefulSet", name, pod=pod, replicas=0, serviceName=name))
    simulation.kill(down=1.0)
    await asyncio.sleep(1.0 + 30.5)
    began = simulation.env.monotonic()
    await user.create("a", replicas=1)
    while not await user.items(PODS):  # noqa: ASYNC110  # in virtual time
        await asyncio.sleep(0.1)
    seconds = simulation.env.monotonic() - began
    check(seconds < 5.0, f"its first pod came after {seconds:.0f} s")


BUGS = (
    DELETED_DURING_UPDATE,
    FLIP,
    NEGATIVE_COUNT,
    OTHER_WORDS,
    BROKEN_POD,
    CYCLING,
    RESYNC,
    TAKEN_NAME,
)
