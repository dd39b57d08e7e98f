"""Certificate requests under faults: kubelets and users request, users and the approver decide, the signer signs."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.certificate_requests import (
    CLIENT,
    NODES,
    REQUESTS,
    SERVING,
    authority,
    document,
    request_pem,
    with_approval_condition,
)
from tests.scenarios.users import Doc, RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.apiserver.authentication.authenticator import Authenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import AlwaysAllow, Attributes, Decision
from pilothouse.apiserver.endpoints.reviews import register
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, delay
from pilothouse.controllers.identity.certificatesigningrequest_signing import DESCRIPTOR, SigningOptions, controller
from pilothouse.env import virtual
from pilothouse.machinery.splice import replace_fields
from pilothouse.semantics.certificate_requests import (
    API_SERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
)
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.certificates import Certificates

SIGNERS = (KUBELET_SERVING, KUBELET_CLIENT, API_SERVER_CLIENT, LEGACY_UNKNOWN)
CONTROLLERS = ("csrsigning", "csrapproving", "csrcleaner")
OPTIONS = SimulationOptions(
    nodes=1,
    controllers=CONTROLLERS,
    controller_options={DESCRIPTOR.name: SigningOptions(pair=authority(virtual.START))},
)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (Certificates(SIGNERS),))
RESOURCES = ("certificatesigningrequests", "subjectaccessreviews")
SECONDS = 90.0
PEMS = {name: request_pem(name) for name in ("system:node:a", "system:node:b")}
PERSON, SERVER = request_pem("jane", ["dev"]), request_pem("system:node:a", NODES, dns=["a"])


class Rights(AlwaysAllow):
    """Permissions of users to have requests approved automatically; they change during the test."""

    def __init__(self) -> None:
        self.granted: set[str] = set()

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        return Decision(allowed=attributes.subresource in self.granted)


class Requestors(RandomUser):
    """Kubelets and users, in random order."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._simulation = simulation
        self.rights = Rights()
        register(simulation.plane.server.core, Authenticator((), anonymous=False), self.rights, None)

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        asking = [self.request_as_node, self.request_as_node, self.request_as_user]
        return [
            *asking,
            self.approve,
            self.approve,
            self.deny,
            self.delete_request,
            self.toggle_permission,
            self.wait_for_cleaner,
        ]

    def _name(self) -> str:
        """One of a few names, so that names are reused."""
        return f"r{self._rng.randrange(4)}"

    async def request_as_node(self) -> None:
        """Request a client certificate for the node itself or another one; some are denied."""
        by, about = self._rng.choice(("a", "b")), self._rng.choice(sorted(PEMS))
        usages = self._rng.choice((CLIENT, CLIENT, SERVING))
        client = Client(self._simulation.plane.server.transport(f"system:node:{by}", NODES), self._simulation.env)
        body = msgspec.json.encode(document(self._name(), PEMS[about], KUBELET_CLIENT, usages))
        await client.request("POST", REQUESTS, body=body, headers={"content-type": "application/json"})

    async def request_as_user(self) -> None:
        """Request a certificate of any signer, some of which this manager does not have."""
        signer = self._rng.choice((*SIGNERS, "example.com/own"))
        pem, usages = self._rng.choice(((PERSON, CLIENT), (SERVER, SERVING)))
        await self.request("POST", REQUESTS, document(self._name(), pem, signer, usages, seconds=600))

    async def approve(self) -> None:
        """Approve a request."""
        await self._decide("Approved")

    async def deny(self) -> None:
        """Deny a request."""
        await self._decide("Denied")

    async def _decide(self, kind: str) -> None:
        items = await self.items(REQUESTS)
        if items:
            result = self._rng.choice(items)
            head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
            path = f"{REQUESTS}/{result['metadata']['name']}/approval"
            await self.request("PUT", path, {**head, **with_approval_condition(result, kind)})

    async def delete_request(self) -> None:
        """Delete a request."""
        await self.delete_any(REQUESTS)

    async def toggle_permission(self) -> None:
        """Grant or revoke a permission."""
        self.rights.granted ^= {self._rng.choice(("nodeclient", "selfnodeclient"))}

    async def wait_for_cleaner(self) -> None:
        """Occasionally wait long enough for the cleaner to run."""
        await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.0, 4000.0)))


@pytest.mark.parametrize("count", [40])
async def test_only_approved_requests_are_signed(simulation: Simulation, seed: int, count: int) -> None:
    everybody = Requestors(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), everybody.run_actions(count))
    simulation.end_faults()
    everybody.rights.granted = {"nodeclient"}
    for kind in ("system:node:a", "system:node:b"):
        with contextlib.suppress(ApiError):
            body = document(f"last-{kind[-1]}", PEMS[kind], KUBELET_CLIENT)
            await everybody.request("POST", REQUESTS, body)
    await asyncio.sleep(1100.0)  # the longest pause of a queue
    result = {item["metadata"]["name"]: item for item in await everybody.items(REQUESTS)}
    for name in ("last-a", "last-b"):
        assert result[name]["status"].get("certificate"), f"{name} was served in the end"
    await simulation.run_until_idle()
    await asyncio.sleep(30 * 3600.0)
    await simulation.run_until_idle()
    assert await everybody.items(REQUESTS) == [], "and nothing is left of it"


async def recreated_during_signing(simulation: Simulation) -> None:
    """An approved request is deleted and recreated by another user while its certificate is being written."""
    user = Requestors(simulation)
    first = await user.request("POST", REQUESTS, document("r", PERSON, API_SERVER_CLIENT))
    simulation.add_rule(Rule(delay(5.0), verb="update", resource="certificatesigningrequests", nth=1))
    await user.request("PUT", f"{REQUESTS}/r/approval", with_approval_condition(first))
    await asyncio.sleep(1.0)
    await user.request("DELETE", f"{REQUESTS}/r")
    await user.request("POST", REQUESTS, document("r", SERVER, KUBELET_SERVING, SERVING))
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()


def without_precondition(raw: bytes, changes: Any) -> bytes:
    """As ``with_status``, but without resourceVersion. The server would still reject it for its condition."""
    status = b'{"certificate":%s}' % changes["certificate"]
    return replace_fields(raw, {"metadata": b'{"name":"r"}', "status": status})


@broken_without((controller, "with_status", without_precondition), fails="was not approved")
async def test_recreated_request_of_the_same_name_is_not_signed(simulation: Simulation) -> None:
    await recreated_during_signing(simulation)


async def two_requests(simulation: Simulation) -> None:
    """A pending request and an approved one."""
    user = Requestors(simulation)
    await user.request("POST", REQUESTS, document("open", PERSON, API_SERVER_CLIENT))
    created: Doc = await user.request("POST", REQUESTS, document("r", PERSON, API_SERVER_CLIENT))
    await user.request("PUT", f"{REQUESTS}/r/approval", with_approval_condition(created))
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()


@pytest.mark.simulation(
    fails="open was issued a certificate that was not approved",
    patches=[(controller, "needs_certificate", lambda request: not request.status.certificate)],
)
async def test_invariant_detects_a_certificate_without_approval(simulation: Simulation) -> None:
    await two_requests(simulation)


@pytest.mark.simulation(
    fails="r was approved, and neither issued", options=SimulationOptions(nodes=1, controllers=("csrapproving",))
)
async def test_invariant_detects_an_unprocessed_request(simulation: Simulation) -> None:
    await two_requests(simulation)
