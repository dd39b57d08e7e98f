"""Known bugs that involve restarts of a kubelet: simulated nodes with their own connections."""

import asyncio
import contextlib
from collections.abc import Iterator

from pilothouse.client.interceptor import Observation, Sent
from pilothouse.env import TaskGroup
from pilothouse.nodes import NodeSimulator
from pilothouse.plane import LocalClients
from pilothouse.plane.clients import ADMIN
from pilothouse.runtime import InformerFactory
from pilothouse.sim import Simulation, SimulationOptions, Violation
from pilothouse.sim.connection import Connection, Wire
from pilothouse.sim.replica import Replica
from pilothouse.sim.simulation import CALM
from pilothouse.simulate.bugs.declaration import Bug, Pattern, Unguarded, check
from pilothouse.simulate.bugs.machines import NODES
from pilothouse.simulate.bugs.user import APPS, PODS, User, pod_spec, workload

OLD_SERVER = Bug(
    "kubernetes#59848",
    "A list from a stale API server resurrects a pod, and two nodes run it",
    controller="kubelet",
    patterns=(Pattern.STALE,),
    upstream="open; WatchList, on by default in client-go since 1.35, asks for consistent lists",
    mechanism="A kubelet that starts lists with resourceVersion=0, from the watch cache of any API server. If that is "
    "stale, the kubelet gets a pod that was deleted and whose successor with the same name runs on another node.",
    protection="Informers request a consistent list (sendInitialEvents): a stale API server waits until it has caught "
    "up, or returns an error.",
    limits="Simulated nodes run no containers, so the scenario checks that the node reports a status for the pod.",
)


class Kubelet:
    """One node of a simulation, which can die and start again."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self._simulation = simulation
        self._name = name
        self._user = User(simulation.user)
        self.reported: dict[str, None] = {}
        """The pods whose status it has written, by name, since it was started last."""

    @contextlib.contextmanager
    def running(self, group: TaskGroup, *, behind: bool = False, streams: bool = True) -> Iterator[None]:
        """Run the kubelet during the block. ``behind``: its informers use the server that may be stale. ``streams``:
        they use WatchList, which is consistent."""
        simulation, name = self._simulation, self._name
        self.reported.clear()
        wiring = Wire(simulation.env, name, simulation.log, simulation.store, observer=self._observe)
        if behind:
            wiring.replica, wiring.streams = simulation.replica, streams

        def transport(replica: Replica) -> object:
            return replica.server.transport(f"system:node:{name}", ("system:nodes",))

        clients = LocalClients(
            simulation.env,
            simulation.plane.server.transport,
            lambda _program, inner: Connection(wiring, inner, transport),  # type: ignore[arg-type]
        )
        informers = InformerFactory(clients.client("nodes", *ADMIN), simulation.env)
        simulator = NodeSimulator(
            simulation.env,
            names=[name],
            informers=informers,
            client_for=lambda node: clients.client("nodes", f"system:node:{node}", ("system:nodes",)),
            administrator=clients.client("nodes", *ADMIN),
            profile=CALM,
        )
        informers.start(group)
        task = group.start(simulator.run(), name=name)
        try:
            yield
        finally:
            wiring.die()
            task.cancel()

    def _observe(self, observation: Observation) -> None:
        if isinstance(observation, Sent) and (observation.call.resource, observation.call.subresource) == (
            "pods",
            "status",
        ):
            self.reported[observation.call.name] = None


@OLD_SERVER.scenario(
    "a kubelet starts again",
    options=SimulationOptions(nodes=0, controllers=("statefulset",)),
    unguarded=Unguarded("node-0 reports that it runs web-0, which is bound to node-1", arguments={"streams": False}),
)
async def kubelet_starts_again(simulation: Simulation, streams: bool = True) -> None:
    """The kubelet of node-0 is down while its pod is deleted and created again for node-1. When it starts, it reads
    from a server that has not observed that."""
    user = User(simulation.user)
    first, second = Kubelet(simulation, "node-0"), Kubelet(simulation, "node-1")
    async with TaskGroup("kubelets") as group:
        with second.running(group):
            with first.running(group):
                await asyncio.sleep(5.0)
                await user.merge(f"{NODES}/node-1", {"spec": {"unschedulable": True}})
                web = workload("StatefulSet", pod=pod_spec(), replicas=1, serviceName="web")
                await user.request("POST", f"{APPS}/statefulsets", web)
                await asyncio.sleep(0.1)
                simulation.replica.set_lag(None)  # it shows the pod as bound, and not as started
                await asyncio.sleep(10.0)
                check("web-0" in first.reported, "the pod does not run on node-0")
            await user.merge(f"{NODES}/node-0", {"spec": {"unschedulable": True}})
            await user.merge(f"{NODES}/node-1", {"spec": {"unschedulable": None}})
            await user.request("DELETE", f"{PODS}/web-0", {"gracePeriodSeconds": 0})
            await asyncio.sleep(10.0)
            node = (await user.request("GET", f"{PODS}/web-0"))["spec"].get("nodeName")
            check(node == "node-1", f"the second pod is bound to {node}")
            with first.running(group, behind=True, streams=streams):
                await asyncio.sleep(60.0)
                if "web-0" in first.reported:
                    raise Violation("node-0 reports that it runs web-0, which is bound to node-1")
                simulation.replica.set_lag(0.0)
                await asyncio.sleep(60.0)
                check(not first.reported, f"node-0 reports that it runs {list(first.reported)}")
        group.cancel()


@OLD_SERVER.scenario(
    "a manager that starts with a stale list", options=SimulationOptions(nodes=2, controllers=("statefulset",))
)
async def manager_with_stale_lists(simulation: Simulation) -> None:
    """It gets no pods. It cannot create them twice, because they have fixed names."""
    user = User(simulation.user)
    web = workload("StatefulSet", pod=pod_spec(), replicas=4, serviceName="web")
    await user.request("POST", f"{APPS}/statefulsets", web)
    simulation.replica.set_lag(None)
    await asyncio.sleep(5.0)
    uids = {pod["metadata"]["uid"] for pod in await user.items(PODS)}
    check(len(uids) == 4, f"there are {len(uids)} pods")
    simulation.kill(stale=True)
    await asyncio.sleep(10.0)
    check({pod["metadata"]["uid"] for pod in await user.items(PODS)} == uids, "pods were replaced")
    simulation.end_faults()
    await simulation.run_until_idle()


BUGS = (OLD_SERVER,)
