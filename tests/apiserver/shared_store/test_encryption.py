"""Several servers on one etcd with encryption at rest."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Api
from tests.custom_resources import DEFINITIONS, definition
from tests.etcd import shared_etcd
from tests.kms_plugin import KmsPlugin

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.encryption_config.opened import OpenedEncryption
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec
from pilothouse.env import Env, TaskGroup
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]
SECRETS = "/api/v1/namespaces/default/secrets"


def secret(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "stringData": data}


def keys(*names: str, provider: str = "aesgcm") -> dict[str, Any]:
    """A provider with these keys."""
    listed = [{"name": name, "secret": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="} for name in names]
    return {provider: {"keys": listed}}


class Encrypted(Api):
    """A server, and its encryption configuration."""

    encryption: OpenedEncryption

    def raw_key(self, path: str) -> bytes:
        store = self.store
        assert isinstance(store, EtcdStore)
        return f"{store.keys.root}{path}".encode()

    async def raw(self, path: str) -> bytes:
        """What etcd has."""
        store = self.store
        assert isinstance(store, EtcdStore)
        answer = await store.client.range(messages.RangeRequest(key=self.raw_key(path)))
        return bytes(answer.kvs[0].value)

    async def put_raw(self, path: str, value: bytes) -> None:
        store = self.store
        assert isinstance(store, EtcdStore)
        request = messages.TxnRequest(success=[messages.put(self.raw_key(path), value)])
        await store.client.txn(request, operation="t")

    async def health(self, path: str) -> tuple[int, str]:
        """What a probe gets."""
        answer = await self.chain.handle(Request("GET", path, {}, b""))
        assert isinstance(answer, Response)
        return answer.status, answer.body.decode()

    chain: HandlerChain


class World:
    """A root in etcd, and the file of the servers on it."""

    def __init__(self, env: Env, directory: Path) -> None:
        self.env = env
        self.path = directory / "encryption.json"
        self.root = shared_etcd().root()

    def configure(self, *providers: Any, resources: tuple[str, ...] = ("secrets",)) -> None:
        """Rewrite the configuration file."""
        self.path.write_text(
            json.dumps(
                {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "EncryptionConfiguration",
                    "resources": [{"resources": resources, "providers": providers}],
                }
            )
        )

    @contextlib.asynccontextmanager
    async def server(self, *, reload: bool = False, ready: bool = True) -> AsyncIterator[Encrypted]:
        """A server that runs."""
        encryption = OpenedEncryption(self.env, str(self.path), reload=reload, server_id="test")
        options = EtcdOptions(servers=(shared_etcd().url,), compaction_interval=0)
        store = EtcdStore.open(self.env, options, KeyLayout(self.root), ObjectCodec(), encryption=encryption.at_rest)
        api = Encrypted(self.env, store=store)
        api.encryption, api.server.kms_health = encryption, encryption.health
        api.chain = HandlerChain(api.server, address="127.0.0.1:6443")
        try:
            async with TaskGroup() as group:
                group.start(api.server.run())
                assert not ready or (await api.get("/api/v1/namespaces/default")).status == 200
                yield api
                group.cancel()
        finally:
            await api.server.close()


@pytest.fixture
async def world(env: Env, tmp_path: Path) -> World:
    return World(env, tmp_path)


async def until(api: Api, target: str, status: int) -> Any:
    async with asyncio.timeout(15):
        while (answer := await api.get(target)).status != status:  # noqa: ASYNC110  # nothing says so
            await asyncio.sleep(0.05)
    return answer


async def test_key_rotation_by_no_op_writes(world: World) -> None:
    """``kubectl get secrets -o json | kubectl replace -f -``"""
    world.configure({"identity": {}})
    async with world.server() as api:
        await api.create(SECRETS, secret("a", password="x"))
        assert (await api.raw("secrets/default/a")).startswith(b"k8s\0")
    world.configure(keys("one"), {"identity": {}})
    async with world.server() as api:
        assert (await api.raw("secrets/default/a")).startswith(b"k8s\0")
        listed = (await api.get(SECRETS)).body["items"]
        replaced = [await api.put(f"{SECRETS}/{item['metadata']['name']}", item) for item in listed]
        assert [answer.status for answer in replaced] == [200]
        first = await api.raw("secrets/default/a")
        assert first.startswith(b"k8s:enc:aesgcm:v1:one:")
        assert b"password" not in first
        # A dry run writes nothing, and what is encrypted as it should be is not written either.
        assert (await api.put(f"{SECRETS}/a", replaced[0].body)).meta == replaced[0].meta
        await api.create(CONFIG_MAPS, {"metadata": {"name": "plain"}})
        assert (await api.raw("configmaps/default/plain")).startswith(b"k8s\0")
    world.configure(keys("two", "one"))
    async with world.server() as api:
        response = await api.get(f"{SECRETS}/a")
        assert response.body["data"] == {"password": "eA=="}
        assert (await api.put(f"{SECRETS}/a?dryRun=All", response.body)).meta == response.meta
        assert await api.raw("secrets/default/a") == first
        patched = await api.patch(f"{SECRETS}/a", {})
        assert patched.meta["resourceVersion"] != response.meta["resourceVersion"]
        assert (await api.raw("secrets/default/a")).startswith(b"k8s:enc:aesgcm:v1:two:")
        value_of = api.chain.metrics.registry.value
        assert value_of("etcd_request_duration_seconds", "get", "", "secrets") == 1, "whether it is stale"
        assert value_of("etcd_requests_total", "get", "", "") > 0
        page = api.encryption.metrics.registry
        name = "apiserver_storage_transformation_operations_total"
        assert page.value(name, "secrets", "to_storage", "k8s:enc:aesgcm:v1:", "OK") == 1


async def test_wildcard_encrypts_custom_resources_and_definitions(world: World) -> None:
    world.configure(keys("one", provider="secretbox"), {"identity": {}}, resources=("*.*",))
    async with world.server() as api:
        await api.create(DEFINITIONS, definition("Panda"))
        path = "/apis/example.com/v1/namespaces/default/pandas"
        await until(api, path, 200)
        body = {"apiVersion": "example.com/v1", "kind": "Panda", "metadata": {"name": "c"}}
        assert (await api.post(path, body)).status == 201
        for key in (
            "example.com/pandas/default/c",
            "apiextensions.k8s.io/customresourcedefinitions/pandas.example.com",
            "namespaces/default",
            "services/specs/default/kubernetes",
        ):
            assert (await api.raw(key)).startswith(b"k8s:enc:secretbox:v1:one:"), key
    # What was served before is served again.
    async with world.server() as api:
        assert (await api.get(f"{path}/c")).status == 200


async def test_missing_key_is_an_error_until_restored(world: World) -> None:
    world.configure(keys("one"))
    async with world.server() as api:
        for name in ("a", "b"):
            await api.create(SECRETS, secret(name))
        then = f"?resourceVersion={api.store.revision}&resourceVersionMatch=Exact"
    world.configure(keys("two"))
    no_key = "Internal error occurred: no matching key was found for the provided AES transformer"
    async with world.server(reload=True) as api:
        await api.create(SECRETS, secret("0"))  # which is listed first
        watch = await api.watch(SECRETS)
        assert await watch.next() == ("ERROR", (await api.get(f"{SECRETS}/a")).body)
        for answer in (
            await api.get(f"{SECRETS}/a"),
            await api.delete(f"{SECRETS}/a"),
            await api.patch(f"{SECRETS}/a", {"metadata": {"labels": {"a": "b"}}}),
        ):
            assert (answer.status, answer.message) == (500, no_key)
        why = no_key.removeprefix("Internal error occurred: ")
        unlisted = f'Internal error occurred: unable to transform key "{world.root}/secrets/default/a": {why}'
        for query in ("", then, "?limit=500", "?labelSelector=app%3Da", "?labelSelector=app%3Dother"):
            answer = await api.get(f"{SECRETS}{query}")
            assert (answer.status, answer.message) == (500, unlisted), query
        assert (await api.get(f"{SECRETS}?limit=1")).status == 200
        assert (await api.get(f"{SECRETS}/0")).status == 200
        assert (await api.post(SECRETS, secret("a"))).status == 409
        assert (await api.get(PODS)).status == 200
        api.server.set_lag(0.01)  # a copy has what the store has
        changes = await api.watch(f"{SECRETS}?resourceVersion={api.store.revision}")
        assert (await api.get(f"{SECRETS}?resourceVersion=0")).message == unlisted
        world.configure(keys("two", "one"))
        assert api.encryption.controller is not None
        await api.encryption.controller.sync()
        result = await until(api, SECRETS, 200)
        assert [item["metadata"]["name"] for item in result.body["items"]] == ["0", "a", "b"]
        assert len((await api.get(f"{SECRETS}?labelSelector=app%3Da")).body["items"]) == 3
        assert len((await api.get(f"{SECRETS}{then}")).body["items"]) == 2
        await asyncio.sleep(0.05)
        assert len((await api.get(f"{SECRETS}?resourceVersion=0")).body["items"]) == 3
        assert (await api.delete(f"{SECRETS}/a")).status == 200
        assert [kind for kind, _name, _version in await changes.take(1)] == ["DELETED"]


async def test_undecryptable_event_ends_watches_with_an_error(world: World) -> None:
    world.configure(keys("one"))
    async with world.server(reload=True) as api:
        created = await api.create(SECRETS, secret("a"))
        watches = [
            await api.watch(f"{SECRETS}?resourceVersion={created['metadata']['resourceVersion']}{query}")
            for query in ("", "&labelSelector=app%3Da")
        ]
        value = (await api.raw("secrets/default/a")).replace(b":one:", b":two:")
        await api.put_raw("secrets/default/a", value)
        for watch in watches:
            kind, status = await watch.next()
            assert (kind, status["code"], "no matching key was found" in status["message"]) == ("ERROR", 500, True)
        world.configure(keys("one", "two"))
        assert api.encryption.controller is not None
        await api.encryption.controller.sync()
        await until(api, f"{SECRETS}/a", 200)
        # A watch from before shows it as it always was.
        again = await api.watch(f"{SECRETS}?resourceVersion={created['metadata']['resourceVersion']}")
        assert [kind for kind, _name, _version in await again.take(1)] == ["MODIFIED"]


@pytest.fixture
def plugin(tmp_path: Path) -> Any:
    result = KmsPlugin(tmp_path / "kms.sock")
    yield result
    result.stop()


def kms(plugin: KmsPlugin, timeout: str = "200ms") -> dict[str, Any]:
    return {"kms": {"apiVersion": "v2", "name": "foo", "endpoint": plugin.endpoint, "timeout": timeout}}


async def test_servers_with_one_kms_plugin_decrypt_each_others_values(world: World, plugin: KmsPlugin) -> None:
    plugin.start()
    world.configure(kms(plugin, "3s"))
    async with world.server() as one, world.server() as two:
        for number in range(3):
            await one.create(SECRETS, secret(f"one-{number}", a="b"))
            await two.create(SECRETS, secret(f"two-{number}", a="b"))
        for api in (one, two):
            listed = await api.get(SECRETS)
            assert [item["data"] for item in listed.body["items"]] == [{"a": "Yg=="}] * 6
        assert (await one.raw("secrets/default/one-0")).startswith(b"k8s:enc:kms:v2:foo:")
        assert plugin.calls.count("Decrypt") == 2  # each server has decrypted the other's seed once
        assert await one.health("/healthz/kms-providers") == (200, "ok")
    async with world.server() as again:
        assert len((await again.get(SECRETS)).body["items"]) == 6
    assert plugin.calls.count("Decrypt") == 4


async def test_kms_plugin_may_start_after_the_server(
    world: World, plugin: KmsPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.storage.encryption.kmsv2.probe._UNHEALTHY_SECONDS", 0.2)
    monkeypatch.setattr("pilothouse.storage.encryption.kmsv2.probe._NEGATIVE_TTL", 0.1)
    monkeypatch.setattr("pilothouse.storage.encryption.kmsv2.envelope._RETRY_DELAY_SECONDS", 0.1)
    plugin.start()
    world.configure(kms(plugin), {"identity": {}})
    async with world.server() as api:
        await api.create(SECRETS, secret("a"))
    plugin.stop()
    async with world.server() as api:
        assert (await api.get(f"{SECRETS}/a")).message.endswith("got unexpected nil transformer")
        refused = await api.post(SECRETS, secret("b"))
        assert (refused.status, refused.message) == (500, "Internal error occurred: got unexpected nil transformer")
        assert (await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}})).status == 201
        status, text = await api.health("/readyz")
        assert (status, "[-]kms-providers failed: reason withheld" in text) == (500, True)
        assert (await api.health("/healthz/kms-providers"))[0] == 500
        assert (await api.health("/livez"))[0] == 200
        plugin.start()
        await until(api, f"{SECRETS}/a", 200)
        assert (await api.post(SECRETS, secret("b"))).status == 201
        assert (await api.health("/healthz/kms-providers"))[0] == 200


async def test_error_names_the_lost_kms_key(world: World, plugin: KmsPlugin) -> None:
    plugin.start()
    world.configure(kms(plugin))
    async with world.server() as api:
        await api.create(SECRETS, secret("a"))
    plugin.key_id, plugin.refused = "2", {"1"}
    async with world.server() as api:
        assert (await api.get(f"{SECRETS}/a")).message == (
            "Internal error occurred: failed to decrypt DEK, error: rpc error: code = FailedPrecondition "
            "desc = no key 1"
        )
        await api.create(SECRETS, secret("b"))
        assert (await api.get(f"{SECRETS}/b")).status == 200


async def test_changed_configuration_uses_another_kms_plugin(world: World, plugin: KmsPlugin, tmp_path: Path) -> None:
    other = KmsPlugin(tmp_path / "other.sock").start()
    plugin.start()
    world.configure(kms(plugin))
    try:
        async with world.server(reload=True) as api:
            await api.create(SECRETS, secret("a"))
            second = kms(other)
            second["kms"]["name"] = "bar"
            world.configure(second, kms(plugin))
            assert api.encryption.controller is not None
            await api.encryption.controller.sync()
            assert (await api.patch(f"{SECRETS}/a", {})).status == 200
            assert (await api.raw("secrets/default/a")).startswith(b"k8s:enc:kms:v2:bar:")
    finally:
        other.stop()


async def test_server_starts_without_the_key_and_recovers(
    world: World,
) -> None:
    pandas = "/apis/example.com/v1/namespaces/default/pandas"
    registered = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com"
    world.configure(keys("one"), resources=("*.*",))
    async with world.server() as api:
        await api.create(DEFINITIONS, definition("Panda"))
        await until(api, pandas, 200)
        await until(api, registered, 200)
    world.configure(keys("two"), resources=("*.*",))
    async with world.server(reload=True, ready=False) as api:
        why = "no matching key was found for the provided AES transformer"
        namespace = await api.get("/api/v1/namespaces/default")
        assert namespace.message == f"Internal error occurred: {why}"
        refused = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}})
        assert refused.status == 500, "its namespace may be one that is being deleted"
        assert (await api.get(pandas)).status == 404
        world.configure(keys("two", "one"), resources=("*.*",))
        assert api.encryption.controller is not None
        await api.encryption.controller.sync()
        await until(api, "/api/v1/namespaces/default", 200)
        await until(api, pandas, 200)
        assert (await api.get(registered)).status == 200
        assert (await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}})).status == 201


@pytest.mark.real_loop(timeout=1200)
@pytest.mark.timeout(1300)
async def test_key_rotation_under_load_loses_nothing(
    world: World, plugin: KmsPlugin, monkeypatch: pytest.MonkeyPatch, soak: bool, soak_minutes: float
) -> None:
    """Two servers write and read while the file changes, and the key of the plugin. With --soak for minutes."""
    monkeypatch.setattr("pilothouse.storage.encryption.kmsv2.probe._POSITIVE_TTL", 0.05)
    plugin.start()
    secretbox, aes = keys("one", provider="secretbox"), keys("one", "two")
    files: list[tuple[Any, ...]] = [
        (secretbox, aes, kms(plugin, "3s"), {"identity": {}}),
        (kms(plugin, "3s"), aes, secretbox, {"identity": {}}),
        ({"identity": {}}, kms(plugin, "3s"), aes, secretbox),
        (keys("two", "one"), secretbox, kms(plugin, "3s"), {"identity": {}}),
    ]
    written: dict[str, str] = {}
    until_ = time.monotonic() + (soak_minutes * 60 if soak else 1.5)

    async def write(api: Api, own: str) -> None:
        step = 0
        while time.monotonic() < until_:
            step += 1
            name, value = f"{own}-{step % 7}", str(step)
            created = await api.post(SECRETS, secret(name, v=value))
            if created.status == 409:
                created = await api.patch(f"{SECRETS}/{name}", {"stringData": {"v": value}})
            assert created.status in (200, 201), created.text
            written[name] = value
            if step % 10 == 0:
                name = f"{own}-{step % 7}"
                deleted = await api.delete(f"{SECRETS}/{name}")
                assert deleted.status == 200, deleted.text
                del written[name]
            listed = await api.get(SECRETS)
            assert listed.status == 200, listed.text

    async def exchange(*servers: Encrypted) -> None:
        turn = 0
        while time.monotonic() < until_:
            turn += 1
            world.configure(*files[turn % len(files)])
            plugin.key_id = str(turn // 3)
            for api in servers:
                assert api.encryption.controller is not None
                await api.encryption.controller.sync()
                await api.encryption.at_rest.providers.check()
            await asyncio.sleep(0.1)

    world.configure(*files[0])
    async with world.server(reload=True) as one, world.server(reload=True) as two:
        await asyncio.gather(write(one, "a"), write(two, "b"), exchange(one, two))
    async with world.server() as last:
        items = (await last.get(SECRETS)).body["items"]
        result = {item["metadata"]["name"]: base64.b64decode(item["data"]["v"]).decode() for item in items}
    assert result == written
