"""The permissions for writing parts of the status of a ResourceClaim (kubernetes ``pkg/registry/resource/utils.go``,
v1.36)."""

from dataclasses import dataclass, field

import pytest
from tests.apiserver.api import Api, Object, errors_of

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Decision
from pilothouse.apiserver.registry.resource.resourceclaims.authorization import (
    allocated_node,
    is_service_account_of_node,
    modified_drivers,
)

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLAIM: Object = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}},
}
DEVICE = {"driver": "d.example.com", "pool": "p", "device": "x"}
NODE_SELECTOR = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]
}
ALLOCATION = {"devices": {"results": [{"request": "r", **DEVICE}]}, "nodeSelector": NODE_SELECTOR}
DRIVER_ON_NODE = Identity(
    "system:serviceaccount:drivers:gpu", extra={"authentication.kubernetes.io/node-name": ("node-1",)}
)
BINDING = (
    'status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="'
    'resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User "admin" '
    'cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope: no role'
)
DRIVER = (
    'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="'
    '[arbitrary-node:patch]" permission: resourceclaims.resource.k8s.io "d.example.com" is forbidden: User "admin" '
    'cannot arbitrary-node:patch resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace '
    '"default": no role'
)


@dataclass
class AllowListed:
    """Authorizes the listed verbs of the listed subresources."""

    allowed: set[tuple[str, str]] = field(default_factory=set)

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        allowed = (attributes.verb, attributes.subresource) in self.allowed
        return Decision(allowed=allowed, reason="" if allowed else "no role")


@pytest.fixture
async def authorizer(api: Api) -> AllowListed:
    await api.create(CLAIMS, CLAIM)
    authorizer = AllowListed()
    api.server.core.authorizer = authorizer
    return authorizer


async def patch_status(api: Api, status: Object) -> list[str]:
    answer = await api.patch(CLAIMS + "/c/status", {"status": status})
    return [] if answer.status == 200 else errors_of(answer)


async def test_allocation_and_reservation_require_permission_for_binding(api: Api, authorizer: AllowListed) -> None:
    consumer = {"resource": "pods", "name": "p", "uid": "u"}
    assert await patch_status(api, {"allocation": ALLOCATION}) == [BINDING]
    authorizer.allowed.add(("patch", "binding"))
    assert await patch_status(api, {"allocation": ALLOCATION}) == []
    authorizer.allowed.clear()
    assert await patch_status(api, {"allocation": ALLOCATION}) == []
    assert await patch_status(api, {"reservedFor": [consumer]}) == [BINDING]


async def test_device_status_requires_permission_for_the_driver(api: Api, authorizer: AllowListed) -> None:
    authorizer.allowed.add(("patch", "binding"))
    await patch_status(api, {"allocation": ALLOCATION})
    assert await patch_status(api, {"devices": [{**DEVICE, "data": {"a": 1}}]}) == [DRIVER]
    authorizer.allowed.add(("arbitrary-node:patch", "driver"))
    assert await patch_status(api, {"devices": [{**DEVICE, "data": {"a": 1}}]}) == []
    authorizer.allowed.clear()
    assert await patch_status(api, {"devices": [{**DEVICE, "data": {"a": 1}}]}) == []


async def test_driver_on_the_node_of_the_allocation_needs_the_narrower_verb(api: Api, authorizer: AllowListed) -> None:
    authorizer.allowed |= {("patch", "binding"), ("associated-node:patch", "driver")}
    await patch_status(api, {"allocation": ALLOCATION})
    assert await patch_status(api, {"devices": [DEVICE]}) == [DRIVER]
    api.transport = api.server.transport(DRIVER_ON_NODE.user)
    assert await patch_status(api, {"devices": [DEVICE]}) != [], "its token is not bound to a node"


@pytest.mark.parametrize(
    ("allocation", "node"),
    [
        ({"nodeSelector": NODE_SELECTOR}, "node-1"),
        ({}, ""),
        ({"nodeSelector": {"nodeSelectorTerms": [*NODE_SELECTOR["nodeSelectorTerms"], {}]}}, ""),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}, ""),
    ],
)
def test_node_of_an_allocation(allocation: Object, node: str) -> None:
    assert allocated_node(allocation) == node


def test_service_accounts_of_the_node() -> None:
    assert is_service_account_of_node(DRIVER_ON_NODE, "node-1")
    assert not is_service_account_of_node(DRIVER_ON_NODE, "node-2")
    assert not is_service_account_of_node(DRIVER_ON_NODE, "")
    assert not is_service_account_of_node(Identity("jane", extra=DRIVER_ON_NODE.extra), "node-1")
    assert not is_service_account_of_node(Identity(DRIVER_ON_NODE.user), "node-1")


def test_drivers_of_added_changed_and_removed_devices() -> None:
    other = {**DEVICE, "driver": "e.example.com"}
    assert modified_drivers([DEVICE], [DEVICE]) == set()
    assert modified_drivers([DEVICE, other], [DEVICE]) == {"e.example.com"}
    assert modified_drivers([{**DEVICE, "data": {}}], [DEVICE, other]) == {"d.example.com", "e.example.com"}
    assert modified_drivers([{**DEVICE, "shareID": "1"}], [DEVICE]) == {"d.example.com"}
