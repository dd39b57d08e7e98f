"""An hour of random writes: history stays within its bounds and equals what a watcher recorded."""

import asyncio
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.storage.test_history_on_disk import ORIGIN

from pilothouse.env import Env
from pilothouse.storage import Compacted, MemoryStore, Retention, Staged, Store
from pilothouse.storage.history import _weight
from pilothouse.storage.sqlite import _PRUNE_AT, SqliteStore
from pilothouse.storage.watchers import Watcher

LEASES = "coordination.k8s.io/leases/"
RETENTION = Retention(seconds=600, changes=100, bytes=100_000, total_bytes=140_000, brief=((LEASES, 60),))
HOUR = 3600
KEYS = {
    "/pods/": [f"/pods/shop/{number}" for number in range(30)],
    "/events/": [f"/events/shop/{number}" for number in range(30)],
    "/nodes/": [f"/nodes/{number}" for number in range(5)],
    "apps/deployments/": [f"apps/deployments/shop/{number}" for number in range(4)],
    LEASES: [f"{LEASES}kube-system/{number}" for number in range(3)],
}
SHARES = (40, 25, 20, 5, 10)


class Recorder:
    """Follows a watch of everything, and keeps each state that it shows, and when it was current."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._state: dict[str, bytes] = {}
        self.states: dict[int, dict[str, bytes]] = {}
        self.times: dict[int, float] = {}

    def follow(self, now: float) -> None:
        for change in self._watcher.take():
            self._state = {key: value for key, value in self._state.items() if key != change.key}
            if change.type != "DELETED":
                self._state[change.key] = change.value
            self.states[change.revision] = self._state
            self.times[change.revision] = now

    def moved(self, watcher: Watcher) -> None:
        self._watcher = watcher


class RecountedUsage(NamedTuple):
    """The size of the history, recounted."""

    changes: int
    size: int


def usage(store: Store) -> dict[str, RecountedUsage]:
    result = {}
    for prefix in KEYS:
        changes = store.changes(prefix)
        result[prefix] = RecountedUsage(len(changes), sum(map(_weight, changes)))
    return result


def check_bounds(store: Store, recorder: Recorder, now: float) -> None:
    used = usage(store)
    assert max(value.changes for value in used.values()) <= RETENTION.changes
    assert max(value.size for value in used.values()) <= RETENTION.bytes
    assert sum(value.size for value in used.values()) <= RETENTION.total_bytes
    for prefix in KEYS:
        seconds = 60 if prefix == LEASES else RETENTION.seconds
        for change in store.changes(prefix)[:1]:
            assert now - recorder.times[change.revision] <= seconds + 2.5


def check_file(store: Store) -> None:
    """The file has the live objects, the history, and at most what the next pruning step removes."""
    assert isinstance(store, SqliteStore)
    connection = store._file._connection
    assert connection is not None
    rows, size = connection.execute("SELECT count(*), sum(length(value)) FROM versions").fetchone()
    used = usage(store)
    records = store.list("").records
    in_memory = len(records) + sum(item.changes for item in used.values())
    # A deletion has two rows: what it deleted, and what was last.
    assert rows <= in_memory + sum(change.type == "DELETED" for prefix in KEYS for change in store.changes(prefix)) + (
        _PRUNE_AT + 2 * 50
    )
    assert size <= sum(len(record.value) for record in records) + RETENTION.total_bytes + (_PRUNE_AT + 2 * 50) * 3000


def check_states(store: Store, recorder: Recorder, rng: random.Random, count: int) -> int:
    """Compare that many random revisions; how many states of resources that were."""
    kept = 0
    oldest = min(store.history_floor(prefix) for prefix in KEYS)
    for revision in rng.choices([state for state in recorder.states if state >= oldest], k=count):
        for prefix in KEYS:
            expected = {key: value for key, value in recorder.states[revision].items() if key.startswith(prefix)}
            if revision < store.history_floor(prefix):
                with pytest.raises(Compacted):
                    store.list(prefix, revision=revision)
                continue
            kept += 1
            assert {record.key: record.value for record in store.list(prefix, revision=revision).records} == expected
            followed = dict(expected)
            for change in store.watch(prefix, revision).take():
                followed.pop(change.key, None)
                if change.type != "DELETED":
                    followed[change.key] = change.value
            assert followed == {record.key: record.value for record in store.list(prefix).records}
    return kept


def stamp(staged: Staged) -> None:
    if staged.revision % 2:
        staged.change.origin = ORIGIN


async def write_some(store: Store, rng: random.Random) -> None:
    """One commit of one write, or of a burst."""
    last = None
    for _ in range(rng.choices((1, 2, 50), (80, 18, 2))[0]):
        (keys,) = rng.choices(list(KEYS.values()), SHARES)
        key = rng.choice(keys)
        if store.staged(key) is not None and rng.random() < 0.2:
            last = store.stage(key, None, last=lambda revision: b"last of %d" % revision)
        else:
            size = 3000 if key.startswith("/pods/") else 500 if key.startswith("/nodes/") else 10
            last = store.stage(key, lambda revision, size=size: b"%d " % revision + b"x" * size)  # type: ignore[misc]
    assert last is not None
    await store.commit(last)


def new_store(env: Env, kind: str, directory: Path) -> Store:
    if kind == "memory":
        return MemoryStore(env, retention=RETENTION)
    store = SqliteStore.open(env, directory, retention=RETENTION, inline=True, fsync=False)
    store.on_stage.append(stamp)
    return store


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_hour_of_churn(env: Env, kind: str, tmp_path: Path, seed: int) -> None:
    """On a disk the process ends three times in that hour, at least."""
    rng = random.Random(seed)
    store = new_store(env, kind, tmp_path)
    recorder = Recorder(store.watch("", store.revision, capacity=100_000))
    begin = env.monotonic()
    restarts = [begin + HOUR * part / 4 for part in (1, 2, 3)] if kind == "sqlite" else []
    largest, kept, step = 0, 0, 0
    while env.monotonic() - begin < HOUR:
        await asyncio.sleep(rng.choice((0.01, 0.2, 1.0, 5.0)))
        await write_some(store, rng)
        recorder.follow(env.monotonic())
        step += 1
        if step % 10 == 0:
            check_bounds(store, recorder, env.monotonic())
        if step % 50 == 0 and kind == "sqlite":
            check_file(store)
            largest = max(largest, (tmp_path / "pilothouse.db").stat().st_size)
        if restarts and env.monotonic() > restarts[0]:
            restarts.pop(0)
            await store.close()
            await asyncio.sleep(rng.choice((0.0, 30.0, 300.0)))
            store = new_store(env, kind, tmp_path)
            recorder.moved(store.watch("", store.revision, capacity=100_000))
            check_bounds(store, recorder, env.monotonic())
            kept += check_states(store, recorder, rng, 20)
    kept += check_states(store, recorder, rng, 100)
    await store.close()
    if kind == "sqlite":
        store = new_store(env, kind, tmp_path)
        check_bounds(store, recorder, env.monotonic())
        kept += check_states(store, recorder, rng, 100)
        await store.close()
        assert largest < 6_000_000
    assert store.revision > 3000
    assert kept > 150
