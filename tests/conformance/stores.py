"""The stores under test, and helpers."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pilothouse.env import Env
from pilothouse.storage import Change, MemoryStore, Record, Retention, Store
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.history import KEPT
from pilothouse.storage.sqlite import SqliteStore

MEMORY = pytest.param("memory", id="memory")
INLINE = pytest.param("inline", id="sqlite inline")
ETCD = pytest.param("etcd", id="etcd", marks=[pytest.mark.real, pytest.mark.real_loop])
THREAD = pytest.param("thread", id="sqlite with its thread", marks=pytest.mark.real_loop)


@contextlib.asynccontextmanager
async def opened(env: Env, kind: str, directory: Path, retention: Retention = KEPT) -> AsyncIterator[Store]:
    """A new, empty store, closed at the end."""
    store: Store
    if kind == "etcd":
        store = open_on_etcd(env, retention)
    elif kind == "memory":
        store = MemoryStore(env, retention=retention)
    else:
        store = SqliteStore.open(env, directory, retention=retention, inline=kind == "inline")
    try:
        yield store
    finally:
        await store.close()


class PlainKeys:
    """Unchanged keys under a prefix."""

    def __init__(self, root: str) -> None:
        self.root = root + "/"

    def etcd_key(self, key: str) -> str:
        return f"{self.root}core{key}" if key.startswith("/") else self.root + key

    def key(self, etcd_key: str) -> str | None:
        path = etcd_key.removeprefix(self.root)
        return path.removeprefix("core") if path.startswith("core/") else path


class PlainCodec:
    """Values of the suite, ``text@revision``, without their revision."""

    def encode(self, key: str, value: bytes) -> bytes:
        text, at, _revision = value.rpartition(b"@")
        return text + at

    def decode(self, key: str, data: bytes, revision: int) -> bytes:
        return self._at(data, revision)

    def with_revision(self, value: bytes, old: int, new: int) -> bytes:
        return self._at(self.encode("", value) if b"@" in value else value, new)

    def _at(self, data: bytes, revision: int) -> bytes:
        return data + b"%d" % revision if data.endswith(b"@") else data


def open_on_etcd(env: Env, retention: Retention = KEPT) -> Store:
    """A store on the etcd of this process, with revisions relative to its opening."""
    from tests.conformance.relative import RelativeStore  # needs an extra
    from tests.etcd import shared_etcd

    etcd = shared_etcd()
    options = EtcdOptions(servers=(etcd.url,), compaction_interval=0)
    return RelativeStore.open(env, options, PlainKeys(etcd.root()), PlainCodec(), retention=retention)


async def put(store: Store, key: str, value: str = "v", *, expected: int | None = None) -> int:
    staged = store.stage(key, lambda revision: f"{value}@{revision}".encode(), expected=expected)
    await store.commit(staged)
    return staged.revision


async def remove(store: Store, key: str, *, expected: int | None = None) -> int:
    staged = store.stage(key, None, expected=expected, last=lambda revision: f"gone@{revision}".encode())
    await store.commit(staged)
    return staged.revision


def assert_next(store: Store, revision: int) -> None:
    """Assert the next revision, unless other clients of the store write too."""
    assert store.is_shared or store.next_revision() == revision


def assert_staged(store: Store, records: Record | None, expected: Record) -> None:
    """A staged record; its revision is provisional if other clients write too."""
    assert records is not None
    if store.is_shared:
        assert records.revision > 1 << 60
        assert (records.key, records.value) == (expected.key, expected.value)
    else:
        assert records == expected


def names(records: list[Record]) -> list[str]:
    return [record.key.rpartition("/")[2] for record in records]


def changes_of(changes: list[Change]) -> list[tuple[str, str, bytes, bytes | None]]:
    return [(change.type, change.key, change.value, change.old_value) for change in changes]
