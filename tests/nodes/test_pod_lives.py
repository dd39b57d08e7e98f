"""Simulated nodes and the pods bound to them, on the embedded API server."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.nodes import Profile
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

PODS = "/api/v1/namespaces/default/pods"


async def _ask(client: Client, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
    encoded = b"" if body is None else msgspec.json.encode(body)
    response = await client.request(method, path, body=encoded, headers={"content-type": kind})
    return msgspec.json.decode(response.body)


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}}


def _with_nodes(tell: Callable[[Env, Client], Coroutine[Any, Any, None]], profile: Profile | None = None) -> None:
    async def main(env: Env) -> None:
        options = PlaneOptions(nodes=1, manager=None, scheduler=False, profile=profile or Profile())
        plane = Plane(env, MemoryStore(env), options)
        async with TaskGroup("plane") as group:
            group.start(plane.run(), name="plane")
            await plane.wait_ready()
            await tell(env, plane.client())
            group.cancel()

    virtual.run(main)


@pytest.mark.timeout(20)
def test_a_delay_ends_at_whatever_instant_it_began() -> None:
    """A rest of the delay that is too small to move the clock must not be waited for: 47.1 + 7e-15 is 47.1."""

    async def tell(env: Env, client: Client) -> None:
        for number in range(300):
            await asyncio.sleep(env.stream("test").uniform(0.0, 0.7))
            await _ask(client, "POST", PODS, _pod(f"p{number}"))
        await asyncio.sleep(5.0)
        items = (await _ask(client, "GET", PODS))["items"]
        assert {item["status"]["phase"] for item in items} == {"Running"}
        for item in items:
            await asyncio.sleep(env.stream("test").uniform(0.0, 0.7))
            await _ask(client, "DELETE", f"{PODS}/{item['metadata']['name']}")
        await asyncio.sleep(5.0)
        assert (await _ask(client, "GET", PODS))["items"] == []

    _with_nodes(tell, Profile(accept_delay=0.1, start_delay=0.3, ready_delay=0.7, remove_delay=0.3))


def test_a_pod_that_was_ended_before_it_ran_does_not_run() -> None:
    async def tell(_env: Env, client: Client) -> None:
        await _ask(client, "POST", PODS, _pod("p"))
        await asyncio.sleep(0.1)
        await _ask(client, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Failed"}}, "application/merge-patch+json")
        await asyncio.sleep(5.0)
        assert (await _ask(client, "GET", f"{PODS}/p"))["status"]["phase"] == "Failed"

    _with_nodes(tell)
