"""``examples/website_operator.py``, whole, in virtual time."""

import asyncio
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS, EVENTS
from pilothouse.api.wire import Request, Response, Stream, Transport
from pilothouse.apiserver import ApiServer
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Rule, conflict, delay, lose_answer, lose_request
from pilothouse.env import Env, TaskGroup
from pilothouse.operator import Settings
from pilothouse.operator.rights import lease_rules
from pilothouse.storage import MemoryStore
from pilothouse.testing import AsyncCluster, async_plane

WEBSITE = ("example.com/v1", "Website")


def site(name: str, **spec: Any) -> dict[str, Any]:
    body = {"html": "<h1>Hello</h1>", **spec}
    return {"apiVersion": WEBSITE[0], "kind": WEBSITE[1], "metadata": {"name": name}, "spec": body}


def theme(css: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dark"}, "data": {"css": css}}


async def ready(cluster: AsyncCluster, name: str, status: str = "True") -> dict[str, Any]:
    """The Website once its condition Ready has that status for its generation."""
    async with asyncio.timeout(3600):
        while True:
            obj = await cluster.get(*WEBSITE, name)
            for condition in (obj.get("status") or {}).get("conditions") or ():
                if (condition["status"], condition["observedGeneration"]) == (status, obj["metadata"]["generation"]):
                    return obj
            await asyncio.sleep(0.2)


async def test_a_website_is_served_changed_and_deleted(env: Env, example: ModuleType) -> None:
    async with async_plane(env=env) as cluster:
        await example.app.install(cluster.client)
        async with cluster.running(example.app.run):
            await cluster.create(site("home", replicas=2))
            result = await ready(cluster, "home")
            assert result["status"]["readyReplicas"] == 2
            assert result["status"]["observedGeneration"] == result["metadata"]["generation"]
            assert result["metadata"]["finalizers"] == ["example.com/farewell"]
            page = await cluster.get("v1", "ConfigMap", "home-page")
            assert page["data"] == {"index.html": "<style></style><h1>Hello</h1>"}
            assert page["metadata"]["ownerReferences"][0]["name"] == "home"
            assert example.app.metrics.value("websites_published_total", "default") == 1

            await cluster.patch(*WEBSITE, "home", {"spec": {"theme": "dark"}})
            result = await ready(cluster, "home", "False")
            assert result["status"]["conditions"][0]["reason"] == "ThemeMissing"
            await cluster.create(theme("black"))
            await ready(cluster, "home")
            page = await cluster.get("v1", "ConfigMap", "home-page")
            assert page["data"] == {"index.html": "<style>black</style><h1>Hello</h1>"}

            await cluster.delete(*WEBSITE, "home")
            await asyncio.sleep(30)
            for api_version, kind in (WEBSITE, ("apps/v1", "Deployment"), ("v1", "Service")):
                with pytest.raises(NotFound):
                    await cluster.get(api_version, kind, "home")
            reasons = {item.reason for item in (await cluster.client.list(EVENTS, "default")).items}
            assert {"Published", "Unpublished"} <= reasons


async def test_changes_and_deletions_by_others_are_restored(env: Env, example: ModuleType) -> None:
    async with async_plane(env=env) as cluster:
        await example.app.install(cluster.client)
        async with cluster.running(example.app.run):
            await cluster.create(site("home"))
            await ready(cluster, "home")
            await cluster.patch("v1", "ConfigMap", "home-page", {"data": {"index.html": "defaced"}})
            await cluster.delete("v1", "Service", "home")
            await asyncio.sleep(5)
            page = await cluster.get("v1", "ConfigMap", "home-page")
            assert page["data"] == {"index.html": "<style></style><h1>Hello</h1>"}
            assert await cluster.get("v1", "Service", "home")


@cases("count", {"a hundred": 100, "a thousand": pytest.param(1000, marks=pytest.mark.slow)})
async def test_unchanged_websites_cause_no_requests(env: Env, example: ModuleType, count: int, soak: bool) -> None:
    if count == 1000 and not soak:
        pytest.skip("a minute of a processor: --soak")
    async with async_plane(env=env, nodes=10) as cluster:
        await example.app.install(cluster.client)
        counted = Counting(cluster.plane.server.transport("operator", ["system:masters"]))
        settings = Settings(leader_elect=True)
        async with cluster.running(lambda _client, env: example.app.run(Client(counted, env), env, settings)):
            for number in range(count):
                await cluster.create(site(f"site-{number}"))
            for number in range(count):
                await ready(cluster, f"site-{number}")
            await asyncio.sleep(60)
            counted.requests.clear()
            await asyncio.sleep(600)
            # Watches end after minutes and are opened again, and the lease is renewed.
            others = [line for line in counted.requests if "watch=" not in line and "/leases/" not in line]
            assert others == []
            assert counted.requests


async def test_sites_become_ready_although_requests_fail(env: Env, example: ModuleType, seed: int) -> None:
    """Conflicts, lost requests and answers, delays, a lagging API server, and two replicas with leader election."""
    rng = env.stream("test")
    rules = [
        Rule(conflict(), verb="patch", probability=0.05),
        Rule(lose_answer(), verb="patch", probability=0.05),
        Rule(lose_request(), verb="patch", probability=0.05),
        Rule(lose_answer(), verb="create", probability=0.05),
        Rule(delay(0.0, 2.0), probability=0.2),
    ]
    async with async_plane(env=env) as cluster:
        await example.app.install(cluster.client)
        settings = Settings(leader_elect=True)

        async def operator(client: Client, env: Env) -> None:
            await example.app.run(client, env, settings)

        async with cluster.running(operator, faults=rules), cluster.running(operator, faults=rules):
            await cluster.create(theme("black"))
            for number in range(5):
                await cluster.create(site(f"site-{number}", theme="dark", replicas=rng.randrange(1, 3)))
                await asyncio.sleep(rng.random() * 5)
            cluster.lag(3.0)
            for number in range(5):
                await cluster.patch(*WEBSITE, f"site-{number}", {"spec": {"html": "changed"}})
            await cluster.delete(*WEBSITE, "site-0")
            await asyncio.sleep(rng.random() * 10)
            cluster.lag(0.0)
            for number in range(1, 5):
                await ready(cluster, f"site-{number}")
                page = await cluster.get("v1", "ConfigMap", f"site-{number}-page")
                assert page["data"] == {"index.html": "<style>black</style>changed"}
            await asyncio.sleep(60)
            names = [item.metadata.name for item in (await cluster.client.list(CONFIG_MAPS, "default")).items]
            assert sorted(name for name in names if name.endswith("-page")) == [f"site-{n}-page" for n in range(1, 5)]


async def test_the_generated_roles_suffice(env: Env, example: ModuleType) -> None:
    server = ApiServer(env, MemoryStore(env))
    chain = HandlerChain(server, address="", authorization="RBAC")
    await chain.start()
    admin = Client(server.transport("admin", ["system:masters"]), env)
    app, account = example.app, "system:serviceaccount:default:website-operator"
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": account}

    async def grant(scope: str, kind: str, rules: list[dict[str, Any]]) -> None:
        group = "rbac.authorization.k8s.io"
        meta = {"metadata": {"name": app.name}}
        reference = {"apiGroup": group, "kind": kind, "name": app.name}
        for path, body in (
            ("s", {"kind": kind, **meta, "rules": rules}),
            ("bindings", {"kind": f"{kind}Binding", **meta, "roleRef": reference, "subjects": [subject]}),
        ):
            await admin.request(
                "POST",
                f"/apis/{group}/v1/{scope}{kind.lower()}{path}",
                body=msgspec.json.encode({"apiVersion": f"{group}/v1", **body}),
                headers={"content-type": "application/json"},
            )

    await grant("", "ClusterRole", app.rules())
    await grant("namespaces/default/", "Role", lease_rules(app.name))
    counted = Counting(server.transport(account, ["system:serviceaccounts", "system:authenticated"]))
    async with TaskGroup() as group:
        group.start(server.run(), name="api server")
        await app.install(admin)
        group.start(app.run(Client(counted, env), env, Settings(leader_elect=True)), name="operator")
        await admin.create(example.WEBSITES.kind.raw, site("home"), "default")
        await asyncio.sleep(30)
        await admin.delete(example.WEBSITES.kind, "home", "default")
        await asyncio.sleep(30)
        assert (await admin.list(example.WEBSITES.kind)).items == ()
        group.cancel()
    assert counted.forbidden == []


class Counting:
    """A transport that counts requests, and forbidden ones."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.requests: list[str] = []
        self.forbidden: list[str] = []

    async def request(self, request: Request) -> Response:
        line = f"{request.method} {request.target}"
        self.requests.append(line)
        answer = await self._transport.request(request)
        if answer.status == 403:
            self.forbidden.append(f"{line}: {answer.body.decode()}")
        return answer

    async def open(self, request: Request) -> Stream:
        self.requests.append(f"{request.method} {request.target}")
        return await self._transport.open(request)

    async def close(self) -> None:
        await self._transport.close()
