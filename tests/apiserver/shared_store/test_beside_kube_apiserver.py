"""A pilothouse API server and kube-apiserver, v1.20 or v1.36, on one etcd."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, Api
from tests.apiserver.shared_store.servers import running
from tests.real_cluster import RealCluster, RequestFailed, minor_version, missing_programs

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.encryption_config.opened import OpenedEncryption
from pilothouse.apiserver.resources import ResourceInfo, built_in
from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec
from pilothouse.env import Env
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.real_loop(timeout=120)]

_BODIES = Path(__file__).parents[1] / "data" / "defaults.json"
# v1.36 stores these in versions that v1.20 does not support, and v1.20 would not become ready.
_NOT_KNOWN = (
    "discovery.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1alpha1",
    "policy/v1beta1",
    "batch/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2beta1",
    "autoscaling/v2beta2",
)


# What is encrypted at rest, in every test: by each provider a resource.
_ENCRYPTED = {"secrets": "aescbc", "configmaps": "secretbox", "serviceaccounts": "aesgcm"}
_UPSTREAM, _PILOTHOUSE = ("one", "two"), ("two", "one")
"""Names of the keys: each server encrypts with its first one."""
_SECRETS = {
    "one": "b25lIGtleSBvZiAzMiBieXRlcyBmb3IgYWxsIG9mIHQ=",
    "two": "dHdvIGtleXMgb2YgMzIgYnl0ZXMsIHRoZSBvdGhlciE=",
}


def _encryption_config(directory: Path, keys: tuple[str, str]) -> Path:
    """A configuration with these keys."""
    path = directory / f"encryption-{keys[0]}.yaml"
    listed = [{"name": name, "secret": _SECRETS[name]} for name in keys]
    resources = [
        {"resources": [resource], "providers": [{provider: {"keys": listed}}, {"identity": {}}]}
        for resource, provider in _ENCRYPTED.items()
    ]
    resources.append({"resources": ["limitranges"], "providers": [{"identity": {}}, {"aesgcm": {"keys": listed}}]})
    config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources}
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """kube-apiserver with the options that both support."""
    if problem := missing_programs():
        pytest.skip(problem)
    flags = [f"--encryption-provider-config={_encryption_config(tmp_path_factory.mktemp('upstream'), _UPSTREAM)}"]
    if minor_version() < 36:
        disabled = ",".join(f"{version}=false" for version in _NOT_KNOWN)
        flags += ["--feature-gates=APIPriorityAndFairness=false", f"--runtime-config={disabled}"]
    cluster = RealCluster(flags)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
async def api(env: Env, kube_apiserver: RealCluster, tmp_path: Path) -> AsyncIterator[Api]:
    """Our server, on the same etcd."""
    options = EtcdOptions(servers=(kube_apiserver.etcd_url,), compaction_interval=0)
    config = _encryption_config(tmp_path, _PILOTHOUSE)
    encryption = OpenedEncryption(env, str(config), reload=False, server_id="").at_rest
    store = EtcdStore.open(env, options, KeyLayout(), ObjectCodec(), encryption=encryption)
    api = Api(env, ServerOptions(service_range="10.0.0.0/16"), store=store)
    async with running(api):
        yield api


async def _in_etcd(api: Api, resource: str, name: str, namespace: str = "default") -> bytes:
    """What etcd has of an object."""
    store = api.store
    assert isinstance(store, EtcdStore)
    key = f"/registry/{resource}/{namespace}/{name}".encode()
    answer = await store.client.range(messages.RangeRequest(key=key))
    return bytes(answer.kvs[0].value)


@pytest.mark.parametrize(("resource", "provider"), [*_ENCRYPTED.items(), ("limitranges", "")])
async def test_servers_decrypt_each_others_values(
    api: Api, kube_apiserver: RealCluster, resource: str, provider: str
) -> None:
    path, prefix = f"/api/v1/namespaces/default/{resource}", f"k8s:enc:{provider}:v1:" if provider else "k8s\0"

    async def upstream_request(method: str, target: str, body: Any = None) -> Any:
        status, answer = await asyncio.to_thread(kube_apiserver.try_request, method, target, body)
        assert status < 300, answer
        return answer

    created = await api.create(path, {"metadata": {"name": "pilothouse", "labels": {"a": "b"}}})
    assert (await _in_etcd(api, resource, "pilothouse")).startswith(f"{prefix}{'two:' if provider else ''}".encode())
    assert (await upstream_request("GET", f"{path}/pilothouse"))["metadata"]["uid"] == created["metadata"]["uid"]
    await upstream_request("POST", path, {"metadata": {"name": "upstream", "labels": {"a": "b"}}})
    raw = await _in_etcd(api, resource, "upstream")
    assert raw.startswith(f"{prefix}{'one:' if provider else ''}".encode())
    read = await api.get(f"{path}/upstream")
    assert read.meta["labels"] == {"a": "b"}
    # What is encrypted with another key than the first one is written again, though nothing changes; and only then.
    replaced = await api.put(f"{path}/upstream", read.body)
    again = await api.put(f"{path}/upstream", replaced.body)
    assert (replaced.meta["resourceVersion"] == read.meta["resourceVersion"]) == (not provider)
    assert again.meta["resourceVersion"] == replaced.meta["resourceVersion"]
    if provider:
        assert (await _in_etcd(api, resource, "upstream")).startswith(f"{prefix}two:".encode())
    assert (await upstream_request("GET", f"{path}/upstream"))["metadata"]["labels"] == {"a": "b"}
    for name in ("pilothouse", "upstream"):
        assert (await api.delete(f"{path}/{name}")).status == 200


async def test_undecryptable_value_has_the_same_error(api: Api, kube_apiserver: RealCluster) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    store = api.store
    assert isinstance(store, EtcdStore)
    await api.create(secrets, {"metadata": {"name": "good"}})
    key = b"/registry/secrets/default/"
    values = {
        b"unknown-key": b"k8s:enc:aescbc:v1:three:" + bytes(32),
        b"unknown-provider": b"k8s:enc:aesgcm:v1:one:" + bytes(32),
        b"short": b"k8s:enc:aescbc:v1:one:" + bytes(5),
        b"uneven": b"k8s:enc:aescbc:v1:one:" + bytes(17),
    }
    try:
        for name, value in values.items():
            await store.client.txn(messages.TxnRequest(success=[messages.put(key + name, value)]), operation="t")
        for path in (*(f"{secrets}/{name.decode()}" for name in values), f"{secrets}/good", secrets):
            status, expected = await asyncio.to_thread(kube_apiserver.try_request, "GET", path)
            read = await api.get(path)
            assert (read.status, read.body.get("message"), read.body.get("reason")) == (
                status,
                expected.get("message"),
                expected.get("reason"),
            ), path
    finally:
        for name in values:
            await store.client.txn(messages.TxnRequest(success=[messages.delete(key + name)]), operation="t")
    await api.delete(f"{secrets}/good")


def _path(info: ResourceInfo, namespace: str) -> str:
    root = f"/apis/{info.api_version}" if info.group else "/api/v1"
    return f"{root}/namespaces/{namespace}/{info.resource}" if info.namespaced else f"{root}/{info.resource}"


def _bodies() -> list[tuple[ResourceInfo, dict[str, Any]]]:
    infos = {(info.api_version, info.kind): info for info in built_in()}
    result = []
    for value in json.loads(_BODIES.read_text()).values():
        body = value["sent"]
        info = infos.get((body["apiVersion"], body["kind"]))
        if info is not None and body.get("metadata", {}).get("name"):
            result.append((info, body))
    return result


def _serves(kube_apiserver: RealCluster, info: ResourceInfo) -> bool:
    root = f"/apis/{info.api_version}" if info.group else "/api/v1"
    try:
        return any(resource["name"] == info.resource for resource in kube_apiserver.request("GET", root)["resources"])
    except RequestFailed:
        return False


def _differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Fields of upstream's response that are missing or different here."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            difference
            for name, value in expected.items()
            if name not in ("managedFields", "creationTimestamp") or value is not None
            if name != "managedFields"
            for difference in (
                _differences(value, actual[name], f"{path}.{name}")
                if name in actual
                else ([] if value in (None, [], {}, "", 0, False) else [f"{path}.{name}: only upstream: {value!r}"])
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return [
            difference
            for at, (one, other) in enumerate(zip(expected, actual, strict=True))
            for difference in _differences(one, other, f"{path}[{at}]")
        ]
    return [] if expected == actual else [f"{path}: {expected!r} / {actual!r}"]


async def test_every_common_kind_is_read_by_both_servers(api: Api, kube_apiserver: RealCluster) -> None:
    shared, kinds = set(), []
    for direction in ("pilothouse", "upstream"):
        namespace = f"both-{direction}"
        assert (await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})).status == 201
        for info, body in _bodies():
            path, name = _path(info, namespace), body["metadata"]["name"]
            if not await asyncio.to_thread(_serves, kube_apiserver, info):
                continue
            label = f"{direction}: {info.kind} {name}"
            if direction == "pilothouse":
                created = await api.post(path, body)
                if created.status == 409 or created.status == 422:
                    continue
                assert created.status == 201, (label, created.text)
            else:
                status, expected = await asyncio.to_thread(kube_apiserver.try_request, "POST", path, body)
                if status in (400, 409, 422):
                    continue  # older releases have other rules
                assert status == 201, (label, expected)
            # Controllers of both change some of them once more.
            for _ in range(20):
                status, expected = await asyncio.to_thread(kube_apiserver.try_request, "GET", f"{path}/{name}")
                assert status == 200, (label, expected)
                read = await api.get(f"{path}/{name}")
                assert read.status == 200, (label, read.text)
                actual = read.body
                if expected["metadata"]["resourceVersion"] == actual["metadata"]["resourceVersion"]:
                    break
                await asyncio.sleep(0.1)
            kinds += [f"{label}: {difference}" for difference in _differences(expected, actual)]
            shared.add(info.kind)
            if not info.namespaced:
                await api.delete(f"{path}/{name}")
    assert not kinds, "\n".join(kinds)
    assert len(shared) > 35, sorted(shared)


@pytest.mark.real_loop(timeout=1200)
@pytest.mark.timeout(1300)
async def test_lists_agree_under_mixed_load(
    api: Api, kube_apiserver: RealCluster, soak: bool, soak_minutes: float
) -> None:
    """Creates, changes and deletions at both; both list the same at revisions in between. With --soak for minutes."""
    rng = random.Random(7)
    lists: list[tuple[str, Any]] = []

    async def pilothouse_write(step: int) -> None:
        name = f"m{rng.randrange(12)}"
        match step % 3:
            case 0:
                await api.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"by": "pilothouse"}})
            case 1:
                await api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"step": str(step)}})
            case _:
                await api.delete(f"{CONFIG_MAPS}/{name}")

    def upstream_write(step: int) -> None:
        name = f"m{rng.randrange(12)}"
        if step % 2:
            kube_apiserver.try_request("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": {"by": "upstream"}})
        else:
            kube_apiserver.try_request("DELETE", f"{CONFIG_MAPS}/{name}")

    async def compare() -> None:
        for revision, items in lists:
            target = f"{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact&limit=500"
            status, expected = await asyncio.to_thread(kube_apiserver.try_request, "GET", target)
            assert status == 200, expected
            assert [_comparable(item) for item in expected["items"]] == [_comparable(item) for item in items], revision
            again = await api.get(target)
            assert [_comparable(item) for item in again.body["items"]] == [_comparable(item) for item in items]
        lists.clear()

    until = time.monotonic() + soak_minutes * 60 if soak else 0.0
    step = compared = 0
    while step < 120 or time.monotonic() < until:
        await asyncio.gather(
            *(pilothouse_write(step + more) for more in range(3)), asyncio.to_thread(upstream_write, step)
        )
        if step % 10 == 0:
            listed = await api.get(CONFIG_MAPS)
            lists.append((listed.meta["resourceVersion"], listed.body["items"]))
        if step % 100 == 99:
            compared += len(lists)
            await compare()
        step += 1
    await compare()
    assert compared >= step // 20


def _comparable(item: Any) -> Any:
    meta = item["metadata"]
    return meta["name"], meta["uid"], meta["resourceVersion"], item.get("data")


async def test_node_ports_and_addresses_are_unique_across_servers(api: Api, kube_apiserver: RealCluster) -> None:
    services = "/api/v1/namespaces/default/services"

    def body(name: str, **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}], **spec}}

    async def local(name: str) -> Any:
        answer = await api.post(services, body(name))
        assert answer.status == 201, answer.text
        return answer.body

    async def upstream(name: str) -> Any:
        status, response = await asyncio.to_thread(kube_apiserver.try_request, "POST", services, body(name))
        assert status == 201, response
        return response

    responses = await asyncio.gather(*(one(f"s{at}-{one.__name__}") for at in range(10) for one in (local, upstream)))
    ports = [created_service["spec"]["ports"][0]["nodePort"] for created_service in responses]
    assert len(set(ports)) == 20
    assert len({created_service["spec"]["clusterIP"] for created_service in responses}) == 20
    port = responses[0]["spec"]["ports"][0]["nodePort"]
    status, refused = await asyncio.to_thread(
        kube_apiserver.try_request, "POST", services, body("again", ports=[{"port": 80, "nodePort": port}])
    )
    assert (status, "already allocated" in refused["message"]) == (422, True)
    other_port = responses[1]["spec"]["ports"][0]["nodePort"]
    answer = await api.post(services, body("again", ports=[{"port": 80, "nodePort": other_port}]))
    assert answer.status == 422, answer.text
    for item in responses:
        await api.delete(f"{services}/{item['metadata']['name']}")
    status, conflicting_service = await asyncio.to_thread(
        kube_apiserver.try_request, "POST", services, body("again", ports=[{"port": 80, "nodePort": port}])
    )
    assert status == 201, conflicting_service
