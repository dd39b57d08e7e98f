"""Values that have not been written for a while are compressed in memory, and are read as before."""

import asyncio
import os

import msgspec
import pytest

from pilothouse.env import Env
from pilothouse.storage import MemoryStore, Mismatch
from pilothouse.storage.cold_values import PackedRecord
from pilothouse.storage.history import KEPT, Retention
from pilothouse.storage.records import Record


def value(number: int, phase: str = "Pending", size: int = 2000) -> bytes:
    fields: dict[str, dict[str, str]] = {f"f:field{at}": {} for at in range(size // 17)}
    return msgspec.json.encode({"name": f"web-{number}", "managed": fields, "phase": phase})


async def put(store: MemoryStore, key: str, content: bytes, *, expected: int | None = None) -> None:
    await store.commit(store.stage(key, lambda _revision: content, expected=expected))


def packed(store: MemoryStore) -> list[str]:
    return [record.key for record in store.list("").records if isinstance(record, PackedRecord)]


async def filled(env: Env, number: int = 20) -> MemoryStore:
    store = MemoryStore(env, retention=Retention(changes=5))
    for at in range(number):
        await put(store, f"/pods/ns/{at:02}", value(at))
    return store


async def test_values_that_the_history_has_dropped_are_compressed_and_read_as_before(env: Env) -> None:
    store = await filled(env)
    assert packed(store) == [f"/pods/ns/{at:02}" for at in range(1, 15)]
    assert [record.value for record in store.list("/pods/").records] == [value(at) for at in range(20)]
    record = store.get("/pods/ns/05")
    assert record is not None
    assert (record.revision, record.created) == (7, 7)
    assert isinstance(record, PackedRecord)
    assert record.bytes_in_memory - len(record.dictionary) < len(record.value) / 10


async def test_compressed_values_are_updated_deleted_and_read_at_earlier_revisions(env: Env) -> None:
    store = await filled(env)
    before = store.revision
    with pytest.raises(Mismatch):
        store.stage("/pods/ns/05", lambda _: b"x", expected=1)
    await put(store, "/pods/ns/05", value(5, "Running"), expected=7)
    await store.commit(store.stage("/pods/ns/06", None))
    changed, deleted = store.changes("/pods/")[-2:]
    assert (changed.old_value, changed.value) == (value(5), value(5, "Running"))
    assert (deleted.type, deleted.value) == ("DELETED", value(6))
    assert [record.value for record in store.list("/pods/", revision=before).records] == [value(at) for at in range(20)]
    for number in range(20, 40):
        await put(store, f"/pods/ns/{number}", value(number))
    assert "/pods/ns/05" in packed(store)
    record = store.get("/pods/ns/05")
    assert record is not None
    assert record.value == value(5, "Running")


async def test_small_large_and_incompressible_values_stay(env: Env) -> None:
    store = MemoryStore(env, retention=Retention(changes=1))
    for at in range(3):
        await put(store, f"/leases/ns/{at}", value(at, size=500))
        await put(store, f"/configmaps/ns/{at}", value(at, size=80_000))
        await put(store, f"/secrets/ns/{at}", os.urandom(3000))
    assert store.count("") == 9
    assert not packed(store)


async def test_loaded_values_are_compressed_with_the_next_writes(env: Env) -> None:
    records = [Record(f"/pods/ns/{at:02}", value(at), at + 2, at + 2) for at in range(10)]
    store = MemoryStore(env, records=records, revision=11)
    assert not packed(store)
    for at in range(3):
        await put(store, f"/leases/ns/{at}", b"{}")
    assert len(packed(store)) == 9
    assert [record.value for record in store.list("/pods/").records] == [value(at) for at in range(10)]


async def test_dictionaries_of_deleted_objects_take_little_memory(env: Env) -> None:
    store = MemoryStore(env, retention=Retention(changes=1))
    for at in range(20):
        large = os.urandom(15_000).hex().encode()
        await put(store, f"/configmaps/ns/large-{at:02}", large)
        await put(store, f"/configmaps/ns/small-{at:02}", large[-1000:])
    for at in range(20):
        await store.commit(store.stage(f"/configmaps/ns/large-{at:02}", None))
    records = store.list("/configmaps/").records
    kept = {id(one.dictionary): len(one.dictionary) for one in records if isinstance(one, PackedRecord)}
    assert sum(kept.values()) <= 4 * sum(len(one.value) for one in records)


async def test_history_is_limited_by_the_dictionaries_that_it_keeps(env: Env) -> None:
    store = await filled(env)
    record = store.get("/pods/ns/05")
    assert isinstance(record, PackedRecord)
    assert record.bytes_in_memory > len(record.dictionary)


async def test_values_whose_last_change_has_expired_are_compressed(env: Env) -> None:
    store = MemoryStore(env)
    for at in range(10):
        await put(store, f"/pods/ns/{at:02}", value(at))
    assert not packed(store)
    await asyncio.sleep(2 * KEPT.seconds)
    for at in range(3):
        await put(store, f"/leases/ns/{at}", b"{}")
    assert len(packed(store)) == 9
    assert [record.value for record in store.list("/pods/").records] == [value(at) for at in range(10)]
