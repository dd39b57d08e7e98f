"""When an operator is ready."""

import asyncio
from typing import Any

from tests.operator.test_admission import RANGES
from tests.operator.test_conversion import PAGES
from tests.tables import cases

from pilothouse.client.interceptor import Rule, delay
from pilothouse.env import Env
from pilothouse.operator import App, CustomResource, Health, Settings
from pilothouse.testing import async_plane


def test_readiness_names_missing_parts() -> None:
    health, done = Health(), {"caches": False, "webhooks": False}
    assert health.waits_for() == ("start",)
    health.expect({name: lambda name=name: done[name] for name in done})  # type: ignore[misc]
    assert health.waits_for() == ("caches", "webhooks")
    done["webhooks"] = True
    assert health.waits_for() == ("caches",)
    health.divide("caches", {"cache of pods": lambda: False, "cache of nodes": lambda: True})
    health.divide("webhooks", {"more": lambda: False})
    assert health.waits_for() == ("cache of pods",)
    health.replace("cache of pods", lambda: True)
    assert health.waits_for() == ()
    done["caches"] = done["webhooks"] = False
    health.replace("caches", lambda: False)
    health.expect({"more": lambda: False})
    assert health.waits_for() == (), "what was ready stays ready"


async def _sync(_obj: Any, _ctx: Any) -> None: ...


@cases(
    "resource, settings, waits",
    {
        "until its caches are filled": (RANGES, Settings(), True),
        "all namespaces": (RANGES, Settings(namespaces=("default", "kube-system")), True),
        "not while another instance leads": (RANGES, Settings(leader_elect=True), False),
        "not for caches of kinds with conversion webhooks": (PAGES, Settings(), False),
    },
)
async def test_an_operator_is_ready(env: Env, resource: CustomResource[Any], settings: Settings, waits: bool) -> None:
    leading, app, health = App("things"), App("things"), Health()
    for item in (leading, app):
        item.controller(resource)(_sync)
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        await app.install(cluster.client)

        async def lead(client: Any, env: Env) -> None:
            await leading.run(client, env, Settings(leader_elect=True))

        async def run(client: Any, env: Env) -> None:
            await app.run(client, env, settings, health)

        slow = Rule(delay(30.0, 30.0), resource=resource.kind.group_resource)
        async with cluster.running(lead):
            await asyncio.sleep(10)
            async with cluster.running(run, faults=[slow]):
                await asyncio.sleep(10)
                cache = f"cache of {resource.kind.group_resource}"
                assert health.waits_for() == ((cache,) if waits else ()), "the cache of each kind has a name"
                await asyncio.sleep(60)
                assert health.waits_for() == ()
