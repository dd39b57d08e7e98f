"""Registration and heartbeats of simulated nodes, on the embedded API server in virtual time."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from tests.nodes.world import World
from tests.tables import cases

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, refuse
from pilothouse.nodes import Profile
from pilothouse.nodes.profile import EVENTFUL_NODES
from pilothouse.semantics.nodes import is_node_ready
from pilothouse.storage import Change

LEASE = "leases/kube-node-lease/node-0"

pytestmark = pytest.mark.world("node-0")


async def set_conditions(w: World, status: str) -> None:
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [{"type": kind, "status": status, "reason": "NodeStatusUnknown"} for kind in kinds]
    patch = strategic_merge_patch({"status": {"conditions": conditions}})
    await w.client.patch(NODES.raw, "node-0", patch, subresource="status")


async def test_a_node_registers_ready_without_its_start_taint(w: World) -> None:
    node = await w.node("node-0")
    assert is_node_ready(node)
    assert [c.type for c in node.status.conditions] == ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    assert node.spec.taints == ()
    assert node.status.allocatable["pods"] == "110"


@pytest.mark.parametrize("clears", [True, False])
async def test_the_start_taint_is_removed_unless_a_controller_removes_it(w: World, clears: bool) -> None:
    other = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    await w.create_node("a", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, other])
    await w.start_nodes("a", profile=Profile(events=False, clears_start_taint=clears))
    remaining = [taint.effect for taint in (await w.node("a")).spec.taints]
    assert remaining == (["NoExecute"] if clears else ["NoSchedule", "NoExecute"])


async def test_heartbeats_are_leases_and_the_status_is_written_rarely(w: World) -> None:
    await asyncio.sleep(1)
    lease = await w.client.get(LEASES, "node-0", "kube-node-lease")
    owner = lease.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid) == ("Node", "node-0", (await w.node("node-0")).metadata.uid)
    w.writes.clear()
    await asyncio.sleep(3600)
    assert 340 <= w.count_writes(LEASE) <= 360
    assert 11 <= w.count_writes("nodes/node-0") <= 12
    assert len(w.writes) == w.count_writes(LEASE) + w.count_writes("nodes/node-0")


async def test_leases_that_are_due_at_about_the_same_time_are_renewed_in_one_turn(w: World) -> None:
    names = [f"n{number}" for number in range(50)]
    await w.start_nodes(*names)
    times: dict[str, list[float]] = {name: [] for name in names}

    def note(changes: list[Change]) -> None:
        for change in changes:
            times[change.key.rpartition("/")[2]].append(w.env.monotonic())

    await asyncio.sleep(20)
    w.server.core.store.follow("coordination.k8s.io/leases/", note)
    times["node-0"] = []
    await asyncio.sleep(100)
    turns = {at for time in times.values() for at in time}
    assert all(at % 0.25 == 0 for at in turns)
    periods = [after - before for time in times.values() for before, after in itertools.pairwise(time)]
    assert 10.0 <= min(periods) <= max(periods) <= 10.0 * 1.04 + 0.25
    assert len(turns) < 400 < 51 * 9, "each of the turns renews several"


async def test_changes_of_a_lease_by_other_clients_are_kept(w: World) -> None:
    await asyncio.sleep(15)
    patch = strategic_merge_patch({"metadata": {"labels": {"a": "b"}}, "spec": {"leaseTransitions": 3}})
    await w.client.patch(LEASES.raw, "node-0", patch, "kube-node-lease")
    await asyncio.sleep(30)
    lease = await w.client.get(LEASES, "node-0", "kube-node-lease")
    assert (lease.metadata.labels, lease.spec.holder_identity, lease.spec.lease_transitions) == (
        {"a": "b"},
        "node-0",
        0,
    )
    assert lease.spec.renew_time is not None
    assert (w.env.now() - lease.spec.renew_time).total_seconds() < 11


async def test_a_lagging_watch_causes_no_repeated_writes(w: World) -> None:
    w.node_faults.add(Rule(delay(3.0), verb="watch", resource="nodes"))
    await w.start_nodes("slow")
    await asyncio.sleep(100)
    assert w.count_writes("nodes/slow") == 3, "registered, ready, and open to pods"


async def test_transition_times_move_only_with_the_status(w: World) -> None:
    since = {c.type: c.last_transition_time for c in (await w.node("node-0")).status.conditions}
    await asyncio.sleep(1000)
    later = (await w.node("node-0")).status.conditions
    assert {c.type: c.last_transition_time for c in later} == since
    assert all(c.last_heartbeat_time != c.last_transition_time for c in later)


@pytest.mark.world(profile=Profile())
async def test_conditions_set_to_unknown_by_others_are_corrected_within_seconds(w: World) -> None:
    await asyncio.sleep(100)
    before = w.env.now()
    await set_conditions(w, "Unknown")
    await asyncio.sleep(11)
    for condition in (await w.node("node-0")).status.conditions:
        assert condition.status == ("True" if condition.type == "Ready" else "False")
        assert condition.reason.startswith("Kubelet")
        assert condition.last_transition_time is not None
        assert condition.last_transition_time >= before.replace(microsecond=0)
    reasons = [e.reason for e in await w.events()][-4:]
    assert reasons == ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"]


async def test_foreign_conditions_of_a_node_are_kept_in_front(w: World) -> None:
    condition = {"type": "NetworkUnavailable", "status": "False"}
    patch = strategic_merge_patch({"status": {"conditions": [condition]}})
    await w.client.patch(NODES.raw, "node-0", patch, subresource="status")
    await asyncio.sleep(400)
    kinds = [c.type for c in (await w.node("node-0")).status.conditions]
    assert kinds == ["NetworkUnavailable", "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]


async def test_a_deleted_node_stays_deleted_and_sends_nothing(w: World) -> None:
    await w.client.delete(NODES, "node-0")
    await w.client.delete(LEASES, "node-0", "kube-node-lease")  # as the garbage collector does
    await asyncio.sleep(30)
    w.writes.clear()
    await asyncio.sleep(3600)
    assert w.writes == []
    with pytest.raises(NotFound):
        await w.node("node-0")


@pytest.mark.parametrize("observed", [True, False], ids=["the watch shows both", "the watch shows only the new one"])
async def test_a_recreated_node_is_adopted(w: World, observed: bool) -> None:
    await w.client.delete(NODES, "node-0")
    if observed:
        await asyncio.sleep(30)
        await w.create_node("node-0", cpu="1")
    else:
        w.node_faults.end_watches(resource="nodes")
        await w.create_node("node-0", cpu="1")
    await w.client.delete(LEASES, "node-0", "kube-node-lease")
    await asyncio.sleep(30)
    node = await w.node("node-0")
    assert is_node_ready(node)
    assert node.status.allocatable["cpu"] == "32"
    assert node.spec.taints == ()
    lease = await w.client.get(LEASES, "node-0", "kube-node-lease")
    assert lease.metadata.owner_references[0].uid == node.metadata.uid
    before = w.count_writes(LEASE)
    await asyncio.sleep(100)
    assert w.count_writes(LEASE) - before >= 9


async def test_a_restarted_simulator_adopts_its_node_and_lease(w: World) -> None:
    first = await w.start_nodes("a")
    await asyncio.sleep(20)
    uid, since = (node := await w.node("a")).metadata.uid, node.status.conditions[-1].last_transition_time
    first.cancel()
    await asyncio.sleep(100)
    await w.start_nodes("a", profile=Profile(events=False, cpu="8"))
    await asyncio.sleep(1)
    node = await w.node("a")
    assert (node.metadata.uid, node.status.conditions[-1].last_transition_time) == (uid, since)
    assert node.status.allocatable["cpu"] == "8"
    lease = await w.client.get(LEASES, "a", "kube-node-lease")
    assert lease.spec.renew_time is not None
    assert (w.env.now() - lease.spec.renew_time).total_seconds() < 5


@cases(
    "trouble",
    {
        "the server fails": lambda: fail(500, "InternalError"),
        "conflicts": conflict,
        "connection refused": refuse,
        "answers are lost": lose_answer,
    },
)
async def test_leases_are_renewed_in_time_however_many_writes_fail(
    w: World, trouble: Callable[[], object], seed: int
) -> None:
    for verb in ("create", "get", "patch", "update"):
        w.node_faults.add(Rule(trouble(), verb=verb, probability=0.3))  # type: ignore[arg-type]
    await w.start_nodes(*(f"n{number}" for number in range(10)))
    for _ in range(20):
        await asyncio.sleep(30)
        leases = (await w.client.list(LEASES, "kube-node-lease")).items
        assert len(leases) == 11
        for lease in leases:
            assert lease.spec.renew_time is not None
            assert (w.env.now() - lease.spec.renew_time).total_seconds() < 40


async def test_a_status_that_cannot_be_written_does_not_stop_the_lease(w: World) -> None:
    w.node_faults.add(Rule(fail(403, "Forbidden"), verb="patch", resource="nodes"))
    await asyncio.sleep(1000)
    w.writes.clear()
    await asyncio.sleep(1000)
    assert w.count_writes(LEASE) >= 90
    assert w.count_writes("nodes/node-0") == 0


def test_large_clusters_send_no_events_by_default() -> None:
    assert Profile().sends_events(EVENTFUL_NODES)
    assert not Profile().sends_events(EVENTFUL_NODES + 1)
    assert Profile(events=True).sends_events(5000)
    assert not Profile(events=False).sends_events(1)
