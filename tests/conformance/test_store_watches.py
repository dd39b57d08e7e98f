"""The contract of stores, for each of them: in memory, on SQLite without and with its writer thread, on etcd.
Here: watches."""

import asyncio

import pytest
from tests.conformance.stores import changes_of, put, remove

from pilothouse.storage import Store, WatcherOverrun
from pilothouse.storage.watchers import WAITING_BYTES


async def test_watch_starts_at_any_kept_revision(store: Store) -> None:
    await put(store, "/pods/default/a", "one")
    await put(store, "/nodes/n")
    await put(store, "/pods/default/a", "two")
    await remove(store, "/pods/default/a")
    scenario = [
        ("ADDED", "/pods/default/a", b"one@2", None),
        ("MODIFIED", "/pods/default/a", b"two@4", b"one@2"),
        ("DELETED", "/pods/default/a", b"gone@5", b"two@4"),
    ]
    starts = {0: scenario, 1: scenario, 2: scenario[1:], 3: scenario[1:], 4: scenario[2:], 5: []}
    watchers = [store.watch("/pods/", after) for after in starts]
    assert [changes_of(watcher.take()) for watcher in watchers] == list(starts.values())
    await put(store, "/pods/default/b", "next")
    for watcher in watchers:
        assert changes_of(watcher.take()) == [("ADDED", "/pods/default/b", b"next@6", None)]


async def test_watch_from_a_future_revision(store: Store) -> None:
    watcher = store.watch("/pods/", 3)
    for name in "abc":
        await put(store, f"/pods/default/{name}")
    assert [change.revision for change in watcher.take()] == [4]
    later = store.watch("/pods/", 6)
    await store.commit([store.stage(f"/pods/default/{name}", lambda _revision: b"") for name in "defg"][-1])
    assert [change.revision for change in later.take()] == [7, 8]


async def test_watcher_receives_only_its_prefix(store: Store) -> None:
    prefixes = ["", "/", "/pods/", "/pods/a/", "/pods/a/x", "apps/", "apps/replicasets/", "/pods/ab/"]
    keys = ["/pods/a/x", "/pods/a/xy", "/pods/ab/x", "/podsx/a/x", "/nodes/x", "apps/replicasets/a/x"]

    def concerns(prefix: str, key: str) -> bool:
        return key == prefix if prefix and not prefix.endswith("/") else key.startswith(prefix)

    watchers = [store.watch(prefix, 1) for prefix in prefixes]
    for key in keys:
        await put(store, key)
    staged = [store.stage(key, lambda _revision: b"") for key in keys]
    await store.commit(staged[-1])
    for prefix, watcher in zip(prefixes, watchers, strict=True):
        expected = [key for key in keys if concerns(prefix, key)] * 2
        assert [change.key for change in watcher.take()] == expected, prefix
        assert [change.key for change in store.watch(prefix, 1).take()] == expected, prefix
        watcher.close()
    with pytest.raises(ValueError, match="is no key"):
        store.watch("/pods", 1)


async def test_commit_is_delivered_in_one_batch_and_timeout_loses_nothing(store: Store) -> None:
    watcher = store.watch("/pods/", store.revision)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await anext(watcher)
    waiting = asyncio.ensure_future(anext(watcher))
    await asyncio.sleep(0)
    assert watcher.idle
    staged = [store.stage(f"/pods/default/{name}", lambda _revision: b"") for name in "ab"]
    await store.commit(staged[0])
    keys = [change.key for change in await waiting]
    if store.is_shared:  # with a transaction each
        await store.flush()
        keys += [change.key for change in watcher.take()]
    assert keys == ["/pods/default/a", "/pods/default/b"]
    cancelled = asyncio.ensure_future(anext(watcher))
    await asyncio.sleep(0)
    await put(store, "/pods/default/c")
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    await put(store, "/pods/default/d")
    if cancelled.cancelled():
        assert [change.key for change in watcher.take()] == ["/pods/default/c", "/pods/default/d"]
    else:
        assert [change.key for change in cancelled.result()] == ["/pods/default/c"]


async def test_watchers_share_change_objects(store: Store) -> None:
    watchers = [store.watch("/pods/", store.revision) for _ in range(3)]
    await put(store, "/pods/default/a")
    first, *others = [watcher.take() for watcher in watchers]
    assert all(other is first for other in others)


async def test_slow_watcher_gets_pending_changes_and_is_terminated(store: Store) -> None:
    slow = store.watch("/pods/", store.revision, capacity=3)
    fast = store.watch("/pods/", store.revision, capacity=3)
    observed: list[int] = []
    for i in range(5):
        await put(store, f"/pods/default/{i}")
        observed += [change.revision for change in fast.take()]
    assert observed == [2, 3, 4, 5, 6]
    assert slow.overrun and not slow.idle
    assert [change.revision for change in await anext(slow)] == [2, 3, 4]
    with pytest.raises(WatcherOverrun):
        await anext(slow)
    resumed = store.watch("/pods/", 4, capacity=3)
    assert [change.revision for change in resumed.take()] == [5, 6]


async def test_slow_watcher_of_large_changes_is_terminated(store: Store) -> None:
    slow, fast = store.watch("/pods/", store.revision), store.watch("/pods/", store.revision)
    value = b"x" * (WAITING_BYTES // 16)
    for i in range(18):
        await store.commit(store.stage(f"/pods/default/{i}", lambda _revision: value))
        assert len(fast.take()) == 1
    assert slow.overrun and not fast.overrun
    assert [change.revision for change in slow.take()] == [*range(2, 18)]
    late = store.watch("/pods/", store.revision)
    group = [store.stage(f"/pods/default/{i}", lambda _revision: value) for i in range(18)]
    await store.commit(group[-1])
    # On etcd each is a commit of its own.
    assert len(late.take()) == 18 if not store.is_shared else late.overrun


async def test_idle_watcher_is_never_overrun_by_one_commit_or_backlog(store: Store) -> None:
    watcher = store.watch("/pods/", store.revision, capacity=3)
    staged = [store.stage(f"/pods/default/{i}", lambda _revision: b"") for i in range(10)]
    await store.commit(staged[-1])
    # On etcd each is a separate commit, and pending changes are bounded.
    assert len(await anext(watcher)) == 10 if not store.is_shared else watcher.overrun
    late = store.watch("/pods/", 1, capacity=3)
    assert len(await anext(late)) == 10


async def test_close_ends_the_iteration(store: Store) -> None:
    watcher = store.watch("/pods/", store.revision)

    async def read() -> list[int]:
        return [change.revision async for batch in watcher for change in batch]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    await put(store, "/pods/default/a")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    watcher.close()
    watcher.close()
    await put(store, "/pods/default/b")
    assert await reading == [2]
    assert watcher.take() == []
