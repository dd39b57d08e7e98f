"""Certificates of webhooks: renewal, the Secret that replicas share, and their CA bundles."""

import asyncio
import base64
import datetime
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.x509 import verification
from tests.operator.test_admission import RANGES
from tests.operator.test_conversion import PAGES
from tests.tables import cases

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from pilothouse.api.core import SECRETS, Secret
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.apiserver import ApiServer
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.client import Client, json_patch
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, Conflict, Forbidden
from pilothouse.client.interceptor import Rule, conflict, lose_answer
from pilothouse.env import Clock, Env, TaskGroup
from pilothouse.operator import App, WebhookSettings
from pilothouse.operator.configurations import CONFIGURATIONS
from pilothouse.operator.manifests import manifests
from pilothouse.operator.webhook_certificates import Certificates, from_secret, renewed
from pilothouse.operator.webhook_server import CHECK_SECONDS, CertificateRotator
from pilothouse.serving.certificates import AUTHORITY_DAYS, ISSUED_DAYS, Pair, create_authority, split
from pilothouse.storage import MemoryStore
from pilothouse.testing import AsyncCluster, async_plane
from pilothouse.testing.running import ProgramUnderTest

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
HOST = "pages-webhooks.default.svc"


def day(number: float) -> datetime.datetime:
    return START + datetime.timedelta(days=number)


def trusts(bundle: bytes, pair: Pair, at: datetime.datetime, host: str = HOST) -> bool:
    """Whether a client with these CAs accepts the server's certificate."""
    store = verification.Store(x509.load_pem_x509_certificates(bundle))
    verifier = verification.PolicyBuilder().store(store).time(at).build_server_verifier(x509.DNSName(host))
    leaf, *chain = x509.load_pem_x509_certificates(pair.certificate)
    try:
        verifier.verify(leaf, chain)
    except verification.VerificationError:
        return False
    return True


def test_certificates_for_twenty_years() -> None:
    """Checked every ten days: a CA that a client trusted before remains sufficient, and nothing expires."""
    kept = renewed(None, [HOST], "pages", START)
    bundles, servings = {kept.bundle}, {kept.serving.certificate}
    for number in range(1, 2 * AUTHORITY_DAYS, 10):
        before, now = kept, day(number)
        kept = renewed(before, [HOST], "pages", now)
        assert trusts(before.bundle, kept.serving, now)
        assert trusts(kept.bundle, before.serving, now)
        bundles.add(kept.bundle)
        servings.add(kept.serving.certificate)
        assert renewed(kept, [HOST], "pages", now) is kept
        assert len(split(kept.bundle)) <= 2
    assert 2 <= len(bundles) - 1 <= 8
    assert len(servings) >= 2 * AUTHORITY_DAYS // ISSUED_DAYS


@cases(
    "at, hosts, is_kept",
    {
        "valid": (300, [HOST], True),
        "expires within thirty days": (ISSUED_DAYS - 29, [HOST], False),
        "different host name": (1, [HOST, "other.default.svc"], False),
    },
)
def test_a_serving_certificate_is_renewed(at: int, hosts: list[str], is_kept: bool) -> None:
    kept = renewed(None, [HOST], "pages", START)
    result = renewed(kept, hosts, "pages", day(at))
    assert (result is kept) is is_kept
    assert result.bundle == kept.bundle
    assert all(trusts(kept.bundle, result.serving, day(at), host) for host in hosts)


def test_an_address_may_be_written_in_several_ways() -> None:
    hosts = ["fd00:0:0::0001"]
    kept = renewed(None, hosts, "pages", START)
    assert renewed(kept, hosts, "pages", day(1)) is kept


def test_after_a_long_pause_everything_is_new() -> None:
    kept = renewed(None, [HOST], "pages", START)
    result = renewed(kept, [HOST], "pages", day(AUTHORITY_DAYS + 1))
    assert not trusts(kept.bundle, result.serving, day(AUTHORITY_DAYS + 1))
    assert trusts(result.bundle, result.serving, day(AUTHORITY_DAYS + 1))
    assert len(split(result.bundle)) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tls.key": b""}, "Secret default/a has no tls.key"),
        ({"ca.crt": b"x"}, "Secret default/a: .*"),
        ({"tls.crt": b"x"}, "Secret default/a: the certificate and the key can't be read"),
        (
            {"ca.key": create_authority("other", START).key},
            "Secret default/a: the key is not the key of the certificate",
        ),
    ],
)
def test_a_secret_that_cannot_be_used_is_explained(changed: dict[str, bytes], message: str) -> None:
    data: dict[str, bytes | None] = {**renewed(None, [HOST], "pages", START).to_data(), **changed}
    with pytest.raises(ValueError, match=message):
        from_secret(Secret(metadata=ObjectMeta(name="a", namespace="default"), data=data))


def test_a_secret_keeps_certificates() -> None:
    kept = renewed(None, [HOST], "pages", START)
    later = renewed(kept, [HOST], "pages", day(AUTHORITY_DAYS - 380))
    assert len(split(later.bundle)) == 2
    for item in (kept, later):
        assert from_secret(Secret(data=dict(item.to_data()))) == item


# In a cluster


class Shifted:
    """The clock of the cluster, some days later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.days = 0.0

    def now(self) -> datetime.datetime:
        return self._clock.now() + datetime.timedelta(days=self.days)

    def timestamp(self) -> float:
        return self.now().timestamp()


def the_app() -> App:
    app = App("pages")
    app.controller(PAGES)

    @app.validating(RANGES)
    async def check(_obj: Any, _request: Any) -> None: ...

    @app.mutating(RANGES)
    async def change(_obj: Any, _request: Any) -> None: ...

    return app


class Replica:
    """One process of the operator."""

    def __init__(self, client: Client, env: Env, **settings: Any) -> None:
        self.presented: list[Pair] = []
        self.rotator = CertificateRotator(
            the_app(), WebhookSettings(**settings), client=client, env=env, present=self.presented.append
        )


def failing(cluster: AsyncCluster, env: Env, *faults: Rule) -> Client:
    return ProgramUnderTest(env, cluster.plane.server, the_app(), faults=faults).client()


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[AsyncCluster]:
    """An API server with the manifests of the app, as an administrator applies them."""
    async with async_plane(env=env, nodes=0, controllers=()) as plane:
        for manifest in manifests(the_app(), namespace="default", image="example.com/pages:1"):
            await plane.create(manifest)
        yield plane


async def secret_of(client: Client) -> Certificates:
    return from_secret(await client.get(SECRETS, "pages-webhook-certificates", "default"))


async def body_of(client: Client, kind: Kind[Any], name: str) -> dict[str, Any]:
    raw = await client.get(kind.raw, name)
    document: dict[str, Any] = msgspec.json.decode(raw)
    return document


async def bundles(client: Client) -> set[bytes]:
    """Every caBundle of the app."""
    result = set()
    for kind in CONFIGURATIONS.values():
        body = await body_of(client, kind, "pages")
        result |= {webhook["clientConfig"].get("caBundle", "") for webhook in body["webhooks"]}
    for name in ("pages.example.com", "ranges.example.com"):
        spec = (await body_of(client, CRDS, name))["spec"]
        if "webhook" in spec["conversion"]:
            result.add(spec["conversion"]["webhook"]["clientConfig"].get("caBundle", ""))
    return {base64.b64decode(item) for item in result}


async def test_replicas_share_certificates_that_are_rotated(cluster: AsyncCluster, env: Env) -> None:
    clock = Shifted(env.clock)
    later = msgspec.structs.replace(env, clock=clock)
    first, second = (Replica(cluster.client, later) for _ in range(2))
    await first.rotator.sync()
    await second.rotator.sync()
    kept = await secret_of(cluster.client)
    assert first.presented == second.presented == [kept.serving]
    assert await bundles(cluster.client) == {kept.bundle}

    clock.days = ISSUED_DAYS - 20
    await second.rotator.sync()
    await first.rotator.sync()
    new = await secret_of(cluster.client)
    assert new.serving != kept.serving
    assert first.presented == second.presented == [kept.serving, new.serving]
    assert await bundles(cluster.client) == {kept.bundle}

    clock.days = AUTHORITY_DAYS - 300
    await first.rotator.sync()
    rotated = await secret_of(cluster.client)
    assert split(rotated.bundle)[1:] == [kept.bundle]
    assert await bundles(cluster.client) == {rotated.bundle}
    assert second.presented[-1] == new.serving
    assert trusts(rotated.bundle, first.presented[-1], later.now())


async def test_a_certificate_is_trusted_before_it_is_served(cluster: AsyncCluster, env: Env) -> None:
    broken = Rule(conflict(), verb="patch", resource="customresourcedefinitions.apiextensions.k8s.io", times=1)
    replica = Replica(failing(cluster, env, broken), env)
    with pytest.raises(Conflict):
        await replica.rotator.sync()
    assert replica.presented == []
    await replica.rotator.sync()
    assert replica.presented == [(await secret_of(cluster.client)).serving]


async def test_two_replicas_that_start_at_once_agree(cluster: AsyncCluster, env: Env) -> None:
    replicas = [Replica(failing(cluster, env, Rule(lose_answer(), verb="create", probability=0.3)), env)
                for _ in range(4)]  # fmt: skip

    async def until_synced(replica: Replica) -> None:
        while True:
            try:
                await replica.rotator.sync()
            except (ApiError, ConnectionError):
                await asyncio.sleep(1)
            else:
                return

    async with TaskGroup() as group:
        for replica in replicas:
            group.start(until_synced(replica), name="replica")
    kept = await secret_of(cluster.client)
    assert [replica.presented[-1] for replica in replicas] == [kept.serving] * 4
    assert await bundles(cluster.client) == {kept.bundle}


async def test_changes_by_others_are_reverted(cluster: AsyncCluster, env: Env) -> None:
    replica = Replica(cluster.client, env)
    await replica.rotator.sync()
    before = await secret_of(cluster.client)
    async with TaskGroup() as group:
        group.start(replica.rotator.run(), name="rotator")
        kind = CONFIGURATIONS["ValidatingWebhookConfiguration"]
        path = "/webhooks/0/clientConfig/caBundle"
        await cluster.client.patch(kind.raw, "pages", json_patch([{"op": "remove", "path": path}]))
        assert await bundles(cluster.client) == {before.bundle, b""}
        await asyncio.sleep(CHECK_SECONDS + 1)
        assert await bundles(cluster.client) == {before.bundle}

        await cluster.client.patch(
            SECRETS.raw,
            "pages-webhook-certificates",
            json_patch([{"op": "replace", "path": "/data/tls.key", "value": "eA=="}]),
            "default",
        )
        await asyncio.sleep(CHECK_SECONDS + 1)
        assert (await secret_of(cluster.client)).serving == replica.presented[-1] != before.serving

        await cluster.client.delete(SECRETS, "pages-webhook-certificates", "default")
        await cluster.client.delete(kind, "pages")
        await asyncio.sleep(CHECK_SECONDS + 1)
        assert (await secret_of(cluster.client)).serving == replica.presented[-1]
        group.cancel()


async def test_nothing_is_written_without_changes(cluster: AsyncCluster, env: Env) -> None:
    replica = Replica(cluster.client, env)
    await replica.rotator.sync()
    before = await versions(cluster.client)
    await replica.rotator.sync()
    assert await versions(cluster.client) == before
    assert len(replica.presented) == 1


async def versions(client: Client) -> list[str]:
    result = [await client.get(kind, "pages") for kind in CONFIGURATIONS.values()]
    return [item.metadata.resource_version for item in result]


async def test_outside_of_the_cluster_everything_is_installed_with_a_url(env: Env) -> None:
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        replica = Replica(cluster.client, env, url_host="192.0.2.7", port=8443, install=True)
        await replica.rotator.sync()
        (served,) = replica.presented
        body = await body_of(cluster.client, CRDS, "pages.example.com")
        config = body["spec"]["conversion"]["webhook"]["clientConfig"]
        assert config["url"] == "https://192.0.2.7:8443/convert"
        (bundle,) = await bundles(cluster.client)
        assert base64.b64decode(config["caBundle"]) == bundle
        assert Pair(served.certificate, b"").not_after > env.now()
        assert (await cluster.client.list(SECRETS, "default")).items == ()
        configuration = await cluster.get("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "pages")
        assert configuration["webhooks"][0]["clientConfig"]["url"] == (
            "https://192.0.2.7:8443/validate-example-com-v1-range/check"
        )


@pytest.mark.parametrize("takeover", [False, True])
async def test_a_stopping_process_deletes_its_webhook_configurations(env: Env, takeover: bool) -> None:
    """Not what another process has installed since."""
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        first, second = (
            Replica(cluster.client, env, url_host="192.0.2.7", port=port, install=True) for port in (8443, 9443)
        )
        await first.rotator.withdraw()
        await first.rotator.sync()
        if takeover:
            await second.rotator.sync()
        await first.rotator.withdraw()
        remaining = [await cluster.client.list(kind) for kind in CONFIGURATIONS.values()]
        assert [len(item.items) for item in remaining] == ([1, 1] if takeover else [0, 0])


async def test_the_generated_roles_suffice(env: Env) -> None:
    server = ApiServer(env, MemoryStore(env))
    chain = HandlerChain(server, address="", authorization="RBAC")
    await chain.start()
    admin = Client(server.transport("admin", ["system:masters"]), env)
    async with TaskGroup() as group:
        group.start(server.run(), name="api server")
        await apply(admin, manifests(the_app(), namespace="default"))
        account = server.transport("system:serviceaccount:default:pages", ["system:authenticated"])
        replica = Replica(Client(account, env), env)
        await replica.rotator.sync()
        assert await bundles(admin) == {(await secret_of(admin)).bundle}
        with pytest.raises(Forbidden):
            await Client(account, env).get(SECRETS, "other", "default")
        group.cancel()


async def apply(client: Client, objects: Iterable[dict[str, Any]]) -> None:
    mapper = RestMapper(client)
    for obj in objects:
        kind = await mapper.kind_for(obj["apiVersion"], obj["kind"])
        assert kind is not None
        await client.create(kind.raw, obj, obj["metadata"].get("namespace", ""))
