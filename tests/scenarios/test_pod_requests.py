"""PodCertificateRequests under faults: kubelets create them, signers may sign, the cleaner deletes."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.controllers.certificate_kinds import GROUP, definition
from tests.scenarios.served import serve
from tests.scenarios.users import Doc, RandomUser
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


class KubeletsAndSigners(RandomUser):
    """Kubelets that create requests, and signers."""

    PAUSES = (0.0, 0.5, 20.0, 60.0, 240.0)

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.request_certificate,
            self.request_certificate,
            self.request_certificate,
            self.request_certificate,
            self.issue_or_deny,
            self.issue_or_deny,
            self.delete_request,
            self.recreate,
        ]

    async def request_certificate(self, name: str = "") -> None:
        """Create a request with one of a few names, so that names are reused."""
        await self.create(self._rng.choice(NAMESPACES), name or f"r{self._rng.randrange(6)}")

    async def create(self, namespace: str, name: str) -> None:
        """Create a request."""
        head = {"apiVersion": f"{GROUP}/v1beta1", "kind": "PodCertificateRequest", "metadata": {"name": name}}
        await self.request("POST", requests(namespace), {**head, "spec": {"signerName": "example.com/own"}})

    async def issue_or_deny(self) -> None:
        """Issue a certificate, or deny the request."""
        answer = self._rng.choice(({"certificateChain": "PEM"}, {"conditions": [{"type": "Denied"}]}))
        path, _request = await self._any()
        await self.merge(path, {"status": answer})

    async def delete_request(self) -> None:
        """Delete a request, as with its pod."""
        path, _request = await self._any()
        await self.request("DELETE", path)

    async def recreate(self) -> None:
        """Recreate a request, for another pod."""
        path, request_object = await self._any()
        await self.request("DELETE", path)
        await self.request_certificate(request_object["metadata"]["name"])

    async def _any(self) -> tuple[str, Doc]:
        """A random request and its path; the server rejects writes to a missing one."""
        namespace = self._rng.choice(NAMESPACES)
        items = await self.items(requests(namespace)) or [{"metadata": {"name": "none"}}]
        result = self._rng.choice(items)
        return f"{requests(namespace)}/{result['metadata']['name']}", result

    async def remaining(self) -> list[Doc]:
        """All existing requests."""
        return await self.items(f"/apis/{GROUP}/v1beta1/{RESOURCES[0]}")


def requests(namespace: str) -> str:
    """The path of the requests of a namespace."""
    return f"/apis/{GROUP}/v1beta1/namespaces/{namespace}/{RESOURCES[0]}"


async def test_requests_are_deleted_after_fifteen_minutes(simulation: Simulation, seed: int) -> None:
    user = KubeletsAndSigners(simulation)
    await serve(simulation, KIND)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=16, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(stretched(plan, FACTOR)), user.run_actions(80))
    await user.request_certificate("last")
    await simulation.run_until_idle()
    creation_times = [parse_time(item["metadata"]["creationTimestamp"]) for item in await user.remaining()]
    if creation_times:  # while the clock was ahead
        rest = max(creation_times) - simulation.env.now() + datetime.timedelta(minutes=21)
        await asyncio.sleep(rest.total_seconds())
    assert await user.remaining() == []
    await simulation.run_until_idle()


async def recreated(simulation: Simulation) -> None:
    """An old request is recreated, which the manager does not observe."""
    user = KubeletsAndSigners(simulation)
    await serve(simulation, KIND)
    await user.create("default", "r")
    await asyncio.sleep(14 * MINUTE)
    with simulation.held_watches(*RESOURCES):
        await user.request("DELETE", f"{requests('default')}/r")
        await user.create("default", "r")
        await asyncio.sleep(7 * MINUTE)
    assert len(await user.remaining()) == 1
    await simulation.run_until_idle()


def without_uid(request: Any) -> Any:
    return replace(request, body=b"{}")


@broken_without(fails="was deleted after 0:0")
async def test_recreated_request_of_the_same_name_is_not_deleted(simulation: Simulation, variant: str) -> None:
    if variant == WITHOUT:
        simulation.add_rule(Rule(Replace(without_uid), verb="delete", resource="podcertificaterequests"))
    await recreated(simulation)


@pytest.mark.simulation(
    fails="was deleted after",
    patches=[(controller, "is_expired", lambda meta, now: now - meta.creation_timestamp > FOUR)],
)
async def test_invariant_detects_early_deletion(simulation: Simulation) -> None:
    await recreated(simulation)


@pytest.mark.simulation(fails="still exists", options=SimulationOptions(nodes=0, controllers=("ttl",)))
async def test_invariant_detects_a_leaked_request(simulation: Simulation) -> None:
    await recreated(simulation)


async def test_invariant_observed_deletions(simulation: Simulation) -> None:
    await recreated(simulation)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, PodRequests)
    assert invariant.cleaned == 1
