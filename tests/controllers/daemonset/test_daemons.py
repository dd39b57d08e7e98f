"""DaemonSet pods follow nodes: the controller on the embedded API server."""

import pytest
from tests.controllers.api_world import NODES, PODS, REVISIONS
from tests.controllers.daemonset.world import AGENT, SETS, World, controlled, uncontrolled

from pilothouse.client.interceptor import Rule, fail, namespace_ends
from pilothouse.controllers.workloads.daemonset import DaemonSetOptions
from pilothouse.env import Env


async def test_every_node_gets_a_pod_and_is_counted_in_the_status(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"]
    assert await world.status() == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }
    assert [number for _hash, number in await world.revisions()] == [1]
    assert sorted({(type_, reason) for type_, reason, _message in await world.events()}) == [
        ("Normal", "SuccessfulCreate")
    ]
    before = len(world.requests)
    await world.wait_for_sync(3600)
    assert len(world.requests) == before, "nothing to do: nothing is sent"


async def test_pods_follow_added_changed_and_deleted_nodes(world: World) -> None:
    await world.create_set(template={"nodeSelector": {"pool": "yes"}})
    await world.wait_for_sync()
    assert await world.nodes() == []
    await world.merge(f"{NODES}/n0", {"metadata": {"labels": {"pool": "yes"}}})
    await world.add_nodes(1, first=7, labels={"pool": "yes"})
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n7"]
    await world.merge(f"{NODES}/n0", {"metadata": {"labels": {"pool": None}}})
    await world.wait_for_sync()
    assert await world.nodes() == ["n7"]
    await world.taint("n7", ("special", "NoSchedule"))
    await world.wait_for_sync()
    assert await world.nodes() == ["n7"], "NoSchedule sends nobody away"
    await world.taint("n7", ("special", "NoExecute"))
    await world.wait_for_sync()
    assert await world.nodes() == []
    await world.taint("n7")
    await world.wait_for_sync()
    assert await world.nodes() == ["n7"], "kubernetes#95432: back when the taint is gone"


@pytest.mark.parametrize(("enabled", "wanted"), [(True, 1), (False, 0)])
async def test_taint_toleration_comparison_operators_gate(env: Env, enabled: bool, wanted: int) -> None:
    """``TaintTolerationComparisonOperators``: stored bypassing the API server, which rejects such tolerations."""
    async with uncontrolled(env) as world:
        await world.add_nodes(3)
        for node, value in (("n0", "970"), ("n1", "900"), ("n2", "many")):
            taint = {"key": "sla", "value": value, "effect": "NoSchedule"}
            await world.merge(f"{NODES}/{node}", {"spec": {"taints": [taint]}})
        await world.create_set(template={"tolerations": [{"key": "sla", "operator": "Equal", "value": "950"}]})
        key = "apps/daemonsets/default/agent"
        record = world.store.get(key)
        assert record is not None
        stored = record.value.replace(b'"Equal"', b'"Gt"')
        assert stored != record.value
        await world.store.commit(world.store.stage(key, lambda _revision: stored))
        await world.start(DaemonSetOptions(comparison_operators=enabled))
        await world.wait_for_sync()
        assert (await world.status())["desiredNumberScheduled"] == wanted


async def test_pods_of_all_sets_are_recreated_when_a_taint_is_removed(world: World) -> None:
    """kubernetes#95432: the pod of one of three sets was not recreated."""
    for name in ("a", "b", "c"):
        await world.create_set(name)
    await world.wait_for_sync()
    await world.taint("n1", ("special", "NoExecute"))
    await world.wait_for_sync()
    for name in ("a", "b", "c"):
        assert await world.nodes(name) == ["n0", "n2"]
    await world.taint("n1")
    await world.wait_for_sync()
    for name in ("a", "b", "c"):
        assert await world.nodes(name) == ["n0", "n1", "n2"]


async def test_irrelevant_node_updates_send_no_requests(world: World) -> None:
    """As recorded (04a): a NoSchedule taint on a node with a running pod causes no request; heartbeats never do."""
    await world.create_set()
    await world.wait_for_sync()
    before = len(world.requests)
    await world.taint("n1", ("special", "NoSchedule"))
    await world.wait_for_sync()
    await world.taint("n1")
    await world.merge(f"{NODES}/n1/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    await world.wait_for_sync()
    assert len(world.requests) == before


async def test_pods_of_a_deleted_node_are_not_recreated(world: World) -> None:
    """kubernetes#22545. The bound pod is left to the pod garbage collector; an unbound one is deleted immediately."""
    await world.create_set()
    await world.wait_for_sync()
    await world.request("DELETE", f"{NODES}/n0")
    await world.wait_for_sync()
    assert len(world.sent("create", "pods")) == 3
    assert (await world.status())["desiredNumberScheduled"] == 2
    assert await world.nodes() == ["n0", "n1", "n2"]
    world.kubelets = False
    await world.add_nodes(1, first=8)
    await world.wait_for_sync()
    assert "" in await world.nodes(), "pinned to n8, not bound"
    await world.request("DELETE", f"{NODES}/n8")
    await world.wait_for_sync()
    assert "" not in await world.nodes()


async def test_deleted_pod_is_replaced_after_its_removal(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    world.kubelets = False
    victim = next(pod for pod in await world.pods() if pod["spec"]["nodeName"] == "n1")["metadata"]["name"]
    await world.request("DELETE", f"{PODS}/{victim}")
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n2"], "its successor waits"
    world.kubelets = True
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"]


async def test_failed_pods_are_deleted_with_backoff(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    deleted_at: list[float] = []
    for _round in range(4):
        pod = next(pod for pod in await world.pods() if pod["spec"]["nodeName"] == "n1")["metadata"]["name"]
        await world.report(pod, phase="Failed", ready=False)
        start = world.env.monotonic()
        while any(item["metadata"]["name"] == pod for item in await world.pods()):
            await world.wait_for_sync(0.05)
        deleted_at.append(world.env.monotonic() - start)
        await world.wait_for_sync(1.0)
    assert deleted_at[0] < 0.2
    assert deleted_at[1] < 0.2, "the second failure comes after the first second has passed"
    assert deleted_at[-1] > deleted_at[1], "and later ones wait"
    killed = [message for _type, reason, message in await world.events() if reason == "FailedDaemonPod"]
    assert len(killed) == 4
    assert killed[0].startswith("Found failed daemon pod default/agent-")
    assert killed[0].endswith(" on node n1, will try to kill it")


async def test_succeeded_pod_is_replaced(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    pod = (await world.pods())[0]["metadata"]["name"]
    await world.report(pod, phase="Succeeded", ready=False)
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"]
    assert any(
        reason == "SucceededDaemonPod" and message.endswith("will try to delete it")
        for _type, reason, message in await world.events()
    )


async def test_duplicates_are_deleted_and_orphans_adopted(world: World) -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "pause:1"}]}
    await world.request("POST", PODS, {"metadata": {"name": "mine", "labels": {"app": "agent"}}, "spec": spec})
    await world.wait_for_sync()
    # With a rolling update it would be replaced afterwards: it is of no template.
    await world.create_set(updateStrategy={"type": "OnDelete"})
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"]
    assert "mine" in [pod["metadata"]["name"] for pod in await world.pods()], "adopted, and not made again"
    assert len(world.sent("create", "pods")) == 2
    await world.request("POST", PODS, {"metadata": {"name": "more", "labels": {"app": "agent"}}, "spec": spec})
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"], "adopted, and one too many"
    await world.merge(f"{PODS}/mine", {"metadata": {"labels": {"app": "other"}}})
    await world.wait_for_sync()
    orphaned_pod = await world.get(f"{PODS}/mine")
    assert orphaned_pod is not None
    assert "ownerReferences" not in orphaned_pod["metadata"], "released"
    assert await world.nodes() == ["n0", "n1", "n2"]


async def test_burst_replicas_limits_creates_and_deletes_per_sync(env: Env) -> None:
    async with controlled(env, DaemonSetOptions(burst=4), nodes=10) as world:
        world.kubelets = False
        with world.faults.hold(resource="pods"):
            await world.create_set()
            await world.wait_for_sync()
            assert len(world.sent("create", "pods")) == 4
        await world.wait_for_sync()
        assert len(await world.pods()) == 10


async def test_rejected_create_stops_the_slow_start(world: World) -> None:
    rule = world.faults.add(Rule(fail(403), verb="create", resource="pods", times=1))
    await world.create_set()
    await world.wait_for_sync(0.001)
    assert rule.hits == 1
    await world.wait_for_sync()
    assert await world.nodes() == ["n0", "n1", "n2"], "tried again with growing delay"
    assert any(reason == "FailedCreate" for _type, reason, _message in await world.events())


async def test_terminating_namespace_stops_creates_and_status_is_synced_once_a_second(
    env: Env,
) -> None:
    """One attempt, no event; the expectation remains and delays the owner for five minutes."""
    async with controlled(env, nodes=40) as world:
        await world.create_set()
        await world.wait_for_sync()
        refused = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
        events = await world.events()
        world.requests.clear()
        for pod in await world.pods():
            await world.request("DELETE", f"{PODS}/{pod['metadata']['name']}")
            await world.wait_for_sync(0.05)
        await world.wait_for_sync(60)
        assert (await world.status())["currentNumberScheduled"] == 0
        assert await world.events() == events
        assert refused.hits == 1
        assert len(world.sent("update", "daemonsets/status")) == 3, "at once, and after either second"


async def test_terminating_set_creates_no_pods(world: World) -> None:
    """TestDontDoAnythingIfBeingDeleted, and TestDontDoAnythingIfBeingDeletedRace for the adoption."""
    await world.create_set()
    await world.wait_for_sync()
    await world.request("DELETE", AGENT, {"propagationPolicy": "Orphan"})
    await world.wait_for_sync()
    assert (await world.get(AGENT)) is not None, "nobody takes the orphan finalizer here"
    for pod in await world.pods():
        await world.remove(pod["metadata"]["name"])
    await world.wait_for_sync()
    assert len(world.sent("create", "pods")) == 3
    assert world.sent("update", "daemonsets/status")[-1].request.body.count(b"deletionTimestamp") == 0


async def test_current_number_scheduled_recovers_after_failed_creates(world: World) -> None:
    """kubernetes#75836: current stayed below desired until some node changed."""
    world.faults.add(Rule(fail(403), verb="create", resource="pods", times=7))
    await world.create_set()
    await world.wait_for_sync(60)
    status = await world.status()
    assert status["currentNumberScheduled"] == status["desiredNumberScheduled"] == 3


async def test_deleted_revision_is_recreated(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    (name, number), *_rest = await world.revisions()
    await world.request("DELETE", f"{REVISIONS}/agent-{name}")
    await world.wait_for_sync()
    assert await world.revisions() == [(name, number)]
    assert len(world.sent("create", "pods")) == 3


async def test_recreated_set_of_the_same_name_is_a_new_set(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    await world.request("DELETE", AGENT)
    await world.create_set()
    await world.wait_for_sync()
    obj = await world.get(AGENT)
    assert obj is not None
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in await world.pods()}
    assert obj["metadata"]["uid"] in owners
    assert (await world.status())["currentNumberScheduled"] == 3


async def test_no_requests_without_daemon_sets(world: World) -> None:
    await world.wait_for_sync(10)
    assert (await world.request("GET", SETS))["items"] == []
    assert [request for request in world.requests if request.call.verb not in ("list", "watch", "get")] == []
