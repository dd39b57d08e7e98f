"""Two stores on one etcd: both see what etcd has stored, whatever happens to their connections."""

import asyncio
import contextlib
import random
import time
from typing import Any

import pytest
from tests.conformance.stores import PlainCodec, PlainKeys, put
from tests.etcd import shared_etcd

from pilothouse.env import Env
from pilothouse.storage import Change, Mismatch, StoreError
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]

Seen = tuple[str, str, bytes, int]
"""Type, key, value and revision."""
_SECONDS = 4.0
_KEYS, _CLIENTS = 40, 12


def opened(env: Env, root: str) -> EtcdStore:
    url = shared_etcd().url
    options = EtcdOptions(servers=(url, url.replace("127.0.0.1", "localhost")), compaction_interval=0)
    return EtcdStore.open(env, options, PlainKeys(root), PlainCodec())


def seen_of(change: Change) -> Seen:
    return change.type, change.key, change.value, change.revision


async def remove(store: EtcdStore, key: str, expected: int) -> None:
    """Delete, with the last state as the API server gives it."""
    record = store.staged(key)
    assert record is not None
    with_revision = store.values.codec.with_revision
    await store.commit(
        store.stage(
            key, None, expected=expected, last=lambda revision: with_revision(record.value, record.revision, revision)
        )
    )


async def test_deletion_by_another_store_has_the_state_before_it(env: Env) -> None:
    """While this store deletes the object, too: in a state that it has no longer."""
    root = shared_etcd().root()
    store, other = opened(env, root), opened(env, root)
    send, may_be_sent = store.client.txn, asyncio.Event()

    async def send_later(request: Any, **options: Any) -> Any:
        await may_be_sent.wait()
        return await send(request, **options)

    try:
        await put(store, "/pods/d/a", "first")
        await other.catch_up()
        watcher = store.watch("/pods/", store.revision)
        record = store.get("/pods/d/a")
        assert record is not None
        store.client.txn = send_later  # type: ignore[method-assign]
        deletion = asyncio.create_task(remove(store, "/pods/d/a", record.revision))
        await asyncio.sleep(0.1)
        await put(other, "/pods/d/a", "second")
        await remove(other, "/pods/d/a", other.revision)
        await store.catch_up()
        seen = [change async for change in _changes(watcher, 2)]
        may_be_sent.set()
        with pytest.raises(Mismatch):
            await deletion
    finally:
        may_be_sent.set()
        await store.close()
        await other.close()
    assert [(change.type, change.value.partition(b"@")[0]) for change in seen] == [
        ("MODIFIED", b"second"),
        ("DELETED", b"second"),
    ]


async def _changes(watcher: Any, count: int) -> Any:
    while count > 0:
        for change in await anext(watcher):
            count -= 1
            yield change


@pytest.mark.parametrize("seed", [1, 2])
async def test_both_see_what_etcd_has_stored(env: Env, seed: int) -> None:
    """With hundreds of concurrent writes of the same keys, members that change, and streams that end."""
    root = shared_etcd().root()
    stores = [opened(env, root), opened(env, root)]
    rng, end = random.Random(seed), time.monotonic() + _SECONDS
    begins, seen = [store.revision for store in stores], [list[Seen]() for _ in stores]

    async def follow(store: EtcdStore, into: list[Seen]) -> None:
        async for changes in store.watch("/pods/", store.revision):
            into += map(seen_of, changes)

    async def write(store: EtcdStore) -> None:
        number = 0
        while time.monotonic() < end:
            key, number = f"/pods/d/{rng.randrange(_KEYS)}", number + 1
            record = store.staged(key)
            # Some fail: another store was first, or the connection was lost.
            with contextlib.suppress(Mismatch, StoreError):
                if record is None:
                    await put(store, key, f"{number}", expected=0)
                elif rng.random() < 0.5:
                    await put(store, key, f"{number}", expected=record.revision)
                else:
                    await remove(store, key, record.revision)
            await asyncio.sleep(rng.random() * 0.01)

    async def disturb(store: EtcdStore) -> None:
        while time.monotonic() < end:
            await asyncio.sleep(rng.random() * 0.3)
            rng.choice([fail_over, end_stream])(store)

    followers = [asyncio.create_task(follow(*one)) for one in zip(stores, seen, strict=True)]
    try:
        writers = [write(store) for store in stores for _ in range(_CLIENTS)]
        await asyncio.gather(*writers, *(disturb(store) for store in stores))
        for store in stores:
            await store.catch_up()
        stored = await history(root, min(begins))
        await asyncio.sleep(0.1)
    finally:
        for follower in followers:
            follower.cancel()
        for store in stores:
            await store.close()
    assert len(stored) > 100
    for begin, changes in zip(begins, seen, strict=True):
        assert changes == [change for change in stored if change[3] > begin]


def fail_over(store: EtcdStore) -> None:
    store.client.fail_over(store.client.endpoint)


def end_stream(store: EtcdStore) -> None:
    store.client._end_streams()


async def history(root: str, after: int) -> list[Seen]:
    """All changes after a revision at which nothing was there, as a watch of etcd reports them."""
    client = EtcdClient(EtcdOptions(servers=(shared_etcd().url,)))
    begin = f"{root}/".encode()
    create = messages.WatchCreateRequest(key=begin, range_end=messages.range_end(begin), start_revision=after + 1)
    stream, result, current = client.watch(), list[Seen](), dict[str, bytes]()
    await stream.write(messages.WatchRequest(create_request=create))
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(1.0):
                response = await stream.read()
            assert not response.canceled, response
            for event in response.events:
                key, at = event.kv.key.decode().removeprefix(f"{root}/core"), event.kv.mod_revision
                old = current.pop(key, None)
                deleted = event.type == messages.DELETE
                value = (old or b"") if deleted else event.kv.value
                if not deleted:
                    current[key] = value
                kind = "DELETED" if deleted else "ADDED" if old is None else "MODIFIED"
                result.append((kind, key, value + b"%d" % at, at))
    await client.close()
    return result
