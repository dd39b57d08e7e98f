"""ResourcePoolStatusRequests under faults, while drivers publish and claims change: each gets one status, the last one
correct, and all are deleted in the end."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable

import pytest
from tests.controllers.resourcepoolstatusrequest.pools import (
    CLAIM_SPEC,
    CLAIMS,
    DRIVER,
    REQUESTS,
    SLICES,
    allocation,
    slice_doc,
)
from tests.scenarios.users import Doc, Restless
from tests.scenarios.variants import broken_without

from pilothouse.controllers.devices.resourcepoolstatusrequest import controller
from pilothouse.machinery.times import parse_time
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.pool_requests import PoolRequests

OPTIONS = SimulationOptions(
    nodes=1, controllers=("resourcepoolstatusrequest-controller",), gates=("DRAResourcePoolStatus",)
)
RESOURCES = ("resourcepoolstatusrequests", "resourceslices", "resourceclaims")
SECONDS = 90.0
HOUR = 3600.0
EFFECTS = ("NoSchedule", "NoExecute", "None")


class Cluster(Restless):
    """Drivers, users of devices, and people who ask how many there are."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._asked = 0
        self._generation = 1

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        own = [self.publish, self.publish, self.publish, self.withdraw, self.take, self.take, self.give_back]
        return [*own, self.ask_about_pools, self.ask_about_pools, self.ask_about_pools]

    async def publish(self) -> None:
        """A slice of one of two pools, sometimes of a newer generation, sometimes one of two."""
        chance = self._chance
        self._generation += chance.choice((0, 0, 1))
        doc = slice_doc(
            f"s{chance.randrange(6)}",
            f"pool-{chance.randrange(2)}",
            chance.randrange(1, 5),
            generation=self._generation,
            expected=chance.choice((1, 1, 2)),
            taints={0: chance.choice(EFFECTS)},
        )
        await self.request("POST", SLICES, doc)

    async def withdraw(self) -> None:
        """A slice."""
        await self.delete_any(SLICES)

    async def take(self) -> None:
        """A claim gets some devices."""
        name = f"c{self._chance.randrange(4)}"
        await self.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": CLAIM_SPEC})
        devices = self._chance.sample(["device-0", "device-1", "device-2"], self._chance.randrange(1, 3))
        got = allocation(*devices, pool=f"pool-{self._chance.randrange(2)}")
        await self.merge(f"{CLAIMS}/{name}/status", {"status": {"allocation": got}})

    async def give_back(self) -> None:
        """A claim goes."""
        await self.delete_any(CLAIMS)

    async def ask_about_pools(self) -> None:
        """Of all, or of one; some ask for less."""
        self._asked += 1
        spec = {"driver": DRIVER, **self._chance.choice(({}, {}, {"poolName": "pool-1"}, {"limit": 1}))}
        await self.request("POST", REQUESTS, {"metadata": {"name": f"r{self._asked}"}, "spec": spec})


def counted(slices: list[Doc], claims: list[Doc]) -> dict[str, tuple[int, ...] | None]:
    """Total, allocated and unavailable devices by pool, counted in another way than the controller does; None for a
    pool that lacks slices."""
    found: dict[str, tuple[int, ...] | None] = {}
    for name in sorted({slice_["spec"]["pool"]["name"] for slice_ in slices}):
        specs = [slice_["spec"] for slice_ in slices if slice_["spec"]["pool"]["name"] == name]
        newest = max(spec["pool"]["generation"] for spec in specs)
        specs = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if any(len(specs) < spec["pool"]["resourceSliceCount"] for spec in specs):
            found[name] = None
            continue
        taken = sorted(
            {
                result["device"]
                for claim in claims
                for result in ((claim.get("status") or {}).get("allocation") or allocation())["devices"]["results"]
                if result["pool"] == name
            }
        )
        devices = [device for spec in specs for device in spec["devices"]]
        tainted = [d["name"] for d in devices if d.get("taints") and d["taints"][0]["effect"] != "None"]
        found[name] = (len(devices), len(taken), len([item for item in tainted if item not in taken]))
    return found


def answered(request: Doc) -> dict[str, tuple[int, ...] | None]:
    """The same, as the answer has it."""
    fields = ("totalDevices", "allocatedDevices", "unavailableDevices")
    return {
        pool["poolName"]: None if "validationError" in pool else tuple(pool[field] for field in fields)
        for pool in request["status"].get("pools", ())
    }


async def end(simulation: Simulation, user: Cluster) -> None:
    """The last answer is true, and none outlives its time."""
    await asyncio.sleep(60.0)
    await user.request("POST", REQUESTS, {"metadata": {"name": "last"}, "spec": {"driver": DRIVER}})
    await asyncio.sleep(60.0)
    last = await user.get(f"{REQUESTS}/last")
    assert last is not None
    assert answered(last) == counted(await user.items(SLICES), await user.items(CLAIMS))
    await simulation.settle()
    await asyncio.sleep(1.5 * HOUR)
    # The clock may have been a day ahead when an answer was given.
    past = simulation.env.now() - datetime.timedelta(hours=1, minutes=11)
    left = [item["status"]["conditions"][0]["lastTransitionTime"] for item in await user.items(REQUESTS)]
    assert [since for since in left if parse_time(since) < past] == []


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (PoolRequests(),))
async def test_every_request_is_completed_once_and_deleted(simulation: Simulation, seed: int) -> None:
    user = Cluster(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.work(40))
    simulation.heal()
    await end(simulation, user)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, PoolRequests)
    assert invariant.answered
    assert invariant.expired


@broken_without((controller, "RETRIES", 10**9), fails="KeyError", options=OPTIONS, invariants=lambda: (PoolRequests(),))
async def test_request_for_an_incomplete_pool_reports_it(simulation: Simulation) -> None:
    """Upstream's controller gives such requests up after five tries, and nothing wakes them (kubernetes#141883)."""
    user = Cluster(simulation)
    await user.request("POST", SLICES, slice_doc("a", expected=2))
    await asyncio.sleep(1.0)
    await end(simulation, user)
