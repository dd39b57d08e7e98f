"""Failed updates that upstream's node lifecycle controller drops, with and without the protection."""

import asyncio

import msgspec
from tests.scenarios.test_nodes import OPTIONS
from tests.scenarios.variants import broken_without

from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.node.node_lifecycle.controller import NodeLifecycleController
from pilothouse.nodes import Profile
from pilothouse.runtime import Requeue
from pilothouse.sim import Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.nodes import NodeHealth
from pilothouse.simulate.bugs.machines import NODES, Machines


def options(*controllers: str, **changes: object) -> SimulationOptions:
    return msgspec.structs.replace(OPTIONS, nodes=2, controllers=controllers, **changes)


tend = NodeLifecycleController._sync_node


async def once(self: NodeLifecycleController, name: str) -> Requeue | None:
    try:
        return await tend(self, name)
    except ApiError:
        return None


@broken_without(
    (NodeLifecycleController, "_sync_node", once),
    fails="its taints are \\[\\]",
    options=options("nodelifecycle", profile=Profile(events=False, status_period=14400.0)),
    invariants=lambda: (NodeHealth(),),
)
async def test_failed_node_update_is_retried_without_an_event(simulation: Simulation) -> None:
    """As kubernetes#75836: something is wrong until some event of a node happens to come. Upstream's worker for
    NoSchedule taints and labels still drops what failed ("Add nodeName back to the queue" is to be done)."""
    machines = Machines(simulation, {"node-0": "", "node-1": ""})
    await asyncio.sleep(60.0)
    simulation.add_rule(Rule(fail(500, "InternalError"), verb="patch", resource="nodes", nth=1))
    await machines.merge(f"{NODES}/node-0", {"spec": {"unschedulable": True}})
    await asyncio.sleep(0.001)
    await simulation.run_until_idle()
    result = [taint["key"] for taint in await machines.taints("node-0")]
    if result != ["node.kubernetes.io/unschedulable"]:
        raise Violation(f"node-0 is cordoned, and its taints are {result}")
