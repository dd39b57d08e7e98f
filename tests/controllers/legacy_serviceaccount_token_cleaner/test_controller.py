"""The cleaner on an API server whose usage tracking is simulated by the test."""

import asyncio
import contextlib
import datetime
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import World, fixture_of

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.identity.legacy_serviceaccount_token_cleaner import DESCRIPTOR, LegacyTokenCleanerOptions
from pilothouse.env import Env
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, INVALID_SINCE, LAST_USED, SECRET_TYPE, TRACKING

SECRETS = "/api/v1/namespaces/default/secrets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/kube-system/configmaps"
DAY = 24 * 3600.0
OPTIONS = LegacyTokenCleanerOptions(period=2 * DAY)
READ = f"get configmaps {TRACKING}"


async def token(world: World, name: str, *, generated: bool = True, **labels: str) -> dict[str, Any]:
    """Create an account and its Secret, as releases before v1.24 did."""
    listed = {"secrets": [{"name": f"{name}-token"}]} if generated else {}
    await world.request("POST", ACCOUNTS, {"metadata": {"name": name}, **listed})
    meta = {"name": f"{name}-token", "annotations": {ACCOUNT_NAME: name}, "labels": labels}
    body = {"metadata": meta, "type": SECRET_TYPE, "stringData": {"token": "x"}}
    created = await world.request("POST", SECRETS, body)
    await asyncio.sleep(2)  # it is older than the first look
    return created


async def labels(world: World, name: str) -> dict[str, str]:
    """The labels of the account's Secret."""
    secret: dict[str, str] = (await world.must_get(f"{SECRETS}/{name}-token"))["metadata"].get("labels") or {}
    return secret


@contextlib.asynccontextmanager
async def tracked(env: Env, since: str | None = "2000-01-01") -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        if since is None:
            await world.delete(f"{MAPS}/{TRACKING}")
        else:
            await world.merge(f"{MAPS}/{TRACKING}", {"data": {"since": since}})
        yield world


world = fixture_of(tracked)


def day(world: World, days: float = 0.0) -> str:
    """That day."""
    return (world.env.now() + datetime.timedelta(days=days)).date().isoformat()


async def test_unused_token_is_labeled_invalid_then_deleted(world: World) -> None:
    created = await token(world, "old")
    await token(world, "by-hand", generated=False)
    await world.start(DESCRIPTOR, OPTIONS)
    await asyncio.sleep(1.5 * DAY)
    assert await labels(world, "old") == {}
    await asyncio.sleep(1 * DAY)
    assert (await labels(world, "old"))[INVALID_SINCE] == day(world)
    (patch,) = world.bodies("patch", "secrets")
    assert patch == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {
            "name": "old-token",
            "namespace": "default",
            "uid": created["metadata"]["uid"],
            "labels": {INVALID_SINCE: day(world)},
        },
    }
    before = await world.must_get(f"{SECRETS}/old-token")
    await asyncio.sleep(2 * DAY)
    assert await world.get(f"{SECRETS}/old-token")
    await asyncio.sleep(2 * DAY)
    assert await world.get(f"{SECRETS}/old-token") is None
    (body,) = world.bodies("delete", "secrets")
    assert body["preconditions"] == {"resourceVersion": before["metadata"]["resourceVersion"]}
    assert await labels(world, "by-hand") == {}
    assert set(world.requests()) == {READ, "patch secrets old-token", "delete secrets old-token"}


async def test_used_or_mounted_token_is_kept(world: World) -> None:
    for name in ("used", "mounted", "idle"):
        await token(world, name)
    volumes = [{"name": "v", "secret": {"secretName": "mounted-token"}}]
    spec = {"containers": [{"name": "main", "image": "pause"}], "volumes": volumes}
    await world.request("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    await world.start(DESCRIPTOR, OPTIONS)
    for _ in range(4):
        await world.merge(f"{SECRETS}/used-token", {"metadata": {"labels": {LAST_USED: day(world)}}})
        await asyncio.sleep(DAY)
    assert INVALID_SINCE not in await labels(world, "used")
    assert await labels(world, "mounted") == {}
    assert INVALID_SINCE in await labels(world, "idle")
    await world.delete(f"{PODS}/p", grace=0)
    await asyncio.sleep(1.5 * DAY)
    assert INVALID_SINCE in await labels(world, "mounted"), "the pod was all that kept it"


async def test_removing_the_invalid_since_label_keeps_the_token_for_another_period(world: World) -> None:
    await token(world, "missed")
    await world.start(DESCRIPTOR, OPTIONS)
    await asyncio.sleep(2.5 * DAY)
    assert INVALID_SINCE in await labels(world, "missed")
    changes = {"labels": {INVALID_SINCE: None, LAST_USED: day(world)}}
    await world.merge(f"{SECRETS}/missed-token", {"metadata": changes})
    await asyncio.sleep(1.6 * DAY)
    assert INVALID_SINCE not in await labels(world, "missed")


@pytest.mark.parametrize("since", [None, "", "2000-01-01-1"], ids=["no ConfigMap", "empty date", "invalid date"])
async def test_nothing_is_cleaned_without_a_tracking_start_date(env: Env, since: str | None) -> None:
    async with tracked(env, since) as world:
        await token(world, "old")
        await world.start(DESCRIPTOR, OPTIONS)
        await asyncio.sleep(5 * DAY)
        assert await labels(world, "old") == {}
        assert set(world.requests()) == {READ}


async def test_failed_read_of_the_tracking_config_map_is_retried_the_next_day(world: World) -> None:
    await token(world, "old")
    world.faults.add(Rule(fail(500), verb="get", resource="configmaps", times=5))
    await world.start(DESCRIPTOR, OPTIONS)
    await asyncio.sleep(7.5 * DAY)
    assert INVALID_SINCE in await labels(world, "old")
    assert world.requests().count(READ) == 8


async def test_forbidden_tracking_config_map_is_reported_once_with_the_missing_role(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.faults.add(Rule(fail(403), verb="get", resource="configmaps", times=3))
    await world.start(DESCRIPTOR, OPTIONS)
    await asyncio.sleep(3.5 * DAY)
    assert world.requests().count(READ) == 4
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "system:controller:legacy-service-account-token-cleaner" in warning
    assert f"get configmaps {TRACKING} in kube-system" in warning
    assert "--controllers=*,-legacy-serviceaccount-token-cleaner-controller" in warning


async def test_failed_update_of_one_secret_does_not_block_others(world: World) -> None:
    for name in ("a", "b"):
        await token(world, name)
    await world.start(DESCRIPTOR, OPTIONS)
    world.faults.add(Rule(fail(500), verb="patch", resource="secrets", name="a-token", times=1))
    await asyncio.sleep(2.5 * DAY)
    assert INVALID_SINCE not in await labels(world, "a")
    assert INVALID_SINCE in await labels(world, "b")
    await asyncio.sleep(DAY)
    assert INVALID_SINCE in await labels(world, "a")


async def test_secret_with_a_newer_resource_version_is_not_deleted(world: World) -> None:
    """The resourceVersion precondition detects a concurrent use or a removed label."""
    await token(world, "old")
    await world.start(DESCRIPTOR, OPTIONS)
    await asyncio.sleep(4.5 * DAY)
    with world.faults.hold(resource="secrets"):
        await world.merge(f"{SECRETS}/old-token", {"metadata": {"labels": {INVALID_SINCE: None}}})
        await asyncio.sleep(3 * DAY)
        assert await world.get(f"{SECRETS}/old-token")
    assert "delete secrets old-token" in world.requests()
