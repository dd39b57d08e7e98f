"""``--etcd-servers-overrides``: resources in a separate etcd."""

import asyncio
import base64
import contextlib
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Api, pod
from tests.apiserver.shared_store.servers import config_map, running
from tests.etcd import Etcd, shared_etcd

from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.env import Env
from pilothouse.plane.etcd_store import open_store
from pilothouse.storage import Retention
from pilothouse.storage.etcd.options import EtcdOptions, parse_overrides
from pilothouse.storage.etcd.routed import RoutedStore

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]

SECRETS = "/api/v1/namespaces/default/secrets"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


class Two:
    """The etcd of most resources, and that of some."""

    def __init__(self, other: Etcd) -> None:
        self.default, self.other = shared_etcd(), other
        self.root = self.default.root()

    def options(self, *resources: str) -> EtcdOptions:
        overrides = parse_overrides([f"{resource}#{self.other.url}" for resource in resources])
        return EtcdOptions(servers=(self.default.url,), overrides=overrides, prefix=self.root, compaction_interval=0)

    async def keys(self) -> tuple[set[str], set[str]]:
        """What either has, by the folder of its keys."""
        default, other = [await asyncio.to_thread(_folders, item, self.root) for item in (self.default, self.other)]
        return default, other


def _folders(etcd: Etcd, root: str) -> set[str]:
    begin, end = (base64.b64encode(text.encode()).decode() for text in (f"{root}/", f"{root}0"))
    body = json.dumps({"key": begin, "range_end": end, "keys_only": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{etcd.url}/v3/kv/range", body), timeout=10) as answer:
        pairs = json.loads(answer.read()).get("kvs", ())
    return {base64.b64decode(pair["key"]).decode().removeprefix(root).split("/")[1] for pair in pairs}


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    other = Etcd()
    await asyncio.to_thread(other.start)
    try:
        yield Two(other)
    finally:
        other.stop()


@contextlib.asynccontextmanager
async def _servers(env: Env, two: Two, *resources: str, count: int = 1) -> AsyncIterator[list[Api]]:
    result = [Api(env, store=open_store(env, two.options(*resources), Retention())) for _ in range(count)]
    async with running(*result):
        yield result


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def _revision(body: dict[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


async def test_overridden_resource_is_stored_in_its_own_etcd(env: Env, two: Two) -> None:
    async with _servers(env, two, "/configmaps", "apps/*", "networking.k8s.io/nothing") as (api,):
        assert isinstance(api.store, RoutedStore)
        created = await api.create(CONFIG_MAPS, config_map("a", x="1"))
        await api.create(DEPLOYMENTS, _deployment("d"))
        await api.create(SECRETS, {"metadata": {"name": "s"}})
        default, other = await two.keys()
        assert other == {"configmaps", "deployments"}
        assert {"secrets", "namespaces", "services"} <= default
        assert not default & other
        # Revisions are those of the etcd that stores the resource.
        listed = (await api.get(CONFIG_MAPS)).body
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        assert _revision(listed) == _revision(created) + 1, "the Deployment was written since"
        assert (
            _revision((await api.get(SECRETS)).body) == api.store.store_for("/secrets/").revision != _revision(listed)
        )
        # Watches, update preconditions and list pages use this revision.
        events = await api.watch(f"{CONFIG_MAPS}?resourceVersion={_revision(listed)}")
        changed = await api.put(f"{CONFIG_MAPS}/a", {**created, "data": {"x": "2"}})
        assert changed.status == 200
        assert (await api.put(f"{CONFIG_MAPS}/a", {**created, "data": {"x": "3"}})).status == 409
        await api.create(CONFIG_MAPS, config_map("b"))
        assert (await api.delete(f"{CONFIG_MAPS}/a")).status == 200
        assert [event[:2] for event in await events.take(3)] == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        await api.create(CONFIG_MAPS, config_map("c"))
        first = (await api.get(f"{CONFIG_MAPS}?limit=1")).body
        await api.create(CONFIG_MAPS, config_map("d"))
        second = (await api.get(f"{CONFIG_MAPS}?limit=5&continue={first['metadata']['continue']}")).body
        assert [item["metadata"]["name"] for item in (*first["items"], *second["items"])] == ["b", "c"]
        late = await api.get(f"{CONFIG_MAPS}?resourceVersion={_revision(second)}&resourceVersionMatch=Exact")
        assert len(late.body["items"]) == 2


async def test_several_servers_share_both_etcds(env: Env, two: Two) -> None:
    async with _servers(env, two, "/configmaps", count=2) as (one, other):
        await one.create(CONFIG_MAPS, config_map("a", x="1"))
        obj = (await other.get(f"{CONFIG_MAPS}/a")).body
        assert obj["data"] == {"x": "1"}
        assert (await other.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "2"}})).status == 200
        assert (await one.get(f"{CONFIG_MAPS}/a")).body["data"] == {"x": "2"}
        assert (await one.put(f"{CONFIG_MAPS}/a", {**obj, "data": {}})).status == 409
        assert (await one.post(CONFIG_MAPS, config_map("a"))).status == 409


async def test_related_writes_are_stored_in_their_own_etcd(env: Env, two: Two) -> None:
    """Ranges of addresses with the Services, quotas by themselves."""
    async with _servers(env, two, "/services", "/pods") as (api,):
        service = await api.create(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
        assert service["spec"]["clusterIP"]
        hard = {"pods": "1"}
        quota = await api.create(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await api.put(f"{QUOTAS}/q/status", {**quota, "status": {"hard": hard, "used": {"pods": "0"}}})
        assert (await api.post(PODS, pod("p"))).status == 201
        assert (await api.get(f"{QUOTAS}/q")).body["status"]["used"] == {"pods": "1"}
        refused = await api.post(PODS, pod("more"))
        assert (refused.status, "exceeded quota: q" in refused.message) == (403, True), refused.text
        default, other = await two.keys()
        assert {"pods", "services", "ranges"} <= other
        assert "resourcequotas" in default
        assert not {"pods", "ranges"} & default


async def test_objects_in_the_default_etcd_are_not_served(env: Env, two: Two) -> None:
    """As with kube-apiserver, nothing is moved."""
    async with _servers(env, two) as (before,):
        await before.create(CONFIG_MAPS, config_map("left"))
    async with _servers(env, two, "/configmaps") as (api,):
        assert (await api.get(CONFIG_MAPS)).body["items"] == []
        await api.create(CONFIG_MAPS, config_map("left"))
    async with _servers(env, two) as (again,):
        assert len((await again.get(CONFIG_MAPS)).body["items"]) == 1


async def test_unavailable_override_fails_its_resources_and_health_checks(env: Env, two: Two) -> None:
    async with _servers(env, two, "/configmaps") as (api,):
        chain = HandlerChain(api.server, address="127.0.0.1:6443")
        await chain.start()

        async def checks(path: str) -> dict[str, bool]:
            text = (await api.get(f"/{path}?verbose")).text
            return {line[3:].split()[0]: line.startswith("[+]") for line in text.splitlines() if "]etcd" in line}

        names = ("etcd", "etcd-override-0")
        well = {"etcd": True, "etcd-readiness": True, "etcd-override-0": True, "etcd-override-readiness-0": True}
        assert await checks("readyz") == well
        assert await checks("healthz") == await checks("livez") == dict.fromkeys(names, True)
        two.other.kill()
        async with asyncio.timeout(20):
            while (await checks("readyz"))["etcd-override-0"]:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.2)
        assert (await checks("readyz"))["etcd"]
        failed = await api.get(CONFIG_MAPS)
        assert failed.status == 500
        assert failed.message.startswith("rpc error: code = Unavailable")
        assert (await api.post(CONFIG_MAPS, config_map("lost"))).status == 500
        assert (await api.post(SECRETS, {"metadata": {"name": "s"}})).status == 201
        assert (await api.get(SECRETS)).status == 200
        await asyncio.to_thread(two.other.start)
        async with asyncio.timeout(20):
            while (await api.get(CONFIG_MAPS)).status != 200:  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(0.1)
        assert (await api.post(CONFIG_MAPS, config_map("after"))).status == 201
