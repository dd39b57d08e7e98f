"""The state of an etcd store after events and failures that the suite of all stores does not have."""

import asyncio
import time
from typing import Any

import pytest
from tests.conformance.stores import PlainCodec, PlainKeys, put, remove
from tests.etcd import Etcd, shared_etcd

from pilothouse.env import Env
from pilothouse.storage import CommitFailed, Staged
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient, EtcdError
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.routed import RoutedStore
from pilothouse.storage.etcd.store import EtcdStore
from pilothouse.storage.etcd.transactions import KnownPair, OwnEvent

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]

POD, QUOTA, OTHER = "/pods/d/a", "/resourcequotas/d/quota", "/resourcequotas/d/other"


def opened(env: Env, root: str, codec: PlainCodec | None = None) -> EtcdStore:
    options = EtcdOptions(servers=(shared_etcd().url,), compaction_interval=0)
    return EtcdStore.open(env, options, PlainKeys(root), codec or PlainCodec())


def _event(store: EtcdStore, key: str, revision: int) -> OwnEvent:
    return OwnEvent(messages.PUT, KnownPair(store.keys.etcd_key(key).encode(), b"v@", revision))


async def test_revision_of_several_keys_is_complete_after_an_earlier_change_of_one(env: Env) -> None:
    """Both revisions are received together, as by a server with many watchers."""
    store = opened(env, shared_etcd().root())
    at = store.revision
    batches: list[list[tuple[str, int]]] = []
    store.on_commit.append(lambda changes: batches.append([(change.key, change.revision - at) for change in changes]))
    try:
        await store._receive(
            [_event(store, key, at + after) for key, after in ((QUOTA, 1), (POD, 2), (QUOTA, 2), (OTHER, 2))]
        )
    finally:
        await store.close()
    assert {record.key: record.revision - at for record in store.list("").records} == {POD: 2, QUOTA: 2, OTHER: 2}
    assert batches == [[(QUOTA, 1)], [(POD, 2), (QUOTA, 2), (OTHER, 2)]], "each revision atomically"


async def test_own_writes_that_a_relist_has_found_are_committed(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch could not report them, since etcd was compacted while it was disconnected."""
    root = shared_etcd().root()
    store, other = opened(env, root), opened(env, root)
    try:
        await put(store, "/pods/d/updated", "old")
        await put(store, "/pods/d/deleted", "old")
        for task in store.tasks:
            task.cancel()
        await asyncio.gather(*store.tasks, return_exceptions=True)
        with monkeypatch.context() as patch:
            patch.setattr(store, "start", lambda: None)
            names = "updated", "created", "overwritten"
            writes = [asyncio.create_task(put(store, f"/pods/d/{name}", "own")) for name in names]
            deletion = asyncio.create_task(remove(store, "/pods/d/deleted"))
            async with asyncio.timeout(10):
                while [record.value.partition(b"@")[0] for record in other.list("").records] != [b"own"] * 3:
                    await other.catch_up()
        await put(other, "/pods/d/overwritten", "another")
        await other.client.compact(other.revision)
        store.tasks.clear()
        store.start()
        revisions = await asyncio.gather(*writes)
        await deletion
        assert store.list("").records == other.list("").records
        for name, revision in zip(names, revisions, strict=True):
            record = store.get(f"/pods/d/{name}")
            assert record is not None
            assert revision < record.revision if name == "overwritten" else revision == record.revision
            assert store.staged(record.key) == record, "the next write is checked against what is stored"
        assert store.staged("/pods/d/deleted") is None
        await put(store, "/pods/d/updated", "again", expected=revisions[0])
    finally:
        await store.close()
        await other.close()


class _RejectingCodec(PlainCodec):
    def encode(self, key: str, value: bytes) -> bytes:
        assert not value.startswith(b"bad"), "a bug of the codec"
        return super().encode(key, value)


async def test_bug_in_a_write_leaves_nothing_staged(env: Env) -> None:
    """Neither the write, nor one of the same key that was checked against it, nor one that was staged with them."""
    store = opened(env, shared_etcd().root(), _RejectingCodec())
    try:
        writes = [
            store.stage(f"/pods/d/{name}", (value + b"@%d").__mod__)
            for name, value in (("a", b"bad"), ("a", b"good"), ("b", b"good"))
        ]
        errors = await asyncio.gather(*map(store.commit, writes), return_exceptions=True)
        assert [type(error) for error in errors] == [AssertionError, CommitFailed, CommitFailed]
        assert store.staged("/pods/d/a") is store.staged("/pods/d/b") is None
        with pytest.raises(AssertionError, match="a bug of the codec"):
            await put(store, "/pods/d/a", "bad")
        await put(store, "/pods/d/a", "good", expected=0)
        await put(store, "/pods/d/b", "good", expected=0)
    finally:
        await store.close()


async def test_requests_of_a_closed_client_fail(env: Env) -> None:
    """Those in flight are not repeated on a new connection, which nobody would close."""
    etcd = Etcd().start()
    client = EtcdClient(EtcdOptions(servers=(etcd.url,)))
    request = messages.RangeRequest(key=b"a")
    try:
        await client.range(request)
        with etcd.frozen():
            in_flight = asyncio.create_task(client.range(request))
            await asyncio.sleep(0.1)
            await client.close()
        with pytest.raises(EtcdError, match="the client is closed"):
            await in_flight
        with pytest.raises(EtcdError, match="the client is closed"):
            await client.range(request)
    finally:
        await client.close()
        etcd.stop()


@pytest.mark.parametrize("work", ["_follow", "_monitor_size"])
async def test_failed_task_is_logged(
    env: Env, work: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the watch the store is not healthy."""
    store = opened(env, shared_etcd().root())

    async def fail() -> None:
        store.is_reachable = True
        raise AssertionError("a bug of the store")

    monkeypatch.setattr(store, work, fail)
    store.start()
    try:
        await asyncio.sleep(0.1)
        assert "A task of the store has failed; restart this server" in caplog.text
        assert store.is_reachable == (work != "_follow")
    finally:
        await store.close()


async def test_failed_write_to_another_etcd_is_logged(
    env: Env, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A hook has staged it, in the way in which a pod is charged to a quota: the pod is stored."""
    stores = opened(env, shared_etcd().root()), opened(env, shared_etcd().root())
    store = RoutedStore(stores, lambda resource: int(resource == "/resourcequotas/"))

    def charge(_staged: Staged) -> None:
        store.stage(QUOTA, b"usage@%d".__mod__)

    store.follow_staged("/pods/", charge)

    async def fail(*_arguments: Any, **_options: Any) -> None:
        raise EtcdError("Unavailable", "out of order")

    try:
        await put(store, POD)
        assert store.get(QUOTA) is not None
        assert "A write" not in caplog.text
        monkeypatch.setattr(stores[1].client, "txn", fail)
        await put(store, "/pods/d/b")
        assert "A write to another etcd has failed" in caplog.text
        assert store.get("/pods/d/b") is not None
    finally:
        await store.close()


class _SlowCodec(PlainCodec):
    def decode(self, key: str, data: bytes, revision: int) -> bytes:
        time.sleep(0.001)
        return super().decode(key, data, revision)


async def test_loop_is_not_blocked_while_values_are_decoded(env: Env) -> None:
    """Those that another server has written, here a hundred at once."""
    store = opened(env, shared_etcd().root(), _SlowCodec())
    at, turns = store.revision, 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count_turns())
    events = [_event(store, f"/pods/d/{number}", at + number) for number in range(1, 101)]
    try:
        await store._receive(events)
    finally:
        counting.cancel()
        await store.close()
    assert store.count("/pods/") == 100
    assert turns >= 5
