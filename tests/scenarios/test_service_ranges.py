"""ServiceCIDRs that are added, deleted, recreated and overlap, under faults: a ServiceCIDR is kept while an address of
it is allocated, even by an API server with a stale view."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenarios.users import Doc, RandomUser
from tests.scenarios.variants import Patch, broken_without
from tests.tables import cases

from pilothouse.client import strategic_merge_patch
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.network.service_cidr import controller, decide
from pilothouse.machinery.cidrs import parse_cidr
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import FaultPlan, JumpClock
from pilothouse.sim.invariants.service_ranges import FINALIZER, MANAGED, ServiceRanges

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"
OPTIONS = SimulationOptions(nodes=1, controllers=("service-cidr-controller",))
RESOURCES = ("servicecidrs.networking.k8s.io", "ipaddresses.networking.k8s.io")
SECONDS = 120.0

RANGES = (
    ("10.9.0.0/28",),
    ("10.9.0.16/28",),
    ("10.9.0.0/27",),
    ("10.9.0.0/24",),
    ("10.9.0.0/28", "fd00::/124"),
    ("fd00::/120",),
)
SECOND = {"10.9.0.0/28": "fd00::/123", "10.9.0.0/24": "fd00::/112", "fd00::/120": "10.9.0.0/26"}
"""The ranges that may be added to a range of one family."""
UNOBSERVED_SECONDS = 8.0
"""As long after a deletion other API servers may give addresses: less than the ten that are left to them."""


class Operator(RandomUser):
    """Creates and deletes ServiceCIDRs and Services, and allocates addresses as API servers with stale caches."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._deleted: dict[str, float] = {}
        """When each range was deleted."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [
            self.create,
            self.create,
            self.delete_range,
            self.delete_range,
            self.create_service,
            self.create_service,
            self.allocate_late,
            self.allocate_late,
        ]
        return [
            *often,
            self.delete_service,
            self.delete_service,
            self.release_late,
            self.add_family,
            self.remove_finalizer,
        ]

    async def create(self) -> None:
        """Create a ServiceCIDR with one of a few names."""
        cidrs = list(self._rng.choice(RANGES))
        await self.request(
            "POST", CIDRS, {"metadata": {"name": f"r{self._rng.randrange(4)}"}, "spec": {"cidrs": cidrs}}
        )

    async def delete_range(self) -> None:
        """Delete a ServiceCIDR with the finalizer; there are no guarantees for others."""
        protected = [range_ for range_ in await self._ranges() if FINALIZER in range_["metadata"].get("finalizers", ())]
        if protected:
            meta = self._rng.choice(protected)["metadata"]
            if "deletionTimestamp" not in meta:  # else once more, which changes nothing
                self._deleted[meta["name"]] = asyncio.get_running_loop().time()
            await self.request("DELETE", f"{CIDRS}/{meta['name']}")

    async def add_family(self) -> None:
        """Add a range of the second family."""
        for item in await self._ranges():
            cidrs = item["spec"]["cidrs"]
            if len(cidrs) == 1 and cidrs[0] in SECOND:
                name = item["metadata"]["name"]
                await self.merge(f"{CIDRS}/{name}", {"spec": {"cidrs": [*cidrs, SECOND[cidrs[0]]]}})
                return

    async def remove_finalizer(self) -> None:
        """Remove the finalizer of a ServiceCIDR that is not terminating."""
        active = [
            range_["metadata"] for range_ in await self._ranges() if "deletionTimestamp" not in range_["metadata"]
        ]
        if active:
            meta = self._rng.choice(active)
            changes = {"finalizers": None, "resourceVersion": meta["resourceVersion"]}
            await self.merge(f"{CIDRS}/{meta['name']}", {"metadata": changes})

    async def create_service(self) -> None:
        """Create a Service with a requested or any cluster IP."""
        address = self._rng.choice(({}, {"clusterIP": f"10.9.0.{self._rng.randrange(1, 32)}"}))
        metadata = {"name": f"s{self._rng.randrange(8)}"}
        await self.request("POST", SERVICES, {"metadata": metadata, "spec": {"ports": [{"port": 80}], **address}})

    async def delete_service(self) -> None:
        """Delete a Service."""
        await self.request("DELETE", f"{SERVICES}/s{self._rng.randrange(8)}")

    async def allocate_late(self) -> None:
        """Allocate an address of a ServiceCIDR as an API server that has not observed its deletion."""
        now = asyncio.get_running_loop().time()
        known = [
            range_
            for range_ in await self._ranges()
            if "deletionTimestamp" not in range_["metadata"]
            or now - self._deleted[range_["metadata"]["name"]] < UNOBSERVED_SECONDS
        ]
        if known:
            network = parse_cidr(self._rng.choice(self._rng.choice(known)["spec"]["cidrs"]))
            address = network[self._rng.randrange(1, 7)]
            labels = {**MANAGED, "ipaddress.kubernetes.io/ip-family": f"IPv{network.version}"}
            parent = {"parentRef": {"resource": "services", "namespace": "default", "name": "late"}}
            await self.request(
                "POST", ADDRESSES, {"metadata": {"name": str(address), "labels": labels}, "spec": parent}
            )

    async def release_late(self) -> None:
        """Release such an address."""
        late = await self._late()
        if late:
            await self.request("DELETE", f"{ADDRESSES}/{self._rng.choice(late)}")

    async def _late(self) -> list[str]:
        items = await self.items(ADDRESSES)
        return [item["metadata"]["name"] for item in items if item["spec"]["parentRef"]["name"] == "late"]

    async def _ranges(self) -> list[Doc]:
        return [item for item in await self.items(CIDRS) if item["metadata"]["name"] != "kubernetes"]


async def delete_everything(simulation: Simulation, user: Operator) -> None:
    """Delete everything, the addresses last; only the default ServiceCIDR may remain."""
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    await user.delete_all(CIDRS)
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    await user.delete_all(SERVICES, lambda found: found["metadata"]["name"] != "kubernetes")
    await user.delete_all(ADDRESSES, lambda found: found["spec"]["parentRef"]["name"] == "late")
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    assert [item["metadata"]["name"] for item in await user.items(CIDRS)] == ["kubernetes"]


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (ServiceRanges(),))
async def test_every_address_keeps_a_service_cidr(simulation: Simulation, seed: int) -> None:
    user = Operator(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    # The ten seconds are of the wall clock: a clock that jumps ahead shortens them.
    plan = FaultPlan(tuple(fault for fault in plan.faults if not isinstance(fault, JumpClock)))
    await asyncio.gather(simulation.follow(plan), user.run_actions(50))
    simulation.end_faults()
    await delete_everything(simulation, user)


async def create_ranges(simulation: Simulation, *names: str) -> Operator:
    """Create ServiceCIDRs of the same range, and an address."""
    user = Operator(simulation)
    for name in names:
        await user.request("POST", CIDRS, {"metadata": {"name": name}, "spec": {"cidrs": ["10.9.0.0/28"]}})
    await asyncio.sleep(3.0)
    return user


async def delete_two(simulation: Simulation) -> None:
    """Two ServiceCIDRs of the same range are deleted at once."""
    user = await create_ranges(simulation, "a", "b")
    spec = {"ports": [{"port": 80}], "clusterIP": "10.9.0.1"}
    await user.request("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    for name in ("a", "b"):
        await user.request("DELETE", f"{CIDRS}/{name}")
    await delete_everything(simulation, user)


async def address_unobserved(simulation: Simulation) -> None:
    """An address is allocated late, which the manager does not observe."""
    user = await create_ranges(simulation, "a")
    with simulation.held_watches("ipaddresses"):
        await user.request("DELETE", f"{CIDRS}/a")
        await asyncio.sleep(5.0)
        labels = {**MANAGED, "ipaddress.kubernetes.io/ip-family": "IPv4"}
        parent = {"parentRef": {"resource": "services", "namespace": "default", "name": "late"}}
        await user.request("POST", ADDRESSES, {"metadata": {"name": "10.9.0.1", "labels": labels}, "spec": parent})
        await asyncio.sleep(60.0)
    await delete_everything(simulation, user)


async def recreated(simulation: Simulation) -> None:
    """While the manager tries to remove the finalizer, another client removes it and recreates the ServiceCIDR."""
    user = await create_ranges(simulation, "a")
    await user.request("DELETE", f"{CIDRS}/a")
    refused = simulation.add_rule(Rule(fail(500), verb="patch", resource="servicecidrs"))
    await asyncio.sleep(15.0)
    with simulation.held_watches("servicecidrs"):
        await user.merge(f"{CIDRS}/a", {"metadata": {"finalizers": None}})
        again = {"metadata": {"name": "a", "finalizers": [FINALIZER]}, "spec": {"cidrs": ["10.9.0.0/28"]}}
        await user.request("POST", CIDRS, again)
        simulation.remove_rule(refused)
        await asyncio.sleep(60.0)
    await delete_everything(simulation, user)


COUNT_ALL = (decide, "_others", lambda cidr, known: [e for e in known if e.metadata.name != cidr.metadata.name])
"""Also ranges that go themselves, as upstream."""

BELIEVE_THE_CACHE = (controller, "is_contained", lambda *_args: True)
"""The addresses are only read from the cache, as upstream."""

WITHOUT_UID = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
RELEASE_ANY = (controller, "_patch_finalizer", lambda _cidr: strategic_merge_patch(WITHOUT_UID))
"""Whichever has the name, as upstream."""

WITHOUT_GRACE = (controller, "GRACE_SECONDS", 0.0)
"""Leave other API servers no time."""


@cases(
    "scenario, patch, wrong",
    {
        "concurrent deletion": (delete_two, COUNT_ALL, "no other range contains"),
        "unobserved address": (address_unobserved, BELIEVE_THE_CACHE, "no other range contains"),
        "recreated": (recreated, RELEASE_ANY, "lost its finalizer while it is not being deleted"),
        "without grace period": (address_unobserved, WITHOUT_GRACE, "was released after 0"),
    },
)
@broken_without(
    lambda patch: [patch], fails=lambda wrong: wrong, options=OPTIONS, invariants=lambda: (ServiceRanges(),)
)
async def test_service_cidr_in_use_is_not_released(
    simulation: Simulation, scenario: Any, patch: Patch, wrong: str
) -> None:
    await scenario(simulation)
