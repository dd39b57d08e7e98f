"""The revision at a time, and the marks (times with revisions) in the history."""

import asyncio

import pytest

from pilothouse.env import Env
from pilothouse.storage import Compacted, MemoryStore, Retention


async def _write(store: MemoryStore, name: str) -> int:
    staged = store.stage(f"/configmaps/default/{name}", lambda _revision: b"{}")
    await store.commit(staged)
    return store.revision


async def test_revision_at_a_time(env: Env) -> None:
    store = MemoryStore(env)
    written = []
    for number in range(3):
        written.append(await _write(store, f"a{number}"))
        await asyncio.sleep(10)
    assert [store.revision_at(seconds) for seconds in (30, 25, 20, 11, 10, 0)] == [
        written[0], written[0], written[1], written[1], written[2], written[2],
    ]  # fmt: skip
    assert store.history_marks() == [(30, written[0]), (20, written[1]), (10, written[2])]
    with pytest.raises(Compacted):
        store.revision_at(31)


async def test_one_mark_per_burst(env: Env) -> None:
    store = MemoryStore(env)
    first = await _write(store, "a0")
    for number in range(1, 5):
        await asyncio.sleep(0.2)
        await _write(store, f"a{number}")
    ((seconds, revision),) = store.history_marks()
    assert (round(seconds, 6), revision) == (0.8, first)


async def test_mark_after_a_burst(env: Env) -> None:
    store = MemoryStore(env)
    for number in range(5):
        last = await _write(store, f"a{number}")
        await asyncio.sleep(0.1)
    await asyncio.sleep(100)
    assert store.revision_at(50) == last
    assert [revision for _seconds, revision in store.history_marks()] == [2, last]


async def test_listed_marks_are_a_sample(env: Env) -> None:
    store = MemoryStore(env, retention=Retention(seconds=10_000))
    written = []
    for number in range(5000):
        written.append(await _write(store, f"a{number}"))
        await asyncio.sleep(1)
    marks = store.history_marks()
    assert len(marks) == 2500
    assert marks[-1] == (1, written[-1])
    assert marks[0] == (4999, written[1])
    assert [store.revision_at(seconds) for seconds in range(5000, 0, -1)] == written


async def test_idle_store_keeps_its_last_mark(env: Env) -> None:
    store = MemoryStore(env, retention=Retention(seconds=100))
    last = await _write(store, "a")
    await asyncio.sleep(1000)
    assert [store.revision_at(seconds) for seconds in (0, 50, 99)] == [last] * 3
    with pytest.raises(Compacted):
        store.revision_at(101)


async def test_new_store_has_no_earlier_marks(env: Env) -> None:
    store = MemoryStore(env)
    assert store.history_marks() == [(0.0, 1)]
    assert store.revision_at(0) == 1
    with pytest.raises(Compacted):
        store.revision_at(1)
