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
from tests.scenarios.users import Doc, RandomUser
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


class DriverAndUsers(RandomUser):
    """Drivers that publish ResourceSlices, claims, and ResourcePoolStatusRequests."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._asked = 0
        self._generation = 1

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        own = [
            self.write_slice,
            self.write_slice,
            self.write_slice,
            self.delete_slice,
            self.allocate_claim,
            self.allocate_claim,
            self.delete_claim,
        ]
        return [*own, self.create_request, self.create_request, self.create_request]

    async def write_slice(self) -> None:
        """Create or update a slice of one of two pools, sometimes of a newer generation, sometimes of an incomplete
        pool."""
        rng = self._rng
        self._generation += rng.choice((0, 0, 1))
        doc = slice_doc(
            f"s{rng.randrange(6)}",
            f"pool-{rng.randrange(2)}",
            rng.randrange(1, 5),
            generation=self._generation,
            expected=rng.choice((1, 1, 2)),
            taints={0: rng.choice(EFFECTS)},
        )
        await self.request("POST", SLICES, doc)

    async def delete_slice(self) -> None:
        """Delete a slice."""
        await self.delete_any(SLICES)

    async def allocate_claim(self) -> None:
        """Create a claim with allocated devices."""
        name = f"c{self._rng.randrange(4)}"
        await self.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": CLAIM_SPEC})
        devices = self._rng.sample(["device-0", "device-1", "device-2"], self._rng.randrange(1, 3))
        result = allocation(*devices, pool=f"pool-{self._rng.randrange(2)}")
        await self.merge(f"{CLAIMS}/{name}/status", {"status": {"allocation": result}})

    async def delete_claim(self) -> None:
        """Delete a claim."""
        await self.delete_any(CLAIMS)

    async def create_request(self) -> None:
        """Create a request for all pools or one, sometimes with a limit."""
        self._asked += 1
        spec = {"driver": DRIVER, **self._rng.choice(({}, {}, {"poolName": "pool-1"}, {"limit": 1}))}
        await self.request("POST", REQUESTS, {"metadata": {"name": f"r{self._asked}"}, "spec": spec})


def counted(slices: list[Doc], claims: list[Doc]) -> dict[str, tuple[int, ...] | None]:
    """Total, allocated and unavailable devices by pool, calculated independently of the controller; None for an
    incomplete pool."""
    counts: dict[str, tuple[int, ...] | None] = {}
    for name in sorted({slice_["spec"]["pool"]["name"] for slice_ in slices}):
        specs = [slice_["spec"] for slice_ in slices if slice_["spec"]["pool"]["name"] == name]
        newest = max(spec["pool"]["generation"] for spec in specs)
        specs = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if any(len(specs) < spec["pool"]["resourceSliceCount"] for spec in specs):
            counts[name] = None
            continue
        allocated_devices = sorted(
            {
                result["device"]
                for claim in claims
                for result in ((claim.get("status") or {}).get("allocation") or allocation())["devices"]["results"]
                if result["pool"] == name
            }
        )
        devices = [device for spec in specs for device in spec["devices"]]
        tainted = [d["name"] for d in devices if d.get("taints") and d["taints"][0]["effect"] != "None"]
        counts[name] = (
            len(devices),
            len(allocated_devices),
            len([item for item in tainted if item not in allocated_devices]),
        )
    return counts


def answered(request: Doc) -> dict[str, tuple[int, ...] | None]:
    """The same from a request's status."""
    fields = ("totalDevices", "allocatedDevices", "unavailableDevices")
    return {
        pool["poolName"]: None if "validationError" in pool else tuple(pool[field] for field in fields)
        for pool in request["status"].get("pools", ())
    }


async def check_final_state(simulation: Simulation, user: DriverAndUsers) -> None:
    """The last status is correct, and all requests are deleted after their TTL."""
    await asyncio.sleep(60.0)
    await user.request("POST", REQUESTS, {"metadata": {"name": "last"}, "spec": {"driver": DRIVER}})
    await asyncio.sleep(60.0)
    last = await user.get(f"{REQUESTS}/last")
    assert last is not None
    assert answered(last) == counted(await user.items(SLICES), await user.items(CLAIMS))
    await simulation.run_until_idle()
    await asyncio.sleep(1.5 * HOUR)
    # The clock may have been a day ahead when an answer was given.
    past = simulation.env.now() - datetime.timedelta(hours=1, minutes=11)
    remaining = [item["status"]["conditions"][0]["lastTransitionTime"] for item in await user.items(REQUESTS)]
    assert [since for since in remaining if parse_time(since) < past] == []


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (PoolRequests(),))
async def test_every_request_is_completed_once_and_deleted(simulation: Simulation, seed: int) -> None:
    user = DriverAndUsers(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(40))
    simulation.end_faults()
    await check_final_state(simulation, user)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, PoolRequests)
    assert invariant.answered
    assert invariant.expired


@broken_without((controller, "RETRIES", 10**9), fails="KeyError", options=OPTIONS, invariants=lambda: (PoolRequests(),))
async def test_request_for_an_incomplete_pool_reports_it(simulation: Simulation) -> None:
    """Upstream's controller gives such requests up after five tries, and nothing wakes them (kubernetes#141883)."""
    user = DriverAndUsers(simulation)
    await user.request("POST", SLICES, slice_doc("a", expected=2))
    await asyncio.sleep(1.0)
    await check_final_state(simulation, user)
