"""A node fails, and then a zone, with default periods, in virtual time: the timeline."""

import asyncio
import itertools
from collections.abc import Sequence

import msgspec
import pytest
from tests.scenarios.test_nodes import DOWN, OPTIONS, replica_set, tolerations
from tests.scenarios.users import NAMESPACE, SETS, Doc, User
from tests.tables import cases

from pilothouse.api.core import Node, Pod
from pilothouse.semantics.nodes import node_ready_condition
from pilothouse.semantics.pods import ready_condition
from pilothouse.sim import Invariant, Origin, Simulation
from pilothouse.sim.invariants.evictions import Evictions, no_execute
from pilothouse.sim.invariants.nodes import NodeHealth
from pilothouse.sim.invariants.pod_garbage import PodGarbage
from pilothouse.simulate.bugs.machines import NODES, Machines
from pilothouse.storage import Change

_node = msgspec.json.Decoder(Node).decode
_pod = msgspec.json.Decoder(Pod).decode


class Timeline(Invariant):
    """When each node became unreachable, was tainted and untainted, and what happened to each pod."""

    def __init__(self) -> None:
        self.silent: dict[str, float] = {}
        self.tainted: dict[str, float] = {}
        self.renewed: dict[str, float] = {}
        self.not_ready: dict[str, float] = {}
        self.evicted: dict[str, float] = {}
        self.gone: dict[str, float] = {}

    def committed(self, change: Change, origin: Origin | None) -> None:
        """Record a change."""
        now = asyncio.get_running_loop().time()
        name = change.key.rpartition("/")[2]
        if change.key.startswith("coordination.k8s.io/leases/"):
            self.renewed[name] = now
        elif change.key.startswith("/nodes/") and change.type != "DELETED":
            node = _node(change.value)
            ready = node_ready_condition(node)
            if ready is not None and ready.status == "Unknown":
                self.silent.setdefault(name, now)
            if no_execute(node):
                self.tainted.setdefault(name, now)
            else:
                self.tainted.pop(name, None)
        elif change.key.startswith("/pods/"):
            pod = _pod(change.value)
            mark = ready_condition(pod)
            if mark is not None and mark.status == "False" and pod.status.phase == "Running":
                self.not_ready.setdefault(name, now)
            if pod.metadata.deletion_timestamp is not None:
                self.evicted.setdefault(name, now)
            if change.type == "DELETED":
                self.gone[name] = now


def invariants() -> Sequence[Invariant]:
    return (Timeline(), NodeHealth(), Evictions(), PodGarbage())


def timeline_of(simulation: Simulation) -> Timeline:
    timeline = simulation.invariants[0]
    assert isinstance(timeline, Timeline)
    return timeline


pytestmark = pytest.mark.simulation(invariants=invariants)
FOUR = msgspec.structs.replace(OPTIONS, nodes=4)


async def pods_of(user: User, app: str) -> dict[str, Doc]:
    """The pods of an app that are not being deleted, by name."""
    items = await user.items(f"{NAMESPACE}/pods?labelSelector=app%3D{app}")
    return {pod["metadata"]["name"]: pod for pod in items if "deletionTimestamp" not in pod["metadata"]}


def on(node: str, pods: dict[str, Doc]) -> list[str]:
    return sorted(name for name, pod in pods.items() if pod["spec"]["nodeName"] == node)


def is_ready(pod: Doc) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])


@pytest.mark.simulation(options=FOUR)
async def test_pods_of_a_dead_node_are_evicted_and_replaced(simulation: Simulation) -> None:
    timeline = timeline_of(simulation)
    machines = Machines(simulation, {f"node-{number}": "" for number in range(4)})
    user = User(simulation.user)
    await user.request("POST", SETS, replica_set("web", 8))
    await user.request("POST", SETS, replica_set("hasty", 8, *tolerations(30, DOWN)))
    await user.request("POST", SETS, replica_set("daemon", 8, {"operator": "Exists"}))
    await asyncio.sleep(60.0)
    pods = {app: await pods_of(user, app) for app in ("web", "hasty", "daemon")}
    dying = next(name for name in machines.names if all(on(name, pod_object) for pod_object in pods.values()))
    before = {app: on(dying, pod_object) for app, pod_object in pods.items()}
    assert timeline.not_ready == {}

    machines.silence(dying)
    await asyncio.sleep(40.0)
    assert timeline.silent == {}, "not before the grace period is over"
    await asyncio.sleep(400.0)
    last = timeline.renewed[dying]
    silent, tainted = timeline.silent[dying] - last, timeline.tainted[dying] - last
    assert 50.0 < silent <= 61.0, "seen in a pass, 50 s later too old in a pass"
    assert tainted == pytest.approx(silent + 0.1, abs=0.01)
    for app, seconds in (("web", 300.0), ("hasty", 30.0)):
        for name in before[app]:
            assert timeline.not_ready[name] - last == pytest.approx(silent, abs=0.01)
            assert timeline.evicted[name] - timeline.tainted[dying] == pytest.approx(seconds, abs=0.01)
            assert name not in timeline.gone, "nobody is there to say that it has ended"
    for name in before["daemon"]:
        assert timeline.not_ready[name] - last == pytest.approx(silent, abs=0.01)
        assert name not in timeline.evicted, "it tolerates"
    for app in ("web", "hasty"):
        now = await pods_of(user, app)
        assert len(now) == 8
        assert on(dying, now) == []
        assert all(is_ready(pod) for pod in now.values())

    deleted = simulation.env.monotonic()
    await machines.delete(dying)
    await asyncio.sleep(100.0)
    for name in itertools.chain(*before.values()):
        assert 40.0 <= timeline.gone[name] - deleted <= 80.0, "after the quarantine, in a pass"
    assert len(await pods_of(user, "daemon")) == 8, "and whoever tolerates is replaced now"

    await machines.restore(dying)
    await simulation.run_until_idle()
    taints = (await user.request("GET", f"{NODES}/{dying}"))["spec"].get("taints") or []
    assert taints == []


@pytest.mark.simulation(options=msgspec.structs.replace(OPTIONS, nodes=3))
async def test_recovered_node_keeps_its_pods(simulation: Simulation) -> None:
    timeline = timeline_of(simulation)
    machines = Machines(simulation, {f"node-{number}": "" for number in range(3)})
    user = User(simulation.user)
    await user.request("POST", SETS, replica_set("web", 6))
    await asyncio.sleep(60.0)
    before = await pods_of(user, "web")
    machines.silence("node-1")
    await asyncio.sleep(300.0)
    assert timeline.tainted
    await machines.restore("node-1")
    await asyncio.sleep(30.0)
    assert timeline.tainted == {}
    await simulation.run_until_idle()
    after = await pods_of(user, "web")
    assert sorted(after) == sorted(before)
    assert timeline.evicted == {}
    assert all(is_ready(pod) for pod in after.values())


A, B = "a", "b"


@cases(
    "sizes, failed, gap, counts",
    {
        "a third of a zone: normal rate": ({A: 10, B: 2}, {A: 4}, 10.0, (4,)),
        "most of a small zone: eviction stops": ({A: 10, B: 2}, {A: 6}, 10.0, (0, 1)),
        "most of a large zone: one every hundred seconds": ({A: 60, B: 2}, {A: 36}, 100.0, (5, 6)),
        "full disruption of one zone: normal rate": ({A: 10, B: 2}, {A: 10}, 10.0, (10,)),
        "partial disruption of two zones: separate rates": ({A: 6, B: 6}, {A: 3, B: 3}, 10.0, (6,)),
        "full disruption of all zones: eviction stops": ({A: 5, B: 3}, {A: 5, B: 3}, 10.0, (0,)),
    },
)
@pytest.mark.simulation(
    options=lambda sizes: msgspec.structs.replace(OPTIONS, nodes=sum(sizes.values())), invariants=invariants
)
async def test_tainting_rate_by_zone_state(
    simulation: Simulation, sizes: dict[str, int], failed: dict[str, int], gap: float, counts: tuple[int, ...]
) -> None:
    """docs/controllers/node_lifecycle.md, Zones."""
    zones: dict[str, str] = {}
    for zone, size in sizes.items():
        for _ in range(size):
            zones[f"node-{len(zones)}"] = zone
    timeline = timeline_of(simulation)
    machines = Machines(simulation, zones)
    await machines.label()
    await asyncio.sleep(60.0)
    doomed = [
        name for zone, many in failed.items() for name in [n for n, where in zones.items() if where == zone][:many]
    ]
    for name in doomed:
        machines.silence(name)
    await asyncio.sleep(75.0)
    assert sorted(timeline.silent) == sorted(doomed)
    await asyncio.sleep(500.0)
    tainted = timeline.tainted
    for zone in sizes:
        times = sorted(at for name, at in tainted.items() if zones[name] == zone)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert all(gap - 0.1 <= item <= gap + 0.3 for item in gaps), gaps
    assert len(tainted) in counts

    for name in doomed:
        await machines.restore(name)
    await asyncio.sleep(60.0)
    assert timeline.tainted == {}, "all are spared when they are back"
    await simulation.run_until_idle()
