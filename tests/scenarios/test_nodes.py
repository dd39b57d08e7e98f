"""Nodes that become unreachable, are deleted and recover, under faults: health, taints, evictions, pod collection."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from tests.scenarios.users import NAMESPACE, SETS, Doc, User
from tests.workloads import pod_spec, workload

from pilothouse.client.errors import ApiError
from pilothouse.machinery.times import format_time
from pilothouse.nodes import Profile
from pilothouse.sim import Invariant, Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.evictions import Evictions
from pilothouse.sim.invariants.nodes import NodeHealth, NodeLimits
from pilothouse.sim.invariants.pod_garbage import PodGarbage
from pilothouse.simulate.bugs.machines import Machines

ZONES = {f"node-{number}": "a" if number < 5 else "b" for number in range(8)}
OPTIONS = SimulationOptions(
    nodes=len(ZONES),
    profile=Profile(events=False, clears_start_taint=False),
    controllers=("replicaset", "nodelifecycle", "taint-eviction-controller", "podgc"),
)
RESOURCES = ("pods", "nodes", "leases")
SECONDS = 900.0
LATE = NodeLimits(slack=30.0, patience=150.0)
"""The delays of faults: a watch that stalls for a minute, slow requests, a process that is down."""

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
OUT = "node.kubernetes.io/out-of-service"
OWN = ("example.com/a", "example.com/b")


def invariants() -> Sequence[Invariant]:
    return (NodeHealth(LATE), Evictions(), PodGarbage())


pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=invariants)


def tolerations(seconds: int | None, keys: Sequence[str]) -> list[Doc]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return [{"key": key, "operator": "Exists", "effect": "NoExecute", **limit} for key in keys]


def replica_set(name: str, replicas: int, *tolerated: Doc) -> Doc:
    pod = pod_spec(terminationGracePeriodSeconds=5, tolerations=list(tolerated))
    return workload("ReplicaSet", name, pod=pod, replicas=replicas)


SETS_TO_RUN = (
    replica_set("usual", 5),
    replica_set("brief", 4, *tolerations(20, DOWN), *tolerations(45, OWN[:1]), *tolerations(90, OWN[1:])),
    replica_set("daemon", 3, {"operator": "Exists"}),
    replica_set("picky", 2, *tolerations(None, DOWN), *tolerations(60, OWN[:1])),
)


class Operator(User):
    """Nodes fail and recover, are tainted, and pods are created and deleted."""

    def __init__(self, simulation: Simulation, machines: Machines) -> None:
        super().__init__(simulation.user)
        self._env = simulation.env
        self._rng: random.Random = simulation.env.stream("user")
        self._machines = machines

    async def run_actions(self, seconds: float, count: int) -> None:
        acts = (
            *[self.silence] * 3,
            *[self.restore] * 3,
            self.outage,
            self.delete_silent_node,
            self.delete_silent_node,
            *[self.taint] * 2,
            *[self.untaint] * 2,
            self.retaint,
            self.delete_lease,
            self.tolerate,
            self.delete_pod,
            self.delete_unbound,
            self.start_on_node,
        )
        for _ in range(count):
            await asyncio.sleep(self._rng.uniform(0, 2 * seconds / count))
            try:
                await self._rng.choice(acts)()
            except ApiError:
                continue  # somebody was faster

    def _node(self) -> str:
        return self._rng.choice(self._machines.names)

    async def silence(self) -> None:
        self._machines.silence(self._node())

    async def outage(self) -> None:
        """Stop the heartbeats of the nodes of a zone, or of all nodes."""
        zone = self._rng.choice(("a", "b", ""))
        for name in self._machines.names:
            if zone in ("", ZONES[name]) and self._rng.random() < 0.9:
                self._machines.silence(name)
        await asyncio.sleep(self._rng.choice((20.0, 70.0, 200.0)))
        for name in self._machines.names:
            await self._machines.restore(name)

    async def restore(self) -> None:
        name = self._node()
        await self._machines.untaint(name, OUT)
        await self._machines.restore(name)

    async def delete_silent_node(self) -> None:
        """Delete a silent node, or set the out-of-service taint."""
        name = self._node()
        if self._machines.is_silent(name):
            if self._rng.random() < 0.5:
                await self._machines.delete(name)
            else:
                await self._machines.taint(name, OUT)

    async def taint(self) -> None:
        since = format_time(self._env.now()) if self._rng.random() < 0.5 else ""
        await self._machines.taint(self._node(), self._rng.choice(OWN), since=since)

    async def untaint(self) -> None:
        for name in self._machines.names:
            for taint in await self._machines.taints(name):
                if taint["key"] in (*OWN, OUT):
                    await self._machines.untaint(name, taint["key"])
                    return

    async def retaint(self) -> None:
        """Remove and re-add a taint so quickly that a slow watch may deliver only the last state."""
        name = self._node()
        for taint in await self._machines.taints(name):
            if taint["key"] in OWN:
                await self._machines.untaint(name, taint["key"])
                await asyncio.sleep(self._rng.choice((0.0, 0.5, 5.0)))
                await self._machines.taint(name, taint["key"], since=format_time(self._env.now()))

    async def delete_lease(self) -> None:
        """Delete a Lease, which the kubelet recreates."""
        await self.request("DELETE", f"{LEASES}/{self._node()}")

    async def _pod(self) -> Doc | None:
        pods = await self.items(f"{NAMESPACE}/pods")
        return self._rng.choice(pods) if pods else None

    async def tolerate(self) -> None:
        pod = await self._pod()
        if pod is not None:
            wanted = [*pod["spec"]["tolerations"], *tolerations(self._rng.choice((None, 30, 200)), OWN)]
            await self.merge(f"{NAMESPACE}/pods/{pod['metadata']['name']}", {"spec": {"tolerations": wanted}})

    async def delete_pod(self) -> None:
        pod = await self._pod()
        if pod is not None:
            await self.request("DELETE", f"{NAMESPACE}/pods/{pod['metadata']['name']}")

    async def delete_unbound(self) -> None:
        """Delete an unschedulable pod, and remove its finalizer."""
        name = f"unbound-{self._rng.randrange(10**9)}"
        meta = {"name": name, "finalizers": ["example.com/hold"]}
        spec = {"containers": [{"name": "main", "image": "pause"}], "nodeSelector": {"nowhere": "yes"}}
        await self.request("POST", f"{NAMESPACE}/pods", {"metadata": meta, "spec": spec})
        await asyncio.sleep(self._rng.uniform(0, 30))
        await self.request("DELETE", f"{NAMESPACE}/pods/{name}")
        await asyncio.sleep(self._rng.uniform(0, 60))
        await self.merge(f"{NAMESPACE}/pods/{name}", {"metadata": {"finalizers": None}})

    async def start_on_node(self) -> None:
        """Create a pod with nodeName, possibly of a missing node."""
        name = self._rng.choice((self._node(), "nowhere"))
        spec = {
            "nodeName": name,
            "containers": [{"name": "main", "image": "pause"}],
            "terminationGracePeriodSeconds": 5,
        }
        meta = {"name": f"bare-{self._rng.randrange(10**9)}"}
        await self.request("POST", f"{NAMESPACE}/pods", {"metadata": meta, "spec": spec})


async def work_under_faults(simulation: Simulation, *, restarts: bool, faults: int = 12) -> None:
    machines = Machines(simulation, ZONES)
    operator = Operator(simulation, machines)
    rng = simulation.env.stream("plan")
    plan = draw(rng, SECONDS, count=faults, resources=RESOURCES, restarts=restarts)
    await machines.label()
    for manifest in SETS_TO_RUN:
        await operator.request("POST", SETS, manifest)
    await asyncio.sleep(30.0)
    await asyncio.gather(simulation.follow(plan), operator.run_actions(SECONDS, 60))
    simulation.end_faults()
    dead_node = rng.choice(machines.names) if rng.random() < 0.5 else ""
    if dead_node:
        await machines.restore(dead_node)
        machines.silence(dead_node)
    await machines.restore_all(but=dead_node, own_taints=(*OWN, OUT))
    if dead_node:
        for key in OWN:
            await machines.untaint(dead_node, key)
    await simulation.run_until_idle()


async def test_nodes_under_faults(simulation: Simulation, seed: int) -> None:
    await work_under_faults(simulation, restarts=False)


async def test_converges_with_managers_restarting_from_stale_lists(simulation: Simulation, seed: int) -> None:
    await work_under_faults(simulation, restarts=True)


def exact() -> Sequence[Invariant]:
    return (NodeHealth(), Evictions(), PodGarbage())


@pytest.mark.simulation(invariants=exact)
async def test_timing_without_faults(simulation: Simulation, seed: int) -> None:
    await work_under_faults(simulation, restarts=False, faults=0)
