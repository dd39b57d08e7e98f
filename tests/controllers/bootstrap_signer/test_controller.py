"""Signatures in the ConfigMap ``cluster-info``.

Rows and scenarios mirror ``pkg/controller/bootstrap/bootstrapsigner_test.go`` of v1.36, whose signatures were computed
by another implementation.
"""

import asyncio
import base64
import datetime
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.node_world import World
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.api.core import Secret
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.identity.bootstrap_signer import DESCRIPTOR
from pilothouse.controllers.identity.bootstrap_signer.controller import signed_data
from pilothouse.controllers.identity.token_cleaner import DESCRIPTOR as CLEANER
from pilothouse.machinery.times import format_time

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MAPS = "/api/v1/namespaces/kube-public/configmaps"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
KEY = "jws-kubeconfig-abc123"
SIGNATURE = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"
"""Of "payload", by the token abc123 with the secret "tokenSecret", as upstream's test has it."""

COVERED: Cases = {
    "TestNoConfigMap": "test_config_map_without_kubeconfig_is_not_written",
    "TestSimpleSign": "test_expected_signatures",
    "TestNoSignNeeded": "test_expected_signatures",
    "TestUpdateSignature": "test_expected_signatures",
    "TestRemoveSignature": "test_expected_signatures",
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


def token(number: str = "abc123", **data: str) -> Secret:
    """A token that may sign."""
    reported = {"token-id": number, "token-secret": "tokenSecret", "usage-bootstrap-signing": "true"}
    reported |= {key.replace("_", "-"): value for key, value in data.items()}
    return Secret(
        metadata=ObjectMeta(name=f"bootstrap-token-{number}"),
        data={key: value.encode() for key, value in reported.items()},
    )


@cases(
    "data, secrets, expected",
    {
        "a new one": ({"kubeconfig": "payload"}, [token()], {"kubeconfig": "payload", KEY: SIGNATURE}),
        "valid signature is kept": (
            {"kubeconfig": "payload", KEY: SIGNATURE},
            [token()],
            {"kubeconfig": "payload", KEY: SIGNATURE},
        ),
        "an old one": ({"kubeconfig": "payload", KEY: "old"}, [token()], {"kubeconfig": "payload", KEY: SIGNATURE}),
        "a signature without a token": ({"kubeconfig": "payload", KEY: "old"}, [], {"kubeconfig": "payload"}),
        "only signatures are removed": (
            {"kubeconfig": "payload", KEY: SIGNATURE, "more": "x", "jws-kubeconfig": "y"},
            [token(usage_bootstrap_signing="false")],
            {"kubeconfig": "payload", "more": "x", "jws-kubeconfig": "y"},
        ),
        "signature of an expired token": (
            {"kubeconfig": "payload", KEY: SIGNATURE},
            [token(expiration="2025-12-31T00:00:00Z")],
            {"kubeconfig": "payload"},
        ),
        "no kubeconfig": ({KEY: "old"}, [token()], None),
        "no data": ({}, [token()], None),
    },
)
def test_expected_signatures(data: dict[str, str], secrets: list[Secret], expected: dict[str, str] | None) -> None:
    assert signed_data(data, secrets, NOW) == expected


def is_good(text: str, signature: str, secret: str) -> bool:
    """Verified independently, as RFC 7515, appendix F, for detached content."""
    head, nothing, mac = signature.split(".")
    payload = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    computed = hmac.new(secret.encode(), f"{head}.{payload}".encode(), hashlib.sha256).digest()
    decoded = json.loads(base64.urlsafe_b64decode(head + "=="))
    return (
        nothing == "" and decoded["alg"] == "HS256" and mac == base64.urlsafe_b64encode(computed).decode().rstrip("=")
    )


@pytest.fixture
async def world(world: World) -> World:
    if await world.get("/api/v1/namespaces/kube-public") is None:
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-public"}})
    await world.start(DESCRIPTOR)
    return world


async def create_token(world: World, number: str, secret: str, expiration: str = "") -> None:
    """A token that may sign."""
    data = {"token-id": number, "token-secret": secret, "usage-bootstrap-signing": "true"}
    if expiration:
        data["expiration"] = expiration
    name = f"bootstrap-token-{number}"
    body = {"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "stringData": data}
    await world.request("POST", SECRETS, body)


async def create_config_map(world: World, **data: str) -> None:
    """Create the ConfigMap, with an unrelated key."""
    meta = {"name": "cluster-info", "labels": {"a": "b"}}
    await world.request("POST", MAPS, {"metadata": meta, "data": data, "binaryData": {"z": "eA=="}})


async def cluster_info(world: World) -> dict[str, str]:
    """Its data."""
    obj: dict[str, str] = (await world.must_get(f"{MAPS}/cluster-info"))["data"]
    return obj


async def test_config_map_without_kubeconfig_is_not_written(world: World) -> None:
    await create_token(world, "abc123", "tokenSecret")
    await asyncio.sleep(1)
    await create_config_map(world, other="text")
    await world.request("POST", MAPS, {"metadata": {"name": "other"}, "data": {"kubeconfig": "payload"}})
    await asyncio.sleep(1)
    assert world.requests() == []


async def test_signatures_are_updated_when_kubeconfig_or_tokens_change(world: World) -> None:
    await create_config_map(world, kubeconfig="payload", more="x")
    await create_token(world, "abc123", "tokenSecret")
    await create_token(world, "def456", "another secret")
    await asyncio.sleep(1)
    result = await cluster_info(world)
    assert result[KEY] == SIGNATURE
    assert is_good("payload", result["jws-kubeconfig-def456"], "another secret")
    assert not is_good("payload", result["jws-kubeconfig-def456"], "no secret")
    assert sorted(result) == [KEY, "jws-kubeconfig-def456", "kubeconfig", "more"]

    await world.merge(f"{MAPS}/cluster-info", {"data": {"kubeconfig": "other payload"}})
    await asyncio.sleep(1)
    assert is_good("other payload", (await cluster_info(world))[KEY], "tokenSecret")

    await world.delete(f"{SECRETS}/bootstrap-token-def456")
    await world.merge(f"{SECRETS}/bootstrap-token-abc123", {"stringData": {"token-secret": "third secret"}})
    await asyncio.sleep(1)
    result = await cluster_info(world)
    assert sorted(result) == [KEY, "kubeconfig", "more"]
    assert is_good("other payload", result[KEY], "third secret")
    whole = await world.must_get(f"{MAPS}/cluster-info")
    assert (whole["metadata"]["labels"], whole["binaryData"]) == ({"a": "b"}, {"z": "eA=="})
    assert set(world.requests()) == {"update configmaps cluster-info"}


async def test_no_writes_once_signatures_are_current(world: World) -> None:
    await create_config_map(world, kubeconfig="payload")
    await create_token(world, "abc123", "tokenSecret")
    await asyncio.sleep(5)
    world.seen.clear()
    await world.merge(f"{MAPS}/cluster-info", {"metadata": {"labels": {"c": "d"}}})
    await asyncio.sleep(3600)
    assert world.requests() == []


async def test_signature_is_removed_when_its_token_expires(world: World) -> None:
    """With the token cleaner: a bootstrap token expires, its Secret is deleted, its signature is removed."""
    await world.start(CLEANER)
    await create_config_map(world, kubeconfig="payload")
    await create_token(world, "abc123", "x", format_time(world.env.now() + datetime.timedelta(minutes=5)))
    await asyncio.sleep(290)
    assert is_good("payload", (await cluster_info(world))[KEY], "x")
    await asyncio.sleep(15)
    assert await cluster_info(world) == {"kubeconfig": "payload"}


async def test_update_is_retried_on_the_newer_config_map_after_a_conflict(world: World) -> None:
    await create_config_map(world, kubeconfig="payload")
    await asyncio.sleep(1)
    world.faults.add(Rule(fail(500), verb="update", resource="configmaps", nth=1))
    world.faults.add(Rule(conflict(), verb="update", resource="configmaps", nth=1))
    await create_token(world, "abc123", "tokenSecret")
    await asyncio.sleep(5)
    assert world.requests() == ["update configmaps cluster-info"] * 3
    await world.merge(f"{MAPS}/cluster-info", {"data": {"kubeconfig": "newer"}})
    await asyncio.sleep(1)
    assert is_good("newer", (await cluster_info(world))[KEY], "tokenSecret")


async def test_token_secrets_do_not_leak_into_metrics_or_requests(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary0123456789"

    caplog.set_level(1)
    await create_config_map(world, kubeconfig="payload")
    await create_token(world, "abc123", canary)
    await asyncio.sleep(2)
    assert is_good("payload", (await cluster_info(world))[KEY], canary)
    encoded: list[Any] = [canary, base64.b64encode(canary.encode()).decode()]
    events = world.metrics.exposition() + str(world.bodies("update", "configmaps")) + str(await world.events())
    assert not any(text in events + caplog.text for text in encoded)
