"""Values of other servers or programs under keys that no API serves: master leases and allocation ranges."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.apiserver.api import Api

from pilothouse.apiserver.controllers.master_leases import LeaseReconciler
from pilothouse.apiserver.registry.core.services.range_allocations import ADDRESSES, NODE_PORTS, SharedRanges
from pilothouse.apiserver.storage_codec.keys import MASTER_LEASES
from pilothouse.env import Env

BROKEN = (b"", b"garbage", b"\xff", b"[]", b"[" * 5000, b'{"subsets":7}')


async def write(api: Api, key: str, value: bytes) -> None:
    await api.server.core.commit(api.store.stage(key, lambda _revision: value, expected=0))


@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_undecodable_leases_are_ignored(env: Env) -> None:
    api = Api(env)
    for number, value in enumerate(BROKEN):
        await write(api, f"{MASTER_LEASES}broken-{number}", value)
    for address in ("10.1.0.1", "no address"):
        lease = {"subsets": [{"addresses": [{"ip": address}]}]}
        await write(api, f"{MASTER_LEASES}{address}", msgspec.json.encode(lease))
    staged = LeaseReconciler(api.server.core, "10.1.0.1", 6443)._stage_endpoints()
    assert staged is not None
    await api.server.core.commit(staged)
    obj = (await api.get("/api/v1/namespaces/default/endpoints/kubernetes")).body
    assert [item["ip"] for item in obj["subsets"][0]["addresses"]] == ["10.1.0.1"]


async def test_deleted_endpoint_slice_is_recreated_from_the_endpoints(env: Env) -> None:
    """Which may have the port of another server: only its own first look sets that (``lease.go``, v1.36)."""
    api = Api(env)
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"

    async def alone(port: int, seconds: float) -> None:
        running = asyncio.ensure_future(LeaseReconciler(api.server.core, "10.1.0.1", port).run())
        await asyncio.sleep(seconds)
        running.cancel()

    first = asyncio.ensure_future(alone(6443, 30))
    await asyncio.sleep(5)
    await alone(7443, 1)
    before = (await api.get(path)).body
    assert before["ports"][0]["port"] == 7443
    assert (await api.delete(path)).status == 200
    await asyncio.sleep(10)
    after = (await api.get(path)).body
    assert (after["endpoints"], after["ports"]) == (before["endpoints"], before["ports"])
    await first


RANGES = (*BROKEN, b'{"range":"::/0","data":"!"}', b'{"range":"1-2","data":"AQ"}')


@pytest.mark.parametrize("value", RANGES, ids=range(len(RANGES)))
@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_undecodable_allocation_ranges_are_empty(env: Env, value: bytes) -> None:
    api = Api(env)
    for key in (ADDRESSES, NODE_PORTS):
        await write(api, key, value)
    ranges = SharedRanges(api.store, range(30000, 32768))
    assert not ranges.has_port(30000)
    assert not ranges.has_address("fd00::1")
    staged: Any = ranges.stage((), ("fd00::1",), (), (30001,))
    await api.server.core.commit(staged)
    assert ranges.has_port(30001)
