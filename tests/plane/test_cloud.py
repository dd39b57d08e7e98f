"""A plane in a simulated cloud: Services get load balancers, nodes without machine are deleted."""

import asyncio

import msgspec
from tests.plane.running import running

from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

SERVICES = "/api/v1/namespaces/default/services"


async def send_request(client: Client, method: str, path: str, body: object = None) -> dict[str, object]:
    encoded = b"" if body is None else msgspec.json.encode(body)
    response = await client.request(method, path, body=encoded, headers={"content-type": "application/json"})
    document: dict[str, object] = msgspec.json.decode(response.body)
    return document


async def until_gone(client: Client, path: str) -> None:
    async with asyncio.timeout(60.0):
        while True:
            try:
                await send_request(client, "GET", path)
            except NotFound:
                return
            await asyncio.sleep(0.5)


async def test_services_get_addresses_and_nodes_without_machines_are_deleted(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=2, cloud=True))
    assert plane.cloud is not None
    async with running(plane):
        client = plane.client()
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "ipFamilyPolicy": "SingleStack"}
        await send_request(client, "POST", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        await asyncio.sleep(5.0)
        (balancer,) = plane.cloud.balancers.values()
        assert balancer.nodes == ("node-0", "node-1")
        web = await send_request(client, "GET", f"{SERVICES}/web")
        assert web["status"] == {"loadBalancer": {"ingress": [{"ip": "198.18.0.1", "ipMode": "VIP"}]}}
        await send_request(client, "DELETE", f"{SERVICES}/web")
        await until_gone(client, f"{SERVICES}/web")
        assert plane.cloud.balancers == {}
        annotations = {"simulated.pilothouse.dev/instance": "gone"}
        await send_request(client, "POST", "/api/v1/nodes", {"metadata": {"name": "far", "annotations": annotations}})
        await until_gone(client, "/api/v1/nodes/far")


async def test_without_a_cloud_a_service_waits(env: Env) -> None:
    plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=0))
    async with running(plane):
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await send_request(plane.client(), "POST", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        await asyncio.sleep(60.0)
        web = await send_request(plane.client(), "GET", f"{SERVICES}/web")
        assert web["status"] == {"loadBalancer": {}}
