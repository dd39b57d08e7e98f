"""v1.36's role of the controller allows every request, and every rule is used."""

import asyncio

import msgspec
from tests.controllers import node_world
from tests.controllers.storage_version_migrator.test_controller import SERVER, UNTIL_DONE, outcome_of, prepare
from tests.controllers.storage_version_migrator.widgets import MIGRATIONS, migration, widgets

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, RbacAuthorizer
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.cleanup.storage_version_migrator import DESCRIPTOR
from pilothouse.env import Env

ACCOUNT = Identity(f"system:serviceaccount:kube-system:{DESCRIPTOR.client_name}", ("system:serviceaccounts",))
INFORMERS = ("list", "watch")
"""Of the shared informers, which are the manager's own; but one list is the controller's."""


async def test_bootstrap_role_is_sufficient_and_fully_used(env: Env) -> None:
    stored: dict[str, list[bytes]] = {}
    for resource, obj in bootstrap_objects(DESCRIPTOR.gates):
        stored.setdefault(resource, []).append(msgspec.json.encode(obj))
    judge = RbacAuthorizer(lambda resource: stored.get(resource, []))
    async with node_world.world(env, server=SERVER) as world:
        await prepare(world)
        # An apply to an object that was deleted concurrently is authorized as a create.
        world.faults.add(Rule(fail(503), verb="patch", resource="widgets", name="b", times=1))
        with world.faults.hold(resource="widgets"):
            await world.request("POST", MIGRATIONS, migration())
            await asyncio.sleep(5)
            await world.delete(f"{widgets('v1')}/b")
        await asyncio.sleep(UNTIL_DONE)
        assert await outcome_of(world) == ("Succeeded", "")
        attributes = {
            Attributes(
                sent.call.verb,
                sent.call.group,
                sent.call.version,
                sent.call.resource,
                sent.call.subresource,
                sent.call.namespace,
                sent.call.name,
            )
            for sent in world.seen
            if sent.call.resource and (sent.call.verb not in INFORMERS or "@fake" in sent.call.namespace)
        }
        assert {f"{item.verb} {item.full_resource}" for item in attributes} == {
            "get customresourcedefinitions",
            "list widgets",
            "patch customresourcedefinitions/status",
            "patch widgets",
            "update storageversionmigrations/status",
        }
        assert [item for item in attributes if not judge.authorize(ACCOUNT, item).allowed] == []
