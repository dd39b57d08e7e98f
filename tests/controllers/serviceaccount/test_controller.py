"""The default ServiceAccount of each namespace.

Rows mirror ``pkg/controller/serviceaccount/serviceaccounts_controller_test.go`` of v1.36.
"""

import asyncio

from tests.controllers.node_world import World, started
from tests.tables import cases

from pilothouse.api.core import Namespace, NamespaceStatus, ServiceAccount
from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.identity.serviceaccount import DESCRIPTOR
from pilothouse.controllers.identity.serviceaccount.controller import lacks_account

ACCOUNTS = "/api/v1/namespaces/{}/serviceaccounts"
ACTIVE = Namespace(status=NamespaceStatus(phase="Active"))


@cases(
    "namespace, account, expected",
    {
        "an active namespace without one": (ACTIVE, None, True),
        "existing account": (ACTIVE, ServiceAccount(), False),
        "terminating namespace": (Namespace(status=NamespaceStatus(phase="Terminating")), None, False),
        "namespace without phase": (Namespace(), None, False),
        "missing namespace": (None, None, False),
    },
)
def test_sync_namespace(namespace: Namespace | None, account: ServiceAccount | None, expected: bool) -> None:
    assert lacks_account(namespace, account) is expected


world = started(DESCRIPTOR, seconds=1.0)


async def account(world: World, namespace: str = "default", name: str = "default") -> str:
    """The uid of the account; "" if it does not exist."""
    obj = await world.get(f"{ACCOUNTS.format(namespace)}/{name}")
    return "" if obj is None else str(obj["metadata"]["uid"])


async def test_existing_and_new_namespaces_get_the_default_account(world: World) -> None:
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "later"}})
    await asyncio.sleep(1)
    for namespace in ("default", "kube-system", "kube-public", "kube-node-lease", "later"):
        assert await account(world, namespace)
    assert world.requests() == ["create serviceaccounts "]
    assert world.bodies("create", "serviceaccounts") == [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "later"}}
    ]


async def test_deleted_default_account_is_recreated_and_others_are_not(world: World) -> None:
    before = await account(world)
    await world.delete(f"{ACCOUNTS.format('default')}/default")
    await asyncio.sleep(1)
    assert await account(world) not in ("", before)
    await world.request("POST", ACCOUNTS.format("default"), {"metadata": {"name": "other"}})
    await world.delete(f"{ACCOUNTS.format('default')}/other")
    await asyncio.sleep(1)
    assert await account(world, name="other") == ""


async def test_terminating_namespace_gets_no_account(world: World) -> None:
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    await asyncio.sleep(1)
    world.faults.add(Rule(delay(5.0), verb="watch", resource="namespaces"))
    await world.delete("/api/v1/namespaces/going")
    world.seen.clear()
    await world.delete(f"{ACCOUNTS.format('going')}/default")
    await asyncio.sleep(2)
    assert set(world.requests()) <= {"create serviceaccounts "}, "refused, and that is no failure"
    await asyncio.sleep(10)
    assert await account(world, "going") == ""


async def test_failed_creation_is_retried(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="create", resource="serviceaccounts", nth=1))
    await world.delete(f"{ACCOUNTS.format('default')}/default")
    await asyncio.sleep(5)
    assert await account(world)
    assert world.requests() == ["create serviceaccounts "] * 2
