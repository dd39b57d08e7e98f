"""The token controller on the embedded API server: scenarios of
``pkg/controller/serviceaccount/tokens_controller_test.go`` of v1.36, faults, and secrets that must not be logged."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest
from tests.controllers.node_world import World, started
from tests.tables import cases

from pilothouse.api.wire import Response
from pilothouse.client.interceptor import Answer, Rule, conflict, fail, gone
from pilothouse.controllers.identity.serviceaccount_token import DESCRIPTOR, TokenOptions
from pilothouse.machinery.jws import Signer, new_key
from pilothouse.semantics.service_accounts import ACCOUNT_NAME, ACCOUNT_UID, SECRET_TYPE

SECRETS = "/api/v1/namespaces/default/secrets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
KEY = new_key()
OPTIONS = TokenOptions(signer=Signer(KEY), authority="CA Data")


world = started(DESCRIPTOR, OPTIONS)


async def account(world: World, name: str = "bot", **more: Any) -> str:
    """Create an account, and return its uid."""
    created = await world.request("POST", ACCOUNTS, {"metadata": {"name": name}, **more})
    return str(created["metadata"]["uid"])


async def secret(world: World, name: str = "s", *, of: str = "bot", uid: str = "", **data: str) -> dict[str, Any]:
    """Create a token Secret."""
    annotations = {ACCOUNT_NAME: of} | ({ACCOUNT_UID: uid} if uid else {})
    body = {"metadata": {"name": name, "annotations": annotations}, "type": SECRET_TYPE, "stringData": data}
    return await world.request("POST", SECRETS, body)


async def texts(world: World, name: str = "s") -> dict[str, str]:
    """The data of a Secret."""
    obj = (await world.must_get(f"{SECRETS}/{name}")).get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in obj.items()}


async def test_token_secret_is_populated_once(world: World) -> None:
    uid = await account(world)
    await asyncio.sleep(1)
    await secret(world)
    await asyncio.sleep(1)
    result = await texts(world)
    assert (result["namespace"], result["ca.crt"]) == ("default", "CA Data")
    assert len(result["token"].split(".")) == 3
    annotations = (await world.must_get(f"{SECRETS}/s"))["metadata"]["annotations"]
    assert annotations == {ACCOUNT_NAME: "bot", ACCOUNT_UID: uid}
    await asyncio.sleep(3600)
    assert world.requests() == ["get secrets s", "update secrets s"]
    assert (await world.must_get(f"{ACCOUNTS}/bot")).get("secrets") is None, "nobody lists what was made by hand"


async def test_no_secret_is_created_for_an_account(world: World) -> None:
    await account(world)
    await account(world, "other", secrets=[{"name": "missing"}])
    await world.merge(f"{ACCOUNTS}/bot", {"metadata": {"labels": {"a": "b"}}})
    await world.request("POST", SECRETS, {"metadata": {"name": "plain"}, "stringData": {"a": "b"}})
    await asyncio.sleep(60)
    assert world.requests() == []


@cases(
    "change, expected",
    {
        "token removed": ({"token": None}, "token"),
        "ca.crt removed": ({"ca.crt": None}, "ca.crt"),
        "ca.crt changed": ({"ca.crt": base64.b64encode(b"mismatched").decode()}, "ca.crt"),
        "namespace removed": ({"namespace": None}, "namespace"),
    },
)
async def test_changed_token_data_is_restored_and_other_data_kept(
    world: World, change: dict[str, str | None], expected: str
) -> None:
    await account(world)
    await secret(world)
    await asyncio.sleep(1)
    before = await texts(world)
    await world.merge(f"{SECRETS}/s", {"data": change})
    await asyncio.sleep(1)
    after = await texts(world)
    assert {key: value for key, value in after.items() if key != "token"} == {
        key: value for key, value in before.items() if key != "token"
    }
    assert (after["token"] == before["token"]) is (expected != "token")
    assert world.requests() == ["get secrets s", "update secrets s"] * 2


async def test_custom_namespace_data_is_kept(world: World) -> None:
    await account(world)
    await secret(world, namespace="custom")
    await asyncio.sleep(1)
    assert (await texts(world))["namespace"] == "custom"


@pytest.mark.parametrize("uid", ["", "an older one"], ids=["missing account", "deleted account"])
async def test_secret_of_a_missing_account_is_deleted(world: World, uid: str) -> None:
    if uid:
        await account(world)
    created = await secret(world, uid=uid)
    await asyncio.sleep(1)
    assert await world.get(f"{SECRETS}/s") is None
    assert world.requests() == ["get serviceaccounts bot", "delete secrets s"]
    assert world.bodies("delete", "secrets")[0]["preconditions"] == {"uid": created["metadata"]["uid"]}


async def test_account_missing_in_the_cache_is_read_live(world: World) -> None:
    await asyncio.sleep(1)
    with world.faults.hold(resource="serviceaccounts"):
        await account(world)
        await secret(world)
        await asyncio.sleep(2)
        assert "token" in await texts(world)
        assert world.requests()[:3] == ["get serviceaccounts bot", "get secrets s", "update secrets s"]
        assert "delete secrets s" not in world.requests()


async def test_secrets_are_deleted_with_their_account(world: World) -> None:
    for name in ("bot", "other"):
        await account(world, name)
    for name in ("s1", "s2"):
        await secret(world, name)
    await secret(world, "s3", of="other")
    await asyncio.sleep(1)
    await world.delete(f"{ACCOUNTS}/bot")
    await asyncio.sleep(1)
    remaining = [item["metadata"]["name"] for item in (await world.must_get(SECRETS))["items"]]
    assert remaining == ["s3"]


async def test_recreated_account_does_not_reuse_secrets(world: World) -> None:
    await account(world)
    await secret(world, "before")
    await asyncio.sleep(1)
    await world.delete(f"{ACCOUNTS}/bot")
    uid = await account(world)
    await secret(world, "after")
    await asyncio.sleep(1)
    assert await world.get(f"{SECRETS}/before") is None
    annotations = (await world.must_get(f"{SECRETS}/after"))["metadata"]["annotations"]
    assert annotations[ACCOUNT_UID] == uid


async def test_secret_without_uid_is_kept_for_the_recreated_account(world: World) -> None:
    """Upstream deletes it: without a uid it belongs to the deleted account as well."""
    await account(world)
    await asyncio.sleep(1)
    with world.faults.hold(resource="serviceaccounts"):
        await world.delete(f"{ACCOUNTS}/bot")
        await secret(world)
        uid = await account(world)
        await asyncio.sleep(5)
    await asyncio.sleep(5)
    remaining = await world.get(f"{SECRETS}/s")
    assert remaining is None or remaining["metadata"]["annotations"][ACCOUNT_UID] == uid


async def test_account_missing_only_in_the_cache_keeps_its_secrets(world: World) -> None:
    """A list from a stale server is no reason to delete credentials. Upstream deletes them."""
    uid = await account(world)
    await secret(world)
    await asyncio.sleep(1)
    world.seen.clear()
    now = (await world.must_get(ACCOUNTS))["metadata"]["resourceVersion"]
    empty = {"kind": "ServiceAccountList", "apiVersion": "v1", "metadata": {"resourceVersion": now}, "items": []}
    answer = Answer(Response(200, {"content-type": "application/json"}, msgspec.json.encode(empty)))
    world.faults.add(Rule(fail(422, "Invalid"), verb="watch", resource="serviceaccounts", times=1))
    listed = world.faults.add(Rule(answer, verb="list", resource="serviceaccounts", times=1))
    world.faults.end_watches(resource="serviceaccounts", with_=gone())
    await asyncio.sleep(60)
    assert listed.hits == 1
    assert world.requests() == ["get serviceaccounts bot"]
    assert (await world.must_get(f"{SECRETS}/s"))["metadata"]["annotations"][ACCOUNT_UID] == uid


async def test_reference_to_a_deleted_secret_is_removed(world: World) -> None:
    await account(world, secrets=[{"name": "s"}, {"name": "t"}], imagePullSecrets=[{"name": "p"}])
    await secret(world)
    await asyncio.sleep(1)
    world.seen.clear()
    await world.delete(f"{SECRETS}/s")
    await asyncio.sleep(1)
    obj = await world.must_get(f"{ACCOUNTS}/bot")
    assert (obj["secrets"], obj["imagePullSecrets"]) == ([{"name": "t"}], [{"name": "p"}])
    assert world.requests() == ["get serviceaccounts bot", "update serviceaccounts bot"]


async def test_account_without_the_reference_is_not_updated(world: World) -> None:
    await account(world)
    await secret(world)
    await asyncio.sleep(1)
    world.seen.clear()
    await world.delete(f"{SECRETS}/s")
    await asyncio.sleep(1)
    assert world.requests() == ["get serviceaccounts bot"]


async def test_reference_removal_is_retried_on_conflicts(world: World) -> None:
    await account(world, secrets=[{"name": "s"}])
    await secret(world)
    await asyncio.sleep(1)
    world.faults.add(Rule(conflict(), verb="update", resource="serviceaccounts", times=9))
    await world.delete(f"{SECRETS}/s")
    await asyncio.sleep(3)
    assert world.requests().count("update serviceaccounts bot") == 10
    assert (await world.must_get(f"{ACCOUNTS}/bot")).get("secrets") is None


async def test_token_secret_is_retried_ten_times_until_it_changes(world: World) -> None:
    await account(world)
    await asyncio.sleep(1)
    failing = world.faults.add(Rule(fail(500), verb="update", resource="secrets"))
    await secret(world)
    await asyncio.sleep(3600)
    assert world.requests().count("update secrets s") == 11
    world.faults.remove(failing)
    await world.merge(f"{SECRETS}/s", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(1)
    assert "token" in await texts(world)


async def test_secret_deletion_is_retried_without_limit(world: World) -> None:
    failing = world.faults.add(Rule(fail(500), verb="delete", resource="secrets"))
    await secret(world)
    await asyncio.sleep(1200)
    assert world.requests().count("delete secrets s") > 11
    world.faults.remove(failing)
    await asyncio.sleep(1000)
    assert await world.get(f"{SECRETS}/s") is None


async def test_failed_deletion_of_one_secret_does_not_block_others(world: World) -> None:
    await account(world)
    for name in ("s1", "s2", "s3"):
        await secret(world, name)
    await asyncio.sleep(1)
    world.faults.add(Rule(fail(500), verb="delete", resource="secrets", nth=1))
    await world.delete(f"{ACCOUNTS}/bot")
    await asyncio.sleep(1)
    assert (await world.must_get(SECRETS))["items"] == []


async def test_secret_newer_than_the_cache_is_populated_later(world: World) -> None:
    await account(world)
    await secret(world)
    await asyncio.sleep(1)
    world.seen.clear()
    world.faults.add(Rule(conflict(), verb="update", resource="secrets", nth=1))
    await world.merge(f"{SECRETS}/s", {"data": {"token": None}})
    await asyncio.sleep(1)
    assert "token" not in await texts(world), "refused: somebody was quicker, and that will be seen"
    await world.merge(f"{SECRETS}/s", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(1)
    assert "token" in await texts(world)


async def test_tokens_and_keys_do_not_leak(world: World, caplog: pytest.LogCaptureFixture) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    caplog.set_level(1)
    await account(world)
    world.faults.add(Rule(fail(500), verb="update", resource="secrets", nth=1))
    await secret(world)
    await secret(world, "orphan", of="nobody")
    await asyncio.sleep(5)
    token = (await texts(world))["token"]
    assert token.startswith("eyJhbGciOi")
    events = world.metrics.exposition() + str(await world.events()) + caplog.text
    pem = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    encoded = base64.b64encode(token.encode()).decode()
    for secret_part in ("eyJhbGciOi", encoded[:20], token.split(".")[2], pem.decode().splitlines()[1], "PRIVATE KEY"):
        assert secret_part not in events
    assert "Reconcile failed" in events, "the log is a talkative one"
