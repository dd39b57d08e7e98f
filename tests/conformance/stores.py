"""The stores that the suite holds to their promises, and short words for what is done with them."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pilothouse.env import Env
from pilothouse.storage import Change, MemoryStore, Record, Retention, Store
from pilothouse.storage.history import KEPT
from pilothouse.storage.sqlite import SqliteStore

MEMORY = pytest.param("memory", id="memory")
INLINE = pytest.param("inline", id="sqlite inline")
THREAD = pytest.param("thread", id="sqlite with its thread", marks=pytest.mark.real_loop)


@contextlib.asynccontextmanager
async def opened(env: Env, kind: str, directory: Path, retention: Retention = KEPT) -> AsyncIterator[Store]:
    """A new, empty store, closed in the end."""
    store: Store
    if kind == "memory":
        store = MemoryStore(env, retention=retention)
    else:
        store = SqliteStore.open(env, directory, retention=retention, inline=kind == "inline")
    try:
        yield store
    finally:
        await store.close()


async def put(store: Store, key: str, value: str = "v", *, expected: int | None = None) -> int:
    staged = store.stage(key, lambda revision: f"{value}@{revision}".encode(), expected=expected)
    await store.commit(staged)
    return staged.revision


async def remove(store: Store, key: str, *, expected: int | None = None) -> int:
    staged = store.stage(key, None, expected=expected, last=lambda revision: f"gone@{revision}".encode())
    await store.commit(staged)
    return staged.revision


def names(records: list[Record]) -> list[str]:
    return [record.key.rpartition("/")[2] for record in records]


def told(changes: list[Change]) -> list[tuple[str, str, bytes, bytes | None]]:
    return [(change.type, change.key, change.value, change.previous) for change in changes]
