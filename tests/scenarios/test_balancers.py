"""Load balancers under faults of the cluster and the cloud: none leaks when its Service is deleted."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.controllers.service_lb.clouds import FaultyCloud
from tests.scenarios.users import NAMESPACE, RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.controllers.cloud.service_lb import ServiceLBOptions
from pilothouse.controllers.cloud.service_lb.controller import ServiceLBController
from pilothouse.controllers.shared.simulated_cloud import SimulatedCloud
from pilothouse.env import Env
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.balancers import Balancers

SERVICES = f"{NAMESPACE}/services"
NODES = "/api/v1/nodes"
RESOURCES = ("services", "nodes")
SECONDS = 90.0
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"


class CloudFaults:
    """Delays calls to the cloud, and fails them before or after their execution."""

    def __init__(self, cloud: FaultyCloud, rng: random.Random) -> None:
        self._cloud = cloud
        self._rng = rng
        self.bad = True
        balancers = cloud.faulty
        for method in ("get", "ensure", "update", "delete"):
            balancers.before[method] = balancers.after[method] = self._inject

    def _inject(self) -> None:
        balancers = self._cloud.faulty
        for method in ("get", "ensure", "update", "delete"):
            balancers.seconds[method] = self._rng.choice((0.0, 0.0, 0.2, 5.0)) if self.bad else 0.0
        if self.bad and self._rng.random() < 0.25:
            raise OSError("the cloud is out of order")


class Owner(RandomUser):
    """Creates, changes and deletes Services."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.create_service,
            self.create_service,
            self.change_source_ranges,
            self.change_type,
            self.delete_service,
            self.toggle_exclusion,
        ]

    def _path(self) -> str:
        return f"{SERVICES}/s{self._rng.randrange(3)}"

    async def create_service(self) -> None:
        """Create a Service with one of a few names, so that names are reused."""
        spec = {"type": self._rng.choice(("LoadBalancer", "LoadBalancer", "ClusterIP")), "ports": [{"port": 80}]}
        await self.request("POST", SERVICES, {"metadata": {"name": self._path().rpartition("/")[2]}, "spec": spec})

    async def change_source_ranges(self) -> None:
        """Change loadBalancerSourceRanges."""
        ranges = self._rng.choice((["10.0.0.0/8"], ["192.0.2.0/24"]))
        await self.merge(self._path(), {"spec": {"loadBalancerSourceRanges": ranges}})

    async def change_type(self) -> None:
        """Change the type to or from LoadBalancer."""
        kind = self._rng.choice(("LoadBalancer", "ClusterIP"))
        change = {"type": kind} if kind == "LoadBalancer" else {"type": kind, "loadBalancerSourceRanges": None}
        await self.merge(self._path(), {"spec": change})

    async def delete_service(self) -> None:
        """Delete a Service."""
        await self.request("DELETE", self._path())

    async def toggle_exclusion(self) -> None:
        """Set or remove a node's exclude-from-external-load-balancers label."""
        label = self._rng.choice(("true", None))
        await self.merge(f"{NODES}/node-{self._rng.randrange(2)}", {"metadata": {"labels": {EXCLUDE: label}}})


@pytest.fixture
def cloud() -> FaultyCloud:
    return FaultyCloud(Env())


def options(cloud: FaultyCloud) -> SimulationOptions:
    return SimulationOptions(
        controllers=("service-lb-controller",),
        controller_options={"service-lb-controller": ServiceLBOptions(provider=cloud)},
    )


pytestmark = pytest.mark.simulation(options=options, invariants=lambda cloud: (Balancers(cloud),))


async def check_and_delete_everything(simulation: Simulation, cloud: SimulatedCloud, user: Owner) -> None:
    """Check the load balancers, delete all Services, and check again."""
    await asyncio.sleep(600.0)
    await simulation.run_until_idle()
    await user.delete_all(SERVICES)
    await asyncio.sleep(600.0)
    await simulation.run_until_idle()
    assert cloud.balancers == {}
    assert [item["metadata"]["name"] for item in await user.items(SERVICES)] in ([], ["kubernetes"])


async def test_no_load_balancer_leaks(simulation: Simulation, cloud: FaultyCloud, seed: int) -> None:
    user = Owner(simulation)
    weather = CloudFaults(cloud, simulation.env.stream("weather"))
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(30))
    weather.bad = False
    simulation.end_faults()
    await check_and_delete_everything(simulation, cloud, user)


async def without_finalizer(_self: ServiceLBController, service: object) -> object:
    return service


@broken_without(
    (ServiceLBController, "_add_finalizer", without_finalizer), fails="was removed before its load balancer"
)
async def test_finalizer_keeps_the_service_until_its_load_balancer_is_deleted(
    simulation: Simulation, cloud: FaultyCloud
) -> None:
    user = Owner(simulation)
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    await user.request("POST", SERVICES, {"metadata": {"name": "s0"}, "spec": spec})
    await asyncio.sleep(20.0)
    simulation.kill(down=20.0)
    await user.request("DELETE", f"{SERVICES}/s0")
    await asyncio.sleep(60.0)
    await check_and_delete_everything(simulation, cloud, user)
