"""The controller against the embedded API server, in virtual time, together with the server's evictions; and with
faults. Some rows mirror ``pkg/controller/disruption/disruption_test.go`` of v1.36."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.node_world import PODS, Doc, World, play

from pilothouse.client.errors import TooManyRequests
from pilothouse.client.interceptor import Action, Rule, conflict, fail, gone, lose_answer, lose_request, time_out
from pilothouse.controllers.policy.disruption import DESCRIPTOR
from pilothouse.machinery.times import format_time

PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
APPS = "/apis/apps/v1/namespaces/default"
LABELS = {"app": "web"}
UPDATE = "update poddisruptionbudgets/status web"


def budgeting(story: Callable[[World], Awaitable[None]], *, seed: int = 0) -> None:
    async def with_controller(world: World) -> None:
        await world.start(DESCRIPTOR)
        await story(world)

    play(with_controller, seed=seed)


async def budget(world: World, name: str = "web", **spec: Any) -> Doc:
    return await world.request(
        "POST", PDBS, {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    )


async def status(world: World, name: str = "web") -> tuple[int, int, int, int]:
    """Allowed, healthy, desired, expected; as upstream's tests have them."""
    found = (await world.see(f"{PDBS}/{name}"))["status"]
    return found["disruptionsAllowed"], found["currentHealthy"], found["desiredHealthy"], found["expectedPods"]


async def condition(world: World, name: str = "web") -> Doc:
    return (await world.conditions(f"{PDBS}/{name}"))["DisruptionAllowed"]


async def disrupted(world: World, name: str = "web") -> list[str]:
    return sorted((await world.see(f"{PDBS}/{name}"))["status"].get("disruptedPods") or {})


async def workload(world: World, plural: str, kind: str, replicas: int = 3, **metadata: Any) -> Doc:
    """Something of ``apps/v1``, and the reference to it."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template}
    made = await world.request("POST", f"{APPS}/{plural}", {"metadata": {"name": "web", **metadata}, "spec": spec})
    return reference("apps/v1", kind, made)


def reference(api_version: str, kind: str, made: Doc) -> Doc:
    meta = made["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


async def pods(world: World, *owners: Doc, count: int = 3, first: int = 0, ready: bool = True) -> None:
    for number in range(first, first + count):
        await world.pod(f"p{number}", node="n1", ready=ready, labels=LABELS, ownerReferences=list(owners))


async def report(world: World, name: str, *, ready: bool) -> None:
    listed = [{"type": "Ready", "status": str(ready), "lastTransitionTime": format_time(world.env.now())}]
    await world.merge(f"{PODS}/{name}/status", {"status": {"conditions": listed}})


async def evict(world: World, name: str, **options: Any) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options}
    await world.request("POST", f"{PODS}/{name}/eviction", body)


async def note_evicted(world: World, name: str) -> None:
    """An eviction that dies between the budget and the pod: the pod is noted, marked, and not deleted."""
    found = await world.see(f"{PDBS}/web")
    found["status"]["disruptedPods"] = {name: format_time(world.env.now())}
    found["status"]["disruptionsAllowed"] -= 1
    await world.request("PUT", f"{PDBS}/web/status", found)


# Counting


def test_a_number_that_must_be_there_is_of_the_pods_that_there_are() -> None:
    """TestUnavailable."""

    async def story(world: World) -> None:
        await budget(world, minAvailable=3)
        for number in range(5):
            await asyncio.sleep(1)
            assert await status(world) == (max(0, number - 3), number, 3, number)
            await pods(world, count=1, first=number)
        await report(world, "p0", ready=False)
        await report(world, "p1", ready=False)
        await asyncio.sleep(1)
        assert await status(world) == (0, 3, 3, 5)
        found = await condition(world)
        assert (found["status"], found["reason"], found["message"]) == ("False", "InsufficientPods", "")
        assert await world.events("NoPods") == ["PodDisruptionBudget/web No matching pods found"]

    budgeting(story)


@pytest.mark.parametrize(
    ("spec", "desired"),
    [({"minAvailable": "34%"}, 2), ({"maxUnavailable": 1}, 2), ({"maxUnavailable": "34%"}, 1)],
    ids=["a share that must be there", "a number that may be missing", "a share that may be missing"],
)
@pytest.mark.parametrize(("plural", "kind"), [("replicasets", "ReplicaSet"), ("statefulsets", "StatefulSet")])
def test_shares_are_of_the_size_of_the_workload(spec: Doc, desired: int, plural: str, kind: str) -> None:
    """TestReplicaSet, TestStatefulSetController."""

    async def story(world: World) -> None:
        owner = await workload(world, plural, kind)
        await budget(world, **spec)
        await asyncio.sleep(1)
        assert await status(world) == (0, 0, 0, 0)
        for number in range(3):
            await pods(world, owner, count=1, first=number)
            await asyncio.sleep(1)
            assert await status(world) == (max(0, number + 1 - desired), number + 1, desired, 3)
        assert not [each for each in world.requests() if each.startswith("get")]

    budgeting(story)


def test_shares_are_of_replication_controllers_too_and_a_rogue_pod_counts_as_healthy() -> None:
    """TestReplicationController."""

    async def story(world: World) -> None:
        spec = {"replicas": 3, "selector": LABELS, "template": {"metadata": {"labels": LABELS}, "spec": {}}}
        spec["template"]["spec"] = {"containers": [{"name": "main", "image": "pause"}]}  # type: ignore[index]
        path = "/api/v1/namespaces/default/replicationcontrollers"
        made = await world.request("POST", path, {"metadata": {"name": "web"}, "spec": spec})
        await budget(world, minAvailable="34%")
        await pods(world, reference("v1", "ReplicationController", made))
        await pods(world, count=1, first=3)
        await asyncio.sleep(1)
        assert await status(world) == (2, 4, 2, 3)
        (told,) = await world.events("UnmanagedPods")
        assert "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,}," in told
        assert "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, " in told

    budgeting(story)


def test_a_rollout_counts_once() -> None:
    async def story(world: World) -> None:
        above = await workload(world, "deployments", "Deployment", 3)
        old = await workload(world, "replicasets", "ReplicaSet", 2, ownerReferences=[above])
        new = await workload(world, "replicasets", "ReplicaSet", 2, ownerReferences=[above], name="web-2")
        await budget(world, maxUnavailable=1)
        await pods(world, old, count=2)
        await pods(world, new, count=2, first=2)
        await asyncio.sleep(1)
        assert await status(world) == (2, 4, 2, 3)

    budgeting(story)


@pytest.mark.parametrize("spec", [{"minAvailable": "28%"}, {"maxUnavailable": 1}], ids=["a share", "maxUnavailable"])
def test_pods_that_nobody_owns_allow_nothing_and_are_told_of(spec: Doc) -> None:
    """TestNakedPod, TestIntegerMaxUnavailable, TestStatusForUnmanagedPod."""

    async def story(world: World) -> None:
        await budget(world, **spec)
        await pods(world, count=1)
        await asyncio.sleep(1)
        assert (await status(world))[0] == 0
        assert (await condition(world))["reason"] == "InsufficientPods"
        assert len(await world.events("UnmanagedPods")) == 1

    budgeting(story)


def test_a_size_that_changes_is_noticed_before_any_pod_is() -> None:
    """TestIntegerMaxUnavailableWithScaling, without its sync by hand."""

    async def story(world: World) -> None:
        owner = await workload(world, "replicasets", "ReplicaSet", 3)
        await budget(world, maxUnavailable=1)
        await budget(world, "number", minAvailable=1)
        await pods(world, owner)
        await asyncio.sleep(1)
        assert await status(world) == (1, 3, 2, 3)
        await world.merge(f"{APPS}/replicasets/web", {"spec": {"replicas": 7}})
        await asyncio.sleep(1)
        assert await status(world) == (0, 3, 6, 7)
        assert await status(world, "number") == (2, 3, 1, 3)

    budgeting(story)


def test_a_pod_that_leaves_the_budget_no_longer_counts() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        await world.merge(f"{PODS}/p0", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(1)
        assert await status(world) == (1, 2, 1, 2)

    budgeting(story)


def test_all_budgets_of_a_pod_are_counted_and_that_there_are_several_is_told() -> None:
    async def story(world: World) -> None:
        await budget(world, "b", minAvailable=1)
        await budget(world, "a", minAvailable=0)
        await pods(world, count=1)
        await asyncio.sleep(1)
        assert await status(world, "a") == (1, 1, 0, 1)
        assert await status(world, "b") == (0, 1, 1, 1)
        text = 'Pod/p0 Pod "default"/"p0" matches multiple PodDisruptionBudgets.  Chose "a" arbitrarily.'
        assert await world.events("MultiplePodDisruptionBudgets") == [text]

    budgeting(story)


def test_what_cannot_matter_wakes_nobody() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        adds = world.metrics.value("workqueue_adds_total", "disruption")
        for number in range(10):
            await world.merge(f"{PODS}/p0", {"metadata": {"annotations": {"a": str(number)}}})
        await asyncio.sleep(1)
        assert world.metrics.value("workqueue_adds_total", "disruption") == adds

    budgeting(story)


def test_a_large_budget_is_looked_at_once_for_all_that_happens_within_a_moment() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=1)
        await pods(world, count=600, ready=False)
        await asyncio.sleep(1)
        assert await status(world) == (0, 0, 1, 600)
        before = world.requests().count(UPDATE)
        for number in range(600):
            await report(world, f"p{number}", ready=True)
        assert (await status(world))[1] < 600
        await asyncio.sleep(0.05)
        assert await status(world) == (599, 600, 1, 600)
        assert world.requests().count(UPDATE) - before < 5
        for number in range(550):
            await world.delete(f"{PODS}/p{number}", grace=0)
        await asyncio.sleep(1)
        await world.delete(f"{PDBS}/web")
        await asyncio.sleep(1)
        await budget(world, minAvailable=1)
        await asyncio.sleep(0.001)
        assert await status(world) == (49, 50, 1, 50)

    budgeting(story)


def test_a_new_spec_is_observed() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        await world.merge(f"{PDBS}/web", {"spec": {"minAvailable": 3}})
        await asyncio.sleep(1)
        found = (await world.see(f"{PDBS}/web"))["status"]
        assert found["observedGeneration"] == 2
        assert await status(world) == (0, 3, 3, 3)
        assert (await condition(world))["observedGeneration"] == 2

    budgeting(story)


# Owners that no cache has


async def define(world: World, *, scale: bool) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version: Doc = {"name": "v1", "served": True, "storage": True, "schema": schema}
    if scale:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        version["subresources"] = {"scale": paths}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await world.request("POST", path, {"metadata": {"name": "widgets.example.com"}, "spec": spec})
    await asyncio.sleep(1)


async def widget(world: World) -> Doc:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 10}}
    return reference("example.com/v1", "Widget", await world.request("POST", path, body))


def test_a_custom_workload_is_asked_for_its_scale() -> None:
    """TestScaleResource."""

    async def story(world: World) -> None:
        await define(world, scale=True)
        owner = await widget(world)
        await budget(world, maxUnavailable=5)
        await pods(world, owner, count=4)
        await asyncio.sleep(1)
        assert await status(world) == (0, 4, 5, 10)
        await pods(world, owner, count=4, first=4)
        await asyncio.sleep(1)
        assert await status(world) == (3, 8, 5, 10)
        assert "get widgets/scale w" in world.requests()

    budgeting(story)


@pytest.mark.parametrize(
    ("scale", "text"),
    [
        pytest.param(True, 'found no controllers for pod "p0"', id="the owner is gone"),
        pytest.param(False, "widgets.example.com does not implement the scale subresource", id="the kind has none"),
    ],
)
def test_an_owner_without_a_scale_is_an_error(scale: bool, text: str) -> None:
    """TestScaleFinderNoResource."""

    async def story(world: World) -> None:
        await define(world, scale=scale)
        owner = await widget(world)
        if scale:
            await world.delete("/apis/example.com/v1/namespaces/default/widgets/w")
        await budget(world, maxUnavailable=1)
        await pods(world, owner, count=1)
        await asyncio.sleep(1)
        found = await condition(world)
        assert (found["status"], found["reason"], found["message"]) == ("False", "SyncFailed", text)
        (told,) = await world.events("CalculateExpectedPodCountFailed")
        assert told == f"PodDisruptionBudget/web Failed to calculate the number of expected pods: {text}"

    budgeting(story)


def test_an_owner_of_a_kind_that_nobody_serves_is_an_error_and_a_new_owner_ends_it() -> None:
    """TestUnsupportedControllerPod."""

    async def story(world: World) -> None:
        stranger = {
            "apiVersion": "apps.test.io/v1",
            "kind": "TestWorkload",
            "name": "f",
            "uid": "u",
            "controller": True,
        }
        await budget(world, minAvailable="28%")
        await pods(world, stranger, count=1)
        await asyncio.sleep(1)
        found = await condition(world)
        assert found["message"] == 'no matches for kind "TestWorkload" in version "apps.test.io/v1"'
        assert (await status(world))[0] == 0
        asked = len(world.requests())
        await asyncio.sleep(3600)
        assert len(world.requests()) == asked, "it is not tried again and again"
        await world.merge(f"{PODS}/p0", {"metadata": {"annotations": {"a": "b"}}})
        await asyncio.sleep(1)
        assert len(world.requests()) > asked, "but at the next event of a pod"
        owner = await workload(world, "replicasets", "ReplicaSet", 1)
        await world.merge(f"{PODS}/p0", {"metadata": {"ownerReferences": [owner]}})
        await asyncio.sleep(1)
        assert await status(world) == (0, 1, 1, 1)
        assert (await condition(world))["reason"] == "InsufficientPods"

    budgeting(story)


def test_a_daemon_sets_pods_have_no_size() -> None:
    async def story(world: World) -> None:
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
        spec = {"selector": {"matchLabels": LABELS}, "template": template}
        made = await world.request("POST", f"{APPS}/daemonsets", {"metadata": {"name": "web"}, "spec": spec})
        await budget(world, maxUnavailable=1)
        await pods(world, reference("apps/v1", "DaemonSet", made), count=1)
        await asyncio.sleep(1)
        assert (await condition(world))["message"] == "daemonsets.apps does not implement the scale subresource"

    budgeting(story)


def test_a_workload_that_the_cache_has_not_seen_is_asked_for_its_scale() -> None:
    async def story(world: World) -> None:
        await budget(world, maxUnavailable=1)
        with world.faults.hold(resource="replicasets.apps"):
            owner = await workload(world, "replicasets", "ReplicaSet", 3)
            await pods(world, owner)
            await asyncio.sleep(1)
            assert await status(world) == (1, 3, 2, 3)
        assert "get replicasets/scale web" in world.requests()
        assert await world.events("CalculateExpectedPodCountFailed") == []

    budgeting(story)


# Together with evictions


def test_evictions_take_what_is_allowed_and_no_more() -> None:
    async def story(world: World) -> None:
        await world.node("n1")
        await budget(world, minAvailable=2)
        await pods(world)
        await asyncio.sleep(1)
        await evict(world, "p0", gracePeriodSeconds=30)
        with pytest.raises(TooManyRequests, match="would violate the pod's disruption budget"):
            await evict(world, "p1")
        await asyncio.sleep(1)
        assert await disrupted(world) == []
        assert await status(world) == (0, 2, 2, 3), "one that is being deleted is expected, and not healthy"
        await pods(world, count=1, first=3)
        await asyncio.sleep(1)
        await evict(world, "p1")
        await asyncio.sleep(1)
        assert (await status(world))[0] == 0

    budgeting(story)


def test_an_eviction_that_deleted_nothing_is_forgotten_after_two_minutes() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        assert await status(world) == (2, 3, 1, 3)
        await note_evicted(world, "p0")
        await asyncio.sleep(118)
        assert await disrupted(world) == ["p0"]
        assert await status(world) == (1, 2, 1, 3)
        await asyncio.sleep(5)
        assert await disrupted(world) == []
        assert await status(world) == (2, 3, 1, 3)
        text = "Pod was expected by PDB default/default to be deleted but it wasn't"
        assert await world.events("NotDeleted") == [f"Pod/p0 {text}"]

    budgeting(story)


def test_who_was_evicted_and_is_gone_is_forgotten_at_once() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        await note_evicted(world, "not there")
        await asyncio.sleep(1)
        assert await disrupted(world) == []
        assert await status(world) == (2, 3, 1, 3)

    budgeting(story)


def test_a_pod_that_the_cache_still_shows_counts_as_gone_once_it_was_evicted() -> None:
    """The budget's event comes, the pod's does not: without the note it would be allowed to evict a second one."""

    async def story(world: World) -> None:
        await world.node("n1")
        await budget(world, minAvailable=2)
        await pods(world)
        await asyncio.sleep(1)
        with world.faults.hold(resource="pods"):
            await evict(world, "p0")
            await asyncio.sleep(5)
            assert await status(world) == (0, 2, 2, 3)
            assert await disrupted(world) == ["p0"]
            with pytest.raises(TooManyRequests):
                await evict(world, "p1")
        await asyncio.sleep(1)
        assert await disrupted(world) == []

    budgeting(story)


def test_a_status_is_not_written_over_evictions_that_came_between() -> None:
    """TestUpdatePDBStatusRetries: with a cache that does not show them."""

    async def story(world: World) -> None:
        await world.node("n1")
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        assert (await status(world))[0] == 2
        with world.faults.hold(resource="poddisruptionbudgets.policy"):
            await evict(world, "p1")
            await evict(world, "p2")
            await world.delete(f"{PODS}/p0", grace=0)
            await asyncio.sleep(1)
            assert (await status(world))[0] == 0
        await asyncio.sleep(2)
        assert await status(world) == (0, 0, 1, 2)

    budgeting(story)


# Faults


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(conflict(), id="409"),
        pytest.param(fail(500), id="500"),
        pytest.param(fail(429), id="429"),
        pytest.param(lose_request(), id="the request is lost"),
        pytest.param(lose_answer(), id="the answer is lost"),
        pytest.param(time_out(sent=True), id="the answer does not come"),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
def test_a_write_that_fails_is_made_good(action: Action, times: int) -> None:
    async def story(world: World) -> None:
        rule = Rule(action, verb="update", resource="poddisruptionbudgets.policy", times=times)
        world.faults.add(rule)
        await budget(world, minAvailable=2)
        await pods(world)
        await asyncio.sleep(120)
        assert await status(world) == (1, 3, 2, 3)
        assert (await condition(world))["reason"] == "SufficientPods"
        assert rule.hits == times
        asked = len(world.requests())
        await asyncio.sleep(3600)
        assert len(world.requests()) == asked

    budgeting(story)


def test_a_scale_that_cannot_be_had_now_allows_nothing_until_it_can() -> None:
    async def story(world: World) -> None:
        await define(world, scale=True)
        owner = await widget(world)
        rule = Rule(fail(503), verb="get", resource="widgets.example.com", times=12)
        world.faults.add(rule)
        await budget(world, maxUnavailable=9)
        await pods(world, owner)
        await asyncio.sleep(1)
        found = await condition(world)
        assert (found["reason"], found["status"]) == ("SyncFailed", "False")
        assert (await status(world))[0] == 0
        await asyncio.sleep(1200)
        assert rule.hits == 12
        assert await status(world) == (2, 3, 1, 10), "no event of a pod was needed"

    budgeting(story)


def test_a_budget_that_goes_while_it_is_written_is_no_failure() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=2)
        await pods(world)
        await asyncio.sleep(1)
        with world.faults.hold(resource="poddisruptionbudgets.policy"):
            await world.delete(f"{PDBS}/web")
            await world.delete(f"{PODS}/p0", grace=0)
            await asyncio.sleep(60)
            assert world.requests().count(UPDATE) <= 6
        await asyncio.sleep(1)
        assert world.metrics.value("pilothouse_reconcile_errors_total") == 0

    budgeting(story)


def test_a_budget_made_anew_under_the_same_name_is_another_one() -> None:
    async def story(world: World) -> None:
        await budget(world, minAvailable=2)
        await pods(world)
        await asyncio.sleep(1)
        with world.faults.hold(resource="poddisruptionbudgets.policy"):
            await world.delete(f"{PDBS}/web")
            await budget(world, minAvailable=3)
            await world.delete(f"{PODS}/p0", grace=0)
            await asyncio.sleep(10)
            assert "observedGeneration" not in (await world.see(f"{PDBS}/web"))["status"] or (await status(world)) == (
                0,
                0,
                0,
                0,
            )
        await asyncio.sleep(20)
        assert await status(world) == (0, 2, 3, 2)

    budgeting(story)


@pytest.mark.parametrize("resource", ["pods", "poddisruptionbudgets.policy", "replicasets.apps"])
def test_watches_that_end_in_410_lose_nothing(resource: str) -> None:
    async def story(world: World) -> None:
        owner = await workload(world, "replicasets", "ReplicaSet", 3)
        await budget(world, maxUnavailable=1)
        await pods(world, owner)
        await asyncio.sleep(1)
        with world.faults.hold(resource=resource):
            await world.merge(f"{APPS}/replicasets/web", {"spec": {"replicas": 2}})
            await world.delete(f"{PODS}/p0", grace=0)
            await note_evicted(world, "p1")
            await asyncio.sleep(1)
            world.faults.end_watches(resource=resource, with_=gone())
        await asyncio.sleep(200)
        assert await status(world) == (1, 2, 1, 2)

    budgeting(story)


def test_a_controller_that_starts_anew_takes_up_what_was_left() -> None:
    async def story(world: World) -> None:
        first = await world.start(DESCRIPTOR)
        await budget(world, minAvailable=1)
        await pods(world)
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        await note_evicted(world, "p0")
        await world.delete(f"{PODS}/p1", grace=0)
        await asyncio.sleep(60)
        await world.start(DESCRIPTOR)
        await asyncio.sleep(1)
        assert await status(world) == (0, 1, 1, 2)
        await asyncio.sleep(70)
        assert await status(world) == (1, 2, 1, 2)
        await asyncio.sleep(1)
        assert await disrupted(world) == []

    play(story)


# Conditions that nobody acted upon


async def mark(world: World, name: str, reason: str = "EvictionByEvictionAPI") -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": "Eviction API: evicting",
        "lastTransitionTime": format_time(world.env.now()),
    }
    body = {"status": {"conditions": [condition]}}
    await world.request("PATCH", f"{PODS}/{name}/status", body, "application/strategic-merge-patch+json")


def test_a_disruption_that_does_not_come_is_called_off_on_the_pod() -> None:
    """TestStalePodDisruption."""

    async def story(world: World) -> None:
        await pods(world)
        await mark(world, "p0")
        await mark(world, "p1", "TerminationByKubelet")
        await asyncio.sleep(118)
        assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"
        await asyncio.sleep(4)
        found = (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]
        assert found["status"] == "False"
        assert "reason" not in found
        assert "message" not in found
        assert sorted(await world.conditions(f"{PODS}/p0")) == ["DisruptionTarget", "Ready"]
        assert (await world.conditions(f"{PODS}/p1"))["DisruptionTarget"]["status"] == "True"
        await asyncio.sleep(3600)
        assert world.requests() == ["patch pods/status p0"]

    budgeting(story)


def test_a_pod_that_is_being_deleted_keeps_it() -> None:
    async def story(world: World) -> None:
        await world.node("n1")
        await pods(world)
        await mark(world, "p0")
        await world.delete(f"{PODS}/p0", grace=3000)
        await asyncio.sleep(300)
        assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"

    budgeting(story)


def test_a_condition_that_is_new_again_has_its_own_time() -> None:
    """The cache shows the one that is stale; the patch carries its version and is refused."""

    async def story(world: World) -> None:
        await pods(world)
        await mark(world, "p0")
        await asyncio.sleep(100)
        with world.faults.hold(resource="pods"):
            await world.merge(f"{PODS}/p0/status", {"status": {"conditions": []}})
            await mark(world, "p0")
            await asyncio.sleep(60)
            assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"
        await asyncio.sleep(50)
        assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"
        await asyncio.sleep(30)
        assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "False"
        assert world.requests().count("patch pods/status p0") > 1

    budgeting(story)


@pytest.mark.parametrize("action", [fail(500), conflict(), lose_answer()], ids=["500", "409", "the answer is lost"])
def test_a_reset_that_fails_is_tried_again(action: Action) -> None:
    async def story(world: World) -> None:
        rule = Rule(action, verb="patch", resource="pods", times=2)
        world.faults.add(rule)
        await pods(world)
        await mark(world, "p0")
        await asyncio.sleep(130)
        assert rule.hits
        assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "False"

    budgeting(story)
