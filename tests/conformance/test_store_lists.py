"""The contract of stores, for each of them: in memory, on SQLite without and with its writer thread, on etcd.
Here: lists."""

import asyncio

import pytest
from tests.conformance.stores import names, put, remove

from pilothouse.storage import FutureRevision, Store


async def test_lists_are_in_byte_order_of_keys(store: Store) -> None:
    for name in ("b", "a-1", "a.1", "a", "B", "ä", "a/1"):
        await put(store, f"/pods/default/{name}")
    keys = [record.key for record in store.list("/pods/").records]
    assert keys == sorted(keys, key=str.encode)


async def test_prefix_selects_only_keys_below_it(store: Store) -> None:
    for key in (
        "/pods/a/1",
        "/pods/a/2",
        "/pods/a-b/3",
        "/pods/a0/4",
        "/podtemplates/a/5",
        "apps/replicasets/a/6",
        "apps/replicasetsx/a/7",
    ):
        await put(store, key)
    for prefix, expected in {
        "/pods/a/": ["1", "2"],
        "/pods/": ["3", "1", "2", "4"],
        "/": ["3", "1", "2", "4", "5"],
        "apps/replicasets/": ["6"],
        "apps/": ["6", "7"],
        "": ["3", "1", "2", "4", "5", "6", "7"],
        "/pods/b/": [],
        "batch/jobs/": [],
    }.items():
        page = store.list(prefix)
        assert names(page.records) == expected, prefix
        assert store.count(prefix) == len(expected)
        assert (page.revision, page.more, page.remaining) == (8, False, 0)


async def test_pages_are_complete_and_count_the_remaining(store: Store) -> None:
    for i in range(40):
        await put(store, f"/podtemplates/default/t{i:03}")
    await put(store, "/podtemplates/other/x")
    result: list[str] = []
    after = ""
    while True:
        page = store.list("/podtemplates/default/", after=after, limit=17)
        result += names(page.records)
        assert page.remaining + len(result) == 40
        assert page.more == (page.remaining > 0)
        if not page.more:
            break
        after = page.records[-1].key
    assert result == [f"t{i:03}" for i in range(40)]
    everything = store.list("", after="/podtemplates/default/t037", limit=2)
    assert (names(everything.records), everything.more, everything.remaining) == (["t038", "t039"], True, 1)


async def test_pages_are_consistent_at_their_revision(store: Store) -> None:
    for name in "abcdef":
        await put(store, f"/pods/default/{name}", "old")
    first = store.list("/pods/default/", limit=2)
    await put(store, "/pods/default/a", "new")
    await remove(store, "/pods/default/c")
    await put(store, "/pods/default/cc", "new")
    await put(store, "/pods/default/d", "new")
    await put(store, "/pods/default/d", "newer")
    await remove(store, "/pods/default/e")
    await put(store, "/pods/default/e", "new")
    await put(store, "/pods/other/z", "new")
    second = store.list("/pods/default/", after=first.records[-1].key, limit=2, revision=first.revision)
    third = store.list("/pods/default/", after=second.records[-1].key, limit=2, revision=first.revision)
    records = first.records + second.records + third.records
    assert names(records) == list("abcdef")
    assert [record.value for record in records] == [f"old@{n}".encode() for n in range(2, 8)]
    assert [record.created for record in records] == list(range(2, 8))
    assert [(page.more, page.remaining, page.revision) for page in (first, second, third)] == [
        (True, 4, 7),
        (True, 2, 7),
        (False, 0, 7),
    ]
    assert names(store.list("/pods/default/").records) == ["a", "b", "cc", "d", "e", "f"]


async def test_list_at_a_future_revision_is_rejected(store: Store) -> None:
    with pytest.raises(FutureRevision):
        store.list("/pods/", revision=store.revision + 1)


async def test_reached_waits_for_the_revision(store: Store) -> None:
    await store.wait_for_revision(1)
    waiting = asyncio.ensure_future(store.wait_for_revision(3))
    impatient = asyncio.ensure_future(store.wait_for_revision(3))
    await put(store, "/pods/default/a")
    await asyncio.sleep(0)
    assert not waiting.done()
    impatient.cancel()
    await put(store, "/pods/default/b")
    await waiting


async def test_cancelled_wait_for_a_revision_leaves_nothing(store: Store) -> None:
    for _ in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await store.wait_for_revision(store.revision + 100)
    assert not store._awaited
