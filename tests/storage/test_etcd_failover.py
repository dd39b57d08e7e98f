"""The etcd store when it changes the member under load."""

import asyncio
from typing import Any, cast

import pytest
from tests.conformance.stores import PlainCodec, PlainKeys, put
from tests.etcd import shared_etcd
from tests.robustness.network import HELD, OPEN, Network

from pilothouse.env import Env
from pilothouse.storage import StoreUnavailable
from pilothouse.storage.etcd import client as etcd_client
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.follower import Follower
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=30)]


async def test_watch_continues_after_a_member_change(env: Env) -> None:
    """A request fails on a member with an open connection that has lost the others: the watch must continue at the next
    member."""
    etcd = shared_etcd()
    urls = (etcd.url, etcd.url.replace("127.0.0.1", "localhost"))
    store = EtcdStore.open(env, EtcdOptions(servers=urls, compaction_interval=0), PlainKeys(etcd.root()), PlainCodec())
    try:
        watcher = store.watch("/pods/", store.revision)
        await put(store, "/pods/default/a")
        for name in ("b", "c"):
            before = store.client.endpoint
            store.client.fail_over(before)
            assert store.client.endpoint != before
            async with asyncio.timeout(5):
                await put(store, f"/pods/default/{name}")
        observed: list[str] = []
        async with asyncio.timeout(5):
            while len(observed) < 3:
                observed += [change.key.rpartition("/")[2] for change in await anext(watcher)]
        assert observed == ["a", "b", "c"]
    finally:
        await store.close()


async def test_hanging_member_is_replaced(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests sent to it have an unknown outcome; the next ones use another member immediately."""
    etcd = shared_etcd()
    with Network() as network:
        through = f"http://127.0.0.1:{network.connect('member', etcd.port)}"
        options = EtcdOptions(servers=(through, etcd.url), compaction_interval=0)
        store = EtcdStore.open(env, options, PlainKeys(etcd.root()), PlainCodec())
        try:
            await put(store, "/pods/default/a")
            monkeypatch.setattr(etcd_client, "REQUEST_TIMEOUT", 0.3)
            network.set(["member"], HELD)
            with pytest.raises(StoreUnavailable, match="DeadlineExceeded"):
                await put(store, "/pods/default/b")
            assert store.client.endpoint.url == etcd.url
            async with asyncio.timeout(5):
                await store.catch_up()
                await put(store, "/pods/default/c")
        finally:
            await store.close()


async def test_pending_requests_of_a_replaced_member_are_answered(env: Env) -> None:
    """Without another member, a request that takes too long, such as a health check, replaces the connection; requests
    on the earlier one still get their responses."""
    etcd = shared_etcd()
    with Network() as network:
        through = f"http://127.0.0.1:{network.connect('member', etcd.port)}"
        options = EtcdOptions(servers=(through,), compaction_interval=0)
        store = EtcdStore.open(env, options, PlainKeys(etcd.root()), PlainCodec())
        try:
            await put(store, "/pods/default/a")
            network.set(["member"], HELD)
            writing = asyncio.ensure_future(put(store, "/pods/default/b"))
            with pytest.raises(etcd_client.EtcdError, match="DeadlineExceeded"):
                await store.client.range(messages.RangeRequest(key=b"/health"), timeout=0.1)
            network.set(["member"], OPEN)
            async with asyncio.timeout(5):
                await writing
                await put(store, "/pods/default/c")
        finally:
            await store.close()


async def _receive(_events: list[Any]) -> int:
    return 0


async def test_stream_closed_before_use_ends_the_watch() -> None:
    """gRPC then raises an error about the state of the call, which must not end the follower."""
    client = etcd_client.EtcdClient(EtcdOptions(servers=("http://127.0.0.1:1",)))
    stream = client.watch()
    await stream.code()

    class Client:
        def watch(self) -> Any:
            return stream

    follower = Follower(cast(etcd_client.EtcdClient, Client()), b"/t/", _receive, lambda _revision: None)
    with pytest.raises(etcd_client.EtcdError, match="code = Unavailable"):
        await follower.follow(1)
    await client.close()


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("3.3.27", False),
        ("3.4.30", False),
        ("3.4.31", True),
        ("3.5.0", False),
        ("3.5.12", False),
        ("3.5.13", True),
        ("3.6.0-rc.1", True),
        ("", True),
        ("not provided", True),
    ],
)
def test_etcd_versions_with_broken_progress_are_rejected(version: str, supported: bool) -> None:
    assert etcd_client.is_supported(version) is supported


async def test_too_old_etcd_is_rejected(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    etcd = shared_etcd()
    monkeypatch.setattr(etcd_client, "is_supported", lambda _version: False)
    with pytest.raises(StoreUnavailable, match=r"etcd v3\.\d+\.\d+ at http.* is too old: .* v3\.5\.13"):
        EtcdStore.open(env, EtcdOptions(servers=(etcd.url,)), PlainKeys(etcd.root()), PlainCodec())
