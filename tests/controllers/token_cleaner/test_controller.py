"""Expiration of bootstrap tokens. Stories mirror ``pkg/controller/bootstrap/tokencleaner_test.go`` of v1.36."""

import asyncio
import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.node_world import World, started
from tests.controllers.upstream_coverage import Cases, missing

from pilothouse.client.interceptor import Action, Rule, conflict, fail
from pilothouse.controllers.identity.token_cleaner import DESCRIPTOR
from pilothouse.machinery.times import format_time

SECRETS = "/api/v1/namespaces/{}/secrets"
SYSTEM = SECRETS.format("kube-system")
NAME = "bootstrap-token-abc123"

COVERED: Cases = {
    "TestCleanerNoExpiration": "test_token_without_expiration_is_kept",
    "TestCleanerExpired": "test_expired_token_is_deleted_immediately",
    "TestCleanerNotExpired": "test_token_is_deleted_at_its_expiration",
    "TestCleanerExpiredAt": "test_token_is_deleted_at_its_expiration",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


world = started(DESCRIPTOR)


async def token(world: World, expiration: str = "", *, name: str = NAME, **more: Any) -> dict[str, Any]:
    """Create a token, optionally of another ``namespace`` or ``type``."""
    data = {"token-id": "abc123", "token-secret": "0123456789abcdef"}
    if expiration:
        data["expiration"] = expiration
    body = {
        "metadata": {"name": name},
        "type": more.get("type", "bootstrap.kubernetes.io/token"),
        "stringData": data,
    }
    return await world.request("POST", SECRETS.format(more.get("namespace", "kube-system")), body)


def expiring_in(world: World, seconds: float) -> str:
    """The timestamp this many seconds from now."""
    return format_time(world.env.now() + datetime.timedelta(seconds=seconds))


async def test_token_without_expiration_is_kept(world: World) -> None:
    await token(world)
    await asyncio.sleep(30 * 24 * 3600)
    assert await world.get(f"{SYSTEM}/{NAME}")
    assert world.requests() == []


@pytest.mark.parametrize("expiration", ["2020-01-01T00:00:00Z", "tomorrow"], ids=["expired", "invalid expiration"])
async def test_expired_token_is_deleted_immediately(world: World, expiration: str) -> None:
    created = await token(world, expiration)
    await asyncio.sleep(1)
    assert await world.get(f"{SYSTEM}/{NAME}") is None
    assert world.requests() == [f"delete secrets {NAME}"]
    (body,) = world.bodies("delete", "secrets")
    assert body["preconditions"] == {"uid": created["metadata"]["uid"]}


async def test_token_is_deleted_at_its_expiration(world: World) -> None:
    await token(world, expiring_in(world, 3600))
    await asyncio.sleep(3590)
    assert await world.get(f"{SYSTEM}/{NAME}")
    assert world.requests() == []
    await asyncio.sleep(12)
    assert await world.get(f"{SYSTEM}/{NAME}") is None


async def test_changed_expiration_is_respected(world: World) -> None:
    await token(world, expiring_in(world, 60))
    await world.merge(f"{SYSTEM}/{NAME}", {"stringData": {"expiration": expiring_in(world, 600)}})
    await asyncio.sleep(300)
    assert await world.get(f"{SYSTEM}/{NAME}")
    await world.merge(f"{SYSTEM}/{NAME}", {"stringData": {"expiration": expiring_in(world, 10)}})
    await asyncio.sleep(12)
    assert await world.get(f"{SYSTEM}/{NAME}") is None


async def test_other_secret_types_and_namespaces_are_ignored(world: World) -> None:
    await token(world, "2020-01-01T00:00:00Z", type="Opaque")
    await token(world, "2020-01-01T00:00:00Z", namespace="default")
    await asyncio.sleep(60)
    assert await world.get(f"{SYSTEM}/{NAME}")
    assert await world.get(f"{SECRETS.format('default')}/{NAME}")
    assert world.requests() == []


async def test_recreated_token_of_the_same_name_is_not_deleted(world: World) -> None:
    await token(world, expiring_in(world, 60))
    await asyncio.sleep(1)

    async def replaced() -> None:
        await world.delete(f"{SYSTEM}/{NAME}")
        await token(world)

    world.faults.add(Rule(conflict(), verb="delete", resource="secrets", nth=1))
    await replaced()
    await asyncio.sleep(120)
    assert await world.get(f"{SYSTEM}/{NAME}")


@pytest.mark.parametrize("fault", [fail(500), conflict()], ids=["error", "conflict"])
async def test_failed_deletion_is_retried(world: World, fault: Action) -> None:
    """Upstream ignores the error, and the token remains until the Secret changes."""
    world.faults.add(Rule(fault, verb="delete", resource="secrets", nth=1))
    await token(world, "2020-01-01T00:00:00Z")
    await asyncio.sleep(5)
    assert await world.get(f"{SYSTEM}/{NAME}") is None
    assert world.requests() == [f"delete secrets {NAME}"] * 2
