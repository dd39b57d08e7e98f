"""Old caches, lost answers, managers that die: one pod per node all the same."""

from typing import Any

import pytest
from tests.controllers.daemonset.world import AGENT, PODS, REVISIONS, World, story, world

from pilothouse.client.interceptor import Rule, delay, delay_answer, fail, gone, lose_answer, time_out
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.env import Env, virtual

Doc = dict[str, Any]


def one_pod_per_node(pods: list[Doc]) -> None:
    """No two live pods on one node."""
    places = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][
            0
        ]["matchFields"][0]["values"][0]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
    ]
    assert len(places) == len(set(places)), places


@pytest.mark.parametrize(
    ("guarded", "created"),
    [
        pytest.param(True, 3, id="the guard knows that the cache is old, for however long"),
        pytest.param(False, 6, id="expectations alone give up after five minutes"),
    ],
)
def test_an_old_cache_makes_no_second_pod(guarded: bool, created: int) -> None:
    """kubernetes#134937."""

    async def tell(world: World) -> None:
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.settle(301)
            await world.merge(AGENT, {"metadata": {"labels": {"wake": "up"}}})
            await world.settle()
            assert len(world.sent("create", "pods")) == created
        await world.settle(1100)
        assert await world.places() == ["n0", "n1", "n2"]
        skips = world.metrics.value("daemonset_controller_stale_sync_skips_total", "", "pods")
        assert (skips > 0) == guarded

    story(tell, DaemonSetOptions(wait_for_own_writes=guarded))


async def test_a_manager_that_dies_after_its_creates_leaves_no_second_pods(env: Env) -> None:
    """kubernetes#54096: the next one lists before it acts, and not from an old cache."""
    async with world(env) as made:
        await made.add_nodes(5)
        made.checks.append(one_pod_per_node)
        first = await made.start()
        with made.faults.hold(resource="pods"):
            await made.create_set()
            await made.settle(0.01)
            first.cancel()
            await made.settle()
        assert len(await made.pods()) == 5
        await made.start()
        await made.settle(10)
        assert len(made.sent("create", "pods")) == 5
        assert await made.places() == ["n0", "n1", "n2", "n3", "n4"]


def test_nothing_happens_before_the_nodes_are_known() -> None:
    """kubernetes#14528: a failed list of nodes was taken for no nodes, or for few."""

    async def main(env: Env) -> None:
        async with world(env) as made:
            await made.add_nodes(4)
            await made.start()
            await made.create_set()
            await made.settle()
            assert await made.places() == ["n0", "n1", "n2", "n3"]

    async def blind(env: Env) -> None:
        async with world(env) as made:
            await made.add_nodes(4)
            await made.create_set()
            rule = made.faults.add(Rule(fail(500), resource="nodes"))
            starting = made._group.start(_start(made), name="starting")
            await made.settle(120)
            assert rule.hits > 2
            assert not starting.done()
            assert [seen for seen in made.requests if seen.call.verb in ("create", "delete", "update")] == []
            made.faults.clear()
            await made.settle(120)
            assert await made.places() == ["n0", "n1", "n2", "n3"]

    async def _start(made: World) -> None:
        await made.start()

    virtual.run(main)
    virtual.run(blind)


def test_a_list_of_nodes_that_breaks_later_sends_no_pod_away() -> None:
    """kubernetes#14528, the other half: the nodes that are known stay known."""

    async def tell(world: World) -> None:
        await world.create_set()
        await world.settle()
        world.faults.add(Rule(fail(500), resource="nodes"))
        world.faults.end_watches(resource="nodes")
        await world.settle(60)
        await world.merge(AGENT, {"metadata": {"labels": {"wake": "up"}}})
        await world.settle()
        assert await world.places() == ["n0", "n1", "n2"]
        assert world.sent("delete", "pods") == []

    story(tell)


@pytest.mark.parametrize("happened", [False, True], ids=["the pod was not created", "the pod was created"])
def test_a_create_without_an_answer_makes_no_second_pod(happened: bool) -> None:
    async def tell(world: World) -> None:
        world.checks.append(one_pod_per_node)
        world.faults.add(Rule(time_out(sent=happened), verb="create", resource="pods", nth=1))
        await world.create_set()
        await world.settle(60)
        assert await world.places() == ["n0", "n1", "n2"]

    story(tell)


def test_a_lost_answer_and_a_slow_watch_make_no_second_pod() -> None:
    """What the first request did is looked up before another one is sent: the cache can't tell yet."""

    async def tell(world: World) -> None:
        world.faults.add(Rule(lose_answer(), verb="create", resource="pods", nth=1))
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.settle(20)
            assert len(world.sent("create", "pods")) == 1
        await world.settle(60)
        assert len(world.sent("create", "pods")) == 3
        assert world.sent("delete", "pods") == []
        assert await world.places() == ["n0", "n1", "n2"]

    story(tell)


def test_every_second_answer_is_lost(seed: int) -> None:
    async def tell(world: World) -> None:
        world.checks.append(one_pod_per_node)
        rule = world.faults.add(Rule(lose_answer(), verb="create", resource="pods", probability=0.5))
        world.faults.add(Rule(lose_answer(), verb="delete", resource="pods", probability=0.5))
        await world.create_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}})
        await world.settle(60)
        await world.set_image("pause:2")
        await world.settle(300)
        assert rule.hits > 0
        world.faults.clear()
        await world.settle(60)
        assert await world.images() == ["pause:2"] * 10
        assert (await world.status())["updatedNumberScheduled"] == 10

    story(tell, nodes=10, seed=seed)


def test_a_status_that_meets_a_conflict_is_put_on_the_live_object() -> None:
    async def tell(world: World) -> None:
        world.faults.add(Rule(fail(409), verb="update", resource="daemonsets.apps", subresource="status", nth=1))
        await world.create_set()
        await world.settle()
        assert (await world.status())["numberReady"] == 3
        assert len(world.sent("get", "daemonsets")) == 1

    story(tell)


def test_a_pod_that_goes_while_another_one_is_adopted_is_gone() -> None:
    """It was adopted, and its end was seen before the look went on: nothing of it may stay in the books."""

    async def tell(world: World) -> None:
        await world.create_set(updateStrategy={"type": "OnDelete"})
        await world.settle()
        spec = {"containers": [{"name": "main", "image": "pause:1"}]}
        world.faults.add(Rule(delay(2.0), verb="patch", resource="pods", nth=2))
        with world.faults.hold(resource="pods"):
            for number in (0, 1):
                meta = {"name": f"mine-{number}", "labels": {"app": "agent"}}
                await world.request("POST", PODS, {"metadata": meta, "spec": {**spec, "nodeName": f"n{number}"}})
        await world.settle(1)
        found = await world.get(f"{PODS}/mine-0")
        assert found is not None
        assert found["metadata"]["ownerReferences"], "the first one is adopted, the second one not yet"
        await world.remove("mine-0")
        await world.settle(30)
        assert await world.places() == ["n0", "n1", "n2"]
        assert len(world.sent("delete", "pods")) == 1, "of the second one, which is one too many"

    story(tell)


def test_a_node_that_refuses_pods_does_not_get_them_without_end_during_a_surge() -> None:
    """Upstream makes the next one as soon as one has failed."""

    async def tell(world: World) -> None:
        world.kubelets = False
        await world.create_set(
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        )
        for _ in range(600):
            await world.settle(0.1)
            for pod in await world.pods():
                if pod["status"].get("phase") != "Failed":
                    await world.report(pod["metadata"]["name"], phase="Failed", ready=False)
        # After 1, 2, 4, 8, 16 and 32 s.
        assert len(world.sent("create", "pods")) <= 9

    story(tell, nodes=1)


def test_a_list_that_is_still_being_told_makes_no_daemon_twice() -> None:
    """The cache has all of a new list at once, handlers hear of its pods by the hundred, and looks come in between."""

    async def tell(world: World) -> None:
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.settle(5)
            world.faults.end_watches(resource="pods", with_=gone())
            await world.settle(5)
        await world.settle(60)
        assert len(world.sent("create", "pods")) == 450

    story(tell, nodes=450)


def test_a_process_with_an_old_cache_does_not_take_the_generation_back() -> None:
    async def tell(world: World) -> None:
        await world.create_set()
        await world.settle()
        with world.faults.hold(resource="daemonsets"):
            await world.set_image("pause:2")
            # Another manager has reported on it.
            await world.merge(f"{AGENT}/status", {"status": {"observedGeneration": 2}})
            pod = (await world.pods())[0]["metadata"]["name"]
            await world.report(pod, ready=False)
            await world.settle()
            assert (await world.status())["observedGeneration"] == 2
        await world.settle(20)
        assert await world.images() == ["pause:2"] * 3

    story(tell)


def test_for_an_owner_that_is_found_to_be_another_one_nothing_more_is_written() -> None:
    """The read before an adoption tells what the watch does not yet. What was made for the old one would be collected
    as garbage, and each deletion bring the next look."""

    async def tell(world: World) -> None:
        await world.create_set()
        await world.settle()
        with world.faults.hold(resource="daemonsets"):
            await world.request("DELETE", AGENT, {"propagationPolicy": "Background"})
            await world.create_set()
            orphan = {"name": "mine", "labels": {"app": "agent"}}
            spec = {"containers": [{"name": "main", "image": "pause:1"}], "nodeName": "n0"}
            await world.request("POST", PODS, {"metadata": orphan, "spec": spec})
            await world.settle(1)
            made = len(world.sent("create", "controllerrevisions"))
            for _ in range(5):
                await world.request("DELETE", REVISIONS)
                await world.settle(1)
            assert len(world.sent("create", "controllerrevisions")) == made
        await world.settle(30)
        assert await world.revisions(), "the new one has its own"

    story(tell)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded by versions", "by expectations alone"])
def test_an_owner_that_is_replaced_during_a_look_gets_no_more_pods(guarded: bool) -> None:
    """They would be expected in the name of its successor, which then waited five minutes for them."""

    async def tell(world: World) -> None:
        world.faults.add(Rule(delay_answer(2.0), verb="create", resource="controllerrevisions", times=1))
        await world.create_set()
        await world.settle(1)
        await world.request("DELETE", AGENT, {"propagationPolicy": "Background"})
        await world.request("DELETE", REVISIONS)
        await world.create_set()
        await world.settle(30)
        assert await world.places() == ["n0", "n1", "n2"]
        assert len(world.sent("create", "pods")) == 3

    story(tell, DaemonSetOptions(wait_for_own_writes=guarded))
