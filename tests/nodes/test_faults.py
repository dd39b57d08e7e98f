"""Nodes with faults, commanded from Python and by annotations, against the embedded API server in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.nodes.world import World

from pilothouse.api.core import EVENTS, NODES
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Rule, delay_answer
from pilothouse.nodes import Profile
from pilothouse.semantics.pods import is_ready

EVENTFUL = Profile(events=True)

pytestmark = pytest.mark.world("n0", "n1")


async def renewals(w: World, name: str, seconds: float) -> int:
    before = w.count_writes(f"leases/kube-node-lease/{name}")
    await asyncio.sleep(seconds)
    return w.count_writes(f"leases/kube-node-lease/{name}") - before


async def conditions(w: World, name: str) -> dict[str, str]:
    return {c.type: c.status for c in (await w.node(name)).status.conditions}


Command = Callable[[World], Awaitable[None]]


async def silence(w: World) -> None:
    w.nodes.silence("n0")


async def silence_by_annotation(w: World) -> None:
    await w.annotate_node("n0", fault="silent")


async def revive(w: World) -> None:
    w.nodes.revive("n0")


async def revive_by_annotation(w: World) -> None:
    await w.annotate_node("n0", fault=None)


both = pytest.mark.parametrize(
    ("down", "up"),
    [
        pytest.param(silence, revive, id="silence and revive"),
        pytest.param(silence_by_annotation, revive_by_annotation, id="annotation"),
    ],
)


@both
async def test_a_silent_node_sends_nothing_and_its_containers_keep_running(
    w: World, down: Command, up: Command
) -> None:
    await w.create_pod(node="n0", metadata={"annotations": {"simulated.pilothouse.dev/exit-code": "1"}})
    await w.create_pod("q", node="n0")
    await asyncio.sleep(0.5)
    await down(w)
    await asyncio.sleep(1)
    await w.create_pod("late", node="n0")
    await w.delete("q")
    writes = w.count_writes("pods/")
    assert await renewals(w, "n0", 60) == 0
    assert await renewals(w, "n1", 60) >= 5
    assert w.count_writes("pods/") == writes
    await up(w)
    await asyncio.sleep(1)
    assert await renewals(w, "n0", 60) >= 5
    assert is_ready(await w.existing("late"))
    assert await w.pod("q") is None
    (container,) = (await w.existing()).status.container_statuses
    assert container.restart_count >= 4, "what happened while nobody heard of it has happened"


async def test_a_node_that_was_given_up_reports_itself_ready_when_it_is_back(w: World) -> None:
    w.nodes.silence("n0")
    await asyncio.sleep(1)
    for kind in ("Ready", "MemoryPressure"):
        await w.set_node_condition("n0", kind, "Unknown")
    await asyncio.sleep(60)
    assert (await conditions(w, "n0"))["Ready"] == "Unknown"
    w.nodes.revive("n0")
    await asyncio.sleep(1)
    assert await conditions(w, "n0") == {
        "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True",
    }  # fmt: skip


@pytest.mark.world(profile=EVENTFUL)
@pytest.mark.parametrize("by_annotation", [False, True])
async def test_a_node_without_its_pods_has_booted(w: World, by_annotation: bool) -> None:
    await w.create_pod("web", node="n0")
    await w.create_pod("once", node="n0", restartPolicy="Never", containers=[{"name": "c", "image": "nginx"}])
    await asyncio.sleep(1)
    boot = (await w.document_of_node("n0"))["status"]["nodeInfo"]["bootID"]
    if by_annotation:
        await w.annotate_node("n0", boot="second")
    else:
        w.nodes.silence("n0")
        await asyncio.sleep(30)
        w.nodes.revive("n0", pods=False)
    await asyncio.sleep(5)
    web = (await w.document("web"))["status"]
    assert (web["containerStatuses"][0]["restartCount"], web["phase"]) == (1, "Running")
    assert web["podIPs"] == [{"ip": web["podIP"]}], "one address, not the old one too"
    assert web["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 255
    assert (await w.existing("once")).status.phase == "Failed"
    assert (await w.document_of_node("n0"))["status"]["nodeInfo"]["bootID"] != boot
    assert "Rebooted" in {event.reason for event in await w.node_events()}


@pytest.mark.parametrize("by_annotation", [False, True])
async def test_a_vanished_node_is_deleted_and_returns_on_request(w: World, by_annotation: bool) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(1)
    if by_annotation:
        await w.annotate_node("n0", fault="gone")
    else:
        w.nodes.vanish("n0")
    await asyncio.sleep(1)
    with pytest.raises(NotFound):
        await w.node("n0")
    await asyncio.sleep(60)
    with pytest.raises(NotFound):
        await w.node("n0")
    if by_annotation:
        await w.create_node("n0")  # another client restores it
    else:
        w.nodes.revive("n0")
    await asyncio.sleep(5)
    assert (await conditions(w, "n0"))["Ready"] == "True"
    (container,) = (await w.existing()).status.container_statuses
    assert (container.restart_count, is_ready(await w.existing())) == (1, True)
    assert await renewals(w, "n0", 60) >= 5


async def test_a_slow_node_does_everything_late(w: World) -> None:
    await w.annotate_node("n0", fault="slow=20s")
    await asyncio.sleep(1)
    await w.create_pod(node="n0")
    await w.create_pod("q", node="n1")
    await asyncio.sleep(2)
    assert is_ready(await w.existing("q")), "nobody else waits"
    assert (await w.existing()).status.start_time is None
    await asyncio.sleep(20)
    assert (await w.existing()).status.phase == "Pending"
    assert (await w.existing()).status.start_time is not None
    await asyncio.sleep(20)
    assert is_ready(await w.existing())
    assert 2 <= await renewals(w, "n0", 90) <= 3
    w.nodes.slow("n0", 0)
    await asyncio.sleep(20)
    assert await renewals(w, "n0", 60) >= 5


@pytest.mark.parametrize("by_annotation", [False, True])
async def test_a_node_out_of_service_is_tainted_and_silent_until_it_is_back(w: World, by_annotation: bool) -> None:
    if by_annotation:
        await w.annotate_node("n0", fault="out-of-service")
    else:
        w.nodes.take_out_of_service("n0")
    await asyncio.sleep(1)
    taints = [(t.key, t.value, t.effect) for t in (await w.node("n0")).spec.taints]
    assert taints == [("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")]
    assert await renewals(w, "n0", 60) == 0
    if by_annotation:
        await w.annotate_node("n0", fault=None)
    else:
        w.nodes.revive("n0")
    await asyncio.sleep(1)
    assert (await w.node("n0")).spec.taints == ()
    assert await renewals(w, "n0", 60) >= 5


async def test_a_node_that_is_replaced_while_it_is_tainted_as_out_of_service_is_tainted_again(w: World) -> None:
    w.node_faults.add(Rule(delay_answer(2.0), verb="patch", resource="nodes", subresource="", times=1))
    w.nodes.take_out_of_service("n0")
    await asyncio.sleep(1)
    assert (await w.node("n0")).spec.taints, "it is tainted, and does not know yet"
    await w.client.delete(NODES, "n0")
    await w.client.create(NODES, {"metadata": {"name": "n0"}})
    await asyncio.sleep(30)
    taints = {taint.key for taint in (await w.node("n0")).spec.taints}
    assert "node.kubernetes.io/out-of-service" in taints


def memory(used: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"simulated.pilothouse.dev/memory-usage": used}}}


@pytest.mark.world(profile=EVENTFUL)
async def test_under_pressure_pods_are_evicted_one_by_one_until_enough_is_freed(w: World) -> None:
    await w.create_pod("small", node="n0", **memory("10Mi"))
    await w.create_pod("large", node="n0", **memory("900Mi"))
    await w.create_pod("middle", node="n0", **memory("300Mi"))
    await w.create_pod("elsewhere", node="n1", **memory("9Gi"))
    await asyncio.sleep(1)
    await w.annotate_node("n0", pressure="memory=1Gi")
    await asyncio.sleep(1)
    assert (await conditions(w, "n0"))["MemoryPressure"] == "True"
    large = (await w.document("large"))["status"]
    assert (large["phase"], large["reason"]) == ("Failed", "Evicted")
    assert large["message"].startswith("The node was low on resource: memory. ")
    assert {c["type"]: c.get("reason") for c in large["conditions"]}["DisruptionTarget"] == "TerminationByKubelet"
    assert large["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert is_ready(await w.existing("middle")), "one at a time"
    await w.create_pod("guest", node="n0")
    await asyncio.sleep(10)
    assert (await w.existing("middle")).status.reason == "Evicted"
    assert (await w.existing("guest")).status.reason == "Evicted", "best effort is not let in meanwhile"
    await asyncio.sleep(280)
    assert is_ready(await w.existing("small")), "enough was freed"
    assert (await conditions(w, "n0"))["MemoryPressure"] == "True", "for five minutes"
    await asyncio.sleep(30)
    assert (await conditions(w, "n0"))["MemoryPressure"] == "False"
    assert is_ready(await w.existing("elsewhere"))
    events = {e.reason for e in await w.node_events()}
    assert {"EvictionThresholdMet", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"} <= events


async def test_critical_pods_stay_until_pressure_ends(w: World) -> None:
    await w.create_pod("vital", node="n0", priority=2_000_001_000, priorityClassName="system-node-critical")
    await w.create_pod("some", node="n0")
    await asyncio.sleep(1)
    w.nodes.press("n0", "disk")
    await asyncio.sleep(25)
    assert (await w.existing("some")).status.reason == "Evicted"
    assert is_ready(await w.existing("vital"))
    w.nodes.relieve("n0")
    await asyncio.sleep(301)
    assert (await conditions(w, "n0"))["DiskPressure"] == "False"


async def test_annotations_on_pods_count_while_they_run(w: World) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(1)
    await w.annotate(readiness_probe="fail")
    await asyncio.sleep(0.1)
    assert not is_ready(await w.existing())
    await w.annotate(readiness_probe=None, exit_code="1")
    await asyncio.sleep(3)
    (container,) = (await w.existing()).status.container_statuses
    assert container.restart_count == 1
    await w.annotate(exit_code="x")
    await asyncio.sleep(1)
    assert "InvalidAnnotation" in {event.reason for event in await w.events()}


@pytest.mark.world(profile=EVENTFUL)
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"cpu": "99"}, "OutOfcpu"),
        ({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity"),
    ],
)
async def test_a_pod_that_does_not_fit_fails_with_a_reason(w: World, parts: dict[str, Any], reason: str) -> None:
    await w.create_pod(node="n0", **parts)
    await asyncio.sleep(1)
    status = (await w.document())["status"]
    assert (status["phase"], status["reason"]) == ("Failed", reason)
    assert status["message"].startswith("Pod was rejected: ")
    (event,) = [event for event in await w.events() if event.involved_object.kind == "Pod"]
    assert (event.type, event.reason) == ("Warning", reason)
    await w.delete()
    assert await w.pod() is None


@pytest.mark.world(profile=EVENTFUL)
async def test_a_crash_loop_is_written_step_by_step(w: World) -> None:
    annotations = {"simulated.pilothouse.dev/exit-code": "1", "simulated.pilothouse.dev/run-time": "5s"}
    await w.create_pod(node="n0", metadata={"annotations": annotations})
    observed: list[str] = []
    for _ in range(300):
        await asyncio.sleep(0.1)
        state: dict[str, dict[str, str]] = (await w.document())["status"]["containerStatuses"][0]["state"]
        ((kind, rest),) = state.items()
        text = f"{kind}:{rest.get('reason', '')}"
        if not observed or observed[-1] != text:
            observed.append(text)
    crash = ["running:", "terminated:Error"]
    wait = ["waiting:CrashLoopBackOff"]
    assert observed[-8:] == [*crash, *crash, *wait, *crash, *wait][-8:]
    reasons = [event.reason for event in await w.events()]
    assert {"Started", "BackOff"} <= set(reasons)


async def test_unknown_names_and_resources_are_rejected(w: World) -> None:
    with pytest.raises(KeyError, match="no simulated node is called 'x'"):
        w.nodes.silence("x")
    with pytest.raises(ValueError, match="'time' is none of memory, disk, pids"):
        w.nodes.press("n0", "time")
    with pytest.raises(ValueError, match="'time' is none of memory, disk, pids"):
        w.nodes.relieve("n0", "time")
    with pytest.raises(ValueError, match="can't be early"):
        w.nodes.slow("n0", -1)
    assert [event for event in (await w.client.list(EVENTS)).items if event.reason == "InvalidAnnotation"] == []
    assert {node.metadata.name for node in (await w.client.list(NODES)).items} == {"n0", "n1"}
