"""The contract of stores, for each of them: in memory, on SQLite without and with its writer thread, on etcd.
Here: writes."""

import asyncio

import pytest
from tests.conformance.stores import assert_next, assert_staged, changes_of, put, remove
from tests.tables import cases

from pilothouse.storage import CommitFailed, Mismatch, Record, Store


async def test_empty_store_is_at_revision_1(store: Store) -> None:
    assert (store.revision, store.compacted) == (1, 0)
    assert_next(store, 2)
    assert await put(store, "/pods/default/a") == 2
    assert store.revision == 2


async def test_record_has_create_and_mod_revision(store: Store) -> None:
    record = await put(store, "/pods/default/a", "one")
    await put(store, "/pods/default/b")
    changed = await put(store, "/pods/default/a", "two")
    assert store.get("/pods/default/a") == Record("/pods/default/a", b"two@4", changed, record)
    await remove(store, "/pods/default/a")
    assert store.get("/pods/default/a") is None
    again = await put(store, "/pods/default/a")
    assert store.get("/pods/default/a") == Record("/pods/default/a", b"v@6", again, again)


async def test_staged_write_is_invisible_until_committed(store: Store) -> None:
    watcher = store.watch("/pods/", store.revision)
    staged = store.stage("/pods/default/a", lambda _revision: b"x", expected=0)
    assert store.get("/pods/default/a") is None
    assert store.list("/pods/").records == []
    assert watcher.take() == []
    assert store.revision == 1
    assert_staged(store, store.staged("/pods/default/a"), Record("/pods/default/a", b"x", 2, 2))
    assert_next(store, 3)
    await store.commit(staged)
    assert store.get("/pods/default/a") == store.staged("/pods/default/a")
    assert changes_of(watcher.take()) == [("ADDED", "/pods/default/a", b"x", None)]


async def test_stage_checks_preconditions_against_staged_writes(store: Store) -> None:
    first = store.stage("/pods/default/a", lambda _revision: b"1", expected=0)
    with pytest.raises(Mismatch) as refused:
        store.stage("/pods/default/a", lambda _revision: b"2", expected=0)
    assert_staged(store, refused.value.current, Record("/pods/default/a", b"1", 2, 2))
    second = store.stage("/pods/default/a", lambda _revision: b"2", expected=first.revision)
    staged_delete = store.stage("/pods/default/a", None, expected=second.revision)
    assert store.staged("/pods/default/a") is None
    with pytest.raises(Mismatch) as absent:
        store.stage("/pods/default/a", None)
    assert absent.value.current is None
    third = store.stage("/pods/default/a", lambda _revision: b"3", expected=0)
    watcher = store.watch("", store.revision)
    await store.commit(third)
    assert first.committed and second.committed and staged_delete.committed
    assert store.get("/pods/default/a") == Record("/pods/default/a", b"3", 5, 5)
    assert [change.type for change in watcher.take()] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]


@cases(
    "expected, refused",
    {
        "no precondition": (None, False),
        "the revision it has": (2, False),
        "must be absent, exists": (0, True),
        "an older revision": (1, True),
        "future revision": (9, True),
    },
)
async def test_write_preconditions(store: Store, expected: int | None, refused: bool) -> None:
    await put(store, "/pods/default/a")
    if refused:
        with pytest.raises(Mismatch) as caught:
            store.stage("/pods/default/a", lambda _revision: b"new", expected=expected)
        assert caught.value.current == store.get("/pods/default/a")
        with pytest.raises(Mismatch):
            store.stage("/pods/default/a", None, expected=expected)
        assert_next(store, 3)
    else:
        assert await put(store, "/pods/default/a", expected=expected) == 3


async def test_failing_value_function_stages_nothing(store: Store) -> None:
    def fail(_revision: int) -> bytes:
        raise ZeroDivisionError

    await put(store, "/pods/default/a")
    for key, make, last in (("/pods/default/b", fail, None), ("/pods/default/a", None, fail)):
        with pytest.raises(ZeroDivisionError):
            store.stage(key, make, last=last)
    assert store.staged("/pods/default/b") is None
    assert await put(store, "/pods/default/b") == 3


async def test_uncommitted_staged_write_is_part_of_the_next_commit(store: Store) -> None:
    orphan = store.stage("/pods/default/a", lambda _revision: b"x")
    await put(store, "/pods/default/b")
    assert orphan.committed
    assert store.count("/pods/") == 2
    assert (store.has_any("/pods/"), store.has_any("/nodes/")) == (True, False)
    await store.commit(orphan)


async def test_cancelled_commit_wait_does_not_abort_the_write(store: Store) -> None:
    task = asyncio.ensure_future(put(store, "/pods/default/a"))
    await asyncio.sleep(0)
    task.cancel()
    await put(store, "/pods/default/b")
    for _ in range(200):
        if store.get("/pods/default/a") is not None:
            return
        await asyncio.sleep(0.05)  # etcd may execute it after the other one
    pytest.fail("the write was aborted")


@pytest.mark.parametrize("key", ["", "pods", "/pods", "/pods/", "apps/replicasets/"])
async def test_invalid_keys_are_rejected(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="is no key"):
        store.stage(key, lambda _revision: b"")
    with pytest.raises(ValueError, match="is no prefix"):
        store.list("/pods/default")
    assert_next(store, 2)


async def test_concurrent_writers_get_unique_revisions(store: Store) -> None:
    watcher = store.watch("/pods/", store.revision)
    groups: list[int] = []
    store.on_commit.append(lambda changes: groups.append(len(changes)))
    revisions = await asyncio.gather(*(put(store, f"/pods/default/{i}", expected=0) for i in range(200)))
    # Only a store without other writers can assign them in the order of staging.
    assert (sorted(revisions) if store.is_shared else list(revisions)) == list(range(2, 202))
    assert [change.revision for change in watcher.take()] == list(range(2, 202))
    assert sum(groups) == 200


async def test_failed_write_stays_failed(store: Store) -> None:
    staged = store.stage("/pods/default/a", lambda _revision: b"")
    staged.failure = "told so"
    with pytest.raises(CommitFailed, match="told so"):
        await store.commit(staged)
