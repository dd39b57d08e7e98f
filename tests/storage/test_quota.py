"""Writes are rejected above the quota; reads, deletions and small updates are not."""

from pathlib import Path

import pytest

from pilothouse.env import Env
from pilothouse.storage import BackendError, MemoryStore, Mismatch, Store
from pilothouse.storage.quota import MAX_VALUE_BYTES, DatabaseSpaceExceeded, RequestTooLarge
from pilothouse.storage.sqlite import SqliteStore

_QUOTA = 1024 * 1024


def _new_store(env: Env, kind: str, directory: Path) -> Store:
    if kind == "sqlite":
        return SqliteStore.open(env, directory, quota=_QUOTA, inline=True)
    return MemoryStore(env, quota=_QUOTA)


either_store = pytest.mark.parametrize("kind", ["memory", "sqlite"])


async def _put(store: Store, key: str, size: int, filler: bytes = b"x") -> None:
    await store.commit(store.stage(key, lambda _revision: filler * size))


@either_store
async def test_writes_above_the_quota_are_rejected_until_something_is_deleted(
    env: Env, kind: str, tmp_path: Path
) -> None:
    store = _new_store(env, kind, tmp_path)
    await _put(store, "/pods/a", _QUOTA // 2)
    await _put(store, "/pods/b", _QUOTA // 3)
    before = store.revision
    with pytest.raises(DatabaseSpaceExceeded, match=r"^etcdserver: mvcc: database space exceeded$"):
        await _put(store, "/pods/c", _QUOTA // 3)
    assert store.revision == before
    assert store.staged("/pods/c") is None
    assert len(store.list("/pods/").records) == 2
    with pytest.raises(BackendError):
        await _put(store, "/pods/a", _QUOTA)
    await store.commit(store.stage("/pods/b", None))
    await _put(store, "/pods/c", _QUOTA // 3)
    await store.close()


@either_store
async def test_updates_that_add_little_have_a_reserve(env: Env, kind: str, tmp_path: Path) -> None:
    store = _new_store(env, kind, tmp_path)
    await _put(store, "/pods/a", _QUOTA - 1000)
    await _put(store, "/pods/a", _QUOTA - 1000, b"y")
    for more in range(100, 50_000, 1000):
        await _put(store, "/pods/a", _QUOTA - 1000 + more)
    for more in range(50_000, 54_000, 1000):
        await _put(store, "/pods/a", _QUOTA - 1000 + more)
    with pytest.raises(DatabaseSpaceExceeded):
        await _put(store, "/pods/a", _QUOTA - 1000 + 54_000)
    with pytest.raises(DatabaseSpaceExceeded):
        await _put(store, "/pods/b", 1)
    await store.close()


@either_store
async def test_churn_leaves_nothing_counted(env: Env, kind: str, tmp_path: Path) -> None:
    store = _new_store(env, kind, tmp_path)
    for number in range(10):
        await _put(store, f"/pods/{number % 2}", _QUOTA // 3)
        with pytest.raises(Mismatch):
            store.stage(f"/pods/{number % 2}", lambda _revision: b"", expected=1)
        await store.commit(store.stage(f"/pods/{number % 2}", None))
    assert store._quota is not None
    assert store._quota.size == 0
    await store.close()


async def test_failed_writes_are_not_counted(env: Env) -> None:
    store = MemoryStore(env, quota=_QUOTA)
    store.stage("/pods/a", lambda _revision: b"x" * (_QUOTA // 2))
    store._discard_staged((), "no space left on device")
    assert store._quota is not None
    assert store._quota.size == 0


async def test_values_are_limited(env: Env) -> None:
    store = MemoryStore(env)
    await _put(store, "/pods/a", MAX_VALUE_BYTES)
    with pytest.raises(RequestTooLarge, match=r"^etcdserver: request is too large$"):
        await _put(store, "/pods/a", MAX_VALUE_BYTES + 1)
    await store.commit(store.stage("/pods/a", None))
