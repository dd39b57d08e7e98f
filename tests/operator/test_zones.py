"""``examples/zone_operator.py``: something outside of the cluster, with credentials, versions and a webhook."""

import asyncio
import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
from tests.programs import ROOT

from pilothouse.client.errors import ApiError, Invalid
from pilothouse.env import Env
from pilothouse.operator import App
from pilothouse.testing import AsyncCluster, State, async_plane, explore

V1, V1ALPHA1 = ("dns.example.com/v1", "Zone"), ("dns.example.com/v1alpha1", "Zone")
ACCOUNT = "system:serviceaccount:default:zone-operator"
TOKEN = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "provider"}, "stringData": {"token": "secret\n"}}


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("zone_operator", ROOT / "examples" / "zone_operator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["zone_operator"] = module
    spec.loader.exec_module(module)
    return module


class Provider:
    """The provider's zones, and its injected errors."""

    def __init__(self, rejected: type[Exception]) -> None:
        self.zones: dict[str, int] = {}
        self.down = False
        self._rejected = rejected

    async def put(self, token: str, domain: str, ttl_seconds: int) -> str:
        self._check(token)
        self.zones[domain] = ttl_seconds
        return f"id-{domain}"

    async def delete(self, token: str, domain: str) -> None:
        self._check(token)
        self.zones.pop(domain, None)

    def _check(self, token: str) -> None:
        if self.down:
            raise ConnectionError("the provider is down")
        if token != "secret":
            raise self._rejected("401 Unauthorized")


@pytest.fixture
def provider(example: ModuleType) -> Provider:
    return Provider(example.Rejected)


@pytest.fixture
def app(example: ModuleType, provider: Provider) -> App:
    result: App = example.operator(provider)
    return result


def zone(name: str, domain: str = "", *, version: str = "v1", **spec: Any) -> dict[str, Any]:
    credentials = {"namespace": "default", "name": "provider"}
    whole = {"domain": domain or f"{name}.example", "credentials": credentials, **spec}
    return {"apiVersion": f"dns.example.com/{version}", "kind": "Zone", "metadata": {"name": name}, "spec": whole}


async def reason(cluster: AsyncCluster, name: str) -> str:
    obj = await cluster.get(*V1, name)
    (ready,) = obj["status"]["conditions"]
    return str(ready["reason"])


async def test_the_life_of_a_zone(env: Env, app: App, provider: Provider) -> None:
    async with async_plane(env=env, nodes=0, authorization="RBAC") as cluster, cluster.running(app, as_=ACCOUNT):
        await cluster.create(zone("a", version="v1alpha1", ttl="90m"))
        await asyncio.sleep(1)
        assert await reason(cluster, "a") == "NoCredentials"
        await cluster.create({**TOKEN, "stringData": {"token": "expired"}})
        await asyncio.sleep(1)
        assert await reason(cluster, "a") == "Rejected"
        provider.down = True
        await cluster.patch("v1", "Secret", "provider", {"stringData": {"token": "secret"}})
        await asyncio.sleep(1)
        assert await reason(cluster, "a") == "Unreachable"
        provider.down = False
        await asyncio.sleep(60)
        assert (await reason(cluster, "a"), provider.zones) == ("Synced", {"a.example": 5400})
        assert (await cluster.get(*V1, "a"))["spec"]["ttlSeconds"] == 5400
        # What others do at the provider is undone, and what is changed in the older version arrives.
        provider.zones.clear()
        await asyncio.sleep(601)
        assert provider.zones == {"a.example": 5400}
        await cluster.patch(*V1ALPHA1, "a", {"spec": {"ttl": "2h"}})
        await asyncio.sleep(1)
        assert provider.zones == {"a.example": 7200}
        await cluster.patch(*V1, "a", {"metadata": {"labels": {"dns.example.com/paused": ""}}})
        await cluster.patch(*V1, "a", {"spec": {"ttlSeconds": 60}})
        await asyncio.sleep(700)
        assert (await reason(cluster, "a"), provider.zones) == ("Paused", {"a.example": 7200})
        assert app.metrics.value("dns_calls_total", "put", "rejected") == 1
        await cluster.delete("v1", "Secret", "provider")
        await cluster.delete(*V1, "a")
        await asyncio.sleep(60)
        assert provider.zones, "it cannot be deleted without credentials, and must not be forgotten"
        await cluster.create(TOKEN)
        await asyncio.sleep(1)
        assert provider.zones == {}
        assert await cluster.list(*V1) == []


async def test_a_domain_belongs_to_one_zone(env: Env, app: App, provider: Provider) -> None:
    async with async_plane(env=env, nodes=0, authorization="RBAC") as cluster, cluster.running(app, as_=ACCOUNT):
        await cluster.create(TOKEN)
        created = await asyncio.gather(
            *(cluster.create(zone(name, "same.example", ttlSeconds=ttl)) for name, ttl in (("a", 1), ("b", 2))),
            return_exceptions=True,
        )
        assert not any(isinstance(item, BaseException) for item in created), "the webhook sees none of the two"
        await asyncio.sleep(1)
        assert [await reason(cluster, name) for name in ("a", "b")] == ["Synced", "DomainTaken"]
        for version in ("v1", "v1alpha1"):
            with pytest.raises(Invalid, match="the domain is taken") as denied:
                await cluster.create(zone("c", "same.example", version=version))
            assert denied.value.status.details is not None
            assert [cause.field for cause in denied.value.status.details.causes] == ["spec.domain"]
        with pytest.raises(Invalid, match="is immutable"):
            await cluster.patch(*V1, "a", {"spec": {"domain": "other.example"}})
        await cluster.delete(*V1, "a")
        await asyncio.sleep(601)
        assert (await reason(cluster, "b"), provider.zones) == ("Synced", {"same.example": 2})


@pytest.mark.parametrize("ttl", [1, 59, 60, 90, 3600, 5400, 86400, 10**8 + 1])
def test_conversion_loses_nothing(example: ModuleType, ttl: int) -> None:
    spec = example.ZoneSpec(domain="a.example", credentials=example.Credentials("ns", "name"), ttl_seconds=ttl)
    assert example.to_v1(example.to_v1alpha1(example.Zone(spec=spec))).spec == spec


async def changes(cluster: AsyncCluster) -> None:
    await cluster.create(TOKEN)
    for number in range(4):
        await cluster.create(zone(f"zone-{number}", version=("v1", "v1alpha1")[number % 2]))
        await asyncio.sleep(5)
    await cluster.patch(*V1, "zone-0", {"spec": {"ttlSeconds": 60}})
    with pytest.raises(ApiError):
        await cluster.create(zone("zone-5", "zone-1.example"))
    await cluster.delete(*V1ALPHA1, "zone-3")


def test_no_zone_is_lost_or_left_under_faults(example: ModuleType, seeds: range) -> None:
    provider = Provider(example.Rejected)

    async def scenario(cluster: AsyncCluster) -> None:
        provider.zones.clear()  # of the run before
        await changes(cluster)

    def all_is_there(state: State) -> None:
        if state.converged:
            result = {obj["spec"]["domain"]: obj["spec"]["ttlSeconds"] for obj in state.list(*V1)}
            assert provider.zones == result
            assert len(result) == 3

    explore(example.operator(provider), scenario, [all_is_there], seeds=seeds, nodes=0, controllers=())
