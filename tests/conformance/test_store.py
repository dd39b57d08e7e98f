"""What every store promises, held against each of them: in memory, on SQLite without and with its writer thread."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from pilothouse.env import Env, loops, virtual
from pilothouse.storage import (
    Change,
    CommitFailed,
    Compacted,
    FutureRevision,
    MemoryStore,
    Mismatch,
    Record,
    Retention,
    Store,
    StoreClosed,
    WatcherOverrun,
)
from pilothouse.storage.history import KEPT
from pilothouse.storage.sqlite import SqliteStore

Program = Callable[[Store], Coroutine[Any, Any, None]]


class Run(Protocol):
    def __call__(self, program: Program, *, retention: Retention = ...) -> None:
        """Run the program on a new, empty store."""


MEMORY = pytest.param("memory", id="memory")
INLINE = pytest.param("inline", id="sqlite inline")
THREAD = pytest.param("thread", id="sqlite with its thread")


def runner(kind: str, directory: Path) -> Run:
    def run(program: Program, *, retention: Retention = KEPT) -> None:
        async def main(env: Env) -> None:
            store: Store
            if kind == "memory":
                store = MemoryStore(env, retention=retention)
            else:
                store = SqliteStore.open(env, directory, retention=retention, inline=kind == "inline")
            try:
                await program(store)
            finally:
                await store.close()

        if kind == "thread":
            loops.run(main(Env()))
        else:
            virtual.run(main)

    return run


@pytest.fixture(params=[MEMORY, INLINE, THREAD])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return runner(request.param, tmp_path / "data")


@pytest.fixture(params=[MEMORY, INLINE])
def run_in_virtual_time(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    return runner(request.param, tmp_path / "data")


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


# Writing


def test_an_empty_store_is_at_revision_1_and_its_first_write_gets_2(run: Run) -> None:
    async def program(store: Store) -> None:
        assert (store.revision, store.compacted, store.next_revision()) == (1, 0, 2)
        assert await put(store, "/pods/default/a") == 2
        assert store.revision == 2

    run(program)


def test_a_record_knows_when_it_was_made_and_last_changed(run: Run) -> None:
    async def program(store: Store) -> None:
        made = await put(store, "/pods/default/a", "one")
        await put(store, "/pods/default/b")
        changed = await put(store, "/pods/default/a", "two")
        assert store.get("/pods/default/a") == Record("/pods/default/a", b"two@4", changed, made)
        await remove(store, "/pods/default/a")
        assert store.get("/pods/default/a") is None
        again = await put(store, "/pods/default/a")
        assert store.get("/pods/default/a") == Record("/pods/default/a", b"v@6", again, again)

    run(program)


def test_a_staged_write_is_invisible_until_its_commit(run: Run) -> None:
    async def program(store: Store) -> None:
        watcher = store.watch("/pods/", store.revision)
        staged = store.stage("/pods/default/a", lambda _revision: b"x", expected=0)
        assert store.get("/pods/default/a") is None
        assert store.list("/pods/").records == []
        assert watcher.take() == []
        assert store.revision == 1
        assert store.staged("/pods/default/a") == Record("/pods/default/a", b"x", 2, 2)
        assert store.next_revision() == 3
        await store.commit(staged)
        assert store.get("/pods/default/a") == store.staged("/pods/default/a")
        assert told(watcher.take()) == [("ADDED", "/pods/default/a", b"x", None)]

    run(program)


def test_stage_checks_against_what_is_staged_and_not_against_what_is_committed(run: Run) -> None:
    async def program(store: Store) -> None:
        first = store.stage("/pods/default/a", lambda _revision: b"1", expected=0)
        with pytest.raises(Mismatch) as refused:
            store.stage("/pods/default/a", lambda _revision: b"2", expected=0)
        assert refused.value.current == Record("/pods/default/a", b"1", 2, 2)
        second = store.stage("/pods/default/a", lambda _revision: b"2", expected=first.revision)
        gone = store.stage("/pods/default/a", None, expected=second.revision)
        assert store.staged("/pods/default/a") is None
        with pytest.raises(Mismatch) as absent:
            store.stage("/pods/default/a", None)
        assert absent.value.current is None
        third = store.stage("/pods/default/a", lambda _revision: b"3", expected=0)
        watcher = store.watch("", store.revision)
        await store.commit(third)
        assert first.committed and second.committed and gone.committed
        assert store.get("/pods/default/a") == Record("/pods/default/a", b"3", 5, 5)
        assert [change.type for change in watcher.take()] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]

    run(program)


@pytest.mark.parametrize(
    ("expected", "refused"),
    [
        pytest.param(None, False, id="any state will do"),
        pytest.param(2, False, id="the revision it has"),
        pytest.param(0, True, id="absent, and it is there"),
        pytest.param(1, True, id="an older revision"),
        pytest.param(9, True, id="a revision still to come"),
    ],
)
def test_what_a_write_may_expect(run: Run, expected: int | None, refused: bool) -> None:
    async def program(store: Store) -> None:
        await put(store, "/pods/default/a")
        if refused:
            with pytest.raises(Mismatch) as caught:
                store.stage("/pods/default/a", lambda _revision: b"new", expected=expected)
            assert caught.value.current == store.get("/pods/default/a")
            with pytest.raises(Mismatch):
                store.stage("/pods/default/a", None, expected=expected)
            assert store.next_revision() == 3
        else:
            assert await put(store, "/pods/default/a", expected=expected) == 3

    run(program)


def test_a_value_that_cannot_be_made_stages_nothing(run: Run) -> None:
    def fail(_revision: int) -> bytes:
        raise ZeroDivisionError

    async def program(store: Store) -> None:
        await put(store, "/pods/default/a")
        for key, make, last in (("/pods/default/b", fail, None), ("/pods/default/a", None, fail)):
            with pytest.raises(ZeroDivisionError):
                store.stage(key, make, last=last)
        assert store.staged("/pods/default/b") is None
        assert await put(store, "/pods/default/b") == 3

    run(program)


def test_a_write_whose_commit_was_never_asked_for_goes_with_the_next(run: Run) -> None:
    async def program(store: Store) -> None:
        orphan = store.stage("/pods/default/a", lambda _revision: b"x")
        await put(store, "/pods/default/b")
        assert orphan.committed
        assert store.count("/pods/") == 2
        assert (store.has_any("/pods/"), store.has_any("/nodes/")) == (True, False)
        await store.commit(orphan)

    run(program)


def test_a_cancelled_wait_leaves_the_write_to_its_commit(run: Run) -> None:
    async def program(store: Store) -> None:
        task = asyncio.ensure_future(put(store, "/pods/default/a"))
        await asyncio.sleep(0)
        task.cancel()
        await put(store, "/pods/default/b")
        assert store.get("/pods/default/a") is not None

    run(program)


@pytest.mark.parametrize("key", ["", "pods", "/pods", "/pods/", "apps/replicasets/"])
def test_a_key_names_group_resource_and_object(run: Run, key: str) -> None:
    async def program(store: Store) -> None:
        with pytest.raises(ValueError, match="is no key"):
            store.stage(key, lambda _revision: b"")
        with pytest.raises(ValueError, match="is no prefix"):
            store.list("/pods/default")
        assert store.next_revision() == 2

    run(program)


def test_many_writers_at_once_each_get_their_own_revision(run: Run) -> None:
    async def program(store: Store) -> None:
        watcher = store.watch("/pods/", store.revision)
        groups: list[int] = []
        store.on_commit.append(lambda changes: groups.append(len(changes)))
        revisions = await asyncio.gather(*(put(store, f"/pods/default/{i}", expected=0) for i in range(200)))
        assert list(revisions) == list(range(2, 202))
        assert [change.revision for change in watcher.take()] == list(range(2, 202))
        assert sum(groups) == 200

    run(program)


# Lists


def test_lists_come_in_byte_order_of_their_keys(run: Run) -> None:
    async def program(store: Store) -> None:
        for name in ("b", "a-1", "a.1", "a", "B", "ä", "a/1"):
            await put(store, f"/pods/default/{name}")
        keys = [record.key for record in store.list("/pods/").records]
        assert keys == sorted(keys, key=str.encode)

    run(program)


def test_a_prefix_selects_what_is_below_it_and_nothing_beside_it(run: Run) -> None:
    async def program(store: Store) -> None:
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

    run(program)


def test_pages_leave_nothing_out_and_count_what_is_left(run: Run) -> None:
    async def program(store: Store) -> None:
        for i in range(40):
            await put(store, f"/podtemplates/default/t{i:03}")
        await put(store, "/podtemplates/other/x")
        found: list[str] = []
        after = ""
        while True:
            page = store.list("/podtemplates/default/", after=after, limit=17)
            found += names(page.records)
            assert page.remaining + len(found) == 40
            assert page.more == (page.remaining > 0)
            if not page.more:
                break
            after = page.records[-1].key
        assert found == [f"t{i:03}" for i in range(40)]
        everything = store.list("", after="/podtemplates/default/t037", limit=2)
        assert (names(everything.records), everything.more, everything.remaining) == (["t038", "t039"], True, 1)

    run(program)


def test_pages_of_one_revision_show_that_revision_whatever_happens_meanwhile(run: Run) -> None:
    async def program(store: Store) -> None:
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

    run(program)


def test_a_list_at_a_revision_to_come_is_refused(run: Run) -> None:
    async def program(store: Store) -> None:
        with pytest.raises(FutureRevision):
            store.list("/pods/", revision=store.revision + 1)

    run(program)


def test_reached_waits_for_a_revision(run: Run) -> None:
    async def program(store: Store) -> None:
        await store.reached(1)
        waiting = asyncio.ensure_future(store.reached(3))
        impatient = asyncio.ensure_future(store.reached(3))
        await put(store, "/pods/default/a")
        await asyncio.sleep(0)
        assert not waiting.done()
        impatient.cancel()
        await put(store, "/pods/default/b")
        await waiting

    run(program)


# Watches


def test_a_watch_may_start_at_any_revision_that_is_kept(run: Run) -> None:
    async def program(store: Store) -> None:
        await put(store, "/pods/default/a", "one")
        await put(store, "/nodes/n")
        await put(store, "/pods/default/a", "two")
        await remove(store, "/pods/default/a")
        story = [
            ("ADDED", "/pods/default/a", b"one@2", None),
            ("MODIFIED", "/pods/default/a", b"two@4", b"one@2"),
            ("DELETED", "/pods/default/a", b"gone@5", b"two@4"),
        ]
        starts = {0: story, 1: story, 2: story[1:], 3: story[1:], 4: story[2:], 5: []}
        watchers = [store.watch("/pods/", after) for after in starts]
        assert [told(watcher.take()) for watcher in watchers] == list(starts.values())
        await put(store, "/pods/default/b", "next")
        for watcher in watchers:
            assert told(watcher.take()) == [("ADDED", "/pods/default/b", b"next@6", None)]

    run(program)


def test_a_watch_from_a_revision_to_come_begins_there(run: Run) -> None:
    async def program(store: Store) -> None:
        watcher = store.watch("/pods/", 3)
        for name in "abc":
            await put(store, f"/pods/default/{name}")
        assert [change.revision for change in watcher.take()] == [4]
        later = store.watch("/pods/", 6)
        await store.commit([store.stage(f"/pods/default/{name}", lambda _revision: b"") for name in "defg"][-1])
        assert [change.revision for change in later.take()] == [7, 8]

    run(program)


def test_a_watcher_sees_its_prefix_and_nothing_else(run: Run) -> None:
    prefixes = ["", "/", "/pods/", "/pods/a/", "/pods/a/x", "apps/", "apps/replicasets/", "/pods/ab/"]
    keys = ["/pods/a/x", "/pods/a/xy", "/pods/ab/x", "/podsx/a/x", "/nodes/x", "apps/replicasets/a/x"]

    def concerns(prefix: str, key: str) -> bool:
        return key == prefix if prefix and not prefix.endswith("/") else key.startswith(prefix)

    async def program(store: Store) -> None:
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

    run(program)


def test_a_waiting_watcher_gets_a_commit_in_one_batch_and_loses_nothing_to_a_timeout(run: Run) -> None:
    async def program(store: Store) -> None:
        watcher = store.watch("/pods/", store.revision)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await anext(watcher)
        waiting = asyncio.ensure_future(anext(watcher))
        await asyncio.sleep(0)
        assert watcher.idle
        staged = [store.stage(f"/pods/default/{name}", lambda _revision: b"") for name in "ab"]
        await store.commit(staged[0])
        assert [change.key for change in await waiting] == ["/pods/default/a", "/pods/default/b"]
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

    run(program)


def test_all_watchers_of_a_prefix_get_the_same_changes_as_the_same_objects(run: Run) -> None:
    async def program(store: Store) -> None:
        watchers = [store.watch("/pods/", store.revision) for _ in range(3)]
        await put(store, "/pods/default/a")
        first, *others = [watcher.take() for watcher in watchers]
        assert all(other is first for other in others)

    run(program)


def test_a_watcher_that_does_not_keep_up_gets_what_waits_and_is_ended(run: Run) -> None:
    async def program(store: Store) -> None:
        slow = store.watch("/pods/", store.revision, capacity=3)
        fast = store.watch("/pods/", store.revision, capacity=3)
        seen: list[int] = []
        for i in range(5):
            await put(store, f"/pods/default/{i}")
            seen += [change.revision for change in fast.take()]
        assert seen == [2, 3, 4, 5, 6]
        assert slow.overrun and not slow.idle
        assert [change.revision for change in await anext(slow)] == [2, 3, 4]
        with pytest.raises(WatcherOverrun):
            await anext(slow)
        resumed = store.watch("/pods/", 4, capacity=3)
        assert [change.revision for change in resumed.take()] == [5, 6]

    run(program)


def test_one_commit_and_one_backlog_never_overrun_a_watcher_that_has_nothing_waiting(run: Run) -> None:
    async def program(store: Store) -> None:
        watcher = store.watch("/pods/", store.revision, capacity=3)
        staged = [store.stage(f"/pods/default/{i}", lambda _revision: b"") for i in range(10)]
        await store.commit(staged[-1])
        assert len(await anext(watcher)) == 10
        late = store.watch("/pods/", 1, capacity=3)
        assert len(await anext(late)) == 10

    run(program)


def test_closing_a_watcher_ends_its_iteration(run: Run) -> None:
    async def program(store: Store) -> None:
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

    run(program)


# History


def test_compaction_ends_the_past_and_leaves_the_present(run: Run) -> None:
    async def program(store: Store) -> None:
        for name in "abcd":
            await put(store, f"/pods/default/{name}")
        store.compact(3)
        assert store.compacted == 3
        assert names(store.list("/pods/").records) == list("abcd")
        assert names(store.list("/pods/", revision=3).records) == ["a", "b"]
        assert len(store.watch("/pods/", 3).take()) == 2
        for prefix in ("/pods/", "/nodes/", ""):
            with pytest.raises(Compacted) as gone:
                store.list(prefix, revision=2)
            assert (gone.value.revision, gone.value.oldest) == (2, 3)
            with pytest.raises(Compacted):
                store.watch(prefix, 2)
        store.compact(2)
        assert store.compacted == 3
        store.compact(1000)
        assert store.compacted == store.revision == 5
        assert store.watch("/pods/", 5).take() == []

    run(program)


def test_one_resource_full_of_changes_does_not_cost_another_its_history(run: Run) -> None:
    async def program(store: Store) -> None:
        await put(store, "apps/deployments/default/d")
        for _ in range(20):
            await put(store, "/pods/default/p")
        assert len(store.watch("apps/deployments/", 1).take()) == 1
        with pytest.raises(Compacted) as gone:
            store.watch("/pods/", 2)
        assert gone.value.oldest == store.revision - 5
        assert len(store.watch("/pods/", gone.value.oldest).take()) == 5
        assert len(store.list("/pods/", revision=gone.value.oldest).records) == 1
        with pytest.raises(Compacted):
            store.watch("", 2)
        assert store.compacted == 0

    run(program, retention=Retention(changes=5))


def test_the_values_that_only_history_holds_are_bounded(run: Run) -> None:
    async def program(store: Store) -> None:
        for _ in range(100):
            await put(store, "/pods/default/p", "x" * 1000)
        kept = len(store.watch("/pods/", store.revision - 5).take())
        assert kept == 5
        with pytest.raises(Compacted):
            store.watch("/pods/", store.revision - 20)

    run(program, retention=Retention(bytes=10_000))


def test_history_is_kept_for_its_seconds_and_not_much_longer(run_in_virtual_time: Run) -> None:
    async def program(store: Store) -> None:
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

    run_in_virtual_time(program, retention=Retention(seconds=300))


# Hooks and the end


def test_a_hook_sees_every_commit_when_it_is_visible_and_before_its_writer_goes_on(run: Run) -> None:
    async def program(store: Store) -> None:
        seen: list[tuple[list[str], int]] = []

        def hook(changes: list[Change]) -> None:
            assert all(store.get(change.key) is not None for change in changes)
            seen.append(([change.key for change in changes], store.revision))

        store.on_commit.append(hook)
        await put(store, "/pods/default/a")
        assert seen == [(["/pods/default/a"], 2)]

    run(program)


def test_a_hook_that_fails_stops_a_simulation_and_not_the_writer(run_in_virtual_time: Run) -> None:
    async def program(store: Store) -> None:
        def judge(_changes: list[Change]) -> None:
            raise AssertionError("two controllers on one pod")

        store.on_commit.append(judge)
        try:
            await put(store, "/pods/default/a")
        except AssertionError:  # pragma: no cover
            pytest.fail("the writer was told")
        await asyncio.sleep(1)
        pytest.fail("the run went on")  # pragma: no cover

    with pytest.raises(AssertionError, match="two controllers"):
        run_in_virtual_time(program)


def test_a_closed_store_commits_what_was_staged_ends_its_watchers_and_can_still_be_read(run: Run) -> None:
    async def program(store: Store) -> None:
        watcher = store.watch("/pods/", store.revision)
        waiting = asyncio.ensure_future(store.reached(99))
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

    run(program)


# Everything at once


def test_any_history_agrees_with_a_model_at_every_revision(run: Run, seed: int) -> None:
    """Lists at every revision, watches from every revision and the final state all tell the same story."""
    chance = random.Random(seed)
    keys = [f"/pods/{ns}/{name}" for ns in ("a", "b") for name in range(6)] + [f"/nodes/{name}" for name in range(4)]

    async def program(store: Store) -> None:
        state: dict[str, bytes] = {}
        states: dict[int, dict[str, bytes]] = {1: {}}
        live = store.watch("", 1)
        for _ in range(60):
            last = None
            for _ in range(chance.choice((1, 1, 2, 5))):
                key = chance.choice(keys)
                if store.staged(key) is not None and chance.random() < 0.4:
                    last = store.stage(key, None)
                    del state[key]
                else:
                    last = store.stage(key, lambda revision: str(revision).encode())
                    state[key] = str(last.revision).encode()
                states[last.revision] = dict(state)
            assert last is not None
            await store.commit(last)
        assert store.revision == max(states)
        followed: dict[str, bytes] = {}
        for change in live.take():
            assert change.previous == followed.get(change.key)
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

    run(program)


def test_a_failed_write_stays_failed(run: Run) -> None:
    async def program(store: Store) -> None:
        staged = store.stage("/pods/default/a", lambda _revision: b"")
        staged.failure = "told so"
        with pytest.raises(CommitFailed, match="told so"):
            await store.commit(staged)

    run(program)
