"""The contract of stores, for each of them: in memory, on SQLite without and with its writer thread, on etcd.
Here: history, hooks, the end, and everything at once."""

import asyncio
import random
from pathlib import Path

import pytest
from tests.conformance.stores import INLINE, MEMORY, names, opened, put

from pilothouse.env import Env, virtual
from pilothouse.storage import Change, Compacted, Retention, Store, StoreClosed

# History


async def test_compaction_drops_history_and_keeps_current_state(store: Store) -> None:
    for name in "abcd":
        await put(store, f"/pods/default/{name}")
    store.compact(3)
    assert store.compacted == 3
    assert names(store.list("/pods/").records) == list("abcd")
    assert names(store.list("/pods/", revision=3).records) == ["a", "b"]
    assert len(store.watch("/pods/", 3).take()) == 2
    for prefix in ("/pods/", "/nodes/", ""):
        with pytest.raises(Compacted) as compacted:
            store.list(prefix, revision=2)
        assert (compacted.value.revision, compacted.value.oldest) == (2, 3)
        with pytest.raises(Compacted):
            store.watch(prefix, 2)
    store.compact(2)
    assert store.compacted == 3
    store.compact(1000)
    assert store.compacted == store.revision == 5
    assert store.watch("/pods/", 5).take() == []


@pytest.mark.parametrize("retention", [Retention(changes=5)])
async def test_busy_resource_does_not_drop_history_of_others(store: Store) -> None:
    await put(store, "apps/deployments/default/d")
    for _ in range(20):
        await put(store, "/pods/default/p")
    assert len(store.watch("apps/deployments/", 1).take()) == 1
    with pytest.raises(Compacted) as compacted:
        store.watch("/pods/", 2)
    assert compacted.value.oldest == store.revision - 5
    assert len(store.watch("/pods/", compacted.value.oldest).take()) == 5
    assert len(store.list("/pods/", revision=compacted.value.oldest).records) == 1
    with pytest.raises(Compacted):
        store.watch("", 2)
    assert store.compacted == 0


@pytest.mark.parametrize("retention", [Retention(bytes=10_000)])
async def test_size_of_historical_values_is_bounded(store: Store) -> None:
    for _ in range(100):
        await put(store, "/pods/default/p", "x" * 1000)
    kept = len(store.watch("/pods/", store.revision - 5).take())
    assert kept == 5
    with pytest.raises(Compacted):
        store.watch("/pods/", store.revision - 20)


@pytest.mark.parametrize("retention", [Retention(seconds=300)])
@pytest.mark.parametrize("kind", [MEMORY, INLINE])
async def test_history_retention(store: Store) -> None:
    first = await put(store, "/pods/default/a")
    await asyncio.sleep(200)
    second = await put(store, "/pods/default/b")
    await asyncio.sleep(99)
    assert len(store.watch("/pods/", 1).take()) == 2
    await asyncio.sleep(2)
    with pytest.raises(Compacted):
        store.list("/pods/", revision=1)
    assert len(store.watch("/pods/", first).take()) == 1
    await asyncio.sleep(200)
    with pytest.raises(Compacted):
        store.watch("/pods/", first)
    assert store.watch("/pods/", second).take() == []
    assert store.compacted == second


# Hooks and the end


async def test_on_commit_runs_after_visibility_and_before_the_writer(store: Store) -> None:
    observed: list[tuple[list[str], int]] = []

    def hook(changes: list[Change]) -> None:
        assert all(store.get(change.key) is not None for change in changes)
        observed.append(([change.key for change in changes], store.revision))

    store.on_commit.append(hook)
    await put(store, "/pods/default/a")
    assert observed == [(["/pods/default/a"], 2)]


@pytest.mark.parametrize("kind", [MEMORY, INLINE])
def test_failing_hook_stops_a_simulation_but_not_the_writer(kind: str, tmp_path: Path) -> None:
    def check(_changes: list[Change]) -> None:
        raise AssertionError("two controllers on one pod")

    async def main(env: Env) -> None:
        async with opened(env, kind, tmp_path / "data") as store:
            store.on_commit.append(check)
            try:
                await put(store, "/pods/default/a")
            except AssertionError:  # pragma: no cover
                pytest.fail("the writer was told")
            await asyncio.sleep(1)
            pytest.fail("the run went on")  # pragma: no cover

    with pytest.raises(AssertionError, match="two controllers"):
        virtual.run(main)


async def test_close_commits_staged_writes_ends_watchers_and_allows_reads(store: Store) -> None:
    watcher = store.watch("/pods/", store.revision)
    waiting = asyncio.ensure_future(store.wait_for_revision(99))
    await asyncio.sleep(0)
    staged = store.stage("/pods/default/a", lambda _revision: b"x")
    await store.close()
    await store.close()
    await store.commit(staged)
    assert names(store.list("/pods/").records) == ["a"]
    assert [batch async for batch in watcher] == []
    with pytest.raises(StoreClosed):
        store.stage("/pods/default/b", lambda _revision: b"x")
    with pytest.raises(StoreClosed):
        store.watch("/pods/", 1)
    with pytest.raises(StoreClosed):
        await waiting


# Everything combined


async def test_random_history_agrees_with_a_model(store: Store, seed: int) -> None:
    """Lists at every revision, watches from every revision and the final state all show the same history."""
    rng = random.Random(seed)
    keys = [f"/pods/{ns}/{name}" for ns in ("a", "b") for name in range(6)] + [f"/nodes/{name}" for name in range(4)]
    state: dict[str, bytes] = {}
    states: dict[int, dict[str, bytes]] = {1: {}}
    live = store.watch("", 1)
    for _ in range(60):
        staged = []
        for _ in range(rng.choice((1, 1, 2, 5))):
            key = rng.choice(keys)
            deletes = store.staged(key) is not None and rng.random() < 0.4
            staged.append(store.stage(key, None if deletes else lambda revision: f"v@{revision}".encode()))
        await store.commit(staged[-1])
        for item in staged:
            key = item.change.key
            if item.record is None:
                del state[key]
            else:
                state[key] = f"v@{item.revision}".encode()
            states[item.revision] = dict(state)
    assert store.revision == max(states)
    followed: dict[str, bytes] = {}
    for change in live.take():
        assert change.old_value == followed.get(change.key)
        assert (change.type == "ADDED") == (change.key not in followed)
        if change.type == "DELETED":
            del followed[change.key]
        else:
            followed[change.key] = change.value
    assert followed == states[store.revision]
    for revision, then in states.items():
        for prefix in ("", "/pods/", "/pods/a/"):
            expected = sorted((key, value) for key, value in then.items() if key.startswith(prefix))
            page = store.list(prefix, revision=revision)
            assert [(record.key, record.value) for record in page.records] == expected
            half = store.list(prefix, revision=revision, limit=3)
            rest = store.list(prefix, revision=revision, after=half.records[-1].key if half.records else "")
            assert half.records + (rest.records if half.more else []) == page.records
            assert half.remaining == max(0, len(expected) - 3)
            assert len(store.watch(prefix, revision).take()) == sum(
                change.revision > revision and change.key.startswith(prefix) for change in store.watch("", 1).take()
            )
