"""Services under faults: in the end their slices and Endpoints list every pod exactly once."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.users import NAMESPACE, Doc, User, replica_set

from pilothouse.client.errors import ApiError
from pilothouse.controllers.network.endpointslice import EndpointSliceOptions
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.endpoints import ServiceEndpoints

SERVICES = f"{NAMESPACE}/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
WEB = f"{SETS}/web"
PER_SLICE = 4
OPTIONS = SimulationOptions(
    controllers=("endpoint", "endpointslice", "replicaset", "garbagecollector"),
    controller_options={"endpointslice-controller": EndpointSliceOptions(max_endpoints=PER_SLICE)},
)
pytestmark = pytest.mark.simulation(options=OPTIONS)
SERVICE: Doc = {
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}


class PodStatusUser(User):
    """Changes pods and their statuses."""

    def actions(self, rng: random.Random) -> list[Callable[[], Awaitable[None]]]:
        async def relabel() -> None:
            items = await self.items(f"{NAMESPACE}/pods")
            if items:
                name = rng.choice(items)["metadata"]["name"]
                app = rng.choice(("web", "other"))
                await self.merge(f"{NAMESPACE}/pods/{name}", {"metadata": {"labels": {"app": app}}})

        async def fall_over() -> None:
            items = await self.items(f"{NAMESPACE}/pods")
            if items:
                name = rng.choice(items)["metadata"]["name"]
                note = {"simulated.pilothouse.dev/readiness-probe": rng.choice(("fail", "pass"))}
                await self.merge(f"{NAMESPACE}/pods/{name}", {"metadata": {"annotations": note}})

        async def tamper() -> None:
            items = await self.items(SLICES)
            if items:
                path = f"{SLICES}/{rng.choice(items)['metadata']['name']}"
                await (self.request("DELETE", path, {}) if rng.random() < 0.5 else self.merge(path, {"endpoints": []}))

        async def delete() -> None:
            items = await self.items(f"{NAMESPACE}/pods")
            if items:
                await self.request("DELETE", f"{NAMESPACE}/pods/{rng.choice(items)['metadata']['name']}", {})

        return [
            lambda: self.merge(WEB, {"spec": {"replicas": rng.choice((0, 1, 3, 6, 9))}}),
            relabel,
            fall_over,
            tamper,
            delete,
        ]


@pytest.mark.simulation(invariants=lambda: (ServiceEndpoints("web", "web", per_slice=PER_SLICE, extra_slices=8),))
async def test_every_pod_is_an_endpoint_once(simulation: Simulation, seed: int) -> None:

    # Slices are not emptied into one another while nothing changes: upstream leaves them as they are, too.
    user = PodStatusUser(simulation.user)
    await user.request("POST", SERVICES, SERVICE)
    await user.request("POST", SETS, replica_set("web", 5, {"app": "web"}))
    await asyncio.sleep(5.0)
    rng = simulation.env.stream("user")
    resources = ("endpointslices", "endpoints", "pods", "services", "nodes")
    plan = draw(simulation.env.stream("plan"), 60.0, count=8, resources=resources, restarts=True)

    async def run_actions() -> None:
        for _ in range(15):
            with contextlib.suppress(ApiError):  # deleted concurrently
                await rng.choice(user.actions(rng))()
            await asyncio.sleep(rng.choice((0.05, 0.5, 3.0, 10.0)))

    await asyncio.gather(simulation.follow(plan), run_actions())
    await simulation.run_until_idle()
