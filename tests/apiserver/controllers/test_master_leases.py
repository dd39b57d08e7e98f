"""What other servers, or whoever writes to their store, leave in the keys that no API shows."""

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


async def test_leases_that_cannot_be_read_are_passed_over(env: Env) -> None:
    api = Api(env)
    for number, value in enumerate(BROKEN):
        await write(api, f"{MASTER_LEASES}broken-{number}", value)
    for address in ("10.1.0.1", "no address"):
        lease = {"subsets": [{"addresses": [{"ip": address}]}]}
        await write(api, f"{MASTER_LEASES}{address}", msgspec.json.encode(lease))
    staged = LeaseReconciler(api.server.core, "10.1.0.1", 6443)._stage_endpoints()
    assert staged is not None
    await api.server.core.commit(staged)
    found = (await api.get("/api/v1/namespaces/default/endpoints/kubernetes")).body
    assert [each["ip"] for each in found["subsets"][0]["addresses"]] == ["10.1.0.1"]


RANGES = (*BROKEN, b'{"range":"::/0","data":"!"}', b'{"range":"1-2","data":"AQ"}')


@pytest.mark.parametrize("value", RANGES, ids=range(len(RANGES)))
async def test_ranges_that_cannot_be_read_have_nothing_taken(env: Env, value: bytes) -> None:
    api = Api(env)
    for key in (ADDRESSES, NODE_PORTS):
        await write(api, key, value)
    ranges = SharedRanges(api.store, range(30000, 32768))
    assert not ranges.has_port(30000)
    assert not ranges.has_address("fd00::1")
    staged: Any = ranges.stage((), ("fd00::1",), (), (30001,))
    await api.server.core.commit(staged)
    assert ranges.has_port(30001)
