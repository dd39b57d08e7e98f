"""The etcd store when etcd is slow, down, full, compacted, or requires certificates."""

import asyncio
import datetime
import time
from pathlib import Path

import pytest
from tests.conformance.stores import PlainCodec, PlainKeys, put
from tests.etcd import Etcd

from pilothouse.env import Env
from pilothouse.serving.certificates import create_authority, issue_client, issue_server
from pilothouse.storage import StoreUnavailable
from pilothouse.storage.etcd.options import EtcdOptions, endpoints_of
from pilothouse.storage.etcd.store import EtcdStore
from pilothouse.storage.watchers import Watcher

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]


def open_store(env: Env, *urls: str, **more: str | float) -> EtcdStore:
    options = EtcdOptions(servers=urls, compaction_interval=0, **more)  # type: ignore[arg-type]
    return EtcdStore.open(env, options, PlainKeys("/t"), PlainCodec())


async def names_of(watcher: Watcher, count: int) -> list[str]:
    """The names of the next changes."""
    result: list[str] = []
    async with asyncio.timeout(20):
        while len(result) < count:
            result += [change.key.rpartition("/")[2] for change in await anext(watcher)]
    return result


async def test_unreachable_etcd_fails_startup_with_the_reason(env: Env) -> None:
    with pytest.raises(StoreUnavailable, match="code = Unavailable"):
        open_store(env, "http://127.0.0.1:1")


async def test_outage_fails_requests_and_keeps_watches(env: Env) -> None:
    etcd = Etcd().start()
    store = open_store(env, etcd.url)
    try:
        watcher = store.watch("/pods/", store.revision)
        await put(store, "/pods/default/a")
        assert store.is_reachable
        etcd.kill()
        started_at = time.monotonic()
        with pytest.raises(StoreUnavailable, match="code = Unavailable"):
            await put(store, "/pods/default/lost")
        with pytest.raises(StoreUnavailable):
            await store.catch_up()
        assert time.monotonic() - started_at < 10
        assert not store.is_reachable
        assert store.staged("/pods/default/lost") is None
        await asyncio.to_thread(etcd.start)
        async with asyncio.timeout(15):
            while not store.is_reachable:  # noqa: ASYNC110  # there is no notification
                await asyncio.sleep(0.05)
        await put(store, "/pods/default/b")
        assert await names_of(watcher, 2) == ["a", "b"]
    finally:
        await store.close()
        etcd.stop()


async def test_hanging_etcd_is_unhealthy(env: Env) -> None:
    """The watch stays open without events."""
    etcd = Etcd().start()
    store = open_store(env, etcd.url, healthcheck_timeout=0.3, readycheck_timeout=0.1)
    try:
        await put(store, "/pods/default/a")
        first = [asyncio.ensure_future(store.responds("health")) for _ in range(3)]
        assert await asyncio.gather(*first) == [True] * 3, "those that arrive during the first check wait for it"
        with etcd.frozen():
            started_at = time.monotonic()
            assert await store.responds("health"), "the answer of a moment ago"
            await asyncio.sleep(0.2)
            assert not await store.responds("health")
            assert not await store.responds("readiness")
            assert time.monotonic() - started_at < 5
        async with asyncio.timeout(20):
            while not (await store.responds("health") and await store.responds("readiness")):  # noqa: ASYNC110  # polled
                await asyncio.sleep(0.05)
    finally:
        await store.close()
        etcd.stop()


async def test_compaction_during_an_outage_causes_a_relist(env: Env) -> None:
    """Watchers end, since events in between are lost."""
    etcd = Etcd().start()
    store, other = open_store(env, etcd.url), open_store(env, etcd.url)
    try:
        for name in ("kept", "changed", "gone"):
            await put(store, f"/pods/default/{name}")
        watcher = store.watch("/pods/", store.revision)
        for task in store.tasks:
            task.cancel()  # as if it had been cut off
        await asyncio.gather(*store.tasks, return_exceptions=True)
        store.tasks.clear()
        await other.catch_up()
        await put(other, "/pods/default/changed", "new")
        await other.commit(other.stage("/pods/default/gone", None))
        await put(other, "/pods/default/added")
        await other.client.compact(other.revision)
        await put(other, "/pods/default/last")
        store.start()
        await store.catch_up()
        assert {record.key: record.value for record in store.list("/pods/").records} == {
            record.key: record.value for record in other.list("/pods/").records
        }
        assert store.get("/pods/default/gone") is None
        assert store.revision == other.revision
        assert watcher.ended
    finally:
        await store.close()
        await other.close()
        etcd.stop()


async def test_next_member_is_used_when_one_is_down(env: Env) -> None:
    etcd = Etcd().start()
    store = open_store(env, "http://127.0.0.1:1", etcd.url)
    try:
        await put(store, "/pods/default/a")
        assert store.client.endpoint.url == etcd.url
    finally:
        await store.close()
        etcd.stop()


async def test_full_etcd_rejects_writes_and_allows_reads(env: Env) -> None:
    etcd = Etcd("--quota-backend-bytes=1000000").start()
    store = open_store(env, etcd.url)
    try:

        async def fill() -> None:
            for step in range(400):
                await put(store, f"/pods/default/{step}", "x" * 100_000)

        with pytest.raises(StoreUnavailable, match="etcdserver: mvcc: database space exceeded"):
            await fill()
        await store.catch_up()
        assert store.count("/pods/") > 0
    finally:
        await store.close()
        etcd.stop()


async def test_value_over_the_request_limit_is_rejected(env: Env) -> None:
    etcd = Etcd().start()
    store = open_store(env, etcd.url)
    try:
        with pytest.raises(StoreUnavailable, match="request is too large"):
            await put(store, "/pods/default/a", "x" * 1_800_000)
        await put(store, "/pods/default/a")
    finally:
        await store.close()
        etcd.stop()


async def test_tls_with_client_certificates(env: Env, tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = create_authority("etcd-ca", now)
    server, client = issue_server(authority, ["127.0.0.1"], now), issue_client(authority, "apiserver", [], now)
    for name, content in (
        ("ca.crt", authority.certificate),
        ("server.crt", server.certificate),
        ("server.key", server.key),
        ("client.crt", client.certificate),
        ("client.key", client.key),
    ):
        (tmp_path / name).write_bytes(content)
    etcd = Etcd(
        f"--cert-file={tmp_path / 'server.crt'}",
        f"--key-file={tmp_path / 'server.key'}",
        f"--trusted-ca-file={tmp_path / 'ca.crt'}",
        "--client-cert-auth=true",
        scheme="https",
        ca=tmp_path,
    ).start()
    files = {"ca_file": str(tmp_path / "ca.crt")}
    pair = {"cert_file": str(tmp_path / "client.crt"), "key_file": str(tmp_path / "client.key")}
    try:
        store = open_store(env, etcd.url, **files, **pair)
        await put(store, "/pods/default/a")
        await store.close()
        with pytest.raises(StoreUnavailable, match="code = Unavailable"):
            open_store(env, etcd.url, **files)
    finally:
        etcd.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"servers": ()}, "must be specified", id="no servers"),
        pytest.param({"servers": ("ftp://a",)}, "no address of an etcd", id="unsupported scheme"),
        pytest.param({"servers": ("http://a:b",)}, "--etcd-servers: 'http://a:b'", id="invalid port"),
        pytest.param({"servers": ("http://a/x",)}, "no address of an etcd", id="a path"),
        pytest.param({"servers": ("https://a",), "cert_file": "c"}, "given together", id="a certificate without key"),
    ],
)
def test_invalid_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        endpoints_of(EtcdOptions(**options))  # type: ignore[arg-type]
