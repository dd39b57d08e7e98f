"""PodCertificateRequests under faults: kubelets create them, signers may sign, the cleaner deletes."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.certificate_kinds import GROUP, definition
from tests.scenarios.served import serve
from tests.scenarios.users import Doc, Restless
from tests.scenarios.variants import WITHOUT, broken_without

from pilothouse.client.interceptor import Replace, Rule
from pilothouse.controllers.identity.podcertificaterequest_cleaner import DESCRIPTOR, controller
from pilothouse.machinery.times import parse_time
from pilothouse.sim import Simulation, SimulationOptions, draw, stretched
from pilothouse.sim.invariants.pod_requests import PodRequests

OPTIONS = SimulationOptions(nodes=0, controllers=(DESCRIPTOR.name,), gates=DESCRIPTOR.gates)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (PodRequests(),))
NAMESPACES = ("default", "kube-system")
RESOURCES = ("podcertificaterequests",)
SECONDS, FACTOR = 90.0, 60.0
"""Faults of a minute and a half, stretched to an hour and a half: the cleaner checks every five minutes."""
MINUTE = 60.0
FOUR = datetime.timedelta(minutes=4)
KIND = definition(*RESOURCES, "PodCertificateRequest", namespaced=True)


class Kubelets(Restless):
    """Those who ask for their pods, and the signers."""

    PAUSES = (0.0, 0.5, 20.0, 60.0, 240.0)

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.request_certificate,
            self.request_certificate,
            self.request_certificate,
            self.request_certificate,
            self.answer,
            self.answer,
            self.drop,
            self.again,
        ]

    async def request_certificate(self, name: str = "") -> None:
        """One of a few names, so that some come again."""
        await self.create(self._chance.choice(NAMESPACES), name or f"r{self._chance.randrange(6)}")

    async def create(self, namespace: str, name: str) -> None:
        """A request."""
        head = {"apiVersion": f"{GROUP}/v1beta1", "kind": "PodCertificateRequest", "metadata": {"name": name}}
        await self.request("POST", requests(namespace), {**head, "spec": {"signerName": "example.com/own"}})

    async def answer(self) -> None:
        """Issue a certificate, or say no."""
        said = self._chance.choice(({"certificateChain": "PEM"}, {"conditions": [{"type": "Denied"}]}))
        path, _found = await self._any()
        await self.merge(path, {"status": said})

    async def drop(self) -> None:
        """The pod is gone, and its request with it."""
        path, _found = await self._any()
        await self.request("DELETE", path)

    async def again(self) -> None:
        """Another pod, and a request of the same name."""
        path, found = await self._any()
        await self.request("DELETE", path)
        await self.request_certificate(found["metadata"]["name"])

    async def _any(self) -> tuple[str, Doc]:
        """A request, and where it is; what is asked of one that is not there is refused."""
        where = self._chance.choice(NAMESPACES)
        items = await self.items(requests(where)) or [{"metadata": {"name": "none"}}]
        found = self._chance.choice(items)
        return f"{requests(where)}/{found['metadata']['name']}", found

    async def left(self) -> list[Doc]:
        """All that are there."""
        return await self.items(f"/apis/{GROUP}/v1beta1/{RESOURCES[0]}")


def requests(namespace: str) -> str:
    """Where they are."""
    return f"/apis/{GROUP}/v1beta1/namespaces/{namespace}/{RESOURCES[0]}"


async def test_requests_are_deleted_after_fifteen_minutes(simulation: Simulation, seed: int) -> None:
    user = Kubelets(simulation)
    await serve(simulation, KIND)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=16, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(stretched(plan, FACTOR)), user.work(80))
    await user.request_certificate("last")
    await simulation.settle()
    made = [parse_time(item["metadata"]["creationTimestamp"]) for item in await user.left()]
    if made:  # while the clock was ahead
        rest = max(made) - simulation.env.now() + datetime.timedelta(minutes=21)
        await asyncio.sleep(rest.total_seconds())
    assert await user.left() == []
    await simulation.settle()


async def exchanged(simulation: Simulation) -> None:
    """A request is old, and somebody makes a new one of its name while the manager hears of nothing."""
    user = Kubelets(simulation)
    await serve(simulation, KIND)
    await user.create("default", "r")
    await asyncio.sleep(14 * MINUTE)
    with simulation.held_watches(*RESOURCES):
        await user.request("DELETE", f"{requests('default')}/r")
        await user.create("default", "r")
        await asyncio.sleep(7 * MINUTE)
    assert len(await user.left()) == 1
    await simulation.settle()


def without_uid(request: Any) -> Any:
    return replace(request, body=b"{}")


@broken_without(fails="was deleted after 0:0")
async def test_recreated_request_of_the_same_name_is_not_deleted(simulation: Simulation, variant: str) -> None:
    if variant == WITHOUT:
        simulation.add_rule(Rule(Replace(without_uid), verb="delete", resource="podcertificaterequests"))
    await exchanged(simulation)


@pytest.mark.simulation(
    fails="was deleted after",
    patches=[(controller, "is_expired", lambda meta, now: now - meta.creation_timestamp > FOUR)],
)
async def test_invariant_detects_early_deletion(simulation: Simulation) -> None:
    await exchanged(simulation)


@pytest.mark.simulation(fails="still exists", options=SimulationOptions(nodes=0, controllers=("ttl",)))
async def test_invariant_detects_a_leaked_request(simulation: Simulation) -> None:
    await exchanged(simulation)


async def test_invariant_observed_deletions(simulation: Simulation) -> None:
    await exchanged(simulation)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, PodRequests)
    assert invariant.cleaned == 1
