"""Pods on simulated nodes, against the embedded API server in virtual time."""

import asyncio
from collections.abc import Callable

import pytest
from tests.nodes.world import World
from tests.tables import cases

from pilothouse.api.core import PODS
from pilothouse.client import json_patch, merge_patch
from pilothouse.client.interceptor import Rule, conflict, fail, lose_answer, refuse
from pilothouse.nodes import Profile
from pilothouse.semantics.pods import is_ready

pytestmark = pytest.mark.world("node-0")


async def test_a_pod_runs_and_goes_through_a_terminal_phase(w: World) -> None:
    await w.create_pod(node="node-0")
    phases: list[str] = []
    await asyncio.sleep(0.1)
    phases.append((await w.existing()).status.phase)
    await asyncio.sleep(1)
    phases.append((await w.existing()).status.phase)
    assert is_ready(await w.existing())
    # Created, accepted, running and ready: one write each.
    assert w.count_writes("pods/default/p") == 3
    await w.delete()
    await asyncio.sleep(0.5)
    assert is_ready(await w.existing()), "readiness lasts until the containers stop"
    await asyncio.sleep(1)
    assert await w.pod() is None
    assert phases == ["Pending", "Running"]
    last = [c.value for c in w.writes if "pods/default/p" in c.key][-2:]
    assert all(b'"phase":"Succeeded"' in value for value in last)


@pytest.mark.world(profile=Profile(events=False, accept_delay=1.5, start_delay=3, ready_delay=2))
async def test_every_stage_waits_its_time(w: World) -> None:
    await w.create_pod(node="node-0")
    observed = []
    for _ in range(8):
        await asyncio.sleep(1)
        pod = await w.existing()
        observed.append((pod.status.phase, pod.status.start_time is not None, is_ready(pod)))
    assert observed == [
        ("Pending", False, False),
        ("Pending", True, False),
        ("Pending", True, False),
        ("Pending", True, False),
        ("Running", True, False),
        ("Running", True, False),
        ("Running", True, True),
        ("Running", True, True),
    ]


async def test_pods_bound_before_the_nodes_started_are_served(w: World) -> None:
    for number in range(3):
        await w.create_pod(f"p{number}", node="late")
    await w.start_nodes("late")
    await asyncio.sleep(1)
    assert all([is_ready(await w.existing(f"p{number}")) for number in range(3)])


async def test_pods_of_other_nodes_are_ignored(w: World) -> None:
    await w.create_pod(node="elsewhere")
    await asyncio.sleep(60)
    assert w.count_writes("pods/default/p") == 1


@pytest.mark.world("other")
async def test_addresses_are_unique_also_after_a_restart(w: World) -> None:
    first = await w.start_nodes("a")
    for number in range(3):
        await w.create_pod(f"old{number}", node="a")
    await asyncio.sleep(1)
    before = {f"old{n}": (await w.document(f"old{n}"))["status"] for n in range(3)}
    first.cancel()
    await w.start_nodes("a")
    for number in range(3):
        await w.create_pod(f"new{number}", node="a")
    await asyncio.sleep(30)
    after = {f"old{n}": (await w.document(f"old{n}"))["status"] for n in range(3)}
    assert after == before, "running pods are left as they are"
    names = [f"{age}{n}" for age in ("old", "new") for n in range(3)]
    addresses = [(await w.existing(name)).status.pod_ip for name in names]
    assert "" not in addresses
    assert len(set(addresses)) == 6


@pytest.mark.world("other")
async def test_a_starting_pod_continues_after_a_restart(w: World) -> None:
    slow = Profile(events=False, start_delay=5, ready_delay=5)
    first = await w.start_nodes("a", profile=slow)
    await w.create_pod(node="a")
    await asyncio.sleep(7)  # running, not ready
    started = (await w.document())["status"]["containerStatuses"][0]["state"]
    first.cancel()
    await w.start_nodes("a", profile=slow)
    await asyncio.sleep(6)
    pod = await w.document()
    assert is_ready(await w.existing())
    assert pod["status"]["containerStatuses"][0]["state"] == started


async def test_pods_on_the_host_network_have_the_nodes_address(w: World) -> None:
    await w.create_pod(node="node-0", hostNetwork=True)
    await asyncio.sleep(0.1)
    assert (await w.existing()).status.pod_ip == "10.64.0.1"
    await asyncio.sleep(1)
    assert (await w.existing()).status.pod_ip == "10.64.0.1"
    await w.create_pod("q", node="node-0")
    await asyncio.sleep(1)
    assert (await w.existing("q")).status.pod_ip == "10.128.0.1"


async def test_a_pod_replaced_under_its_name_starts_over(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    address = (await w.existing()).status.pod_ip
    # The nodes do not observe the deletion of the first one, only its successor.
    with w.node_faults.hold(resource="pods"):
        await w.delete(grace=0)
        replacement = await w.create_pod(node="node-0")
        await asyncio.sleep(5)
        assert (await w.existing()).status.phase == "Pending"
    await asyncio.sleep(1)
    pod = await w.existing()
    assert (pod.metadata.uid, is_ready(pod)) == (replacement.metadata.uid, True)
    assert pod.status.pod_ip not in ("", address)


@pytest.mark.world(profile=Profile(events=False, start_delay=5))
async def test_a_replaced_pod_inherits_no_state(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    with w.node_faults.hold(resource="pods"):
        await w.delete(grace=0)
        await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    assert (await w.existing()).status.phase == "Pending", "five seconds to start, for this one too"
    await asyncio.sleep(5)
    assert is_ready(await w.existing())


@pytest.mark.world(profile=Profile(events=False, start_delay=5))
async def test_a_pod_deleted_before_its_containers_ran_has_failed(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    await w.delete()
    await asyncio.sleep(0.1)  # nothing runs, so nothing needs time to stop
    assert await w.pod() is None
    assert b'"phase":"Failed"' in [c for c in w.writes if "pods/default/p" in c.key][-1].value


async def test_a_forced_deletion_needs_no_node(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    await w.delete(grace=0)
    assert await w.pod() is None
    count = w.count_writes("pods/default/p")
    await asyncio.sleep(60)
    assert w.count_writes("pods/default/p") == count


@pytest.mark.world(profile=Profile(events=False, stop_delay=200))
async def test_a_second_deletion_shortens_the_grace_period_and_kills(w: World) -> None:
    await w.create_pod(node="node-0", terminationGracePeriodSeconds=300)
    await asyncio.sleep(1)
    await w.delete()
    await asyncio.sleep(10)
    assert (await w.existing()).status.phase == "Running"
    await w.delete(grace=5)
    await asyncio.sleep(4)
    assert (await w.existing()).status.phase == "Running"
    await asyncio.sleep(2)
    assert await w.pod() is None
    last = [c for c in w.writes if "pods/default/p" in c.key][-1].value
    assert b'"phase":"Failed"' in last
    assert b'"exitCode":137' in last


@pytest.mark.parametrize("grace", [None, 0], ids=["graceful", "forced"])
async def test_finalizers_keep_the_object_without_further_writes(w: World, grace: int | None) -> None:
    await w.create_pod(node="node-0", metadata={"finalizers": ["example.com/hold"]})
    await asyncio.sleep(1)
    await w.delete(grace=grace)
    await asyncio.sleep(5)
    pod = await w.existing()
    assert (pod.status.phase, is_ready(pod)) == ("Failed" if grace == 0 else "Succeeded", False)
    assert pod.metadata.deletion_grace_period_seconds == 0
    count = w.count_writes("pods/default/p")
    await asyncio.sleep(3600)
    assert w.count_writes("pods/default/p") == count, "no hot loop"
    restarted = await w.start_nodes("node-0")
    await asyncio.sleep(60)
    restarted.cancel()
    assert w.count_writes("pods/default/p") == count, "nor after a restart"
    await w.client.patch(PODS.raw, "p", json_patch([{"op": "remove", "path": "/metadata/finalizers"}]), "default")
    assert await w.pod() is None


async def test_terminal_pods_are_left_alone(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    done = json_patch([{"op": "replace", "path": "/status/phase", "value": "Succeeded"}])
    await w.client.patch(PODS.raw, "p", done, "default", subresource="status")
    count = w.count_writes("pods/default/p")
    await asyncio.sleep(600)
    assert w.count_writes("pods/default/p") == count


async def test_a_pod_that_was_ended_before_it_ran_does_not_run(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(0.1)
    ended = merge_patch({"status": {"phase": "Failed"}})
    await w.client.patch(PODS.raw, "p", ended, "default", subresource="status")
    await asyncio.sleep(60)
    assert (await w.existing()).status.phase == "Failed"


DELAYS = Profile(events=False, accept_delay=0.1, start_delay=0.3, ready_delay=0.7, remove_delay=0.3, pods=500)


@pytest.mark.world(profile=DELAYS)
@pytest.mark.timeout(20)
async def test_a_delay_ends_at_whatever_instant_it_began(w: World) -> None:
    """A rest of the delay that is too small to move the clock must not be waited for: 47.1 + 7e-15 is 47.1."""
    rng = w.env.stream("test")
    for number in range(300):
        await asyncio.sleep(rng.uniform(0.0, 0.7))
        await w.create_pod(f"p{number}", node="node-0")
    await asyncio.sleep(5)
    pods = (await w.client.list(PODS, "default")).items
    assert {pod.status.phase for pod in pods} == {"Running"}
    for pod in pods:
        await asyncio.sleep(rng.uniform(0.0, 0.7))
        await w.delete(pod.metadata.name)
    await asyncio.sleep(5)
    assert (await w.client.list(PODS, "default")).items == ()


async def test_readiness_gates_are_followed_at_once(w: World) -> None:
    await w.create_pod(node="node-0", readinessGates=[{"conditionType": "example.com/lb"}])
    await asyncio.sleep(1)
    messages = []
    for status in ("", "False", "True", "False"):
        if status:
            await w.set_condition("example.com/lb", status)
            await asyncio.sleep(0.01)
        conditions = {c.type: c for c in (await w.existing()).status.conditions}
        messages.append((conditions["Ready"].status, conditions["Ready"].message))
        assert conditions["ContainersReady"].status == "True"
    closed = 'the status of pod readiness gate "example.com/lb" is not "True", but False'
    assert messages == [
        ("False", 'corresponding condition of pod readiness gate "example.com/lb" does not exist.'),
        ("False", 'corresponding condition of pod readiness gate "example.com/lb" does not exist.'),
        ("True", ""),
        ("False", closed),
    ]


async def test_foreign_conditions_are_kept_in_front(w: World) -> None:
    await w.create_pod(node="node-0")
    await w.set_condition("DisruptionTarget", "True")
    await asyncio.sleep(1)
    kinds = [c.type for c in (await w.existing()).status.conditions]
    assert kinds == [
        "DisruptionTarget", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled",
    ]  # fmt: skip


async def test_a_new_generation_is_reported_at_once(w: World) -> None:
    """`kubectl wait --for=condition=Ready` ignores conditions of an older generation, also those of a deleted pod."""
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    await w.client.patch(PODS, "p", merge_patch({"spec": {"activeDeadlineSeconds": 600}}), "default")
    await asyncio.sleep(0.1)
    changed = await w.existing()
    await w.delete()
    await asyncio.sleep(0.1)
    deleted = await w.existing()
    for pod, generation in ((changed, 2), (deleted, 3)):
        assert pod.metadata.generation == generation
        assert {c.observed_generation for c in pod.status.conditions} == {generation}
        assert is_ready(pod)
    writes = w.count_writes("pods/default/p")
    await asyncio.sleep(0.7)
    assert w.count_writes("pods/default/p") == writes, "nothing else is written until the containers stop"


async def test_a_status_written_by_another_client_is_corrected_within_seconds(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(1)
    before = (await w.document())["status"]
    await w.set_condition("Ready", "False")
    await asyncio.sleep(5)
    assert not is_ready(await w.existing())
    await asyncio.sleep(6)
    after = (await w.document())["status"]
    assert is_ready(await w.existing())
    assert after["containerStatuses"] == before["containerStatuses"]
    count = w.count_writes("pods/default/p")
    await asyncio.sleep(600)
    assert w.count_writes("pods/default/p") == count


@cases(
    "trouble",
    {
        "the server fails": lambda: fail(500, "InternalError"),
        "conflicts": conflict,
        "connection refused": refuse,
        "answers are lost": lose_answer,
    },
)
async def test_no_pod_is_lost_to_failing_writes(w: World, trouble: Callable[[], object], seed: int) -> None:
    for verb in ("patch", "delete"):
        w.node_faults.add(Rule(trouble(), verb=verb, resource="pods", probability=0.5))  # type: ignore[arg-type]
    for number in range(10):
        await w.create_pod(f"p{number}", node="node-0")
    await asyncio.sleep(60)
    pods = [await w.existing(f"p{number}") for number in range(10)]
    assert all(is_ready(pod) for pod in pods)
    assert len({pod.status.pod_ip for pod in pods}) == 10
    for number in range(10):
        await w.delete(f"p{number}")
    await asyncio.sleep(120)
    assert (await w.client.list(PODS, "default")).items == ()


async def test_states_older_than_the_last_write_are_ignored(w: World) -> None:
    with w.node_faults.hold(resource="pods") as hold:
        await w.create_pod(node="node-0")
        hold.release(1)
        await asyncio.sleep(60)
        assert w.count_writes("pods/default/p") == 2, "accepted, and the watch has not shown that yet"
        hold.release(1)
        await asyncio.sleep(60)
        assert w.count_writes("pods/default/p") == 3
    await asyncio.sleep(60)
    assert w.count_writes("pods/default/p") == 3


@pytest.mark.world(profile=Profile(events=True))
async def test_events_are_those_of_a_kubelet(w: World) -> None:
    inits = [{"name": "i", "image": "init"}, {"name": "s", "image": "side", "restartPolicy": "Always"}]
    await w.create_pod(node="node-0", initContainers=inits)
    await asyncio.sleep(1)
    await w.delete()
    await asyncio.sleep(3)
    pulled = "already present on machine and can be accessed by the pod"
    reported = [(e.reason, e.message, e.involved_object.field_path) for e in await w.events()]
    expected = []
    for path, image in (("initContainers{i}", "init"), ("initContainers{s}", "side"), ("containers{c}", "app:v1")):
        expected += [
            ("Pulled", f'Container image "{image}" {pulled}', f"spec.{path}"),
            ("Created", "Container created", f"spec.{path}"),
            ("Started", "Container started", f"spec.{path}"),
        ]
    expected += [
        ("Killing", "Stopping container s", "spec.initContainers{s}"),
        ("Killing", "Stopping container c", "spec.containers{c}"),
    ]
    assert [event for event in reported if event[2]] == expected
    source = {(e.source.component, e.source.host) for e in await w.events()}
    assert source == {("kubelet", "node-0")}


@pytest.mark.world(profile=Profile(events=True))
async def test_active_deadline_seconds_that_are_set_later_are_obeyed(w: World) -> None:
    await w.create_pod(node="node-0")
    await asyncio.sleep(20)
    await w.client.patch(PODS, "p", merge_patch({"spec": {"activeDeadlineSeconds": 60}}), "default")
    await asyncio.sleep(10)
    await w.client.patch(PODS, "p", merge_patch({"spec": {"activeDeadlineSeconds": 40}}), "default")
    await asyncio.sleep(9)
    assert (await w.existing()).status.phase == "Running"
    await asyncio.sleep(2)
    status = (await w.existing()).status
    assert (status.phase, status.reason) == ("Failed", "DeadlineExceeded")
    text = "Pod was active on the node longer than the specified deadline"
    assert [(e.type, e.message) for e in await w.events() if e.reason == "DeadlineExceeded"] == [("Normal", text)]
